package proc

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/proc/wait"
	"reconciler.dev/reconciler/state"
)

// Where an exit is known from, or why it is not (state.MainExit.From).
const (
	FromWait       = "Wait"       // we are the parent
	FromPidfdInfo  = "PidfdInfo"  // the kernel told the holder of a pidfd
	FromZombieStat = "ZombieStat" // field 52 of /proc/PID/stat
	FromAnchor     = "Anchor"     // the parent is the keeper's anchor, and has told

	UnknownNotTold   = "NotTold"   // reaped by another, and this kernel tells only the parent
	UnknownHidden    = "Hidden"    // a zombie of another parent, whose stat says 0 to whoever may not know
	UnknownUnread    = "Unread"    // a zombie of another parent, whose stat cannot be read
	UnknownPidfdGone = "Closed"    // asked of a closed Process
	UnknownNotFound  = "NotFound"  // the process was gone when we came: see NotFound
	UnknownOtherBoot = "OtherBoot" // the host was rebooted meanwhile: see NotFound
)

// NotFound is the exit of a process that Open proved to be no more; err is Open's.
func NotFound(err error, now time.Time) state.MainExit {
	if errors.Is(err, ErrOtherBoot) {
		return state.MainExit{From: UnknownOtherBoot, At: now}
	}
	return state.MainExit{From: UnknownNotFound, At: now}
}

// Exit says how the process ended and leaves it as it is, so that the exit can be written down before Reap. Settled
// is false while it lives, and while a later call may say more: a zombie of another parent whose status is hidden
// from us until that parent reaps it, which makes the pidfd report a hangup (POLLHUP). A settled exit is told the
// same way for ever.
func (p *Process) Exit(now time.Time) (exit state.MainExit, settled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exit != nil {
		return *p.exit, true
	}
	exit, settled = p.readExit()
	exit.At = now
	if settled {
		p.exit = &exit
	}
	return exit, settled
}

// readExit asks those who may know, best first.
func (p *Process) readExit() (exit state.MainExit, settled bool) {
	if p.fd < 0 {
		return state.MainExit{From: UnknownPidfdGone}, false
	}
	exit, err := waitExit(p.fd, wait.Exited|wait.NoWait|wait.NoHang)
	if err == nil {
		return exit, exit.Status != nil
	}
	// Not our child, or not any more.
	if ended, err := hasEnded(p.fd); err != nil || !ended {
		return state.MainExit{}, false
	}
	if status, ok := infoExit(p.fd); ok {
		return state.MainExit{Status: &status, From: FromPidfdInfo}, true
	}
	s, err := statOf(p.ID.PID, p.fd)
	if errors.Is(err, ErrGone) {
		// It may have been reaped between the two looks.
		if status, ok := infoExit(p.fd); ok {
			return state.MainExit{Status: &status, From: FromPidfdInfo}, true
		}
		return state.MainExit{From: UnknownNotTold}, true
	}
	if err != nil {
		return state.MainExit{From: UnknownUnread}, false
	}
	// Zero is also what the kernel shows to those who may not know (ptrace access mode, proc_pid_stat(5)).
	if s.exit == 0 && !p.kernel.Ptrace {
		return state.MainExit{From: UnknownHidden, CPU: s.cpu}, false
	}
	return state.MainExit{Status: &s.exit, From: FromZombieStat, CPU: s.cpu}, true
}

// Reap lets the kernel forget an ended child of ours; nil when it is another's or was reaped before. The exit must be
// on record by then: it is read before, and kept by this Process, if that was not done yet.
func (p *Process) Reap() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd < 0 {
		return nil
	}
	if p.exit == nil {
		if exit, settled := p.readExit(); settled {
			exit.At = time.Now()
			p.exit = &exit
		}
	}
	_, err := waitExit(p.fd, wait.Exited|wait.NoHang)
	if err != nil && !errors.Is(err, unix.ECHILD) {
		return fmt.Errorf("cannot reap the process: %w", err)
	}
	return nil
}

// waitExit is waitid of one child. A nil Status without an error means that it has not ended.
func waitExit(pidfd, options int) (state.MainExit, error) {
	end, ended, err := wait.Pidfd(pidfd, options)
	if err != nil || !ended {
		return state.MainExit{}, err
	}
	return state.MainExit{Status: &end.Status, From: FromWait, CPU: end.CPU, MaxRSS: end.MaxRSS}, nil
}

// infoExit asks the kernel for the exit of a reaped process.
func infoExit(pidfd int) (status uint32, ok bool) {
	in := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	if unix.IoctlPidfdInfo(pidfd, &in) != nil || in.Mask&unix.PIDFD_INFO_EXIT == 0 {
		return 0, false
	}
	return uint32(in.Exit_code), true
}
