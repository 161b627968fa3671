package terminal

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/stage"
)

// Stager starts custodians. It is a [stage.Stager].
type Stager interface {
	Custodian(master, door int) (*stage.Custodian, error)
}

// ErrGone says that the terminal is no more: it was ended, or nobody has it open.
var ErrGone = errors.New("nobody has the terminal open")

// Terminal is a run's terminal, by its master side. Its methods may be called by several goroutines.
type Terminal struct {
	folder string

	mu        sync.Mutex
	master    int              // -1 = closed
	conn      int              // to the custodian; -1 = closed
	custodian *stage.Custodian // ours to reap; nil = a predecessor's
}

// Open makes a terminal for a run whose private folder this is, and its custodian. slave is its other side, for the run: it is the
// caller's to close. The error is an [Error].
func Open(s Stager, folder string, size Size, uid, gid int) (t *Terminal, slave int, err error) {
	master, err := openMaster()
	if err != nil {
		return nil, -1, err
	}
	slave, err = openSlave(master)
	if err == nil {
		err = prepare(slave, size, uid, gid)
	}
	if err != nil {
		return nil, -1, errors.Join(&Error{Op: opOpen, Err: err}, closeAll(master, slave))
	}
	t = &Terminal{folder: folder, master: master, conn: -1}
	if err := t.entrust(s); err != nil {
		return nil, -1, errors.Join(&Error{
			Op: "keep a terminal beyond this keeper's end", Err: err, Remedy: "the keeper's log says more; without `spec.console.tty` the run needs none",
		}, closeAll(master, slave))
	}
	return t, slave, nil
}

// entrust starts a custodian and fetches the terminal from it, as a successor would.
func (t *Terminal) entrust(s Stager) error {
	door, err := makeDoor(t.folder)
	if err != nil {
		return err
	}
	custodian, err := s.Custodian(t.master, door)
	err = errors.Join(err, unix.Close(door)) // it has its own
	if err != nil {
		return errors.Join(err, endIf(custodian), removeDoor(t.folder))
	}
	conn, again, err := call(t.folder)
	if err != nil {
		return errors.Join(err, custodian.End(), removeDoor(t.folder))
	}
	t.conn, t.custodian = conn, custodian
	return unix.Close(again)
}

func endIf(c *stage.Custodian) error {
	if c == nil {
		return nil
	}
	return c.End()
}

// Take fetches the terminal of a run from its custodian.
func Take(folder string) (*Terminal, error) {
	conn, master, err := call(folder)
	if err != nil {
		return nil, err
	}
	return &Terminal{folder: folder, master: master, conn: conn}, nil
}

// Conn is the connection to the custodian, on which nothing ever comes but the custodian's end. It is -1 once the terminal is closed.
func (t *Terminal) Conn() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conn
}

// Renew gives the terminal another custodian when its own has ended, by somebody's hand. The caller has let go of Conn.
func (t *Terminal) Renew(s Stager) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master < 0 {
		return ErrGone
	}
	err := errors.Join(closeAll(t.conn), endIf(t.custodian), removeDoor(t.folder))
	t.conn, t.custodian = -1, nil
	if err != nil {
		return err
	}
	return t.entrust(s)
}

// Close lets go of the terminal: its custodian keeps it for the next. Nothing happens to the run.
func (t *Terminal) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := closeAll(t.conn, t.master)
	t.conn, t.master = -1, -1
	return err
}

// End ends the terminal: its custodian ends, and whoever still has it open is hung up once the pump's descriptor is closed too. An
// error leaves what it is about, and End may be called again.
func (t *Terminal) End() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.custodian != nil {
		if err := t.custodian.End(); err != nil {
			return err
		}
	} else if t.conn >= 0 {
		dismiss(t.conn)
	}
	err := errors.Join(closeAll(t.conn, t.master), removeDoor(t.folder))
	t.conn, t.master = -1, -1
	return err
}

// dismiss ends a custodian that is another's child, which reaps it. One that has ended is fine.
func dismiss(conn int) {
	_ = unix.Sendto(conn, []byte{'E'}, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, nil)
}

// EndIn ends the terminal of a run that nobody has taken over, if there is one. It is no error that nobody answers at the door.
func EndIn(folder string) error {
	if !HasDoor(folder) {
		return nil
	}
	if t, err := Take(folder); err == nil {
		return t.End()
	}
	return removeDoor(folder)
}

