package pump

import (
	"bytes"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/logs"
)

// checkGaps checks a log from which lines were dropped: every line is whole, or the beginning of one and counted; all
// lines are there or counted.
func checkGaps(t *testing.T, got string, printed int, dropped int64, gaps int) {
	t.Helper()
	next, whole := 0, 0
	for line := range strings.Lines(got) {
		n := next
		for n < printed && line != string(floodLine(n)) {
			n++
		}
		if n < printed {
			next, whole = n+1, whole+1
			continue
		}
		for n = next; n < printed && !strings.HasPrefix(string(floodLine(n)), strings.TrimSuffix(line, "\n")); {
			n++
		}
		if n == printed {
			t.Fatalf("after line %d: %q is no line and no beginning of one", next, line)
		}
		next = n + 1
	}
	// A line of which nothing but the newline was dropped looks whole.
	if sum := int64(whole) + dropped; sum < int64(printed) || sum > int64(printed+gaps) {
		t.Errorf("%d whole lines and %d dropped of %d", whole, dropped, printed)
	}
}

// emptyEnds counts the pieces that end a line and have no text.
func emptyEnds(pieces []logs.Piece) int {
	n := 0
	for _, p := range pieces {
		if !p.Partial && len(p.Text) == 0 {
			n++
		}
	}
	return n
}

func quiet(c *Config) { c.Log = slog.New(slog.NewTextHandler(io.Discard, nil)) }

// A disk that stands still blocks neither the workload nor the loop, and what is lost of it is whole lines that are
// counted.
func TestStalledDisk(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Slots, c.patience = 4, stallAfter; quiet(c) })
	stalled, goOn := make(chan struct{}, 1000), make(chan struct{})
	r.pump.writer.disk.pwrite = func(fd int, b []byte, offset int64) (int, error) {
		stalled <- struct{}{}
		<-goOn
		return unix.Pwrite(fd, b, offset)
	}
	r.attach()
	r.start()
	r.print(r.out, "first\n")
	<-stalled

	// The rig's other half: a workload that prints far more than pool and FIFO hold, in blocks that end anywhere.
	const printed = 50_000
	var flood bytes.Buffer
	for n := range printed {
		flood.Write(floodLine(n))
	}
	for flood.Len() > 0 {
		if _, err := r.out.Write(flood.Next(3000)); err != nil {
			t.Fatal(err)
		}
	}
	answered := make(chan struct{})
	r.loop.Post(func() { close(answered) })
	<-answered
	late := make(chan bool, 1)
	if err := r.pump.Drain(testRun, 0, func(complete bool) { late <- complete }); err != nil {
		t.Fatal(err)
	}
	if <-late {
		t.Error("a drain was complete while the disk stood still")
	}

	close(goOn)
	r.drain()
	r.print(r.out, "last\n")
	r.drain()
	pieces := r.pieces()
	got := text(pieces, logs.Stdout)
	got, ok := strings.CutPrefix(got, "first\n")
	got, tail := strings.CutSuffix(got, "last\n")
	if !ok || !tail {
		t.Fatalf("the log does not begin with the first and end with the last line")
	}
	stats, _ := r.pump.Stats(testRun)
	if stats.DroppedLines == 0 {
		t.Error("nothing was dropped: the disk did not stand still for long enough")
	}
	checkGaps(t, got, printed, stats.DroppedLines, emptyEnds(pieces))
}

// A pool that is full for a moment costs a workload a wait and no line.
func TestSlowDiskDropsNothing(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Slots = 2 })
	r.pump.writer.disk.pwrite = func(fd int, b []byte, offset int64) (int, error) {
		n, err := unix.Pwrite(fd, b[:(len(b)+1)/2], offset) // and short writes
		return n, err
	}
	r.attach()
	r.start()
	const printed = 50_000
	for n := range printed {
		r.print(r.out, string(floodLine(n)))
	}
	r.drain()
	checkFlood(t, "stdout", text(r.pieces(), logs.Stdout), printed)
}

// However a full disk cuts writes off: lines are whole or counted, and what is printed when there is room again is there.
func TestFullDisk(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 150 {
		seen := map[string]bool{}
		s := newStepped(t, seen)
		quiet(&s.cfg)
		printed := [3]int{}
		full := false
		s.life(-1, func() {
			w := &s.pump.writer
			w.disk.pwrite = func(fd int, b []byte, offset int64) (int, error) {
				if !full {
					return unix.Pwrite(fd, b, offset)
				}
				n := random.IntN(len(b))
				if n == 0 {
					return 0, unix.ENOSPC
				}
				return unix.Pwrite(fd, b[:n], offset)
			}
			var rest [3][]byte
			print := func(stream logs.Stream, to *os.File, all bool) {
				for range random.IntN(40) {
					rest[stream] = append(rest[stream], floodLine(printed[stream])...)
					printed[stream]++
				}
				n := len(rest[stream])
				if !all {
					n = random.IntN(n + 1)
				}
				if _, err := to.Write(rest[stream][:n]); err != nil {
					t.Fatal(err)
				}
				rest[stream] = rest[stream][n:]
			}
			for range 30 {
				full = random.IntN(3) == 0
				s.pump.runs[testRun].file.retry = time.Time{}
				print(logs.Stdout, s.out, false)
				print(logs.Stderr, s.err, false)
				s.read()
				w.turn()
			}
			full = false
			s.pump.runs[testRun].file.retry = time.Time{}
			print(logs.Stdout, s.out, true)
			print(logs.Stderr, s.err, true)
			for range 3 {
				s.read()
				w.turn()
			}
			dropped := s.pump.runs[testRun].dropped.Load()
			pieces := s.pieces()
			both := 0
			for _, stream := range []logs.Stream{logs.Stdout, logs.Stderr} {
				got := text(pieces, stream)
				lost := int64(printed[stream] - wholeLines(got, printed[stream]))
				checkGaps(t, got, printed[stream], lost, 0)
				both += int(lost)
			}
			// A line of which nothing but the newline was dropped looks whole.
			if int64(both) > dropped || dropped > int64(both+emptyEnds(pieces)) {
				t.Errorf("%d lines are not whole, %d are counted", both, dropped)
			}
		})
		s.closeAll()
		if t.Failed() {
			return
		}
	}
}

// wholeLines counts the lines of a flood that are in a log as they were printed.
func wholeLines(got string, printed int) int {
	next, whole := 0, 0
	for line := range strings.Lines(got) {
		for n := next; n < printed; n++ {
			if line == string(floodLine(n)) {
				next, whole = n+1, whole+1
				break
			}
		}
	}
	return whole
}

func TestLogFolderInTheWay(t *testing.T) {
	r := newRig(t, quiet)
	folder := r.cfg.Dir + "/" + testRun.Scope
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.attach()
	r.start()
	r.print(r.out, "lost\nlost\n")
	r.drain()
	if stats, _ := r.pump.Stats(testRun); stats != (Stats{DroppedLines: 2}) {
		t.Errorf("Stats = %+v, want 2 lines dropped", stats)
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ { // until it is tried again
		r.print(r.out, "kept\n")
		r.drain()
		if stats, _ := r.pump.Stats(testRun); stats.Bytes > 0 {
			break
		}
		<-time.After(retryAfter / 4)
	}
	if got := text(r.pieces(), logs.Stdout); got != "kept\n" {
		t.Errorf("log holds %q", got)
	}
}
