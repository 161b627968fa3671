package logs

import (
	"bufio"
	"io"
)

// NewScanner reads the lines of a log file, up to a length that no pump of ours exceeds.
func NewScanner(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, chunkSize), chunkSize)
	return s
}
