package dir

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
)

// tree is files and their texts.
type tree map[string]string

// world drives the pure core: no file system, no clock.
type world struct {
	t     testing.TB
	now   time.Time
	state *state
	cache map[string]*content
}

func newWorld(t testing.TB, roots ...string) *world {
	w := &world{t: t, now: time.Unix(1000, 0), cache: map[string]*content{}}
	var r []Root
	for _, name := range roots {
		r = append(r, Root{Name: name})
	}
	w.state = newState(r, false)
	return w
}

func (w *world) content(path, text string) *content {
	id := path + "\x00" + text
	c := w.cache[id]
	if c == nil {
		c = decode(path, []byte(text), sha256.Sum256([]byte(text)), toyDecode)
		w.cache[id] = c
	}
	return c
}

func (w *world) files(files tree) []found {
	var out []found
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f := found{path: path}
		if text, unreadable := strings.CutPrefix(files[path], "!"); unreadable {
			f.trouble = text
		} else {
			f.content = w.content(path, text)
		}
		out = append(out, f)
	}
	return out
}

// result is a full scan that found the files, worth the cause.
func (w *world) result(worth cause, files tree) *scanResult {
	if worth == complete && len(files) == 0 {
		worth = empty
	}
	reason := ""
	if worth != complete {
		reason = "for a reason"
	}
	s := &scanResult{full: true, start: w.now, end: w.now.Add(time.Millisecond), verdict: verdict{worth, reason}, devices: map[string]uint64{"": 1}}
	if worth.saw() {
		s.files = w.files(files)
	}
	w.now = s.end
	return s
}

// scan enters a full scan of the first root.
func (w *world) scan(files tree) string { return w.scanAs(complete, files) }

func (w *world) scanAs(worth cause, files tree) string {
	w.state = w.state.merge(look{0, w.result(worth, files)})
	return brief(w.state.set)
}

// event enters a look at some paths of the first root.
func (w *world) event(files tree, gone ...string) string {
	w.state = w.state.merge(look{0, &scanResult{start: w.now, end: w.now, files: w.files(files), gone: gone}})
	return brief(w.state.set)
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

// settle is two scans, far enough apart.
func (w *world) settle(files tree) string {
	w.scan(files)
	w.pass(confirmGap)
	return w.scan(files)
}

func (w *world) want(got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Fatalf("have %q, want %q\n%s", got, want, describe(w.state.set))
	}
	if set := brief(w.state.set); set != want {
		w.t.Fatalf("have %q, want %q", set, want)
	}
}

func (w *world) paused() string {
	var words []string
	for _, s := range w.state.set.Sources {
		for _, k := range s.PrunePaused {
			words = append(words, k.String())
		}
	}
	return strings.Join(words, " ")
}

func (w *world) wantPaused(want string) {
	w.t.Helper()
	if got := w.paused(); got != want {
		w.t.Fatalf("held are %q, want %q\n%s", got, want, describe(w.state.set))
	}
}

func (w *world) wantFile(path, state string, saying ...string) {
	w.t.Helper()
	for _, s := range w.state.set.Sources {
		for _, f := range s.Files {
			if f.Path != path {
				continue
			}
			text := f.Reason
			for _, fault := range f.Faults {
				text += fault.Error()
			}
			if f.State != state {
				w.t.Fatalf("%s is %s (%s), want %s", path, f.State, text, state)
			}
			for _, s := range saying {
				if !strings.Contains(text, s) {
					w.t.Fatalf("%s says %q, which lacks %q", path, text, s)
				}
			}
			return
		}
	}
	w.t.Fatalf("%s is not listed", path)
}

func (w *world) confirm() string {
	next, keys := w.state.confirm()
	w.state = next
	var words []string
	for _, k := range keys {
		words = append(words, k.String())
	}
	return strings.Join(words, " ")
}

// A file that is faulty, unreadable, or empty keeps its last good objects.
func TestLastGood(t *testing.T) {
	for name, text := range map[string]string{"faulty": "server a 2\nbad", "unreadable": "!cannot be read", "empty": "", "not ours": "something else"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "m")
			w.scan(tree{"a.yaml": "server a 1\n---\nserver b 1", "c.yaml": "server c 1"})
			now := tree{"a.yaml": text, "c.yaml": "server c 1"}
			for range 3 {
				w.pass(time.Minute)
				w.want(w.scan(now), "server/a=1~ server/b=1~ server/c=1")
			}
			w.wantFile("a.yaml", spec.FileInvalid)
			// Mended, it counts again; what the mended file does not hold is removed as ever.
			w.want(w.settle(tree{"a.yaml": "server a 3", "c.yaml": "server c 1"}), "server/a=3 server/c=1")
			w.wantFile("a.yaml", spec.FileAccepted)
		})
	}
}

