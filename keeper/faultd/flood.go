package faultd

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// A line of flood is "flood ", its number in floodDigits digits, a space, and x up to its length with the newline.
const (
	floodWord   = "flood "
	floodDigits = 12
	floodText   = len(floodWord) + floodDigits + 1
	floodMin    = floodText + 2 // one x and the newline

	floodChunk = 64 << 10 // bytes in a write, unless each line has its own
)

func floodFlags(fs *flag.FlagSet) func(*process) int {
	var f flood
	fs.Float64Var(&f.mbps, "mbps", 100, "megabytes (10^6 bytes) a second; 0 is as fast as they are taken")
	fs.DurationVar(&f.length, "for", 10*time.Second, "for this long")
	fs.Int64Var(&f.limit, "lines", 0, "at most this many lines; 0 is no limit")
	fs.IntVar(&f.line, "line", 100, fmt.Sprintf("`bytes` in a line with its newline, at least %d", floodMin))
	fs.BoolVar(&f.each, "each", false, "a write for each line, instead of 64 KiB of lines a write")
	fd := fs.Int("fd", 1, "write to 1 (standard output) or 2 (standard error)")
	linger := fs.Bool("linger", false, "stay until SIGTERM afterwards")
	return func(*process) int {
		out, other := os.Stdout, os.Stderr
		if *fd == 2 {
			out, other = other, out
		}
		if *fd != 1 && *fd != 2 {
			return fail(fmt.Errorf("-fd %d is neither 1 nor 2", *fd))
		}
		if f.line < floodMin {
			return fail(fmt.Errorf("-line %d: at least %d are needed", f.line, floodMin))
		}
		stop := caught(syscall.SIGTERM)
		start := time.Now()
		stopped, err := f.write(out, stop)
		if err != nil {
			return fail(err)
		}
		fmt.Fprintf(other, "flooded lines=%d bytes=%d seconds=%.2f\n", f.lines, f.lines*int64(f.line), time.Since(start).Seconds())
		if *linger && !stopped {
			<-stop
		}
		return 0
	}
}

type flood struct {
	mbps   float64
	length time.Duration
	limit  int64
	line   int
	each   bool

	lines int64 // written
}

// write writes until its time or number is over, or reports that a signal came first. It always ends with a whole line.
func (f *flood) write(w io.Writer, stop <-chan os.Signal) (stopped bool, err error) {
	chunk := f.chunk()
	start := time.Now()
	for {
		ahead := f.due() - time.Since(start)
		over := f.lines > 0 && time.Since(start)+max(ahead, 0) >= f.length // not before it has begun, on a busy host
		if over || f.limit > 0 && f.lines >= f.limit {
			return false, nil
		}
		// A sleep is late by what the kernel's timers are: not for every line.
		if ahead > time.Millisecond && !pause(ahead, stop) {
			return true, nil
		}
		select {
		case <-stop:
			return true, nil
		default:
		}
		n := int64(len(chunk) / f.line)
		if f.limit > 0 {
			n = min(n, f.limit-f.lines)
		}
		f.number(chunk[:n*int64(f.line)])
		if _, err := w.Write(chunk[:n*int64(f.line)]); err != nil {
			return false, err
		}
		f.lines += n
	}
}

// due is how long after the start what was written so far should have been.
func (f *flood) due() time.Duration {
	if f.mbps <= 0 {
		return 0
	}
	return time.Duration(float64(f.lines) * float64(f.line) / f.mbps * 1e3)
}

// chunk is the lines of one write, not numbered yet.
func (f *flood) chunk() []byte {
	n := max(1, floodChunk/f.line)
	if f.each {
		n = 1
	}
	line := floodWord + strings.Repeat("0", floodDigits) + " " + strings.Repeat("x", f.line-floodText-1) + "\n"
	return []byte(strings.Repeat(line, n))
}

// number writes the numbers of the next lines into a chunk, in place: formatting them would be slower than the pipe.
func (f *flood) number(chunk []byte) {
	for at, n := 0, f.lines; at < len(chunk); at, n = at+f.line, n+1 {
		digits := chunk[at+len(floodWord):][:floodDigits]
		for i, rest := floodDigits-1, n; i >= 0; i, rest = i-1, rest/10 {
			digits[i] = '0' + byte(rest%10)
		}
	}
}
