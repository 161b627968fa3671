package terminal

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Size is that of a terminal, in characters.
type Size struct{ Rows, Columns uint16 }

// Error says that a run cannot have a terminal. Its text is public: it names no path of this host and says what to do.
type Error struct {
	Op     string
	Remedy string // "" = none is known
	Err    error
}

// Error is one sentence.
func (e *Error) Error() string {
	text := "cannot " + e.Op
	var errno unix.Errno
	if errors.As(e.Err, &errno) {
		text += ": " + errno.Error()
	}
	if e.Remedy != "" {
		text += ": " + e.Remedy
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

const opOpen = "make a terminal"

// openMaster makes a terminal, open at its master side, close-on-exec and without blocking.
func openMaster() (int, error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC | unix.O_NONBLOCK
	fd, err := unix.Open("/dev/ptmx", flags, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENXIO) { // a /dev with nothing but a devpts of its own
		fd, err = unix.Open("/dev/pts/ptmx", flags, 0)
	}
	if err != nil {
		return -1, openError(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return -1, errors.Join(&Error{Op: opOpen, Err: err}, unix.Close(fd))
	}
	return fd, nil
}

func openError(err error) error {
	e := &Error{Op: opOpen, Err: err}
	switch {
	case errors.Is(err, unix.ENOSPC):
		e.Remedy = "all terminals of this host are taken: raise the sysctl kernel.pty.max"
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		e.Remedy = "let the keeper open /dev/ptmx, and have devpts mounted at /dev/pts"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		e.Remedy = "raise the limit of open files"
	}
	return e
}

// openSlave opens the other side of a master's terminal, whatever names there are in the file system (TIOCGPTPEER, Linux 4.13).
func openSlave(master int) (int, error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno != 0 {
		return -1, fmt.Errorf("cannot open the other side of a terminal: %w", errno)
	}
	return int(fd), nil
}

// prepare makes a fresh terminal one of a user.
func prepare(slave int, size Size, uid, gid int) error {
	if err := unix.Fchmod(slave, 0o600); err != nil {
		return err
	}
	if err := unix.Fchown(slave, uid, gid); err != nil {
		return err
	}
	mode, err := unix.IoctlGetTermios(slave, unix.TCGETS)
	if err != nil {
		return err
	}
	mode.Iflag |= unix.IUTF8
	if err := unix.IoctlSetTermios(slave, unix.TCSETS, mode); err != nil {
		return err
	}
	return resize(slave, size)
}

func resize(fd int, size Size) error {
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Columns})
}

// hungUp reports whether nobody has the other side open.
func hungUp(master int) bool {
	fds := []unix.PollFd{{Fd: int32(master)}}
	for {
		_, err := unix.Poll(fds, 0)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && fds[0].Revents&unix.POLLHUP != 0
		}
	}
}
