package dir

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
)

// A removal needs two complete scans, far enough apart.
func TestRemovalNeedsTwoScans(t *testing.T) {
	w := newWorld(t, "m")
	w.want(w.scan(tree{"a.yaml": "server a 1", "b.yaml": "server b 1"}), "server/a=1 server/b=1")
	left := tree{"a.yaml": "server a 1"}
	w.want(w.scan(left), "server/a=1 server/b=1?")
	w.pass(confirmGap - 2*time.Millisecond)
	w.want(w.scan(left), "server/a=1 server/b=1?")
	w.pass(confirmGap)
	w.want(w.scan(left), "server/a=1")
}

// I7: no scan that did not see everything removes anything, however often it comes.
func TestOnlyACompleteScanRemoves(t *testing.T) {
	for _, worth := range []cause{unsettled, empty, gitBusy, unreadable, moved, vanished, unreachable} {
		w := newWorld(t, "m")
		w.scan(tree{"a.yaml": "server a 1", "b.yaml": "server b 1", "c.yaml": "server c 1"})
		left := tree{"a.yaml": "server a 1"}
		if worth == empty {
			left = tree{}
		}
		for range 5 {
			w.pass(time.Minute)
			w.scanAs(worth, left)
		}
		if n := len(w.state.set.Servers); n != 3 {
			t.Errorf("worth %d: %d servers are left of 3: %s", worth, n, brief(w.state.set))
		}
		if worth != unsettled && w.state.set.Sources[0].Complete {
			t.Errorf("worth %d: the source shows as complete", worth)
		}
		// Scans that do not count do not count as the first of two either.
		w.pass(time.Minute)
		if got := w.scan(tree{"a.yaml": "server a 1", "d.yaml": "server d 1"}); worth != empty && strings.Count(got, "?") != 2 {
			t.Errorf("worth %d: after the first complete scan there is %q, want two absent", worth, got)
		}
	}
}

// An incomplete scan may add and update.
func TestIncompleteScanAddsAndUpdates(t *testing.T) {
	w := newWorld(t, "m")
	w.scan(tree{"a.yaml": "server a 1", "b.yaml": "server b 1"})
	w.want(w.scanAs(unreadable, tree{"a.yaml": "server a 2", "c.yaml": "server c 1"}), "server/a=2 server/b=1 server/c=1")
	w.want(w.scanAs(gitBusy, tree{"a.yaml": "server a 3", "c.yaml": "server c 1"}), "server/a=3 server/b=1 server/c=1")
}

// What returns between two scans was never gone.
func TestReturnStartsOver(t *testing.T) {
	w := newWorld(t, "m")
	both, left := tree{"a.yaml": "server a 1", "b.yaml": "server b 1"}, tree{"a.yaml": "server a 1"}
	w.scan(both)
	w.scan(left)
	w.want(w.event(tree{"b.yaml": "server b 1"}), "server/a=1 server/b=1")
	w.pass(time.Second)
	w.want(w.scan(left), "server/a=1 server/b=1?")
	w.pass(confirmGap)
	w.want(w.scan(left), "server/a=1")
}

// While a deletion goes on nothing is removed: it is judged as a whole.
func TestDeletionIsJudgedAtRest(t *testing.T) {
	w := newWorld(t, "m")
	files := tree{}
	for _, n := range strings.Split("abcdefghij", "") {
		files[n+".yaml"] = "server " + n + " 1"
	}
	w.scan(files)
	for _, n := range strings.Split("abcdef", "") {
		delete(files, n+".yaml")
		w.pass(confirmGap - 100*time.Millisecond)
		w.scan(files)
	}
	if n := len(w.state.set.Servers); n != 10 {
		t.Fatalf("%d of 10 servers are left while the deletion goes on", n)
	}
	w.pass(confirmGap)
	w.scan(files)
	w.wantPaused("server/a server/b server/c server/d server/e server/f")
}

// A deletion that never rests does not hold up removals for ever.
func TestEndlessDeletion(t *testing.T) {
	w := newWorld(t, "m")
	files := tree{}
	name := func(i int) string { return "s" + strings.Repeat("x", i) }
	for i := range 200 {
		files[name(i)+".yaml"] = "server " + name(i) + " 1"
	}
	w.scan(files)
	for i := range 60 {
		delete(files, name(i)+".yaml")
		w.pass(300 * time.Millisecond)
		w.scan(files)
	}
	if n := len(w.state.set.Servers); n == 200 {
		t.Error("nothing was removed in 18 s of deletion")
	}
}

