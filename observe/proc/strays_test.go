package proc

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestStraysAreReapedAndKnownChildrenAreNot(t *testing.T) {
	k := probe(t)
	if err := k.BecomeSubreaper(); err != nil {
		t.Fatal(err)
	}
	again := probe(t)
	if !again.Subreaper {
		t.Error("the probe does not see that we are the subreaper")
	}
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })

	known := newCast(t, "play", nil)
	mine := func(pid int) bool { return pid == known.pid }
	orphan := process(t, k, known.number("daemon"))
	t.Cleanup(func() { _ = orphan.Signal(syscall.SIGKILL) })

	// Where the tests are the first of a pid namespace, orphans of others come to them, too.
	others := func(s Stray) bool { return s.ID != orphan.ID }
	living, _, err := k.Strays(mine)
	if living = slices.DeleteFunc(living, others); err != nil || len(living) != 1 || living[0].Comm == "" {
		t.Fatalf("living %+v, %v", living, err)
	}
	if err := orphan.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, orphan.Fd())
	known.say("exit 5")
	awaitEnd(t, known.pidfd)
	living, reaped, err := k.Strays(mine)
	if living = slices.DeleteFunc(living, others); err != nil || reaped == 0 || len(living) != 0 {
		t.Errorf("living %+v, reaped %d, %v", living, reaped, err)
	}
	if _, err := k.Open(orphan.ID); !errors.Is(err, ErrGone) {
		t.Errorf("the orphan is not reaped: %v", err)
	}
	if status := known.wait(); status.ExitStatus() != 5 {
		t.Errorf("the known child's exit was stolen: %#x", uint32(status))
	}
}

func TestChildrenOfAllThreads(t *testing.T) {
	a, b := newCast(t, "play", nil), newCast(t, "play", nil)
	pids, err := children(os.Getpid())
	if err != nil || !slices.Contains(pids, a.pid) || !slices.Contains(pids, b.pid) {
		t.Errorf("children %v, %v, want %d and %d among them", pids, err, a.pid, b.pid)
	}
}

func BenchmarkStrays(b *testing.B) {
	k := probe(b)
	for b.Loop() {
		if _, _, err := k.Strays(func(int) bool { return true }); err != nil {
			b.Fatal(err)
		}
	}
}
