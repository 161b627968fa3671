package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// tailScan looks backward for the place from which the last lines can be read whole. Past the wanted number of lines it
// goes on to where they begin, no further than MaxLine, and to the last piece of either stream, which may be a line
// without an end, no further than a chunk.
type tailScan struct {
	q     *Query
	lines int              // that end after the place
	extra int64            // bytes looked at past the wanted lines
	later [Stderr + 1]bool // a piece of the stream lies after the place
	torn  [Stderr + 1]bool // the stream's first wanted line may begin before the place
}

// seekTail stands where the last q.Tail lines of the files begin. Lines of the two streams may lie in each other, so it
// may have to stand before some that are not wanted; those are left out when they come.
func (r *reader) seekTail(files []File) error {
	t := tailScan{q: &r.q}
	for _, file := range slices.Backward(files) {
		found, err := r.seekIn(file, &t)
		if err != nil {
			return err
		}
		if found {
			break
		}
	}
	r.skip = max(0, t.lines-r.q.Tail)
	return nil
}

// seekIn looks through one file, and stands in it at the place or its beginning.
func (r *reader) seekIn(file File, t *tailScan) (found bool, err error) {
	f, err := os.Open(filepath.Join(r.folder, FileName(file.Run, file.Index)))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // over the budget since: what is after it is all there is
	}
	if err != nil {
		return false, fmt.Errorf("cannot read log: %w", err)
	}
	defer f.Close()
	r.at = File{Run: file.Run, Index: file.Index}
	end, err := backward(f, file.Size, func(at int64, line []byte) bool {
		if t.visit(line) {
			return true
		}
		found = true
		r.at.Size = at + int64(len(line)) + 1
		return false
	})
	_ = end
	return found, err
}

// visit takes the line before the ones it has seen, and reports false when the place is behind it.
func (t *tailScan) visit(line []byte) bool {
	stream, partial, _, ok := cutHeader(line)
	if !ok || t.q.Stream != 0 && stream != t.q.Stream {
		return true
	}
	full := t.lines >= t.q.Tail
	if full {
		t.extra += int64(len(line))
		if !partial {
			t.torn[stream] = false
		}
		limit := int64(chunkSize) // for a stream of which nothing was seen
		if t.torn[Stdout] || t.torn[Stderr] {
			limit = MaxLine
		}
		known := t.known(Stdout, stream, partial) && t.known(Stderr, stream, partial)
		if known || t.extra > limit {
			return false
		}
	}
	switch {
	case !partial:
		t.lines++
		t.torn[stream] = t.lines <= t.q.Tail
	case !t.later[stream]:
		// A line without an end: it is one more where the reading ends here, and is wanted whole when it goes on.
		t.torn[stream] = true
		if !t.q.Follow {
			t.lines++
		}
	}
	t.later[stream] = true
	return true
}

// known reports whether all wanted of a stream lies after the line at hand.
func (t *tailScan) known(s, at Stream, partial bool) bool {
	if t.torn[s] {
		return false
	}
	return t.later[s] || t.q.Stream != 0 && t.q.Stream != s || s == at && !partial
}
