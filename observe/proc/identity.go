package proc

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/state"
)

// The reasons why an identity names no process of now.
var (
	ErrGone         = errors.New("the process is gone")
	ErrOtherBoot    = errors.New("the process was of another boot")
	ErrOtherProcess = errors.New("its number belongs to another process")
	ErrUnverifiable = errors.New("the process cannot be verified")
)

// Identify reads the identity of the process of pidfd, whose number is pid; dead is fine, reaped is ErrGone.
func (k *Kernel) Identify(pid, pidfd int) (state.Identity, error) {
	id := state.Identity{BootID: k.BootID, PID: pid}
	if k.PidfdInode {
		ino, err := inode(pidfd)
		if err != nil {
			return state.Identity{}, fmt.Errorf("cannot identify the process: %w", err)
		}
		id.PidfdInode = ino
	}
	s, err := statOf(pid, pidfd)
	if err != nil {
		return state.Identity{}, fmt.Errorf("cannot identify the process: %w", err)
	}
	id.StartTicks = s.start
	return id, nil
}

// IdentifyChild is Identify for a child that was just forked and that nobody else can reap: where the kernel tells a pidfd's inode the
// start time, by which nobody will know it, is not looked up.
func (k *Kernel) IdentifyChild(pid, pidfd int) (state.Identity, error) {
	if !k.PidfdInode {
		return k.Identify(pid, pidfd)
	}
	ino, err := inode(pidfd)
	if err != nil {
		return state.Identity{}, fmt.Errorf("cannot identify the process: %w", err)
	}
	return state.Identity{BootID: k.BootID, PID: pid, PidfdInode: ino}, nil
}

// Open finds the process that id names; a zombie is found too. Else the error is, or wraps, ErrGone, ErrOtherBoot or
// ErrOtherProcess, which prove that the process is no more, or ErrUnverifiable, which proves nothing.
func (k *Kernel) Open(id state.Identity) (*Process, error) {
	if id.BootID == "" || id.PID <= 0 {
		return nil, fmt.Errorf("%w: its identity is incomplete", ErrUnverifiable)
	}
	if id.BootID != k.BootID {
		return nil, ErrOtherBoot
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil, ErrGone
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT): // a thread of another process has the number
		return nil, ErrOtherProcess
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnverifiable, err)
	}
	if err := k.verify(id, fd); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Process{ID: id, kernel: k, fd: fd}, nil
}

// verify proves that pidfd is of the process that id names.
func (k *Kernel) verify(id state.Identity, pidfd int) error {
	if k.PidfdInode && id.PidfdInode != 0 {
		ino, err := inode(pidfd)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnverifiable, err)
		}
		if ino != id.PidfdInode {
			return ErrOtherProcess
		}
		return nil
	}
	if id.StartTicks == 0 {
		return fmt.Errorf("%w: its start time is not on record", ErrUnverifiable)
	}
	s, err := statOf(id.PID, pidfd)
	if errors.Is(err, ErrGone) {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnverifiable, err)
	}
	if s.start != id.StartTicks {
		return ErrOtherProcess
	}
	return nil
}

// statOf reads the stat of the process of pidfd: what the number tells is its own, for it is found unreaped
// afterwards, and a number is not given away before that.
func statOf(pid, pidfd int) (stat, error) {
	s, err := readStat(pid)
	if reaped(pidfd) {
		return stat{}, ErrGone
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return stat{}, fmt.Errorf("/proc does not show it: %w", err)
	}
	return s, err
}

// reaped reports whether the process of pidfd is no more, not even as a zombie.
func reaped(pidfd int) bool {
	return errors.Is(unix.PidfdSendSignal(pidfd, 0, nil, 0), unix.ESRCH)
}

func inode(fd int) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	return st.Ino, nil
}
