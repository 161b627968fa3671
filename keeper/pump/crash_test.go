package pump

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reconciler.dev/reconciler/observe/logs"
)

// crash is what the hook ends a pump with.
type crash struct{ point string }

// stepped is a pump whose loop and writer take their turns on the test's goroutine, so that it can end at any point.
type stepped struct {
	rig
	calls, crashAt int
	seen           map[string]bool
}

func (s *stepped) hook(point string) {
	s.seen[point] = true
	if s.calls++; s.calls == s.crashAt {
		panic(crash{point})
	}
}

// life makes a pump, has it do its work, and reports where the hook ended it; "" = nowhere.
func (s *stepped) life(crashAt int, do func()) (point string) {
	s.t.Helper()
	return s.lifeOf(crashAt, s.attach, do)
}

// lifeOf is life with another way to attach.
func (s *stepped) lifeOf(crashAt int, attach, do func()) (point string) {
	s.t.Helper()
	s.calls, s.crashAt = 0, crashAt
	loop, err := NewLoop()
	if err != nil {
		s.t.Fatal(err)
	}
	s.cfg.Loop, s.loop, s.pump = loop, loop, nil
	defer func() {
		ended := recover()
		if c, ok := ended.(crash); ok {
			point = c.point
		} else if ended != nil {
			panic(ended)
		}
		// What a kill would do: descriptors and mappings go, nothing else happens.
		if s.pump != nil {
			err = s.pump.Close()
		}
		if err := errors.Join(err, loop.Close()); err != nil {
			s.t.Error(err)
		}
	}()
	if s.pump, err = New(s.cfg); err != nil {
		s.t.Fatal(err)
	}
	attach()
	do()
	return ""
}

// read has the loop take a turn over what is printed.
func (s *stepped) read() {
	for _, src := range s.pump.runs[testRun].streams {
		s.pump.reader.list(src)
	}
	for s.pump.reader.turn() == 0 {
	}
}

// The pump ends at every change of a slot's state in turn, and its successor at some of those that it makes; a third
// goes on. What is in the files is what was printed.
func TestCrashAtEveryPoint(t *testing.T) {
	long := strings.Repeat("a line that fills the file\n", 90)
	prints := []struct {
		out, err string
	}{
		{"one\ntwo\nthr", "oops\n"}, {"ee\n" + long + "par", ""}, {"tial\n\xff\xfd\xfb\xf9\xf8\xfa\xfc", "\xfe"}, {"\n", "\n"}, {long, long}, {"end\n", ""},
	}
	var out, errs string
	for _, p := range prints {
		out += p.out
		errs += p.err
	}
	const stride = 19 // which of the second points go with a first differs from one to the next
	seen := map[string]bool{}
	for first := 1; ; first++ {
		ended := ""
		for second := 1 + first%stride; ; second += stride {
			s := newStepped(t, seen)
			printed := 0
			do := func() {
				for ; printed < len(prints); printed++ {
					if err := print(s, prints[printed].out, prints[printed].err); err != nil {
						t.Fatal(err)
					}
					s.read()
					if printed%2 == 1 {
						s.pump.writer.turn()
					}
				}
				for range 2 { // the pool may have been full
					s.read()
					s.pump.writer.turn()
				}
			}
			// A print that ended in a crash is done.
			again := func() { printed++; do() }
			if ended = s.life(first, do); ended == "" {
				again = do
			}
			twice := s.life(second, again)
			if twice != "" {
				again = func() { printed++; do() }
			} else {
				again = do
			}
			if third := s.life(-1, again); third != "" {
				t.Fatalf("crash at %s without being asked", third)
			}
			pieces := s.pieces()
			if got := text(pieces, logs.Stdout); got != out {
				t.Fatalf("crashes at %d (%s) and %d (%s): stdout has %d bytes, want %d:\n%q", first, ended, second, twice, len(got), len(out), cut(got, out))
			}
			if got := text(pieces, logs.Stderr); got != errs {
				t.Fatalf("crashes at %d (%s) and %d (%s): stderr has %d bytes, want %d:\n%q", first, ended, second, twice, len(got), len(errs), cut(got, errs))
			}
			s.closeAll()
			if twice == "" {
				break
			}
		}
		if ended == "" {
			break
		}
	}
	for _, point := range []string{"marked", "reading", "read", "have", "formatted", "writing", "write", "written", "done", "released", "rotated",
		"settled reading", "cut", "settle writing"} {
		if !seen[point] {
			t.Errorf("no pump came to point %q", point)
		}
	}
}

// A log that cannot be brought back to where it was costs its own lines: the keeper starts, and other runs' are written.
func TestCrashAndLogInTheWay(t *testing.T) {
	s := newStepped(t, map[string]bool{})
	quiet(&s.cfg)
	s.cfg.at = func(point string) {
		if point == "written" {
			panic(crash{point})
		}
	}
	if point := s.life(-1, func() {
		s.print(s.out, "a\nb\nc")
		s.read()
		s.pump.writer.turn()
	}); point != "written" {
		t.Fatalf("ended at %q", point)
	}
	s.cfg.at = nil
	folder := filepath.Join(s.cfg.Dir, testRun.Scope)
	if err := errors.Join(os.RemoveAll(folder), os.WriteFile(folder, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s.life(-1, func() {
		if got := s.pump.runs[testRun].dropped.Load(); got != 2 {
			t.Errorf("%d lines are counted as dropped, want 2", got)
		}
		if free := s.pump.pool.free.Load(); free != 1<<s.cfg.Slots-1 {
			t.Errorf("free slots are %b", free)
		}
	})
}

// cut is where two texts part.
func cut(got, want string) string {
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	return got[max(0, i-60):min(len(got), i+60)]
}

func newStepped(t *testing.T, seen map[string]bool) *stepped {
	t.Helper()
	dir := t.TempDir()
	s := &stepped{rig: rig{t: t, dir: dir}, seen: seen}
	s.cfg = Config{Dir: filepath.Join(dir, "logs"), PoolDirs: []string{filepath.Join(dir, "pool")}, Slots: 6, fileSize: 1500, patience: endless, at: s.hook,
		ScopeBudget: 1 << 30}
	s.makeFIFOs()
	return s
}

func (s *stepped) closeAll() {
	s.out.Close()
	s.err.Close()
	os.RemoveAll(s.dir)
}

func print(s *stepped, out, errs string) error {
	_, err := s.out.WriteString(out)
	if err != nil {
		return err
	}
	_, err = s.err.WriteString(errs)
	return err
}