func TestPrunePaused(t *testing.T) {
	six := tree{"a.yaml": "server a 1", "b.yaml": "server b 1", "c.yaml": "server c 1", "d.yaml": "server d 1", "e.yaml": "server e 1", "f.yaml": "server f 1"}
	tests := []struct {
		name       string
		have, left tree
		want       string
		paused     string
	}{
		{"half of six goes", six, tree{"a.yaml": six["a.yaml"], "b.yaml": six["b.yaml"], "c.yaml": six["c.yaml"]}, "server/a=1 server/b=1 server/c=1", ""},
		{"more than half of six is held", six, tree{"a.yaml": six["a.yaml"], "b.yaml": six["b.yaml"]},
			"server/a=1 server/b=1 server/c=1? server/d=1? server/e=1? server/f=1?", "server/c server/d server/e server/f"},
		{"three of four go", tree{"a.yaml": six["a.yaml"], "b.yaml": six["b.yaml"], "c.yaml": six["c.yaml"], "d.yaml": six["d.yaml"]},
			tree{"a.yaml": six["a.yaml"]}, "server/a=1", ""},
		{"the last one is held", tree{"a.yaml": six["a.yaml"]}, tree{"readme.yaml": "nothing"}, "server/a=1?", "server/a"},
		{"an empty directory is held", tree{"a.yaml": six["a.yaml"]}, tree{}, "server/a=1?", "server/a"},
		{"a renamed only object goes", tree{"a.yaml": six["a.yaml"]}, tree{"a.yaml": "server z 1"}, "server/z=1", ""},
		{"newcomers do not make a removal look small", six, tree{"g.yaml": "server g 1", "h.yaml": "server h 1", "i.yaml": "server i 1", "j.yaml": "server j 1", "k.yaml": "server k 1", "l.yaml": "server l 1", "m.yaml": "server m 1"},
			"server/a=1? server/b=1? server/c=1? server/d=1? server/e=1? server/f=1? server/g=1 server/h=1 server/i=1 server/j=1 server/k=1 server/l=1 server/m=1",
			"server/a server/b server/c server/d server/e server/f"},
		{"kinds count alike", tree{"a.yaml": "profile p\n---\nserver a 1"}, tree{"a.yaml": "profile p"}, "profile/p", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, "m")
			w.scan(test.have)
			w.pass(time.Minute)
			w.settle(test.left)
			w.want(w.settle(test.left), test.want)
			w.wantPaused(test.paused)
			if test.paused == "" {
				return
			}
			if got := w.confirm(); got != test.paused {
				t.Fatalf("confirmed are %q, want %q", got, test.paused)
			}
			if got := w.scan(test.left); strings.Contains(got, "?") {
				t.Fatalf("after the confirmation there is %q", got)
			}
			w.wantPaused("")
		})
	}
}

// A confirmation is for what was held, and only while it is missing.
func TestConfirmation(t *testing.T) {
	w := newWorld(t, "m")
	w.scan(tree{"a.yaml": "server a 1"})
	w.settle(tree{})
	w.wantPaused("server/a")
	w.confirm()
	w.want(w.event(tree{"a.yaml": "server a 2"}), "server/a=2")
	w.want(w.scan(tree{"a.yaml": "server a 2"}), "server/a=2")
	w.want(w.settle(tree{}), "server/a=2?")
	w.wantPaused("server/a")
	if got := w.confirm(); got != "server/a" {
		t.Errorf("confirmed are %q", got)
	}
	// A scan that does not count leaves it open.
	w.want(w.scanAs(vanished, nil), "server/a=2?")
	w.want(w.scan(tree{}), "")
}

// What is in a file again is held no more, by whichever look it was found, and an old confirmation is not kept for it.
func TestWhatIsBackIsNotHeld(t *testing.T) {
	all := tree{"a.yaml": "server a 1", "b.yaml": "server b 1"}
	back := map[string]func(*world) string{
		"by an event":                    func(w *world) string { return w.event(all) },
		"by a scan":                      func(w *world) string { return w.scan(all) },
		"by a scan that is not complete": func(w *world) string { return w.scanAs(unreadable, all) },
	}
	for name, found := range back {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "m")
			w.scan(all)
			w.settle(tree{})
			w.wantPaused("server/a server/b")
			w.want(found(w), "server/a=1 server/b=1")
			w.wantPaused("")
			if got := w.confirm(); got != "" {
				t.Errorf("confirmed are %q, which are there", got)
			}

			w.settle(tree{})
			w.wantPaused("server/a server/b")
			w.confirm()
			found(w)
			w.want(w.settle(tree{}), "server/a=1? server/b=1?")
			w.wantPaused("server/a server/b")
		})
	}
}

