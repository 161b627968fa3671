package dir

import (
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// answerAll looks at what is due, as a file of that fingerprint that does not rest unless asked to be read.
func (s settling) answerAll(now time.Time, print fingerprint, open bool) (read int) {
	due := s.due(now)
	var left []unread
	for _, q := range due {
		if q.rested && q.print == print && (!open || q.evenOpen) || q.renamed {
			read++
			continue
		}
		left = append(left, unread{path: q.path, print: print})
	}
	s.answer(due, left, now, now)
	return read
}

func TestSettling(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Hour + time.Duration(ms)*time.Millisecond) }
	version := func(n int64) fingerprint { return fingerprint{size: n} }

	t.Run("a write is read when it rests", func(t *testing.T) {
		s := settling{}
		s.touch("a", at(0), false)
		if s.answerAll(at(0), version(1), false) != 0 {
			t.Fatal("read at once")
		}
		if next := s.next(); !next.Equal(at(20)) {
			t.Fatalf("the next look is at %v", next.Sub(at(0)))
		}
		if len(s.due(at(19))) != 0 {
			t.Error("due before its time")
		}
		if s.answerAll(at(20), version(1), false) != 1 || len(s) != 0 || !s.next().IsZero() {
			t.Error("not read when it rested")
		}
	})
	t.Run("a second half starts the wait again", func(t *testing.T) {
		s := settling{}
		s.touch("a", at(0), false)
		s.answerAll(at(0), version(1), false)
		s.touch("a", at(15), false)
		s.answerAll(at(15), version(2), false)
		if s.answerAll(at(20), version(2), false)+s.answerAll(at(34), version(2), false) != 0 {
			t.Error("read too early")
		}
		if s.answerAll(at(35), version(2), false) != 1 {
			t.Error("not read when it rested")
		}
	})
	t.Run("a change without an event starts the wait again", func(t *testing.T) {
		s := settling{}
		s.touch("a", at(0), false)
		s.answerAll(at(0), version(1), false)
		if s.answerAll(at(20), version(2), false) != 0 || s.answerAll(at(39), version(2), false) != 0 {
			t.Error("read too early")
		}
		if s.answerAll(at(40), version(2), false) != 1 {
			t.Error("not read when it rested")
		}
	})
	t.Run("a rename is read at once", func(t *testing.T) {
		s := settling{}
		s.touch("a", at(0), true)
		if s.answerAll(at(0), version(1), false) != 1 || len(s) != 0 {
			t.Error("not read at once")
		}
	})
	t.Run("an open file waits, but not for ever", func(t *testing.T) {
		s := settling{}
		s.touch("a", at(0), false)
		s.answerAll(at(0), version(1), true)
		for ms := 20; ms < int(openLimit/time.Millisecond); ms += 20 {
			if s.answerAll(at(ms), version(1), true) != 0 {
				t.Fatalf("read after %d ms although it is open", ms)
			}
			if n := len(s.due(at(ms + 19))); n != 0 {
				t.Fatal("looked at all the time")
			}
		}
		if s.answerAll(at(int(openLimit/time.Millisecond)), version(1), true) != 1 {
			t.Error("never read")
		}
	})
	t.Run("an event during a look is not lost", func(t *testing.T) {
		s := settling{}
		s.touch("a", at(0), false)
		s.answerAll(at(0), version(1), false)
		due := s.due(at(20))
		s.touch("a", at(21), false)
		s.answer(due, nil, at(20), at(22))
		if len(s) != 1 || len(s.due(at(26))) != 1 {
			t.Error("lost")
		}
	})
	t.Run("a storm of events is not a storm of looks", func(t *testing.T) {
		s := settling{}
		looks := 0
		for us := range 100000 {
			now := at(0).Add(time.Duration(us) * time.Microsecond)
			s.touch("a", now, false)
			if due := s.due(now); len(due) > 0 {
				looks++
				s.answer(due, []unread{{path: "a", print: version(int64(us))}}, now, now)
			}
		}
		if looks > 25 {
			t.Errorf("%d looks in 100 ms", looks)
		}
	})
	t.Run("what a scan left is waited for", func(t *testing.T) {
		s := settling{}
		s.leave([]unread{{path: "a", print: version(1)}}, at(0), at(1))
		if s.answerAll(at(20), version(1), false) != 0 || s.answerAll(at(21), version(1), false) != 1 {
			t.Error("not read when it rested")
		}
	})
}

