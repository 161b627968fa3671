package faultd

import (
	"bytes"
	"io"
	"strings"
	"syscall"
	"testing"
)

// rest reads all that is left of standard output.
func (w *workload) rest() string {
	w.t.Helper()
	b, err := io.ReadAll(w.out)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func TestPartialLine(t *testing.T) {
	w := start(t, "partial-line", "-text", "the end", "-code", "6")
	if got := w.rest(); got != "a whole line\nthe end" {
		t.Errorf("wrote %q", got)
	}
	w.wantExit(6)
}

func TestGarbage(t *testing.T) {
	w := start(t, "garbage", "-huge", "200000")
	if got, want := w.rest(), Garbage+strings.Repeat("h", 200000)+"\nend of garbage\n"; got != want {
		t.Errorf("wrote %d bytes, want %d", len(got), len(want))
	}
	w.wantExit(0)
}

func TestCloseStdout(t *testing.T) {
	w := start(t, "close-stdout")
	if got := w.rest(); got != "closing stdout\n" {
		t.Errorf("wrote %q", got)
	}
	if err := w.cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("it is gone: %v", err)
	}
	w.signal(syscall.SIGTERM)
	w.wantExit(0)
}

func TestFlood(t *testing.T) {
	for _, args := range [][]string{
		{"-mbps", "0", "-lines", "200000"},
		{"-mbps", "0", "-lines", "20000", "-each"},
		{"-mbps", "50", "-for", "200ms"},
		{"-mbps", "5", "-for", "200ms", "-each", "-line", "40"},
		{"-mbps", "0", "-lines", "50", "-line", "100000"},
	} {
		w := start(t, append([]string{"flood"}, args...)...)
		report, err := CheckFlood(w.out)
		if err != nil {
			t.Fatal(err)
		}
		w.wantExit(0)
		if err := report.Err(); err != nil || report.First != 0 || report.Unfinished || report.Highest != report.Lines-1 {
			t.Errorf("%q: %+v, %v", args, report, err)
		}
		if !strings.HasPrefix(w.stderr.String(), "flooded lines="+itoa(report.Lines)+" bytes=") {
			t.Errorf("%q: %d lines read, and it says %q", args, report.Lines, w.stderr)
		}
	}
}

func TestFloodToStandardErrorLingers(t *testing.T) {
	w := start(t, "flood", "-fd", "2", "-lines", "10", "-linger")
	w.expect("flooded lines=10")
	w.signal(syscall.SIGTERM)
	w.wantExit(0)
	report, err := CheckFlood(strings.NewReader(w.stderr.String()))
	if err != nil || report.Err() != nil || report.Lines != 10 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestFloodStopsAtAWholeLine(t *testing.T) {
	w := start(t, "flood", "-mbps", "1")
	w.expect("flood 000000000000")
	w.signal(syscall.SIGTERM)
	report, err := CheckFlood(w.out)
	if err != nil || report.Err() != nil || report.Unfinished {
		t.Errorf("%+v, %v", report, err)
	}
	w.wantExit(0)
}

func TestFloodDiesWithItsReader(t *testing.T) {
	w := start(t, "flood", "-mbps", "0")
	w.expect("flood 000000000000")
	w.closeOut()
	w.wantSignal(syscall.SIGPIPE)
}

func TestFloodRefusesWhatItCannotDo(t *testing.T) {
	for _, args := range [][]string{{"-line", "20"}, {"-fd", "3"}} {
		w := start(t, append([]string{"flood"}, args...)...)
		w.wantExit(ExitFailure)
	}
}

// BenchmarkFlood is how fast lines are made: it must not be what a log pump waits for.
func BenchmarkFlood(b *testing.B) {
	f := flood{line: 100, limit: int64(b.N)*int64(floodChunk/100) + 1, length: 1 << 62}
	b.SetBytes(floodChunk / 100 * 100)
	if _, err := f.write(io.Discard, nil); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkCheckFlood(b *testing.B) {
	var text bytes.Buffer
	f := flood{line: 100, limit: 100_000, length: 1 << 62}
	if _, err := f.write(&text, nil); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		report, err := CheckFlood(bytes.NewReader(text.Bytes()))
		if err != nil || report.Err() != nil {
			b.Fatal(report, err)
		}
	}
}
