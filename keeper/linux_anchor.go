package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/anchor"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/proc"
	"reconciler.dev/reconciler/state"
)

// orphans is what was running when this keeper came up: children of the anchor, if we have one that was there before.
type orphans struct {
	store    *anchor.Store // nil = there is no anchor
	pid      int           // of the anchor, as long as it is our parent
	recorded map[int]bool  // numbers of the processes that live records named; guarded by linux.mu
	unsure   bool          // there are records that cannot be read: any zombie may be of theirs
}

// newOrphans reads who is on record, before anything of it is looked at.
func newOrphans(i *anchor.Inheritance, contents *state.Contents) orphans {
	o := orphans{recorded: map[int]bool{}, unsure: len(contents.Blocked) > 0}
	if i != nil {
		o.store, o.pid = i.Store, i.PID
	}
	for _, r := range contents.Records {
		s := scope{rec: r}
		if run := s.live(); run != nil && run.Identity != nil {
			o.recorded[run.Identity.PID] = true
		}
		for _, e := range s.openPrograms() {
			if e.Program.Identity != nil {
				o.recorded[e.Program.Identity.PID] = true
			}
		}
	}
	return o
}

// anchorLock is the name by which the anchor holds the lock that shows that it lives.
const anchorLock = "keeper/lock"

// meetAnchor tells how we came to be, and gives a new anchor the lock by which whoever would start another knows that one is there. When
// another anchor has it, what is returned is to be claimed again until it is ours.
func meetAnchor(i *anchor.Inheritance, l state.Layout, log *slog.Logger) *anchorClaim {
	if i == nil {
		log.Info("no anchor holds what must outlive this keeper")
		return nil
	}
	if i.Deaths > 0 {
		log.Warn("the keeper before this one has ended, and the anchor has started this one", "end", endOf(i.Last), "deaths", i.Deaths)
	}
	c, err := newAnchorClaim(i, l)
	if err == nil {
		err = c.try()
	}
	if err != nil {
		log.Warn("it cannot be seen from outside that an anchor is there", "error", err)
	}
	return c
}

// endOf is a wait status in words.
func endOf(s syscall.WaitStatus) string {
	if s.Signaled() {
		return unix.SignalName(s.Signal())
	}
	return fmt.Sprintf("exit code %d", s.ExitStatus())
}

// anchorClaim is an anchor's claim to the lock that shows that it lives. Its file is opened once: later no disk is asked.
type anchorClaim struct {
	anchor *anchor.Inheritance
	file   *os.File // nil = the anchor has the lock
}

func newAnchorClaim(i *anchor.Inheritance, l state.Layout) (*anchorClaim, error) {
	f, err := os.OpenFile(l.AnchorLock(), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	return &anchorClaim{anchor: i, file: f}, nil
}

// wanted reports whether the lock is still to be had. For an anchor that is dead it is not.
func (c *anchorClaim) wanted() bool { return c != nil && c.file != nil && os.Getppid() == c.anchor.PID }

// try takes the lock and gives it to the anchor, if that has none: it is of the open file, and lasts until nobody has that.
func (c *anchorClaim) try() error {
	held, err := c.anchor.Store.Get(context.Background(), anchorLock)
	if err == nil {
		return errors.Join(unix.Close(held), c.close())
	}
	if !errors.Is(err, anchor.ErrNone) {
		return err
	}
	if err := unix.FcntlFlock(c.file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		return fmt.Errorf("another anchor has the lock: %w", err)
	}
	if err := c.anchor.Store.Put(context.Background(), anchorLock, int(c.file.Fd())); err != nil {
		return errors.Join(err, unix.FcntlFlock(c.file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK}))
	}
	return c.close()
}

func (c *anchorClaim) close() error {
	if c == nil || c.file == nil {
		return nil
	}
	f := c.file
	c.file = nil
	return f.Close()
}

// Anchored reports whether an anchor lives that starts the keepers of this state directory. Who may not look sees none.
func Anchored(l state.Layout) bool {
	f, err := os.OpenFile(l.AnchorLock(), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock) == nil && lock.Type != unix.F_UNLCK
}

