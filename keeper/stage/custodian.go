package stage

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Custodian is a process of the stage's program that keeps the master side of a terminal for whoever connects to a door, which is
// a listening SOCK_SEQPACKET socket. Who connects is sent the master beside one byte, and has the custodian to itself until it
// hangs up; a byte from it ends the custodian. While nobody is connected, the custodian ends by itself once the terminal was
// closed everywhere and holds nothing that is unread. It takes no notice of its starter's end.
type Custodian struct {
	PID int

	pidfd int
}

// CustodianComm is the name of custodians (prctl PR_SET_NAME).
const CustodianComm = "reconciler-tty"

// Custodian forks a custodian, in a session of its own and in the caller's cgroup. Both descriptors stay the caller's. That it has
// taken the terminal is known when it has sent it. The custodian is the caller's child; [Custodian.End] ends and reaps it.
func (s *Stager) Custodian(master, door int) (*Custodian, error) {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot start a custodian: %w", err)
	}
	defer unix.Close(null)
	h, err := s.fork(Spec{Exec: master, Argv: []string{CustodianComm}, Dir: door, Stdio: [3]int{null, null, null}, Cgroup: -1}, false)
	if err != nil {
		return nil, fmt.Errorf("cannot start a custodian: %w", err)
	}
	h.word = []byte("T")
	err = s.fault(StepSend)
	if err == nil {
		err = h.send()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot start a custodian: %w", err), h.Kill())
	}
	pidfd, err := h.Dup()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot keep a pidfd: %w", err), h.Kill())
	}
	h.close()
	return &Custodian{PID: h.PID, pidfd: pidfd}, nil
}

// End kills the custodian, unless it has ended, and reaps it: whoever has the master besides keeps it. An error means that it did
// not die in time, and End may be called again.
func (c *Custodian) End() error {
	if c.pidfd < 0 {
		return nil
	}
	err := kill(c.pidfd)
	if err == nil {
		err = reap(c.pidfd)
	}
	if err != nil {
		return fmt.Errorf("cannot end a custodian: %w", err)
	}
	unix.Close(c.pidfd)
	c.pidfd = -1
	return nil
}
