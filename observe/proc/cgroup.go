package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe"
)

// Cgroup is the cgroup of a run, or the leaf of a command in it, by name. The zero value is none.
type Cgroup struct {
	all  *Cgroups
	path string
}

// Path is the path below the cgroup2 mount (state.Run.Cgroup).
func (g Cgroup) Path() string { return g.path }

// Create makes the cgroup, which must not be there (fs.ErrExist).
func (g Cgroup) Create() error {
	dir, rest := g.all.from(g.path)
	if err := unix.Mkdirat(dir, rest, 0o755); err != nil {
		return fmt.Errorf("cannot make the run's cgroup: %w", err)
	}
	return nil
}

// Open opens the cgroup for stage.Spec. The caller closes it.
func (g Cgroup) Open() (int, error) {
	dir, rest := g.all.from(g.path)
	fd, err := unix.Openat(dir, rest, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: g.path, Err: err}
	}
	return fd, nil
}

// Populated reports whether a process lives in it or below; zombies do not count. One that is not there is empty.
func (g Cgroup) Populated() (bool, error) {
	b, err := g.all.read(path.Join(g.path, "cgroup.events"))
	if isRemoved(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	n, ok := keyed(b, "populated")
	if !ok {
		return false, errors.New("cgroup.events does not say whether the cgroup is populated")
	}
	return n != 0, nil
}

// Tree is what is left of the run: Empty or Populated, and how many processes; Unknown only with an error.
func (g Cgroup) Tree() (observe.Tree, error) {
	populated, err := g.Populated()
	if err != nil {
		return observe.Tree{State: observe.TreeUnknown}, err
	}
	if !populated {
		return observe.Tree{State: observe.TreeEmpty}, nil
	}
	members, err := g.Members()
	if err != nil {
		return observe.Tree{State: observe.TreeUnknown}, err
	}
	return observe.Tree{State: observe.TreePopulated, Count: len(members)}, nil
}

// Members lists the numbers of the processes in it and below. They are hints, and no right to signal anything.
func (g Cgroup) Members() ([]int, error) {
	var all []int
	err := g.walk(func(dir string) error {
		b, err := g.all.read(path.Join(dir, "cgroup.procs"))
		if errors.Is(err, unix.EOPNOTSUPP) { // a threaded cgroup: its domain lists the process
			return nil
		}
		if isRemoved(err) {
			return nil
		}
		all = append(all, pids(b)...)
		return err
	})
	return all, err
}

// maxDepth bounds a walk into cgroups that a workload made itself.
const maxDepth = 32

// walk calls fn for the cgroup and all below, parents first.
func (g Cgroup) walk(fn func(dir string) error) error {
	var visit func(dir string, depth int) error
	visit = func(dir string, depth int) error {
		if err := fn(dir); err != nil {
			return err
		}
		names, err := g.all.subdirectories(dir)
		if isRemoved(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(names) > 0 && depth == maxDepth {
			return fmt.Errorf("cgroups are nested more than %d deep", maxDepth)
		}
		for _, n := range names {
			if err := visit(path.Join(dir, n), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return visit(g.path, 0)
}

// OOMKills counts the processes of the run that the kernel killed for lack of memory; ok is false where no memory
// controller counts them.
func (g Cgroup) OOMKills() (n int64, ok bool) {
	b, err := g.all.read(path.Join(g.path, "memory.events"))
	if err != nil {
		return 0, false
	}
	return keyed(b, "oom_kill")
}

// removeTries and removePause bound the wait for a cgroup whose last process is just leaving.
const (
	removeTries = 6
	removePause = time.Millisecond // doubled each time
)

// ErrPopulated says that a cgroup has processes and was left as it is.
var ErrPopulated = errors.New("the run's cgroup has processes")

// Remove removes the cgroup and all below; what is not there is no error. One that has processes stays as it is
// (ErrPopulated).
func (g Cgroup) Remove() error {
	pause := removePause
	for try := 1; ; try++ {
		populated, err := g.Populated()
		if err != nil {
			return fmt.Errorf("cannot remove the run's cgroup: %w", err)
		}
		if populated {
			return ErrPopulated
		}
		err = g.removeOnce()
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || try == removeTries {
			return fmt.Errorf("cannot remove the run's cgroup: %w", err)
		}
		time.Sleep(pause)
		pause *= 2
	}
}

// removeOnce removes children before their parents.
func (g Cgroup) removeOnce() error {
	var dirs []string
	if err := g.walk(func(dir string) error { dirs = append(dirs, dir); return nil }); err != nil {
		return err
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		dir, rest := g.all.from(dirs[i])
		err := unix.Unlinkat(dir, rest, unix.AT_REMOVEDIR)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

// isRemoved reports whether err says that the cgroup is not there; one that is removed while its file is open says
// ENODEV.
func isRemoved(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

// keyed finds a number in a flat keyed file of a cgroup: one "name value" a line.
func keyed(b []byte, name string) (int64, bool) {
	for line := range bytes.Lines(b) {
		key, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if ok && string(key) == name {
			n, err := strconv.ParseInt(string(value), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
