package proc

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/proc/proctest"
)

// cgroups opens the base, or skips where this host gives us none.
func cgroups(t testing.TB) *Cgroups {
	t.Helper()
	c, err := probe(t).FindCgroups()
	if errors.Is(err, ErrNoCgroups) && !proctest.CgroupsWritable() {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// group makes a fresh cgroup that goes with the test.
func group(t testing.TB, c *Cgroups) Cgroup {
	t.Helper()
	name := []string{"test", strconv.Itoa(os.Getpid()), filepath.Base(t.TempDir()), strings.ReplaceAll(t.Name(), "/", "-")}
	g, err := c.Cgroup(c.Name(strings.Join(name, "-")))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Create(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Kill(); err != nil && !isRemoved(err) {
			t.Error(err)
		}
		awaitEmpty(t, g)
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// enter moves a process into g, or into a leaf of it.
func enter(t testing.TB, g Cgroup, pid int, leaf string) {
	t.Helper()
	if err := g.all.write(path.Join(g.path, leaf, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
		t.Fatal(err)
	}
}

// awaitEmpty waits for the cgroup's own word that it is empty.
func awaitEmpty(t testing.TB, g Cgroup) {
	t.Helper()
	w, err := NewWatch()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Add(g, "it"); err != nil {
		if isRemoved(err) {
			return
		}
		t.Fatal(err)
	}
	for {
		populated, err := g.Populated()
		if err != nil {
			t.Fatal(err)
		}
		if !populated {
			return
		}
		awaitWatch(t, w)
	}
}

func awaitWatch(t testing.TB, w *Watch) []string {
	t.Helper()
	for {
		awaitPoll(t, w.Fd(), unix.POLLIN)
		keys, err := w.Changed()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) > 0 { // the end of a dropped watch wakes, too
			return keys
		}
	}
}

func TestCgroupFromBirthToRemoval(t *testing.T) {
	c := cgroups(t)
	g := group(t, c)
	if err := g.Create(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
	runs, err := c.Runs()
	if err != nil || !slices.Contains(runs, path.Base(g.Path())) {
		t.Errorf("runs %q, %v", runs, err)
	}
	if tree, err := g.Tree(); err != nil || tree != (observe.Tree{State: observe.TreeEmpty}) {
		t.Errorf("fresh: %+v, %v", tree, err)
	}

	w, err := NewWatch()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Add(g, "run"); err != nil {
		t.Fatal(err)
	}
	p := newCast(t, "play", nil)
	enter(t, g, p.pid, "")
	if keys := awaitWatch(t, w); !slices.Equal(keys, []string{"run"}) {
		t.Errorf("changed: %q", keys)
	}
	child := p.number("child")
	if tree, err := g.Tree(); err != nil || tree != (observe.Tree{State: observe.TreePopulated, Count: 2}) {
		t.Errorf("with two: %+v, %v", tree, err)
	}
	members, err := g.Members()
	slices.Sort(members)
	want := []int{p.pid, child}
	slices.Sort(want)
	if err != nil || !slices.Equal(members, want) {
		t.Errorf("members %v, %v, want %v", members, err, want)
	}
	if err := g.Remove(); !errors.Is(err, ErrPopulated) {
		t.Errorf("removed with processes: %v", err)
	}
	if u, err := g.Usage(Usage{}); err != nil || u.Processes != 2 || u.RSS < 1<<20 || u.FDs < 6 || u.CPU <= 0 {
		t.Errorf("usage %+v, %v", u, err)
	}
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitEmpty(t, g)
	if keys := awaitWatch(t, w); !slices.Equal(keys, []string{"run"}) {
		t.Errorf("changed: %q", keys)
	}
	if err := g.Remove(); err != nil {
		t.Fatal(err)
	}
	if err := g.Remove(); err != nil {
		t.Errorf("removed twice: %v", err)
	}
	if tree, err := g.Tree(); err != nil || tree.State != observe.TreeEmpty {
		t.Errorf("removed: %+v, %v", tree, err)
	}
	if err := w.Add(g, "gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("watching what is gone: %v", err)
	}
}

// What sleeps is not asked again; whatever has worked is.
func TestUsageOfSleepersIsToldAgain(t *testing.T) {
	g := group(t, cgroups(t))
	p := newCast(t, "play", nil)
	enter(t, g, p.pid, "")
	usage := func(last Usage) Usage {
		t.Helper()
		u, err := g.Usage(last)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	forged := Usage{RSS: 1, FDs: 1, Processes: 1}
	for told := false; !told; {
		p.ask("ignore") // it works, then waits for a line
		forged.CPU = usage(Usage{}).CPU
		again := usage(forged)
		told = again == forged
		if again.CPU == forged.CPU && !told {
			t.Fatalf("of one that has not worked: %+v", again)
		}
	}
	forged.CPU--
	if u := usage(forged); u.RSS <= 1 || u.FDs < 3 {
		t.Errorf("of one that has worked: %+v", u)
	}
}

// Wherever in the run's cgroups its processes are, they are counted.
func TestUsageCountsEveryLeaf(t *testing.T) {
	g := group(t, cgroups(t))
	p, other := newCast(t, "play", nil), newCast(t, "play", nil)
	count := func(when string, want int) {
		t.Helper()
		u, err := g.Usage(Usage{})
		if err != nil || u.Processes != want || u.RSS <= 0 || u.FDs < 3*want {
			t.Errorf("%s: %+v, %v, want %d processes", when, u, err, want)
		}
	}
	make := func(leaf string) {
		t.Helper()
		dir, name := g.all.from(path.Join(g.path, leaf))
		if err := unix.Mkdirat(dir, name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	enter(t, g, p.pid, "")
	count("alone", 1)
	make("cmd-1")
	enter(t, g, other.pid, "cmd-1")
	count("with a command", 2)
	make("own")
	enter(t, g, other.pid, "own")
	count("in a cgroup of the workload's own", 2)
	enter(t, g, other.pid, "")
	count("with both in one", 2)
}

// A list that is longer than what is read at once is read to its end.
func TestShortRecordsAreReadToTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	for _, size := range []int{0, 1, 4031, 4032, 4033, 4095, 4096, 4097, 3 * 4096} {
		want := bytes.Repeat([]byte("1234567\n"), size/8+1)[:size]
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readShort(unix.AT_FDCWD, path, make([]byte, 4096))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("of %d bytes %d were read, %v", size, len(got), err)
		}
	}
}

// A zombie that nobody reaps is no member of the living.
func TestZombieDoesNotPopulate(t *testing.T) {
	g := group(t, cgroups(t))
	p := newCast(t, "play", nil)
	enter(t, g, p.pid, "")
	p.say("exit 0")
	awaitEnd(t, p.pidfd)
	awaitEmpty(t, g)
	if err := g.Remove(); err != nil {
		t.Errorf("with a zombie: %v", err)
	}
}

func TestSignalTreeReachesEveryMemberOnce(t *testing.T) {
	c := cgroups(t)
	g, other := group(t, c), group(t, c)
	main, cmd, bystander := newCast(t, "play", nil), newCast(t, "play", nil), newCast(t, "play", nil)
	if err := unix.Mkdirat(int(c.mount.Fd()), path.Join(g.Path(), "cmd-1"), 0o755); err != nil {
		t.Fatal(err)
	}
	enter(t, g, main.pid, "")
	enter(t, g, cmd.pid, "cmd-1")
	enter(t, other, bystander.pid, "")
	daemon := process(t, probe(t), main.number("daemon")) // left session and parent, not the cgroup
	stop(t, daemon.Fd())                                  // else it ends with its input, which is its parent's
	sent, err := g.SignalTree(syscall.SIGTERM)
	if err != nil || sent != 3 {
		t.Errorf("sent %d, %v, want 3", sent, err)
	}
	if err := daemon.Signal(syscall.SIGCONT); err != nil {
		t.Error(err)
	}
	for _, p := range []*cast{main, cmd} {
		if status := p.wait(); status.Signal() != syscall.SIGTERM {
			t.Errorf("wait status %#x", uint32(status))
		}
	}
	awaitEnd(t, daemon.Fd())
	awaitEmpty(t, g)
	if sent, err := g.SignalTree(syscall.SIGTERM); err != nil || sent != 0 {
		t.Errorf("to nobody: sent %d, %v", sent, err)
	}
	if populated, err := other.Populated(); err != nil || !populated {
		t.Errorf("the bystander: %v, %v", populated, err)
	}
}

// Where there is no cgroup.kill, members are killed one by one, daemons and children too.
func TestKillLoopEmptiesTheCgroup(t *testing.T) {
	g := group(t, cgroups(t))
	p := newCast(t, "play", nil)
	enter(t, g, p.pid, "")
	p.ask("daemon")
	p.ask("child")
	killAll(t, g, Cgroup.killLoop)
	if populated, err := g.Populated(); err != nil || populated {
		t.Errorf("populated %v, %v", populated, err)
	}
	if status := p.wait(); status.Signal() != syscall.SIGKILL {
		t.Errorf("wait status %#x", uint32(status))
	}
}

// What forks faster than one can look is killed, with cgroup.kill and without.
func TestKillEndsAForkChain(t *testing.T) {
	for name, kill := range map[string]func(Cgroup) error{"cgroup.kill": Cgroup.Kill, "loop": Cgroup.killLoop} {
		t.Run(name, func(t *testing.T) {
			g := group(t, cgroups(t))
			gate := newCast(t, "play", nil)
			enter(t, g, gate.pid, "")
			gate.ask("chain")
			for range 5 {
				gate.ask("next")
			}
			killAll(t, g, kill)
			awaitEmpty(t, g)
		})
	}
}

// killAll kills again where its time was too short for a host as busy as this, as whoever wants a run dead does.
func killAll(t *testing.T, g Cgroup, kill func(Cgroup) error) {
	t.Helper()
	err := kill(g)
	for errors.Is(err, ErrPopulated) {
		err = kill(g)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestOnlyCgroupsOfRunsAreTouched(t *testing.T) {
	c := &Cgroups{path: "a/reconciler"}
	for _, name := range []string{
		"", ".", "/", "..", "reconciler", "a", "a/b", "/reconciler/run", "reconciler/../x", "reconciler/",
		"a/../reconciler/run", "reconciler/run/main",
	} {
		if g, err := c.Cgroup(name); err == nil {
			t.Errorf("%q is taken for %q", name, g.Path())
		}
	}
	for _, name := range []string{c.Name("run"), "reconciler/run", "old/place/reconciler/run"} {
		if g, err := c.Cgroup(name); err != nil || g.Path() != name {
			t.Errorf("%q: %q, %v", name, g.Path(), err)
		}
	}
}

func TestWatchForgetsWhatIsDropped(t *testing.T) {
	c := cgroups(t)
	g, other := group(t, c), group(t, c)
	w, err := NewWatch()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := errors.Join(w.Add(g, "dropped"), w.Add(other, "kept"), w.Add(other, "kept")); err != nil {
		t.Fatal(err)
	}
	w.Drop("dropped")
	w.Drop("never there")
	p, q := newCast(t, "play", nil), newCast(t, "play", nil)
	enter(t, g, p.pid, "")
	enter(t, other, q.pid, "")
	if keys := awaitWatch(t, w); !slices.Equal(keys, []string{"kept"}) {
		t.Errorf("changed: %q", keys)
	}
	if keys, err := w.Changed(); err != nil || len(keys) != 0 {
		t.Errorf("changed again: %q, %v", keys, err)
	}
}

func TestWatchTellsAllAfterAnOverflow(t *testing.T) {
	w := &Watch{keys: map[int32]string{1: "a", 2: "b"}, wds: map[string]int32{"a": 1, "b": 2}}
	event := make([]byte, 16)
	event[5] = unix.IN_Q_OVERFLOW >> 8
	changed := make(map[string]struct{})
	w.take(event, changed)
	if len(changed) != 2 {
		t.Errorf("changed: %v", changed)
	}
}

func BenchmarkPopulated(b *testing.B) {
	g := group(b, cgroups(b))
	for b.Loop() {
		if _, err := g.Populated(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCgroupUsage(b *testing.B) {
	g := group(b, cgroups(b))
	enter(b, g, newCast(b, "play", nil).pid, "")
	for b.Loop() {
		if _, err := g.Usage(Usage{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSignalTree(b *testing.B) {
	g := group(b, cgroups(b))
	enter(b, g, newCast(b, "play", nil).pid, "")
	for b.Loop() {
		if _, err := g.SignalTree(syscall.SIGCONT); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCgroupCreateRemove(b *testing.B) {
	c := cgroups(b)
	g, err := c.Cgroup(c.Name("benchmark-" + strconv.Itoa(os.Getpid())))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := errors.Join(g.Create(), g.Remove()); err != nil {
			b.Fatal(err)
		}
	}
}