// watchAnchor says so when the anchor dies. We go on; what it held is gone.
func (k *linux) watchAnchor(i *anchor.Inheritance) error {
	if i == nil {
		return nil
	}
	pidfd, err := unix.PidfdOpen(i.PID, 0)
	if err == nil && os.Getppid() != i.PID {
		err = errors.Join(errors.New("it has ended already"), unix.Close(pidfd))
	}
	if err != nil {
		k.log.Error("the anchor cannot be watched", "error", err)
		return nil
	}
	k.anchorFd = pidfd
	return k.loop.Add(pidfd, unix.EPOLLIN, func(uint32) {
		k.loop.Remove(pidfd)
		k.log.Error("the anchor has ended; what runs goes on, but how a run ends may stay unknown when this keeper dies too. "+
			"The next keeper brings a new anchor: end this one with SIGTERM when it suits, nothing that runs is touched", "process", i.PID)
	})
}

func (k *linux) leaveAnchor() error {
	if k.anchorFd < 0 {
		return k.orphans.store.Close()
	}
	k.loop.Remove(k.anchorFd)
	return errors.Join(unix.Close(k.anchorFd), k.orphans.store.Close())
}

// anchored reports whether the anchor is there and has answered last.
func (k *linux) anchored() bool { return os.Getppid() == k.orphans.pid && k.orphans.store.Answers() }

// toldByAnchor is how a process that was there before us has ended, if it is the anchor's child. It leaves the zombie as it is.
func (p *linuxProcess) toldByAnchor(now time.Time) (end state.MainExit, ok bool) {
	if !p.found || p.proc.Alive() != observe.Dead {
		return state.MainExit{}, false
	}
	if p.told != nil {
		return *p.told, true
	}
	told, ended, err := p.kernel.orphans.store.Exit(p.kernel.ctx, p.proc.Fd())
	p.kernel.miss(err)
	if err != nil || !ended { // it is another's child: the process itself is asked
		return state.MainExit{}, false
	}
	p.told = &state.MainExit{Status: &told.Status, From: proc.FromAnchor, CPU: told.CPU, MaxRSS: told.MaxRSS, At: now}
	return *p.told, true
}

// miss says so once when the anchor has died, stopped to answer, or does again.
func (k *linux) miss(err error) {
	away := errors.Is(err, anchor.ErrAway)
	if k.orphans.store == nil || k.anchorAway.Swap(away) == away {
		return
	}
	if away {
		k.log.Error("the anchor does not answer; how a run ends that was there before this keeper may stay unknown meanwhile")
		return
	}
	k.log.Info("the anchor answers again")
}

// leaveToAnchor lets the anchor reap a process whose end is on record. When that fails, it is a stray, and reaped as one.
func (p *linuxProcess) leaveToAnchor() error {
	reaped, err := p.kernel.orphans.store.Reap(p.kernel.ctx, p.proc.Fd())
	p.kernel.miss(err)
	if reaped {
		p.kernel.forget(p.proc.ID.PID)
	}
	if err == nil || errors.Is(err, anchor.ErrAway) || errors.Is(err, anchor.ErrStranger) || p.kernel.ctx.Err() != nil {
		return nil
	}
	return err
}

// forget lets a number be a stray's again.
func (k *linux) forget(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.orphans.recorded, pid)
}

// strayPatience is how long the reaping of one may take: it is nothing that others should wait for.
const strayPatience = 200 * time.Millisecond

// anchorStrays lets the anchor reap dead orphans of no run and counts the living. An error says that it is to be tried again.
func (k *linux) anchorStrays() (living int, err error) {
	if k.orphans.store == nil || k.orphans.unsure || os.Getppid() != k.orphans.pid {
		return 0, nil
	}
	known := func(pid int) bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		_, main := k.mains[pid]
		return main || k.orphans.recorded[pid] || pid == os.Getpid()
	}
	found, _, err := k.proc.StraysOf(k.orphans.pid, known, func(pidfd int) (bool, error) {
		ctx, cancel := context.WithTimeout(k.ctx, strayPatience)
		defer cancel()
		return k.orphans.store.Reap(ctx, pidfd)
	})
	return k.ofNoRun(found), err
}
