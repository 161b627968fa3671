package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/state"
)

// Stray is a living child of ours that is no main process: an orphan of a run, or of nothing that we know.
type Stray struct {
	ID     state.Identity
	Comm   string
	Cgroup string // of version 2, as /proc shows it; "" when it cannot be seen
}

// Strays reaps the dead among our children that known does not know, and lists the living. No child of ours may be
// forked meanwhile (stage.Stager.Quiet): one that is in no books yet would be taken for a stray, and its exit lost.
func (k *Kernel) Strays(known func(pid int) bool) (living []Stray, reaped int, err error) {
	return k.straysOf(os.Getpid(), known, reapChild)
}

// StraysOf is Strays for the children of another process, which reaps one if it has ended and reports whether it had. The pidfd that it is
// given is of whatever process has the number of a child now; that it is a child is for the parent to see.
func (k *Kernel) StraysOf(parent int, known func(pid int) bool, reap func(pidfd int) (bool, error)) (living []Stray, reaped int, err error) {
	return k.straysOf(parent, known, func(pid int) (bool, error) {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("cannot open an orphan: %w", err)
		}
		defer unix.Close(fd)
		if ended, err := hasEnded(fd); err != nil || !ended {
			return false, err
		}
		return reap(fd)
	})
}

func (k *Kernel) straysOf(parent int, known func(pid int) bool, reap func(pid int) (bool, error)) (living []Stray, reaped int, err error) {
	pids, err := children(parent)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot list the children of %d: %w", parent, err)
	}
	for _, pid := range pids {
		if known(pid) {
			continue
		}
		dead, err := reap(pid)
		if err != nil {
			return living, reaped, err
		}
		if dead {
			reaped++
			continue
		}
		if s, ok := k.stray(pid); ok {
			living = append(living, s)
		}
	}
	return living, reaped, nil
}

// reapChild reaps a child if it has ended. Its number is its own as long as it is our unreaped child; else this is
// ECHILD.
func reapChild(pid int) (bool, error) {
	for {
		got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD): // another thread reaped it
			return false, nil
		case err != nil:
			return false, fmt.Errorf("cannot reap an orphan: %w", err)
		}
		return got == pid, nil
	}
}

func (k *Kernel) stray(pid int) (Stray, bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return Stray{}, false
	}
	defer unix.Close(fd)
	id, err := k.Identify(pid, fd)
	if err != nil {
		return Stray{}, false
	}
	s, err := statOf(pid, fd)
	if err != nil {
		return Stray{}, false
	}
	stray := Stray{ID: id, Comm: s.comm}
	if text, err := readOf(pid, "cgroup"); err == nil {
		stray.Cgroup, _ = unifiedPath(string(text))
	}
	return stray, true
}

// children lists the children of all threads of a process; where the kernel has no such list (CONFIG_PROC_CHILDREN), by their
// parent.
func children(parent int) ([]int, error) {
	tasks := fmt.Sprintf("/proc/%d/task", parent)
	threads, err := readNames(tasks)
	if err != nil {
		return nil, err
	}
	var all []int
	read := 0
	for _, t := range threads {
		b, err := os.ReadFile(tasks + "/" + t + "/children")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // the thread ended, or there is no such list
		}
		if err != nil {
			return nil, err
		}
		read++
		for f := range bytes.FieldsSeq(b) {
			if pid, err := strconv.Atoi(string(f)); err == nil {
				all = append(all, pid)
			}
		}
	}
	if read > 0 {
		return all, nil
	}
	procs, err := allProcesses()
	if err != nil {
		return nil, err
	}
	for pid, s := range procs {
		if s.ppid == parent {
			all = append(all, pid)
		}
	}
	return all, nil
}
