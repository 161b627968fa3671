package stage

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// SelfTest finds out whether a process can be born in a fresh cgroup below base (an opened cgroup2 directory), and
// remembers the answer for Hold. Cloned false with a nil error means that a stage has to be moved into its cgroup,
// which works here; an error means that base is of no use for runs.
//
// There are kernels on which CLONE_INTO_CGROUP kills the child at birth, without an error, when the parent's own
// cgroup was ever killed: only trying tells.
func (s *Stager) SelfTest(base *os.File) (cloned bool, err error) {
	if s.tryCgroup(base, true) == nil {
		s.setBorn(true)
		return true, nil
	}
	s.setBorn(false)
	if err := s.tryCgroup(base, false); err != nil {
		return false, fmt.Errorf("cannot start processes in a cgroup below %s: %w", base.Name(), err)
	}
	return false, nil
}

func (s *Stager) setBorn(v bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cloned = v
}

// tryCgroup holds a stage in a cgroup made for it and looks whether it leaves the way it should.
func (s *Stager) tryCgroup(base *os.File, born bool) (err error) {
	name := "selftest-" + rand.Text()
	if err := unix.Mkdirat(int(base.Fd()), name, 0o755); err != nil {
		return fmt.Errorf("mkdir: %w", err)
	}
	defer func() {
		if rerr := unix.Unlinkat(int(base.Fd()), name, unix.AT_REMOVEDIR); rerr != nil {
			err = errors.Join(err, fmt.Errorf("rmdir: %w", rerr))
		}
	}()
	dir, err := unix.Openat(int(base.Fd()), name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)

	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	n := int(null.Fd())
	h, err := s.fork(Spec{Argv: []string{Comm}, Exec: n, Dir: n, Stdio: [3]int{n, n, n}, Cgroup: dir}, born)
	if err != nil {
		return err
	}
	if !born {
		if err := move(h.PID, dir); err != nil {
			return errors.Join(err, h.Kill())
		}
	}
	return h.expectAbort()
}

// expectAbort closes the gate and looks whether the stage noticed, rather than being dead before.
func (h *Held) expectAbort() error {
	h.closeGate()
	if !ended(h.pidfd) {
		return errors.Join(errors.New("the stage did not exit when its gate was closed"), h.Kill())
	}
	status, err := wait(h.PID)
	h.close()
	if err != nil {
		return fmt.Errorf("cannot reap the stage: %w", err)
	}
	if status.ExitStatus() != exitAborted {
		return fmt.Errorf("the stage ended with wait status %#x, not exit code %d", uint32(status), exitAborted)
	}
	return nil
}
