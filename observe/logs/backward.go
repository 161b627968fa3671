package logs

import (
	"bytes"
	"fmt"
	"io"
)

// chunkSize is how much of a file is read at once.
const chunkSize = 64 << 10

// backward calls visit with every whole line of the first size bytes, last first, and where it begins, until visit returns
// false. What follows the last newline is no line; end is where it begins.
func backward(r io.ReaderAt, size int64, visit func(at int64, line []byte) bool) (end int64, err error) {
	var (
		rest  []byte // the beginning of a line whose end has been seen, or after the last newline
		chunk = make([]byte, chunkSize)
		ended bool // a newline has been seen
	)
	for at := size; at > 0; {
		n := min(at, chunkSize)
		at -= n
		if _, err := r.ReadAt(chunk[:n], at); err != nil {
			return 0, fmt.Errorf("cannot read log: %w", err)
		}
		block := chunk[:n]
		for {
			i := bytes.LastIndexByte(block, '\n')
			if i < 0 {
				break
			}
			start := at + int64(i) + 1
			if !ended {
				ended, end = true, start
			} else if !visit(start, append(block[i+1:len(block):len(block)], rest...)) {
				return end, nil
			}
			rest, block = rest[:0], block[:i]
		}
		rest = append(append(make([]byte, 0, len(block)+len(rest)), block...), rest...)
	}
	if ended {
		visit(0, rest)
	}
	return end, nil
}

// Tail is how the written part of a log file ends.
type Tail struct {
	End  int64            // where the last whole line ends; what follows was cut off by a crash of the host
	Seen [Stderr + 1]bool // by stream: there is a piece
	Open [Stderr + 1]bool // by stream: the last piece is a P
}

// ReadTail finds how the first size bytes of a log file end. It reads backward until it has seen both streams, so it
// costs a whole read where one of them was never used.
func ReadTail(r io.ReaderAt, size int64) (Tail, error) {
	var t Tail
	end, err := backward(r, size, func(_ int64, line []byte) bool {
		stream, partial, _, ok := cutHeader(line)
		if ok && !t.Seen[stream] {
			t.Seen[stream], t.Open[stream] = true, partial
		}
		return !t.Seen[Stdout] || !t.Seen[Stderr]
	})
	t.End = end
	return t, err
}

// cutHeader reads the part of a line that is needed to join it: stream, tag, and where the time ends. The text begins 10
// bytes after that.
func cutHeader(line []byte) (stream Stream, partial bool, stamp int, ok bool) {
	stamp = bytes.IndexByte(line, ' ')
	const rest = len(" stdout F ")
	if stamp < 1 || len(line) < stamp+rest {
		return 0, false, 0, false
	}
	switch string(line[stamp : stamp+8]) {
	case " stdout ":
		stream = Stdout
	case " stderr ":
		stream = Stderr
	default:
		return 0, false, 0, false
	}
	tag := line[stamp+8]
	if line[stamp+9] != ' ' || tag != 'F' && tag != 'P' {
		return 0, false, 0, false
	}
	return stream, tag == 'P', stamp, true
}
