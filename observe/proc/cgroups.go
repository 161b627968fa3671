package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The layout below our own cgroup. No controller is ever enabled within a run: those of a run are on its cgroup itself, which
// may therefore hold processes beside cgroups, as one with controllers for those below it may not (cgroups(7)).
//
//	OWN/reconciler/RUN           the main process and what it forks
//	OWN/reconciler/RUN/cmd-N     commands
//	OWN/reconciler/RUN/probe-X   the program of a probe
const (
	baseName    = "reconciler"
	leafPrefix  = "cmd-"
	probePrefix = "probe-"
)

// ErrNoCgroups says that runs cannot have cgroups here.
var ErrNoCgroups = errors.New("no cgroups for runs on this host")

// Cgroups is the place below which we may make cgroups. A cgroup of a run is named by its path below the cgroup2
// mount, and no descriptor is held for it.
type Cgroups struct {
	mount *os.File // the mounted directory, which all paths are relative to
	base  *os.File
	path  string // of base
	kill  bool
}

// FindCgroups finds our own cgroup and makes the base for runs in it. An error wraps ErrNoCgroups and says why.
// That processes can be started in the base is for a trial to say (stage.Stager.SelfTest).
func (k *Kernel) FindCgroups() (*Cgroups, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCgroups, err)
	}
	own, ok := unifiedPath(string(text))
	if !ok {
		return nil, fmt.Errorf("%w: we are in no cgroup of version 2", ErrNoCgroups)
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCgroups, err)
	}
	err = errors.New("cgroup2 is not mounted where we see it")
	for _, p := range places(string(mountinfo), own) {
		var c *Cgroups
		if c, err = openBase(p); err == nil {
			k.Cgroups, k.CgroupKill = true, c.kill
			return c, nil
		}
	}
	return nil, fmt.Errorf("%w: %w", ErrNoCgroups, err)
}

