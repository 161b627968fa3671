package proc

import (
	"fmt"
	"strconv"
	"syscall"
	"testing"

	"reconciler.dev/reconciler/state"
)

func atoi(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ends are ways to end and their wait status words.
var ends = map[string]uint32{
	"exit 0":                                 0,
	"exit 3":                                 0x300,
	"exit 255":                               0xff00,
	fmt.Sprintf("raise %d", syscall.SIGTERM): uint32(syscall.SIGTERM),
	fmt.Sprintf("raise %d", syscall.SIGKILL): uint32(syscall.SIGKILL),
}

// I4: the exit of a child is told before it is reaped, again and again, and told the same afterwards.
func TestExitOfAChild(t *testing.T) {
	k := probe(t)
	for end, want := range ends {
		c := newCast(t, "play", nil)
		p := process(t, k, c.pid)
		c.say(end)
		awaitEnd(t, c.pidfd)
		for range 2 {
			other := process(t, k, c.pid) // remembers nothing
			check(t, end, other, want, FromWait)
		}
		check(t, end, p, want, FromWait)
		if err := p.Reap(); err != nil {
			t.Errorf("%s: Reap: %v", end, err)
		}
		if err := p.Reap(); err != nil {
			t.Errorf("%s: second Reap: %v", end, err)
		}
		if _, err := k.Open(p.ID); err == nil {
			t.Errorf("%s: not reaped", end)
		}
		check(t, end, p, want, FromWait)
	}
}

func check(t *testing.T, end string, p *Process, want uint32, from string) {
	t.Helper()
	exit, settled := p.Exit(now)
	if !settled || exit.Status == nil || *exit.Status != want || exit.From != from || !exit.At.Equal(now) {
		t.Errorf("%s: exit %s, settled %v, want %#x from %s", end, show(exit), settled, want, from)
	}
	if from == FromWait && (exit.CPU <= 0 || exit.MaxRSS < 1<<20) {
		t.Errorf("%s: CPU %v, memory %d", end, exit.CPU, exit.MaxRSS)
	}
}

func show(e state.MainExit) string {
	if e.Status == nil {
		return "unknown, " + e.From
	}
	return fmt.Sprintf("%#x from %s", *e.Status, e.From)
}

// Reap keeps the exit even if nobody asked for it before.
func TestReapKeepsTheExit(t *testing.T) {
	k := probe(t)
	c := newCast(t, "play", nil)
	p := process(t, k, c.pid)
	c.say("exit 7")
	awaitEnd(t, c.pidfd)
	if err := p.Reap(); err != nil {
		t.Fatal(err)
	}
	if exit, settled := p.Exit(now); !settled || exit.Status == nil || *exit.Status != 0x700 {
		t.Errorf("exit %s, settled %v", show(exit), settled)
	}
}

// Whoever is not the parent reads a zombie's stat, and after the reap asks the pidfd.
func TestExitOfAnothersChild(t *testing.T) {
	k := probe(t)
	for end, want := range ends {
		parent := newCast(t, "play", nil)
		child := parent.number("child")
		p, late := process(t, k, child), process(t, k, child)
		hidden := process(t, &Kernel{Features: Features{BootID: k.BootID}}, child)
		if got := parent.ask("tell " + end); got != "end" {
			t.Fatalf("%s: the child said %q", end, got)
		}
		awaitEnd(t, p.Fd())

		if want != 0 || k.Ptrace {
			check(t, end, p, want, FromZombieStat)
		}
		exit, settled := hidden.Exit(now)
		if want == 0 && (settled || exit.Status != nil || exit.From != UnknownHidden) {
			t.Errorf("%s: whoever may not know: exit %s, settled %v", end, show(exit), settled)
		}
		if want != 0 && (!settled || exit.Status == nil || *exit.Status != want) {
			t.Errorf("%s: whoever may not know all: exit %s, settled %v", end, show(exit), settled)
		}
		if err := p.Reap(); err != nil {
			t.Errorf("%s: Reap of another's child: %v", end, err)
		}
		if got := parent.ask("reap"); got != fmt.Sprint(want) {
			t.Fatalf("%s: its parent was told %s", end, got)
		}
		awaitReaped(t, late.Fd())
		k.ProbeExit(late.Fd())
		exit, settled = late.Exit(now)
		switch {
		case k.PidfdInfoExit:
			check(t, end, late, want, FromPidfdInfo)
			check(t, end, hidden, want, hiddenFrom(want))
		case !settled || exit.Status != nil || exit.From != UnknownNotTold:
			t.Errorf("%s: exit %s, settled %v, on a kernel that does not tell", end, show(exit), settled)
		}
	}
}

func hiddenFrom(status uint32) string {
	if status == 0 {
		return FromPidfdInfo
	}
	return FromZombieStat
}

func TestNotFound(t *testing.T) {
	for _, err := range []error{ErrGone, ErrOtherProcess, ErrOtherBoot} {
		if exit := NotFound(err, now); exit.Status != nil || exit.From == "" || !exit.At.Equal(now) {
			t.Errorf("%v: %s", err, show(exit))
		}
	}
	if NotFound(ErrOtherBoot, now).From == NotFound(ErrGone, now).From {
		t.Error("a reboot is told like a process that is gone")
	}
}