func TestNeverGood(t *testing.T) {
	w := newWorld(t, "m")
	w.want(w.scan(tree{"a.yaml": "server a 1\nbad", "n.yaml": "nothing"}), "")
	w.wantFile("a.yaml", spec.FileInvalid, "is bad")
	w.wantFile("n.yaml", spec.FileSkipped, "neither apiVersion nor kind")
	if n := w.state.set.Sources[0].Objects; n["invalid"] != 1 || n["accepted"] != 0 {
		t.Errorf("counts are %v", n)
	}
}

// Of two files with one object the incumbent stays, whatever their order; both are told.
func TestConflict(t *testing.T) {
	for _, other := range []string{"0.yaml", "z.yaml"} {
		w := newWorld(t, "m")
		w.scan(tree{"m.yaml": "server a 1"})
		both := tree{"m.yaml": "server a 1", other: "server a 2\n---\nserver b 2"}
		w.want(w.event(tree{other: both[other]}), "server/a=1 server/b=2")
		w.want(w.scan(both), "server/a=1 server/b=2")
		w.wantFile("m.yaml", spec.FileConflict, "server/a", other, "stays")
		w.wantFile(other, spec.FileConflict, "server/a", "m.yaml", "remove or rename this one")
		// The incumbent goes on counting.
		both["m.yaml"] = "server a 3"
		w.want(w.scan(both), "server/a=3 server/b=2")
		// It does not give way by being gone for a moment.
		w.want(w.event(nil, "m.yaml"), "server/a=3 server/b=2")
		w.want(w.event(tree{"m.yaml": "server a 4"}), "server/a=4 server/b=2")
		// It gives way by going.
		delete(both, "m.yaml")
		w.want(w.scan(both), "server/a=2 server/b=2")
		w.wantFile(other, spec.FileAccepted)
	}
}

// Of two newcomers neither counts.
func TestConflictOfNewcomers(t *testing.T) {
	w := newWorld(t, "m")
	both := tree{"a.yaml": "server s 1", "b.yaml": "server s 2"}
	w.want(w.scan(both), "")
	w.wantFile("a.yaml", spec.FileConflict, "none of them")
	w.wantFile("b.yaml", spec.FileConflict, "none of them")
	if n := w.state.set.Sources[0].Objects["conflict"]; n != 2 {
		t.Errorf("%d conflicts are counted", n)
	}
	w.want(w.scan(tree{"b.yaml": "server s 2"}), "server/s=2")
}

// A conflict of newcomers over what was somewhere else leaves it as it was.
func TestMoveToTwoPlaces(t *testing.T) {
	w := newWorld(t, "m")
	w.scan(tree{"a.yaml": "server s 1", "k.yaml": "server k 1"})
	w.want(w.settle(tree{"b.yaml": "server s 2", "c.yaml": "server s 3", "k.yaml": "server k 1"}), "server/k=1 server/s=1~")
	w.want(w.scan(tree{"c.yaml": "server s 3", "k.yaml": "server k 1"}), "server/k=1 server/s=3")
}

// Across sources as within one.
func TestConflictOfSources(t *testing.T) {
	w := newWorld(t, "one", "two")
	w.state = w.state.merge(look{0, w.result(complete, tree{"a.yaml": "server s 1"})}, look{1, w.result(complete, tree{"a.yaml": "server s 2"})})
	w.want(brief(w.state.set), "")
	w.state = w.state.merge(look{1, w.result(complete, tree{"b.yaml": "server t 2"})})
	w.want(brief(w.state.set), "server/s=1 server/t=2")
	w.state = w.state.merge(look{1, w.result(complete, tree{"a.yaml": "server s 2", "b.yaml": "server t 2"})})
	w.want(brief(w.state.set), "server/s=1 server/t=2")
	if root := w.state.set.Servers[spec.Key{Namespace: "default", Name: "s"}].Source.Root; root != "one" {
		t.Errorf("the object comes from %q", root)
	}
}

