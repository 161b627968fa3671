package pump

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"reconciler.dev/reconciler/observe/logs"
)

// listened is what a tap has got until its run's output ended, and how much it lost.
func listened(t *testing.T, tap *Tap) (text string, lost int64) {
	t.Helper()
	var b strings.Builder
	for {
		part, n, err := tap.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return b.String(), lost
		}
		if err != nil {
			t.Fatal(err)
		}
		b.Write(part)
		lost += n
	}
}

// before is what the log holds up to a tap's seam, as the run printed it.
func (r *rig) before(tap *Tap) string {
	r.t.Helper()
	seam, err := tap.Seam(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	if seam.Run == 0 {
		return ""
	}
	var b strings.Builder
	err = logs.Read(r.t.Context(), logs.Query{Dir: r.cfg.Dir, Scope: testRun.Scope, Run: seam.Run, Tail: -1, Until: &seam.End}, func(e logs.Entry) error {
		b.Write(e.Text)
		if !e.Partial {
			b.WriteByte('\n')
		}
		return nil
	})
	if err != nil && !errors.Is(err, logs.ErrNoLog) {
		r.t.Fatal(err)
	}
	if seam.Return {
		b.WriteByte('\r')
	}
	return b.String()
}

// Whenever somebody begins to listen, the log up to there and what he hears are all that was printed: nothing is missing between
// them, and nothing comes twice. On a terminal too, whose returns the log does not have.
func TestNoSeam(t *testing.T) {
	for name, make := range map[string]func(*testing.T) (*rig, *os.File, func(string) string){
		"pipe": func(t *testing.T) (*rig, *os.File, func(string) string) {
			r := newRig(t, func(c *Config) { c.fileSize = 2000 }) // the log is rotated on the way
			r.attach()
			return r, r.out, func(s string) string { return s }
		},
		"terminal": func(t *testing.T) (*rig, *os.File, func(string) string) {
			r, slave := newTerminalRig(t)
			return r, slave, func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, out, printed := make(t)
			r.start()
			var taps []*Tap
			var want strings.Builder
			for i := range 300 {
				part := []string{"a line\n", "prompt> ", "50 %\r", "\n", "typed", "\x1b[2J\x1b[1;1H", "é"}[i%7]
				r.print(out, part)
				want.WriteString(part)
				if i%11 == 0 {
					tap, stop, err := r.pump.Tap(testRun)
					if err != nil {
						t.Fatal(err)
					}
					defer stop()
					taps = append(taps, tap)
				}
				if i%50 == 0 {
					r.drain() // one begins where all was read
				}
			}
			r.drain()
			r.pump.Detach(testRun)
			for i, tap := range taps {
				before := r.before(tap)
				heard, lost := listened(t, tap)
				if got := printed(before) + heard; got != printed(want.String()) || lost > 0 {
					t.Fatalf("tap %d: %d bytes lost, before %q, then %.200q", i, lost, before, heard)
				}
			}
		})
	}
}

// Whoever does not listen loses what there is no room for, is told how much, and delays nothing.
func TestTapIsBounded(t *testing.T) {
	r := newRig(t, nil)
	r.attach()
	r.start()
	tap, stop, err := r.pump.Tap(testRun)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	const lines = 10_000
	all := ""
	for range lines {
		all += "nobody takes this line from me, not a bit\n"
	}
	r.print(r.out, all)
	r.drain()
	r.pump.Detach(testRun)
	heard, lost := listened(t, tap)
	if len(heard) > tapRoom || len(heard)+int(lost) != len(all) || !strings.HasPrefix(all, heard) || lost == 0 {
		t.Errorf("%d bytes were heard and %d lost of %d", len(heard), lost, len(all))
	}
	if got := text(r.pieces(), logs.Stdout); got != all {
		t.Error("the log is another")
	}
	if _, _, err := r.pump.Tap(logs.Run{Scope: testRun.Scope, Number: 8}); !errors.Is(err, ErrUnknownRun) {
		t.Errorf("a tap of no run: %v", err)
	}
}

// Who has ended to listen gets nothing more, and one who comes too late hears the end.
func TestTapEnds(t *testing.T) {
	r := newRig(t, nil)
	r.attach()
	r.start()
	tap, stop, err := r.pump.Tap(testRun)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	r.print(r.out, "after\n")
	r.drain()
	if b, _, _ := tap.take(); len(b) > 0 {
		t.Errorf("heard %q", b)
	}
	late, stop, err := r.pump.Tap(testRun)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	r.pump.Detach(testRun)
	if heard, _ := listened(t, late); heard != "" {
		t.Errorf("heard %q", heard)
	}
}
