package pump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/logs"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("PUMP_TEST_ROLE"); role != "" {
		os.Exit(playRole(role))
	}
	unix.Umask(0o022) // the modes that tests give are those they mean
	goleak.VerifyTestMain(m)
}

// endless patience with the disk: on a busy host the writer itself may not run for longer than stallAfter.
const endless = 24 * time.Hour

var testRun = logs.Run{Scope: "default.town.openttd", Number: 7}

// rig is a pump with one run's FIFOs.
type rig struct {
	t      *testing.T
	dir    string
	cfg    Config
	loop   *Loop
	pump   *Pump
	stop   func()
	out    *os.File // the workload's ends
	err    *os.File
	hasRun bool
}

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	r.cfg = Config{Dir: filepath.Join(r.dir, "logs"), PoolDirs: []string{filepath.Join(r.dir, "pool")}, patience: endless}
	if change != nil {
		change(&r.cfg)
	}
	r.makeFIFOs()
	r.renew()
	return r
}

func (r *rig) makeFIFOs() {
	r.t.Helper()
	for _, name := range []string{"stdout", "stderr"} {
		if err := unix.Mkfifo(filepath.Join(r.dir, name), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	r.out, r.err = openWriter(r.t, r.dir, "stdout"), openWriter(r.t, r.dir, "stderr")
}

func openWriter(t *testing.T, dir, name string) *os.File {
	t.Helper()
	// As a workload has it: read and write, so that no reader's end is felt.
	fd, err := unix.Open(filepath.Join(dir, name), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), name)
	t.Cleanup(func() { f.Close() })
	return f
}

// renew makes a loop and a pump over what is there.
func (r *rig) renew() {
	r.t.Helper()
	loop, err := NewLoop()
	if err != nil {
		r.t.Fatal(err)
	}
	r.cfg.Loop = loop
	p, err := New(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.loop, r.pump = loop, p
	r.hasRun = false
	r.t.Cleanup(func() {
		if r.loop == loop {
			r.end()
		}
	})
}

func (r *rig) attach() {
	r.t.Helper()
	out, errs := r.openReaders()
	if err := r.pump.Attach(testRun, out, errs); err != nil {
		r.t.Fatal(err)
	}
}

// attachAs attaches another run, with FIFOs of its own, to a rig's pump.
func attachAs(r, other *rig, id logs.Run) {
	r.t.Helper()
	other.makeFIFOs()
	out, errs := other.openReaders()
	if err := r.pump.Attach(id, out, errs); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) openReaders() (stdout, stderr int) {
	r.t.Helper()
	var fds [2]int
	for i, name := range []string{"stdout", "stderr"} {
		fd, err := OpenReader(filepath.Join(r.dir, name))
		if err != nil {
			r.t.Fatal(err)
		}
		fds[i] = fd
	}
	return fds[0], fds[1]
}

// start runs loop and writer.
func (r *rig) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	loopEnded := make(chan struct{})
	go func() {
		done <- r.loop.Run(ctx)
		close(loopEnded)
	}()
	writing, stopWriting := context.WithCancel(context.Background())
	go func() { done <- r.pump.Run(writing) }()
	r.stop = func() {
		cancel()
		<-loopEnded
		stopWriting()
		if err := errors.Join(<-done, <-done); err != nil {
			r.t.Error(err)
		}
	}
}

func (r *rig) end() {
	if r.loop == nil {
		return
	}
	if r.stop != nil {
		r.stop()
		r.stop = nil
	}
	if err := errors.Join(r.pump.Close(), r.loop.Close()); err != nil {
		r.t.Error(err)
	}
	r.loop = nil
}

// drain waits until all that was printed is written.
func (r *rig) drain() {
	r.t.Helper()
	drainRun(r.t, r.pump, testRun)
}

func drainRun(t *testing.T, p *Pump, id logs.Run) {
	t.Helper()
	done := make(chan bool, 1)
	if err := p.Drain(id, time.Minute, func(complete bool) { done <- complete }); err != nil {
		t.Fatal(err)
	}
	if !<-done {
		t.Fatal("Drain did not complete")
	}
}

func (r *rig) print(f *os.File, s string) {
	r.t.Helper()
	if _, err := f.WriteString(s); err != nil {
		r.t.Fatal(err)
	}
}

// pieces reads all log files of the run.
func (r *rig) pieces() []logs.Piece {
	r.t.Helper()
	return readPieces(r.t, filepath.Join(r.cfg.Dir, testRun.Scope), testRun.Number)
}

func readPieces(t *testing.T, folder string, number int64) []logs.Piece {
	t.Helper()
	files, err := logs.Files(folder)
	if err != nil {
		t.Fatal(err)
	}
	var pieces []logs.Piece
	for _, f := range files {
		if f.Run != number {
			continue
		}
		b, err := os.ReadFile(filepath.Join(folder, logs.FileName(f.Run, f.Index)))
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 0 && b[len(b)-1] != '\n' {
			t.Errorf("file %d ends within a line: %q", f.Index, b[max(0, len(b)-80):])
		}
		for line := range bytes.Lines(b) {
			p, err := logs.Parse(bytes.TrimSuffix(line, []byte("\n")))
			if err != nil {
				t.Fatalf("%v: %q", err, line)
			}
			pieces = append(pieces, p)
		}
	}
	return pieces
}

// text is what a stream's pieces hold.
func text(pieces []logs.Piece, stream logs.Stream) string {
	var b strings.Builder
	for _, p := range pieces {
		if p.Stream != stream {
			continue
		}
		b.Write(p.Text)
		if !p.Partial {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func tags(pieces []logs.Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		tag := "F"
		if p.Partial {
			tag = "P"
		}
		fmt.Fprintf(&b, "%s %s %s\n", p.Stream, tag, p.Text)
	}
	return b.String()
}

func TestStreamsAndPartialLines(t *testing.T) {
	r := newRig(t, nil)
	r.attach()
	r.start()
	for _, step := range []struct {
		to   *os.File
		text string
	}{
		{r.out, "one\ntwo\n"}, {r.err, "oops\n"}, {r.out, "\n"}, {r.out, "prompt> "}, {r.err, "more\n"}, {r.out, "typed\n"},
		{r.out, "\x00\xff\xfe garbage \r\n"}, {r.out, "last"},
	} {
		r.print(step.to, step.text)
		r.drain()
	}
	want := "stdout F one\nstdout F two\nstderr F oops\nstdout F \nstdout P prompt> \nstderr F more\nstdout F typed\n" +
		"stdout F \x00\xff\xfe garbage \r\nstdout P last\n"
	if got := tags(r.pieces()); got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	stats, ok := r.pump.Stats(testRun)
	if want := int64(len("one\ntwo\noops\n\nprompt> more\ntyped\n") + len("\x00\xff\xfe garbage \r\nlast")); !ok || stats.Bytes != want || stats.DroppedLines != 0 {
		t.Errorf("Stats = %+v, %v, want %d bytes, none dropped", stats, ok, want)
	}
}

func TestLongLines(t *testing.T) {
	r := newRig(t, nil)
	r.attach()
	r.start()
	line := strings.Repeat("0123456789abcdef", 10<<20/16)
	for _, length := range []int{logs.MaxPiece - 1, logs.MaxPiece, logs.MaxPiece + 1, len(line)} {
		r.print(r.out, line[:length]+"\n")
	}
	r.drain()
	pieces := r.pieces()
	var want strings.Builder
	for _, length := range []int{logs.MaxPiece - 1, logs.MaxPiece, logs.MaxPiece + 1, len(line)} {
		want.WriteString(line[:length] + "\n")
	}
	if text(pieces, logs.Stdout) != want.String() {
		t.Error("long lines do not come out as they went in")
	}
	for _, p := range pieces {
		if len(p.Text) > logs.MaxPiece {
			t.Fatalf("a piece has %d bytes", len(p.Text))
		}
	}
}

func TestAttachRefuses(t *testing.T) {
	r := newRig(t, nil)
	r.attach()
	r.start()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd := int(null.Fd())
	if err := r.pump.Attach(testRun, fd, fd); !errors.Is(err, ErrAttached) {
		t.Errorf("second Attach: %v, want ErrAttached", err)
	}
	other := logs.Run{Scope: "default.other.x", Number: 1}
	if err := r.pump.Attach(other, fd, fd); err == nil {
		t.Error("Attach of /dev/null succeeded")
	}
	if _, err := OpenReader(os.DevNull); err == nil {
		t.Error("OpenReader of /dev/null succeeded")
	}
	if err := r.pump.Drain(other, time.Second, nil); !errors.Is(err, ErrUnknownRun) {
		t.Errorf("Drain of an unknown run: %v", err)
	}
	if _, ok := r.pump.Stats(other); ok {
		t.Error("Stats of an unknown run")
	}
	r.pump.Detach(other)
}