func TestHints(t *testing.T) {
	l := layout{root: "/r/m", dirs: map[string]string{"/r/m": "", "/r/m/sub": "sub"}, links: map[string]bool{"/r/cur": true, "/r/m/..data": true},
		targets: map[string]string{"/out/x.yaml": "x.yaml"}, git: []string{"/r/.git"}}
	const create, write, remove, renamed, chmod = fsnotify.Create, fsnotify.Write, fsnotify.Remove, fsnotify.Rename, fsnotify.Chmod
	tests := []struct {
		name string
		op   fsnotify.Op
		want []hint
	}{
		{"/r/m/a.yaml", create, []hint{{path: "a.yaml"}}},
		{"/r/m/a.yaml", write, []hint{{path: "a.yaml"}}},
		{"/r/m/a.yaml", chmod, []hint{{path: "a.yaml"}}},
		{"/r/m/sub/a.yaml", remove, []hint{{path: "sub/a.yaml", taken: true}}},
		{"/r/m/a.yaml", renamed, []hint{{path: "a.yaml", taken: true}}},
		{"/r/m/.a.yaml.swp", create, nil},
		{"/r/m/4913", create, nil},
		{"/r/m/a.yaml~", renamed, nil},
		{"/r/m/README.md", write, nil},
		{"/r/m/newdir", create, []hint{{path: "newdir"}}},
		{"/r/m/sub", remove, []hint{{taken: true}}},
		{"/r/m/sub", chmod, []hint{{}}},
		{"/r/m/sub", renamed, []hint{{taken: true}}},
		{"/r/m", remove, []hint{{taken: true}}},
		{"/r/m", create, []hint{{}}},
		{"/r/cur", create, []hint{{}}},
		{"/r/m/..data", create, []hint{{}}},
		{"/r/m/..data_tmp", create, nil},
		{"/out/x.yaml", write, []hint{{path: "x.yaml"}}},
		{"/out/y.yaml", write, nil},
		{"/r/.git/index.lock", remove, []hint{{}}},
		{"/r/.git/index", create, []hint{{}}},
		{"/r/.git/COMMIT_EDITMSG", write, nil},
		{"/elsewhere/a.yaml", write, nil},
	}
	for _, test := range tests {
		got := hints(fsnotify.Event{Name: test.name, Op: test.op}, []layout{l})
		if len(got) != len(test.want) || len(got) == 1 && got[0] != test.want[0] {
			t.Errorf("%s %s: %+v, want %+v", test.name, test.op, got, test.want)
		}
	}
	// The same directory in two sources.
	if got := hints(fsnotify.Event{Name: "/r/m/a.yaml", Op: write}, []layout{{root: "/x"}, l, l}); len(got) != 2 || got[0].root != 1 || got[1].root != 2 {
		t.Errorf("two sources: %+v", got)
	}
}

func TestClassify(t *testing.T) {
	for name, want := range map[string]nameClass{"a.yaml": nameManifest, "a.yml": nameManifest, "a.json": nameManifest, "a.b.yaml": nameManifest,
		".a.yaml": nameLitter, "..data": nameLitter, "a.yaml~": nameLitter, "#a.yaml#": nameLitter, "4913": nameLitter, "a.yaml.swp": nameLitter, ".#a.yaml": nameLitter,
		"a.yaml.bak": nameOther, "a.YAML": nameOther, "yaml": nameOther, "sub": nameOther, "a.yaml.orig": nameOther} {
		if got := classify(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

func TestPlan(t *testing.T) {
	now := time.Unix(1000, 0)
	next := func(worth cause, waiting, polling, foreign bool, times int) time.Duration {
		td := &tended{}
		for range times {
			td.plan(now, worth, waiting, polling, foreign)
		}
		return td.scanAt.Sub(now)
	}
	for worth := complete; worth <= unreachable; worth++ {
		for _, flags := range [][3]bool{{}, {true, false, false}, {false, true, false}, {false, false, true}} {
			for _, times := range []int{1, 3, 100} {
				if d := next(worth, flags[0], flags[1], flags[2], times); d <= 0 || d > period*11/10 {
					t.Errorf("worth %d, %v, %d times: %v", worth, flags, times, d)
				}
			}
		}
	}
	if d := next(complete, true, false, false, 1); d != confirmGap {
		t.Errorf("what waits to be removed waits %v", d)
	}
	if a, b := next(moved, false, false, false, 1), next(moved, false, false, false, 3); b <= a {
		t.Errorf("a scan that fails again and again comes after %v, then %v", a, b)
	}
	td := &tended{scanEnd: now, scanTook: 100 * time.Millisecond, scanAt: now.Add(time.Hour)}
	if td.soon(now); td.scanAt.Sub(now) < 400*time.Millisecond {
		t.Error("nothing but scanning is done")
	}
	td.twice(now)
	first := td.scanAt
	td.plan(first, complete, false, false, false)
	if gap := td.scanAt.Sub(now); gap < confirmGap || gap > 2*confirmGap {
		t.Errorf("the second of two scans comes after %v", gap)
	}
}