// openBase opens a place and makes the base in it.
func openBase(p place) (_ *Cgroups, err error) {
	c := &Cgroups{path: path.Join(p.rel, baseName)}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if c.mount, err = os.Open(p.mount); err != nil {
		return nil, err
	}
	var sfs unix.Statfs_t
	if err := unix.Fstatfs(int(c.mount.Fd()), &sfs); err != nil {
		return nil, err
	}
	if sfs.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil, errors.New("something is mounted over cgroup2")
	}
	// The proof that the two files of /proc were read right.
	procs, err := c.read(path.Join(p.rel, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	if !slices.Contains(pids(procs), os.Getpid()) {
		return nil, errors.New("our own cgroup is not where /proc says")
	}
	if err := unix.Mkdirat(int(c.mount.Fd()), c.path, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("cannot make a cgroup in our own (delegate it to the user: systemd's Delegate=yes): %w", err)
	}
	fd, err := unix.Openat(int(c.mount.Fd()), c.path, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	c.base = os.NewFile(uintptr(fd), path.Join(p.mount, c.path))
	for _, file := range []string{".", "cgroup.procs"} {
		if err := unix.Faccessat(fd, file, unix.W_OK, unix.AT_EACCESS); err != nil {
			return nil, fmt.Errorf("the cgroup %s is another user's: %w", c.base.Name(), err)
		}
	}
	c.kill = unix.Faccessat(fd, "cgroup.kill", unix.W_OK, 0) == nil
	return c, nil
}

// Base is the opened base directory, for a trial.
func (c *Cgroups) Base() *os.File { return c.base }

// Close closes what is held. The cgroups stay.
func (c *Cgroups) Close() error {
	var err error
	if c.base != nil {
		err = c.base.Close()
	}
	if c.mount != nil {
		err = errors.Join(err, c.mount.Close())
	}
	return err
}

// Name is the path of the cgroup that a run of this id shall have. It may be written down before there is one.
func (c *Cgroups) Name(run string) string { return path.Join(c.path, run) }

// Runs lists the ids for which there is a cgroup in the base.
func (c *Cgroups) Runs() ([]string, error) {
	names, err := c.subdirectories(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

// Leaf is the path of a command's leaf in the cgroup of a run, by the command's number in it.
func Leaf(run string, number int64) string {
	return path.Join(run, leafPrefix+strconv.FormatInt(number, 10))
}

// ProbeLeaf is the path of the leaf of a probe's program in the cgroup of a run, by the name of what it asks.
func ProbeLeaf(run, name string) string { return path.Join(run, probePrefix+name) }

// Cgroup is a run's cgroup, or a program's leaf in it, by its path, whether it is there or not. The path must be one that Name,
// Leaf or ProbeLeaf made, of this or an earlier keeper's base.
func (c *Cgroups) Cgroup(name string) (Cgroup, error) {
	dir := path.Dir(name)
	switch {
	case fs.ValidPath(name) && path.Base(dir) == baseName,
		fs.ValidPath(name) && path.Base(path.Dir(dir)) == baseName && isLeaf(path.Base(name)):
		return Cgroup{all: c, path: name}, nil
	}
	return Cgroup{}, fmt.Errorf("%q is no cgroup of a run", name)
}

func isLeaf(name string) bool {
	return strings.HasPrefix(name, leafPrefix) || strings.HasPrefix(name, probePrefix)
}

// from is where the way to a cgroup, or to a file of one, is shortest: the base, for what is below it. cgroup2 looks at every
// directory on the way anew, which is a third of what opening one of its files costs.
func (c *Cgroups) from(name string) (dir int, rest string) {
	if n := len(c.path); c.base != nil && len(name) > n && name[n] == '/' && name[:n] == c.path {
		return int(c.base.Fd()), name[n+1:]
	}
	return int(c.mount.Fd()), name
}

// read reads a file of a cgroup.
func (c *Cgroups) read(name string) ([]byte, error) {
	return readAt(c.from(name))
}

// write writes a file of a cgroup.
func (c *Cgroups) write(name, value string) error {
	dir, rest := c.from(name)
	fd, err := unix.Openat(dir, rest, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(value)); err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

// leafLinks is how many links a directory has that holds none: cgroup2 counts each one's ".." (kernfs,
// fs/kernfs/inode.c).
const leafLinks = 2

// subdirectories lists the cgroups in a cgroup.
func (c *Cgroups) subdirectories(name string) ([]string, error) {
	links, err := c.links(name)
	if err != nil {
		return nil, err
	}
	if links == leafLinks { // nearly always: a list has twenty files besides
		return nil, nil
	}
	dir, rest := c.from(name)
	fd, err := unix.Openat(dir, rest, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// links is how many links a cgroup's directory has; see [leafLinks].
func (c *Cgroups) links(name string) (uint64, error) {
	dir, rest := c.from(name)
	var st unix.Stat_t
	if err := unix.Fstatat(dir, rest, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return 0, &fs.PathError{Op: "stat", Path: name, Err: unix.ENOTDIR}
	}
	return uint64(st.Nlink), nil
}

// pids parses cgroup.procs. A process of an outer pid namespace is listed as 0: it is nothing to us.
func pids(b []byte) []int {
	var l []int
	for f := range bytes.FieldsSeq(b) {
		if pid, err := strconv.Atoi(string(f)); err == nil && pid > 0 {
			l = append(l, pid)
		}
	}
	return l
}

// RunsOf are the runs in one of whose cgroups /proc may have a process: hints, of which [Cgroup.Members] proves one.
func (c *Cgroups) RunsOf(pid int) []string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return nil
	}
	path, ok := unifiedPath(string(text))
	if !ok {
		return nil
	}
	// The path begins where the reader's cgroup namespace does, the base's where the mount does: only what is below compares.
	var runs []string
	parts := strings.Split(path, "/")
	for i, part := range parts[:len(parts)-1] {
		if part == baseName {
			runs = append(runs, parts[i+1])
		}
	}
	return runs
}
