package pump

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/logs"
)

// I11: the pump is killed again and again under a flood, and no line is lost, doubled or torn.
func TestKillUnderFlood(t *testing.T) {
	for name, size := range map[string]int{"blocks of 4000 bytes": 4000, "one write a line": 0} {
		t.Run(name, func(t *testing.T) { killUnderFlood(t, size, 25) })
	}
}

func killUnderFlood(t *testing.T, size, kills int) {
	dir := t.TempDir()
	for _, name := range []string{"stdout", "stderr"} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	endFlood := startFlood(t, dir, 20_000_000, size)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range kills {
		killPump(t, dir, i%2 == 0, time.Duration(random.Int64N(int64(50*time.Millisecond))))
	}

	loop, err := NewLoop()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	begun := make(chan *Pump, 1)
	go func() { ended <- pumpFolder(ctx, dir, loop, func(p *Pump) { begun <- p }) }()
	var p *Pump
	select {
	case p = <-begun:
	case err := <-ended:
		t.Fatal(err)
	}
	lines := endFlood()
	drained := make(chan bool, 1)
	if err := p.Drain(testRun, time.Minute, func(complete bool) { drained <- complete }); err != nil {
		t.Fatal(err)
	}
	if !<-drained {
		t.Error("not drained")
	}
	if stats, _ := p.Stats(testRun); stats.DroppedLines != 0 {
		t.Errorf("%d lines dropped", stats.DroppedLines)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	pieces := readPieces(t, filepath.Join(dir, "logs", testRun.Scope), testRun.Number)
	checkFlood(t, "stdout", text(pieces, logs.Stdout), lines)
	checkFlood(t, "stderr", text(pieces, logs.Stderr), (lines+99)/100)
	files, err := logs.Files(filepath.Join(dir, "logs", testRun.Scope))
	if err != nil || len(files) < 3 {
		t.Errorf("%d files, %v: the flood was to rotate", len(files), err)
	}
	t.Logf("%d lines, %d files", lines, len(files))
}

// startFlood begins a flood into a folder's FIFOs; what it returns ends it and tells how many lines there were.
func startFlood(t *testing.T, dir string, rate, size int) (end func() int) {
	t.Helper()
	out, errs := openWriter(t, dir, "stdout"), openWriter(t, dir, "stderr")
	stdin, stop, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	count, told, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	flood := startRole(t, []*os.File{stdin, out, errs, told}, "PUMP_TEST_ROLE=flood", fmt.Sprint("PUMP_TEST_RATE=", rate), fmt.Sprint("PUMP_TEST_SIZE=", size))
	stdin.Close()
	told.Close()
	return func() int {
		t.Helper()
		defer count.Close()
		stop.Close()
		b, err := io.ReadAll(count)
		if err != nil {
			t.Fatal(err)
		}
		if state, err := flood.Wait(); err != nil || !state.Success() {
			t.Fatalf("flood: %v, %v", state, err)
		}
		n, err := strconv.Atoi(string(b))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

func startRole(t *testing.T, files []*os.File, env ...string) *os.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess(self, []string{self}, &os.ProcAttr{Env: env, Files: files})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() }) // it has ended where all went well
	return p
}

// killPump runs a pump in another process and kills it some time after it was started, or has begun to pump.
func killPump(t *testing.T, dir string, begun bool, after time.Duration) {
	t.Helper()
	said, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	p := startRole(t, []*os.File{nil, stdout, os.Stderr}, "PUMP_TEST_ROLE=pump", "PUMP_TEST_DIR="+dir)
	stdout.Close()
	if begun {
		if line, err := bufio.NewReader(said).ReadString('\n'); err != nil {
			state, _ := p.Wait()
			t.Fatalf("the pump said %q: %v, %v", line, err, state)
		}
	}
	<-time.After(after) // a random moment is the point
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if state, err := p.Wait(); err != nil || !state.Sys().(syscall.WaitStatus).Signaled() {
		t.Fatalf("the pump ended by itself: %v, %v", state, err)
	}
}

// checkFlood compares what a log holds with what was printed.
func checkFlood(t *testing.T, what, got string, lines int) {
	t.Helper()
	n, faults := 0, 0
	for line := range strings.Lines(got) {
		if line != string(floodLine(n)) {
			t.Errorf("%s: line %d of %d is %q", what, n, lines, line)
			if faults++; faults == 5 {
				t.FailNow()
			}
			if _, err := fmt.Sscanf(line, "flood %d ", &n); err != nil {
				t.FailNow()
			}
		}
		n++
	}
	if n != lines {
		t.Errorf("%s: ends after line %d of %d", what, n, lines)
	}
}