// Reader is a descriptor of the master side to read from, close-on-exec and without blocking. It is the caller's.
func (t *Terminal) Reader() (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master < 0 {
		return -1, ErrGone
	}
	fd, err := unix.FcntlInt(uintptr(t.master), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return -1, fmt.Errorf("cannot have another descriptor of a terminal: %w", err)
	}
	return fd, nil
}

// Resize changes the size. The kernel tells the processes in the foreground (SIGWINCH) when it is another than before.
func (t *Terminal) Resize(size Size) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master < 0 {
		return ErrGone
	}
	if err := resize(t.master, size); err != nil {
		return fmt.Errorf("cannot resize a terminal: %w", err)
	}
	return nil
}

// Redraw is Resize that tells the processes in the foreground in any case, so that they draw their screen anew: when the size is the one
// that it was, it is another for a moment.
func (t *Terminal) Redraw(size Size) error {
	other := size
	if other.Rows++; other.Rows > maxRows {
		other.Rows = size.Rows - 1
	}
	return errors.Join(t.Resize(other), t.Resize(size))
}

// maxRows is the most rows that a terminal is given.
const maxRows = 1000

// Unread reports whether input waits that the run has not read: a whole line, or anything at all where the run reads keys. It fails
// with [ErrGone] when nobody could read it.
func (t *Terminal) Unread() (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master < 0 || hungUp(t.master) {
		return false, ErrGone
	}
	// The master does not tell what the other side has not read. This opens that for a moment, as it is open anyway.
	slave, err := openSlave(t.master)
	if err != nil {
		return false, err
	}
	defer unix.Close(slave)
	fds := []unix.PollFd{{Fd: int32(slave), Events: unix.POLLIN}}
	if err := again(func() error { _, err := unix.Poll(fds, 0); return err }); err != nil { // it also brings in what is on its way
		return false, err
	}
	n, err := unix.IoctlGetInt(slave, unix.TIOCINQ)
	return fds[0].Revents&unix.POLLIN != 0 || n > 0, err
}

// DropTyped drops what was typed without the end of its line, as the terminal's kill character does (termios(3), VKILL). It does nothing
// where there is no such character, and where the run reads keys: those are with it.
func (t *Terminal) DropTyped() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master < 0 || hungUp(t.master) {
		return ErrGone
	}
	mode, err := unix.IoctlGetTermios(t.master, unix.TCGETS) // of the run's side, on either
	if err != nil {
		return err
	}
	kill := mode.Cc[unix.VKILL]
	if mode.Lflag&unix.ICANON == 0 || kill == 0 {
		return nil
	}
	return again(func() error { _, err := unix.Write(t.master, []byte{kill}); return err })
}

// Mode is what becomes of what is typed.
type Mode uint8

// The modes.
const (
	Echo Mode = iota // the terminal shows it
	Mute             // it does not, and the run reads whole lines: a password is asked for (getpass(3))
	Raw              // it does not, as the run reads keys, and shows what it likes
)

// Mode is the terminal's now.
func (t *Terminal) Mode() (Mode, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master < 0 || hungUp(t.master) {
		return 0, ErrGone
	}
	mode, err := unix.IoctlGetTermios(t.master, unix.TCGETS) // of the run's side, on either
	switch {
	case err != nil:
		return 0, fmt.Errorf("cannot look at a terminal: %w", err)
	case mode.Lflag&unix.ECHO != 0:
		return Echo, nil
	case mode.Lflag&unix.ICANON != 0:
		return Mute, nil
	}
	return Raw, nil
}

// Write writes input for the run and never blocks. Less than all is written only where the run has left thousands of bytes unread, then
// the error is EAGAIN.
func (t *Terminal) Write(b []byte) (done int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master < 0 || hungUp(t.master) {
		return 0, ErrGone
	}
	for done < len(b) { // the kernel takes 2 KiB at a time, and a signal may come between
		n, err := unix.Write(t.master, b[done:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return done, err
		case n == 0:
			return done, unix.EAGAIN
		}
		done += max(n, 0)
	}
	return done, nil
}

func closeAll(fds ...int) error {
	var errs []error
	for _, fd := range fds {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}
