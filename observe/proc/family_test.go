package proc

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/state"
)

// found lists the numbers of a family.
func found(f Family) []int {
	var pids []int
	for _, m := range f.Members {
		pids = append(pids, m.ID.PID)
	}
	slices.Sort(pids)
	return pids
}

func family(t *testing.T, k *Kernel, h Hint) Family {
	t.Helper()
	f, err := k.Families([]Hint{{}, h})
	if err != nil {
		t.Fatal(err)
	}
	if len(f[0].Members) > 0 {
		t.Errorf("a hint without anything found %+v", f[0])
	}
	return f[1]
}

func want(t *testing.T, what string, f Family, pids ...int) {
	t.Helper()
	slices.Sort(pids)
	if got := found(f); !slices.Equal(got, pids) {
		t.Errorf("%s: found %v, want %v", what, got, pids)
	}
	tree := observe.Tree{State: observe.TreePopulated, Count: len(pids)}
	if len(pids) == 0 {
		tree = observe.Tree{State: observe.TreeUnknown} // never Empty
	}
	if f.Tree != tree {
		t.Errorf("%s: tree %+v, want %+v", what, f.Tree, tree)
	}
}

func TestFamilyBySessionDescentAndMemory(t *testing.T) {
	k := probe(t)
	main := newCast(t, "play", &syscall.SysProcAttr{Setsid: true})
	stranger := newCast(t, "play", nil)
	id := process(t, k, main.pid).ID
	want(t, "alone", family(t, k, Hint{Main: &id}), main.pid)

	child := main.number("child")
	daemon, err := strconv.Atoi(main.ask("tell daemon"))
	if err != nil {
		t.Fatal(err)
	}
	// The daemon left the session, and its parent is gone: only who saw it before, or its FIFO, tells.
	seen := process(t, k, daemon)
	t.Cleanup(func() { _ = seen.Signal(syscall.SIGKILL) })
	want(t, "with a child", family(t, k, Hint{Main: &id}), main.pid, child)
	f := family(t, k, Hint{Main: &id, Seen: []state.Identity{seen.ID}})
	want(t, "with a daemon that was seen", f, main.pid, child, daemon)
	if u := f.Usage(); u.Processes != 3 || u.RSS < 1<<20 || u.FDs < 9 {
		t.Errorf("usage %+v", u)
	}

	other := seen.ID
	other.StartTicks++
	other.PidfdInode++
	want(t, "one seen that is another", family(t, k, Hint{Main: &id, Seen: []state.Identity{other}}), main.pid, child)

	childProcess := process(t, k, child)
	stop(t, childProcess.Fd()) // else they end with their input, which is their parent's
	stop(t, seen.Fd())
	childID := childProcess.ID
	if sent, err := k.SignalFamily(f, syscall.SIGKILL); err != nil || sent != 3 {
		t.Errorf("sent %d, %v", sent, err)
	}
	for _, fd := range []int{main.pidfd, childProcess.Fd(), seen.Fd()} {
		awaitEnd(t, fd)
	}
	want(t, "killed, not reaped", family(t, k, Hint{Main: &id, Seen: []state.Identity{childID, seen.ID}}))
	if sent, err := k.SignalFamily(Family{Members: []Member{{ID: other}}}, syscall.SIGKILL); err != nil || sent != 0 {
		t.Errorf("to another process: sent %d, %v", sent, err)
	}
	if stranger.ask("ignore") != "ignored" {
		t.Error("the stranger does not answer")
	}
}

// A session outlives its leader, and proves nothing any more once that was reaped.
func TestSessionOfAReapedLeaderProvesNothing(t *testing.T) {
	k := probe(t)
	main := newCast(t, "play", &syscall.SysProcAttr{Setsid: true})
	id := process(t, k, main.pid).ID
	child := process(t, k, main.number("child"))
	t.Cleanup(func() { _ = child.Signal(syscall.SIGKILL) })
	stop(t, child.Fd()) // else it ends with its input
	_ = unix.PidfdSendSignal(main.pidfd, unix.SIGKILL, nil, 0)
	awaitEnd(t, main.pidfd)
	want(t, "a zombie leader", family(t, k, Hint{Main: &id}), child.ID.PID)
	main.wait()
	want(t, "a reaped leader", family(t, k, Hint{Main: &id}))
	want(t, "a member seen before", family(t, k, Hint{Main: &id, Seen: []state.Identity{child.ID}}), child.ID.PID)
}

func stop(t *testing.T, pidfd int) {
	t.Helper()
	if err := unix.PidfdSendSignal(pidfd, unix.SIGSTOP, nil, 0); err != nil {
		t.Fatal(err)
	}
}

// EC-10: who holds a FIFO of the run belongs to it, wherever it went; we hold it ourselves and do not.
func TestFamilyByFIFO(t *testing.T) {
	k := probe(t)
	fifo := filepath.Join(t.TempDir(), "stdout")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ours, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	file, err := FileIDOf(fifo)
	if err != nil {
		t.Fatal(err)
	}
	hint := Hint{FIFOs: []FileID{file}}
	want(t, "held by us alone", family(t, k, hint))
	p := newCast(t, "play", nil)
	if got := p.ask("hold " + fifo); got != "held" {
		t.Fatal(got)
	}
	want(t, "held by one", family(t, k, hint), p.pid)
	child := p.number("child")
	want(t, "and its child", family(t, k, hint), p.pid, child)
}

func BenchmarkFamilies(b *testing.B) {
	k := probe(b)
	id := process(b, k, newCast(b, "play", nil).pid).ID
	for b.Loop() {
		if _, err := k.Families([]Hint{{Main: &id}}); err != nil {
			b.Fatal(err)
		}
	}
}
