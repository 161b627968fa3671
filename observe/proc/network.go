package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// InNetwork calls do in the network namespace of the process, on this goroutine: the sockets that do makes on it, and the tables
// that [Receivers] reads there, are of that network. For a process of our own network, as nearly all are, it is a plain call.
// Else it needs CAP_SYS_ADMIN there and here. do is not called if there is an error; ErrUnseen says that we may not even see which
// network the process has.
func (p *Process) InNetwork(do func()) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.fd < 0 {
		return os.ErrClosed
	}
	theirs, err := p.network()
	if err != nil {
		return err
	}
	ours, err := networkOf("self")
	if err != nil {
		return fmt.Errorf("cannot learn our own network: %w", err)
	}
	if theirs == ours {
		do()
		return nil
	}
	return inNetworkOf(p.fd, do)
}

// Network names the network namespace of the process; only equality means something. ErrUnseen says that we may not see it,
// ErrGone that it has ended.
func (p *Process) Network() (FileID, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.fd < 0 {
		return FileID{}, os.ErrClosed
	}
	return p.network()
}

// network is Network for who has the process locked.
func (p *Process) network() (FileID, error) {
	id, err := networkOf(strconv.Itoa(p.ID.PID))
	switch {
	case reaped(p.fd), errors.Is(err, fs.ErrNotExist): // its number may be another's; and a zombie is in no network
		return FileID{}, ErrGone
	case errors.Is(err, fs.ErrPermission):
		return FileID{}, fmt.Errorf("%w: %w", ErrUnseen, err)
	case err != nil:
		return FileID{}, fmt.Errorf("cannot learn the network of the process: %w", err)
	}
	return id, nil
}

// networkOf is the network namespace of a process; only equality means something.
func networkOf(pid string) (FileID, error) { return FileIDOf("/proc/" + pid + "/ns/net") }

// inNetworkOf moves the thread into the network of a pidfd's process, and back.
func inNetworkOf(pidfd int, do func()) error {
	runtime.LockOSThread()
	home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("cannot open our own network: %w", err)
	}
	defer unix.Close(home) // nothing was written to it
	if err := unix.Setns(pidfd, unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("cannot enter the network of the process: %w", err)
	}
	do()
	if unix.Setns(home, unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread()
	}
	return nil // else the thread ends with its goroutine: nobody gets it
}
