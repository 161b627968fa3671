package pump

import (
	"bytes"

	"reconciler.dev/reconciler/observe/logs"
)

// appendLine appends the next line of data, or the next piece of it, as a log line. It returns how many bytes of data that
// took and whether the piece ends a line.
func appendLine(dst []byte, head *logs.Header, data []byte) (_ []byte, took int, ended bool) {
	i := bytes.IndexByte(data[:min(len(data), logs.MaxPiece+1)], '\n')
	ended = i >= 0
	took = i + 1
	if !ended {
		i = min(len(data), logs.MaxPiece)
		took = i
	}
	head.SetPartial(!ended)
	dst = append(dst, head[:]...)
	dst = append(dst, data[:i]...)
	return append(dst, '\n'), took, ended
}

// appendTerminalLine is appendLine for a terminal, which ends a line with a carriage return and a newline: the return goes.
// One that comes last in data is held back until it is known what follows; held says that one was.
func appendTerminalLine(dst []byte, head *logs.Header, data []byte, held bool) (_ []byte, took int, ended, holds bool) {
	room, before := logs.MaxPiece, ""
	if held && data[0] != '\n' {
		room, before = room-1, "\r"
	}
	i := bytes.IndexByte(data[:min(len(data), room+1)], '\n')
	ended = i >= 0
	took = i + 1
	if !ended {
		i = min(len(data), room)
		took = i
	}
	text := data[:i]
	if ended || took == len(data) {
		text = bytes.TrimSuffix(text, []byte{'\r'})
		holds = !ended && len(text) < i
	}
	head.SetPartial(!ended)
	dst = append(dst, head[:]...)
	dst = append(append(dst, before...), text...)
	return append(dst, '\n'), took, ended, holds
}

func countLines(b []byte) int64 { return int64(bytes.Count(b, []byte{'\n'})) }
