package logs

import (
	"errors"
	"time"
)

// Stream is one of a workload's two output streams.
type Stream uint8

// The streams. The zero value is neither.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// String is the stream's name in a log file.
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	}
	return ""
}

// MaxPiece is the most text that one piece holds, in bytes, as container runtimes write it.
const MaxPiece = 16 << 10

// Piece is one line of a log file.
type Piece struct {
	Time    time.Time
	Stream  Stream
	Partial bool   // tag P: the next piece of the stream goes on with the line
	Text    []byte // shares memory with what was parsed
}

// ErrFormat is returned for a line that no pump of ours has written.
var ErrFormat = errors.New("not a CRI log line")

// Parse reads one line of a log file, given without its newline.
func Parse(line []byte) (Piece, error) {
	stream, partial, stamp, ok := cutHeader(line)
	if !ok {
		return Piece{}, ErrFormat
	}
	t, ok := parseStamp(line[:stamp])
	if !ok {
		return Piece{}, ErrFormat
	}
	return Piece{Time: t, Stream: stream, Partial: partial, Text: line[stamp+len(" stdout F "):]}, nil
}
