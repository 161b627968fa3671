package proc

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// signalPasses bounds how often a tree is looked through for processes that were forked meanwhile.
const signalPasses = 8

// SignalTree sends sig to every process of the run, to each once, and to those that it finds forked meanwhile. Each
// is proven to be a member while its pidfd is held (I3). None being there is no error. Errors of single processes are
// joined.
func (g Cgroup) SignalTree(sig syscall.Signal) (sent int, err error) {
	done := make(map[int]bool)
	var failed []error
	for range signalPasses {
		fresh := 0
		err := g.eachMember(func(pid, pidfd int) {
			if done[pid] {
				return
			}
			done[pid] = true
			fresh++
			err := unix.PidfdSendSignal(pidfd, sig, nil, 0)
			switch {
			case err == nil:
				sent++
			case !errors.Is(err, unix.ESRCH):
				failed = append(failed, fmt.Errorf("cannot send %v to a process of the run: %w", sig, err))
			}
		})
		if err != nil {
			return sent, errors.Join(append(failed, err)...)
		}
		if fresh == 0 {
			break
		}
	}
	return sent, errors.Join(failed...)
}

// membersAtOnce bounds the descriptors that a look through a run's processes takes: a run that forks without end must
// not take those of others.
const membersAtOnce = 256

// eachMember calls fn for every process of the run with a pidfd that is proven to be of a member.
func (g Cgroup) eachMember(fn func(pid, pidfd int)) error {
	return g.walk(func(dir string) error {
		listed, err := g.list(dir)
		if err != nil {
			return err
		}
		for some := range slices.Chunk(listed, membersAtOnce) {
			if err := g.prove(dir, some, fn); err != nil {
				return err
			}
		}
		return nil
	})
}

// prove calls fn for those whose number is listed after the pidfd was opened and before the process was seen
// unreaped: so it was listed for this very process.
func (g Cgroup) prove(dir string, listed []int, fn func(pid, pidfd int)) error {
	pidfds := make(map[int]int, len(listed))
	defer func() {
		for _, fd := range pidfds {
			unix.Close(fd)
		}
	}()
	for _, pid := range listed {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			continue // gone, or already a thread of another process
		}
		if err != nil {
			return fmt.Errorf("cannot open a process of the run: %w", err)
		}
		pidfds[pid] = fd
	}
	again, err := g.list(dir)
	if err != nil {
		return err
	}
	for _, pid := range again {
		if fd, ok := pidfds[pid]; ok && !reaped(fd) {
			fn(pid, fd)
		}
	}
	return nil
}

// list lists the processes in one directory.
func (g Cgroup) list(dir string) ([]int, error) {
	b, err := g.all.read(path.Join(dir, "cgroup.procs"))
	if isRemoved(err) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	return pids(b), err
}

// killTime bounds the loop that kills where there is no cgroup.kill, killPause is its rest when all are dying already.
const (
	killTime  = time.Second
	killPause = time.Millisecond
)

// Kill kills every process of the run, those forked meanwhile too. That they are gone is for Populated to say: death
// may take a while. Nothing may be started in the cgroup afterwards.
func (g Cgroup) Kill() error {
	err := g.all.write(path.Join(g.path, "cgroup.kill"), "1")
	if err == nil {
		return nil
	}
	if !isRemoved(err) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("cannot kill the run's cgroup: %w", err)
	}
	return g.killLoop()
}

// killLoop kills member by member until none is left or the time is up.
func (g Cgroup) killLoop() error {
	killed := make(map[int]bool)
	for until := time.Now().Add(killTime); ; {
		populated, err := g.Populated()
		if err != nil || !populated {
			return err
		}
		if time.Now().After(until) {
			return ErrPopulated
		}
		fresh := false
		var failed []error
		err = g.eachMember(func(pid, pidfd int) {
			fresh = fresh || !killed[pid]
			killed[pid] = true
			if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
				failed = append(failed, err)
			}
		})
		if err := errors.Join(append(failed, err)...); err != nil {
			return fmt.Errorf("cannot kill the run: %w", err)
		}
		if !fresh {
			time.Sleep(killPause)
		}
	}
}
