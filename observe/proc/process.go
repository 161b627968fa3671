package proc

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/state"
)

// Process is one process, for ever the same one. It may be used by several goroutines.
type Process struct {
	ID state.Identity

	kernel *Kernel

	mu   sync.RWMutex // held for reading while fd is in use: a closed descriptor's number may be another process's pidfd
	fd   int          // -1 once closed
	exit *state.MainExit
}

// Own makes a Process of a pidfd, which it owns from then on, and the identity that was read of it.
func (k *Kernel) Own(id state.Identity, pidfd int) *Process {
	return &Process{ID: id, kernel: k, fd: pidfd}
}

// Fd is the pidfd, for an epoll: readable when the process has ended. It is -1 once the Process is closed.
func (p *Process) Fd() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.fd
}

// Alive says whether the process lives. A zombie is dead.
func (p *Process) Alive() observe.Liveness {
	p.mu.RLock()
	defer p.mu.RUnlock()
	ended, err := hasEnded(p.fd)
	if err != nil {
		return observe.Unknown
	}
	if ended {
		return observe.Dead
	}
	return observe.Alive
}

// Signal sends sig to the process and no other. ErrGone says that it was reaped; a zombie takes every signal and does
// nothing.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.fd < 0 {
		return os.ErrClosed
	}
	err := unix.PidfdSendSignal(p.fd, sig, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("cannot send %v: %w", sig, err)
	}
	return nil
}

// Comm is the name that the process has for the kernel, at most 15 bytes; a zombie keeps it. The process chooses it
// itself.
func (p *Process) Comm() (string, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.fd < 0 {
		return "", os.ErrClosed
	}
	s, err := statOf(p.ID.PID, p.fd)
	return s.comm, err
}

// Close closes the pidfd. The process is not touched.
func (p *Process) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd < 0 {
		return nil
	}
	err := unix.Close(p.fd)
	p.fd = -1
	return err
}

// hasEnded asks a pidfd whether its process, all threads of it, has ended.
func hasEnded(pidfd int) (bool, error) {
	if pidfd < 0 {
		return false, os.ErrClosed
	}
	for {
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return false, err
		}
		if n > 0 && fds[0].Revents&(unix.POLLIN|unix.POLLHUP) == 0 {
			return false, fmt.Errorf("poll of a pidfd: %#x", fds[0].Revents)
		}
		return n > 0, nil
	}
}
