package faultd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// FloodReport is what [CheckFlood] found in the output of one flood.
type FloodReport struct {
	Lines   int64 // whole lines of the flood, doubled ones too
	First   int64 // number of the first
	Highest int64 // highest number
	Lost    int64 // numbers between First and Highest that are nowhere
	Doubled int64 // lines whose number was there before
	Swapped int64 // lines behind one with a higher number
	Torn    int64 // lines that are neither of the flood nor its summary
	// Unfinished is set when the text ends inside a line, as it does when whoever wrote it was stopped.
	Unfinished bool
	// Faults are the first few, in words.
	Faults []string
}

// Err is nil when no line is lost, doubled, swapped or torn.
func (r *FloodReport) Err() error {
	if r.Lines == 0 {
		return errors.New("there is no line of a flood")
	}
	if r.Lost+r.Doubled+r.Swapped+r.Torn == 0 {
		return nil
	}
	return fmt.Errorf("of lines %d to %d: %d lost, %d doubled, %d swapped, %d torn: %q", r.First, r.Highest, r.Lost, r.Doubled, r.Swapped, r.Torn, r.Faults)
}

// CheckFlood reads the output of one flood, as text or as CRI log lines ("time stream P|F text"), whose pieces are put
// together, and compares it with the flood's own numbers. The error is that of reading.
func CheckFlood(r io.Reader) (*FloodReport, error) {
	c := checker{report: &FloodReport{First: -1, Highest: -1}, missing: map[int64]bool{}}
	in := bufio.NewReaderSize(r, 256<<10)
	var pieces []byte
	for {
		line, err := readLine(in)
		if err != nil && err != io.EOF {
			return nil, err
		}
		if err == io.EOF {
			c.report.Unfinished = len(line)+len(pieces) > 0
			c.report.Lost = int64(len(c.missing)) + c.lost
			return c.report, nil
		}
		text, partial := splitCRI(line)
		pieces = append(pieces, text...)
		if partial {
			continue
		}
		c.line(pieces)
		pieces = pieces[:0]
	}
}

// readLine returns a line without its newline, or what follows the last one and io.EOF. It is good until the next call.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if err == nil {
		return line[:len(line)-1], nil
	}
	if err != bufio.ErrBufferFull {
		return line, err
	}
	long := bytes.Clone(line)
	for err == bufio.ErrBufferFull {
		line, err = in.ReadSlice('\n')
		long = append(long, line...)
	}
	return bytes.TrimSuffix(long, []byte("\n")), err
}

// splitCRI takes the time, stream and tag off a CRI log line. Anything else is text.
func splitCRI(line []byte) (text []byte, partial bool) {
	if len(line) == 0 || line[0] < '0' || line[0] > '9' {
		return line, false
	}
	parts := bytes.SplitN(line, []byte(" "), 4)
	if len(parts) != 4 || len(parts[2]) != 1 || parts[2][0] != 'P' && parts[2][0] != 'F' {
		return line, false
	}
	if s := string(parts[1]); s != "stdout" && s != "stderr" {
		return line, false
	}
	if _, err := time.Parse(time.RFC3339Nano, string(parts[0])); err != nil {
		return line, false
	}
	return parts[3], parts[2][0] == 'P'
}

// maxMissing is how many numbers a gap may have to be watched for stragglers.
const maxMissing = 1 << 20

type checker struct {
	report  *FloodReport
	size    int            // of every line, without the newline
	missing map[int64]bool // numbers passed over so far
	lost    int64          // those of gaps that are too large to be watched
}

func (c *checker) line(b []byte) {
	n, ok := floodNumber(b)
	if !ok || c.size != 0 && len(b) != c.size {
		if !bytes.HasPrefix(b, []byte("flooded lines=")) {
			c.report.Torn++
			c.fault("torn line after %d: %.60q (%d bytes)", c.report.Highest, b, len(b))
		}
		return
	}
	c.size = len(b)
	r := c.report
	r.Lines++
	switch {
	case r.First < 0:
		r.First, r.Highest = n, n
	case n > r.Highest:
		c.skip(r.Highest+1, n)
		r.Highest = n
	case c.missing[n]:
		delete(c.missing, n)
		r.Swapped++
		c.fault("line %d comes after line %d", n, r.Highest)
	case n < r.First:
		r.Swapped++
		c.fault("line %d comes after line %d, the first", n, r.First)
	default:
		r.Doubled++
		c.fault("line %d is there twice", n)
	}
}

func (c *checker) skip(from, to int64) {
	if from == to {
		return
	}
	c.fault("lines %d to %d are not where they should be", from, to-1)
	if to-from+int64(len(c.missing)) > maxMissing {
		c.lost += to - from
		return
	}
	for n := from; n < to; n++ {
		c.missing[n] = true
	}
}

func (c *checker) fault(format string, args ...any) {
	if len(c.report.Faults) < 5 {
		c.report.Faults = append(c.report.Faults, fmt.Sprintf(format, args...))
	}
}

// floodNumber returns the number of a whole line without its newline.
func floodNumber(b []byte) (n int64, ok bool) {
	if len(b) < floodMin-1 || !bytes.HasPrefix(b, []byte(floodWord)) || b[floodText-1] != ' ' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(b[len(floodWord):floodText-1]), 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	for _, x := range b[floodText:] {
		if x != 'x' {
			return 0, false
		}
	}
	return n, true
}
