package proc

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/state"
)

var now = time.Unix(1e9, 0)

// both runs a test with and without the pidfd inode.
func both(t *testing.T, f func(*testing.T, *Kernel)) {
	t.Run("inode", func(t *testing.T) {
		k := probe(t)
		if !k.PidfdInode {
			t.Skip("this kernel has no pidfs")
		}
		f(t, k)
	})
	t.Run("ticks", func(t *testing.T) {
		k := probe(t)
		k.PidfdInode = false
		f(t, k)
	})
}

func TestOpenFindsTheProcessAgain(t *testing.T) {
	both(t, func(t *testing.T, k *Kernel) {
		c := newCast(t, "play", nil)
		id := process(t, k, c.pid).ID
		if k.PidfdInode != (id.PidfdInode != 0) || id.StartTicks == 0 || id.BootID == "" || id.PID != c.pid {
			t.Errorf("identity %+v", id)
		}
		p, err := k.Open(id)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if p.Alive() != observe.Alive {
			t.Errorf("it is %s", p.Alive())
		}
		if _, settled := p.Exit(now); settled {
			t.Error("it lives and has an exit")
		}
	})
}

// BP-8: a zombie is dead, even though nobody reaps it; what is gone is gone.
func TestZombieIsDeadAndFoundUntilItIsReaped(t *testing.T) {
	both(t, func(t *testing.T, k *Kernel) {
		c := newCast(t, "play", nil)
		id := process(t, k, c.pid).ID
		c.say("exit 3")
		awaitEnd(t, c.pidfd)
		p, err := k.Open(id)
		if err != nil {
			t.Fatalf("Open of a zombie: %v", err)
		}
		defer p.Close()
		if p.Alive() != observe.Dead {
			t.Errorf("a zombie is %s", p.Alive())
		}
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("a signal to a zombie: %v", err)
		}
		c.wait()
		if p.Alive() != observe.Dead {
			t.Errorf("a reaped process is %s", p.Alive())
		}
		if err := p.Signal(syscall.SIGTERM); !errors.Is(err, ErrGone) {
			t.Errorf("a signal to a reaped process: %v", err)
		}
		if _, err := k.Open(id); !errors.Is(err, ErrGone) {
			t.Errorf("Open of a reaped process: %v", err)
		}
	})
}

// BP-8: identities of other boots and other processes open nothing.
func TestOpenRefusesWhatIsNotTheProcess(t *testing.T) {
	k := probe(t)
	c := newCast(t, "play", nil)
	id := process(t, k, c.pid).ID
	ticks := probe(t)
	ticks.PidfdInode = false
	change := func(f func(*state.Identity)) state.Identity { c := id; f(&c); return c }
	tests := map[string]struct {
		k    *Kernel
		id   state.Identity
		want error
	}{
		"other boot":     {k, change(func(i *state.Identity) { i.BootID = "d1e5c1a3" }), ErrOtherBoot},
		"no boot":        {k, change(func(i *state.Identity) { i.BootID = "" }), ErrUnverifiable},
		"no number":      {k, change(func(i *state.Identity) { i.PID = 0 }), ErrUnverifiable},
		"negative":       {k, change(func(i *state.Identity) { i.PID = -1 }), ErrUnverifiable},
		"other inode":    {k, change(func(i *state.Identity) { i.PidfdInode++ }), ErrOtherProcess},
		"other start":    {ticks, change(func(i *state.Identity) { i.StartTicks++ }), ErrOtherProcess},
		"no start":       {ticks, change(func(i *state.Identity) { i.StartTicks = 0 }), ErrUnverifiable},
		"beyond any pid": {k, change(func(i *state.Identity) { i.PID = 1<<22 + 1 }), ErrGone},
		"a thread":       {k, change(func(i *state.Identity) { i.PID = anotherThread(t) }), ErrOtherProcess},
	}
	for name, tt := range tests {
		if name == "other inode" && !k.PidfdInode {
			continue
		}
		p, err := tt.k.Open(tt.id)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		if p != nil {
			p.Close()
		}
	}
}

// anotherThread is the number of a thread of ours that is not the first.
func anotherThread(t *testing.T) int {
	t.Helper()
	names, err := readNames("/proc/self/task")
	if err != nil || len(names) < 2 {
		t.Fatalf("threads %v, %v", names, err)
	}
	for _, n := range names {
		if s, err := os.Readlink("/proc/self"); err == nil && n != s {
			return atoi(t, n)
		}
	}
	t.Fatal("no second thread")
	return 0
}

// The main thread of a living process may have ended: its stat says Z.
func TestProcessLivesOnWithoutItsFirstThread(t *testing.T) {
	k := probe(t)
	c := newCast(t, "headless", nil)
	p := process(t, k, c.pid)
	for {
		s, err := readStat(c.pid)
		if err != nil {
			t.Fatal(err)
		}
		if s.state == 'Z' {
			break
		}
	}
	if p.Alive() != observe.Alive {
		t.Errorf("it is %s", p.Alive())
	}
	if exit, settled := p.Exit(now); settled || exit.Status != nil {
		t.Errorf("exit %+v, settled %v", exit, settled)
	}
	c.in.Close()
	awaitEnd(t, c.pidfd)
	if p.Alive() != observe.Dead {
		t.Errorf("it is %s", p.Alive())
	}
}

func TestSignalGoesToTheProcess(t *testing.T) {
	k := probe(t)
	c := newCast(t, "play", nil)
	p := process(t, k, c.pid)
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if status := c.wait(); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("wait status %#x", uint32(status))
	}
}

func TestClosedProcessTouchesNothing(t *testing.T) {
	k := probe(t)
	c := newCast(t, "play", nil)
	p := process(t, k, c.pid)
	p.Close()
	if err := p.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Signal: %v", err)
	}
	if p.Alive() != observe.Unknown {
		t.Errorf("it is %s", p.Alive())
	}
	if exit, settled := p.Exit(now); settled || exit.Status != nil {
		t.Errorf("exit %+v, settled %v", exit, settled)
	}
	if err := errors.Join(p.Reap(), p.Close()); err != nil {
		t.Error(err)
	}
	if _, err := p.Comm(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Comm: %v", err)
	}
	if p.Fd() != -1 {
		t.Errorf("Fd %d", p.Fd())
	}
}