// What is said of an empty directory ends with the Set that has its first object, not with the scan after it; and what can be removed is
// still for that scan to say.
func TestFirstFileOfAnEmptyDirectory(t *testing.T) {
	w := newWorld(t, "m")
	w.scan(tree{})
	if s := w.state.set.Sources[0]; s.Complete || s.Reason == "" {
		t.Fatalf("an empty directory is %+v", s)
	}
	w.want(w.event(tree{"a.yaml": "server a 1"}), "server/a=1")
	if s := w.state.set.Sources[0]; !s.Complete || s.Reason != "" {
		t.Errorf("with a file in it the directory is complete %t, %q", s.Complete, s.Reason)
	}
	w.want(w.event(nil, "a.yaml"), "server/a=1")
	if s := w.state.set.Sources[0]; s.Complete || s.Reason == "" {
		t.Errorf("when the file is gone again the directory is complete %t, %q", s.Complete, s.Reason)
	}
}

func TestAllowEmpty(t *testing.T) {
	w := newWorld(t, "m")
	w.state = newState([]Root{{Name: "m"}}, true)
	w.scan(tree{"a.yaml": "server a 1", "b.yaml": "server b 1"})
	w.want(w.settle(tree{}), "")
	if s := w.state.set.Sources[0]; !s.Complete {
		t.Errorf("an empty directory is incomplete although it may be empty: %s", s.Reason)
	}
	w.scan(tree{"a.yaml": "server a 1"})
	w.want(w.scanAs(vanished, nil), "server/a=1")
	w.pass(time.Minute)
	w.want(w.scanAs(vanished, nil), "server/a=1")
}

// The annotation keeps an object whose file is gone, and it does not count.
func TestPruneDisabled(t *testing.T) {
	w := newWorld(t, "m")
	w.scan(tree{"a.yaml": "server a 1\nkeep", "b.yaml": "server b 1", "c.yaml": "server c 1"})
	left := tree{"c.yaml": "server c 1"}
	w.settle(left)
	w.want(w.settle(left), "server/a=1? server/c=1")
	w.wantPaused("")
	if kept := w.state.set.Sources[0].PruneKept; len(kept) != 1 || kept[0].Name != "a" {
		t.Errorf("kept are %v", kept)
	}
	// It can be had back without the annotation, and then go.
	w.want(w.event(tree{"a.yaml": "server a 1"}), "server/a=1 server/c=1")
	w.scan(tree{"a.yaml": "server a 1", "c.yaml": "server c 1"})
	w.want(w.settle(left), "server/c=1")
}

// Another device counts for nothing while objects are missing, and for the truth when none is.
func TestOtherDevice(t *testing.T) {
	w := newWorld(t, "m")
	files := tree{"a.yaml": "server a 1", "b.yaml": "server b 1", "c.yaml": "server c 1"}
	w.scan(files)
	other := func(files tree) string {
		r := w.result(complete, files)
		r.devices = map[string]uint64{"": 2}
		w.state = w.state.merge(look{0, r})
		return brief(w.state.set)
	}
	less := tree{"a.yaml": "server a 1", "b.yaml": "server b 1"}
	other(less)
	w.pass(confirmGap)
	w.want(other(less), "server/a=1 server/b=1 server/c=1?")
	w.wantPaused("server/c")
	if s := w.state.set.Sources[0]; s.Complete || !strings.Contains(s.Reason, "file system") {
		t.Errorf("complete %v, reason %q", s.Complete, s.Reason)
	}
	w.pass(confirmGap)
	w.want(other(files), "server/a=1 server/b=1 server/c=1")
	other(less)
	w.pass(confirmGap)
	w.want(other(less), "server/a=1 server/b=1")
}

// The quick way to decide decides as the thorough one does.
func TestQuickDecision(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		w := newWorld(t, "m")
		files := tree{}
		for range 12 {
			for range 1 + random.IntN(3) {
				path := string(rune('a'+random.IntN(4))) + ".yaml"
				switch random.IntN(6) {
				case 0:
					delete(files, path)
				case 1:
					files[path] = "bad"
				case 2:
					files[path] = ""
				default:
					files[path] = "server " + string(rune('p'+random.IntN(5))) + " " + string(rune('0'+random.IntN(3)))
				}
			}
			w.pass(time.Duration(random.IntN(700)) * time.Millisecond)
			result := w.result(complete, files)
			quick := w.state.merge(look{0, result})
			thorough := *w.state
			thorough.rivals = map[spec.ObjectKey]*rivalry{{}: {winner: -1}} // of nobody: it only bars the quick way
			slow := thorough.merge(look{0, result})
			if brief(quick.set) != brief(slow.set) || describe(quick.set) != describe(slow.set) {
				t.Fatalf("after %v:\nquick %s\n%s\nthorough %s\n%s", files, brief(quick.set), describe(quick.set), brief(slow.set), describe(slow.set))
			}
			w.state = quick
		}
	}
}