// A moved object is an update: at no moment is it missing or in conflict.
func TestMove(t *testing.T) {
	w := newWorld(t, "m")
	w.scan(tree{"a.yaml": "server s 1", "k.yaml": "server k 1"})
	w.want(w.event(nil, "a.yaml"), "server/k=1 server/s=1")
	w.want(w.event(tree{"b.yaml": "server s 1"}), "server/k=1 server/s=1")
	w.wantFile("b.yaml", spec.FileAccepted)
	w.want(w.settle(tree{"b.yaml": "server s 1", "k.yaml": "server k 1"}), "server/k=1 server/s=1")
	if file := w.state.set.Servers[spec.Key{Namespace: "default", Name: "s"}].Source.File; file != "b.yaml" {
		t.Errorf("the object comes from %q", file)
	}
	// Between files that stay.
	w.want(w.settle(tree{"b.yaml": "server z 1", "k.yaml": "server k 1\n---\nserver s 2"}), "server/k=1 server/s=2 server/z=1")
}

// An emptied file gives its objects up to another file, but to none else.
func TestEmptiedFileGivesWay(t *testing.T) {
	w := newWorld(t, "m")
	w.scan(tree{"a.yaml": "server s 1", "k.yaml": "server k 1"})
	w.want(w.settle(tree{"a.yaml": "", "k.yaml": "server k 1"}), "server/k=1 server/s=1~")
	w.wantFile("a.yaml", spec.FileInvalid, "remove the file")
	w.want(w.scan(tree{"a.yaml": "", "b.yaml": "server s 2", "k.yaml": "server k 1"}), "server/k=1 server/s=2")
	w.wantFile("a.yaml", spec.FileSkipped)
}

// I7: what may have gone into a file that cannot be read is kept until a person says otherwise.
func TestFaultyFileMentions(t *testing.T) {
	w := newWorld(t, "m")
	w.scan(tree{"a.yaml": "server town 1", "k.yaml": "server k 1", "l.yaml": "server l 1"})
	left := tree{"b.yaml": "server town 1\nbad", "k.yaml": "server k 1", "l.yaml": "server l 1"}
	w.want(w.settle(left), "server/k=1 server/l=1 server/town=1?")
	w.wantPaused("server/town")
	left["b.yaml"] = "server town-hall 1\nbad"
	w.want(w.settle(left), "server/k=1 server/l=1")
}

// I8: what did not change is the same, to the pointer.
func TestNothingNewIsNoChange(t *testing.T) {
	w := newWorld(t, "m")
	files := tree{"a.yaml": "server a 1", "b.yaml": "server b 1", "c.yaml": "server c 1\nbad"}
	w.scan(files)
	files["d.yaml"] = "server a 2"
	w.scan(files)
	before := w.state
	w.pass(time.Minute)
	w.scan(files)
	if w.state.serial != before.serial {
		t.Error("the serial grew")
	}
	for k, a := range before.set.Servers {
		if w.state.set.Servers[k] != a {
			t.Errorf("%v is another", k)
		}
	}
	if !w.state.set.Sources[0].LastSuccess.After(before.set.Sources[0].LastSuccess) {
		t.Error("the time of the last success stands still")
	}
	w.event(tree{"a.yaml": "server a 5"})
	if w.state.serial == before.serial {
		t.Error("the serial did not grow with a change")
	}
	b := spec.Key{Namespace: "default", Name: "b"}
	if w.state.set.Servers[b] != before.set.Servers[b] {
		t.Error("an object that did not change is another")
	}
}

// A state is never changed by making the next one.
func TestMergeIsPure(t *testing.T) {
	w := newWorld(t, "m")
	w.scan(tree{"a.yaml": "server a 1", "b.yaml": "server b 1"})
	old := w.state
	want, paused := brief(old.set), len(old.roots[0].paused)
	result := w.result(complete, tree{"a.yaml": "server a 2", "c.yaml": "server c 1"})
	one, two := old.merge(look{0, result}), old.merge(look{0, result})
	if brief(one.set) != brief(two.set) || one.serial != two.serial {
		t.Errorf("the same merge gave %q and %q", brief(one.set), brief(two.set))
	}
	if brief(old.set) != want || len(old.roots[0].paused) != paused || len(old.objects) != 2 || len(old.roots[0].files) != 2 {
		t.Error("the old state was changed")
	}
}

// Known is set when every source was read whole once.
func TestKnown(t *testing.T) {
	w := newWorld(t, "one", "two")
	w.state = w.state.merge(look{0, w.result(complete, tree{"a.yaml": "server a 1"})}, look{1, w.result(vanished, nil)})
	if w.state.set.Known {
		t.Error("known while a source has not been read")
	}
	w.state = w.state.merge(look{1, w.result(complete, tree{"b.yaml": "server b 1"})})
	if !w.state.set.Known {
		t.Error("not known although every source has been read")
	}
	w.state = w.state.merge(look{1, w.result(vanished, nil)})
	if !w.state.set.Known {
		t.Error("not known any more")
	}
}
