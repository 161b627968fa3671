package stage

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/proc"
	"reconciler.dev/reconciler/observe/proc/proctest"
)

// cgroups opens the place for cgroups, or skips where this host gives us none.
func cgroups(t testing.TB) *proc.Cgroups {
	t.Helper()
	k, err := proc.Probe()
	if err != nil {
		t.Fatal(err)
	}
	c, err := k.FindCgroups()
	if errors.Is(err, proc.ErrNoCgroups) && !proctest.CgroupsWritable() {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// fresh makes the cgroup of a run, which goes with the test.
func fresh(t testing.TB, c *proc.Cgroups) proc.Cgroup {
	t.Helper()
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")) + "-" + strconv.Itoa(os.Getpid()) + filepath.Base(t.TempDir())
	g, err := c.Cgroup(c.Name(name))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Create(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// freshCgroup opens a fresh cgroup.
func freshCgroup(t testing.TB) int {
	t.Helper()
	return leaf(t, fresh(t, cgroups(t)))
}

func leaf(t testing.TB, g proc.Cgroup) int {
	t.Helper()
	fd, err := g.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// startIn starts the inspector in a fresh cgroup and checks that it was in it from its first instruction.
func startIn(t *testing.T, b *bench, c *proc.Cgroups) {
	t.Helper()
	g := fresh(t, c)
	b.spec.Cgroup = leaf(t, g)
	got := b.inspected(t)
	if !strings.HasSuffix(got.Cgroup, g.Path()) {
		t.Errorf("the workload is in %s, not in %s", got.Cgroup, g.Path())
	}
}

func TestSelfTestFindsAWayIntoCgroups(t *testing.T) {
	c := cgroups(t)
	b := newBench(t, Options{}, self, "inspect")
	fd, err := fresh(t, c).Open() // one of its own: other keepers of this host test themselves too
	if err != nil {
		t.Fatal(err)
	}
	base := os.NewFile(uintptr(fd), "base")
	defer base.Close()
	nothingLeft(t, func() {
		if _, err := b.SelfTest(base); err != nil {
			t.Fatal(err)
		}
	})
	left, err := os.ReadDir("/proc/self/fd/" + strconv.Itoa(int(base.Fd())))
	if err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.IsDir() }) {
		t.Errorf("left in the base: %v, %v", left, err)
	}
	t.Logf("born in their cgroup: %v", b.bornInCgroup())
	startIn(t, b, c)
	b.setBorn(false)
	b.spec.Env = nil
	startIn(t, b, c)
}

// A starter whose own cgroup was killed once, before it came there: on some kernels what it clones into a cgroup is
// born dead.
func TestSelfTestInACgroupThatWasKilled(t *testing.T) {
	c := cgroups(t)
	b := newBench(t, Options{}, self, "inspect")
	home := fresh(t, c)
	if err := home.Kill(); err != nil {
		t.Fatal(err)
	}
	back := moveSelf(t, c, leaf(t, home))
	defer back()
	cloned, err := b.SelfTest(c.Base())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("born in their cgroup: %v", cloned)
	startIn(t, b, c)
}

// moveSelf moves the test process to a cgroup; back moves it to where it was, the parent of the base.
func moveSelf(t *testing.T, c *proc.Cgroups, cgroup int) (back func()) {
	t.Helper()
	home, err := os.Open(filepath.Dir(c.Base().Name()))
	if err != nil {
		t.Fatal(err)
	}
	if err := move(os.Getpid(), cgroup); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := move(os.Getpid(), int(home.Fd())); err != nil {
			t.Error(err)
		}
		home.Close()
	}
}

func TestSelfTestSaysThatABaseIsOfNoUse(t *testing.T) {
	b := newBench(t, Options{}, "/bin/true", "true")
	dir, err := os.Open(t.TempDir()) // no cgroup2 at all
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	nothingLeft(t, func() {
		if cloned, err := b.SelfTest(dir); err == nil || cloned {
			t.Errorf("SelfTest = %v, %v", cloned, err)
		}
	})
	if left, err := os.ReadDir(dir.Name()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
