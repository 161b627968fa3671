package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/console"
	"reconciler.dev/reconciler/keeper/pump"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/state"
)

// The FIFOs in a run's folder.
const (
	fifoStdin  = "stdin"
	fifoStdout = "stdout"
	fifoStderr = "stderr"
)

var fifoNames = []string{fifoStdin, fifoStdout, fifoStderr}

// runFolders is where runs have their folders. A FIFO's name must last as long as the boot, and making one on a disk may cost
// more than the whole start: so root's are in memory, where nothing but root takes them away. Other users' are not, as
// a login manager may empty their memory directories behind them (logind.conf, RemoveIPC).
func runFolders(l state.Layout) []string {
	dirs := []string{l.Runs()}
	if os.Geteuid() != 0 {
		return dirs
	}
	dir, err := memoryFolder(l)
	if err != nil {
		return dirs
	}
	return []string{dir, l.Runs()}
}

const sharedMemory = "/dev/shm"

// memoryPath is this state directory's folder in memory, whether or not it is there. It is named for the very directory,
// which no other keeper has, in whatever container it sees the same path.
func memoryPath(l state.Layout) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(sharedMemory, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		return "", errors.Join(err, unix.ENODEV)
	}
	var st unix.Stat_t
	if err := unix.Stat(l.Keeper(), &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/reconciler-runs-%x-%x", sharedMemory, st.Dev, st.Ino), nil
}

// memoryFolder makes this state directory's private folder in memory.
func memoryFolder(l state.Layout) (string, error) {
	dir, err := memoryPath(l)
	if err != nil {
		return "", err
	}
	if err := unix.Mkdir(dir, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return "", err
	}
	var made unix.Stat_t
	if err := unix.Lstat(dir, &made); err != nil {
		return "", err
	}
	if made.Mode != unix.S_IFDIR|0o700 || int(made.Uid) != os.Geteuid() {
		return "", errors.New("somebody else made it")
	}
	return dir, nil
}

// folder is where a run has its folder. One that this keeper made is known; an earlier keeper's is looked for.
func (k *linux) folder(runID string) string {
	k.mu.Lock()
	_, made := k.made[runID]
	k.mu.Unlock()
	if made {
		return filepath.Join(k.runs[0], runID)
	}
	for _, dir := range k.runs[1:] {
		path := filepath.Join(dir, runID)
		if unix.Access(path, unix.F_OK) == nil {
			return path
		}
	}
	return filepath.Join(k.runs[0], runID)
}

// MakeFolder implements [Kernel].
func (k *linux) MakeFolder(p Place, image Image) error {
	dir := filepath.Join(k.runs[0], p.RunID)
	err := unix.Mkdir(dir, 0o700)
	if errors.Is(err, unix.ENOENT) { // somebody tidied up above it
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("cannot make the run's folder: %w", err)
	}
	for _, name := range fifosOf(p) {
		if err := makeFIFO(filepath.Join(dir, name), image.(*linuxImage).user); err != nil {
			return errors.Join(err, os.RemoveAll(dir))
		}
	}
	k.mu.Lock()
	k.made[p.RunID] = struct{}{}
	k.mu.Unlock()
	return nil
}

// fifosOf are the FIFOs of a run, or of a program.
func fifosOf(p Place) []string {
	switch {
	case p.Program:
		return []string{fifoStdout}
	case p.Terminal != nil:
		return nil
	}
	return fifoNames
}

// makeFIFO makes a FIFO that the run's user may open again, by /dev/stdout for example.
func makeFIFO(path string, u *runUser) error {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return fmt.Errorf("cannot make a FIFO: %w", err)
	}
	if u.credential == nil {
		return nil
	}
	if err := unix.Lchown(path, int(u.credential.UID), int(u.credential.GID)); err != nil {
		return fmt.Errorf("cannot give a FIFO to %s: %w", u.name, err)
	}
	return nil
}

// openStdio opens a run's FIFOs for its main process: read-write, so that no reader's death ends it, and no writer's its input.
func (k *linux) openStdio(runID string) (fds [3]int, err error) {
	fds = [3]int{-1, -1, -1}
	dir := k.folder(runID)
	for i, name := range fifoNames {
		fds[i], err = unix.Open(filepath.Join(dir, name), unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != nil {
			return fds, fmt.Errorf("cannot open a FIFO: %w", errors.Join(err, closeStdio(fds)))
		}
	}
	return fds, nil
}

func closeStdio(fds [3]int) error {
	var errs []error
	for i, fd := range fds {
		if fd >= 0 && !slices.Contains(fds[:i], fd) { // a terminal is all three
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}

// Remove implements [Kernel].
func (k *linux) Remove(p Place) error {
	if p.Cgroup != "" && k.cgroups != nil {
		g, err := k.cgroup(p)
		if err != nil {
			return err
		}
		if k.trees != nil {
			k.trees.Drop(watchKey(p))
		}
		if err := g.Remove(); err != nil {
			return err
		}
	}
	k.mu.Lock()
	delete(k.seen, p.RunID)
	delete(k.polled, watchKey(p))
	k.mu.Unlock()
	if err := k.endTerminal(p); err != nil {
		return err
	}
	dir := k.folder(p.RunID)
	if p.Shadow {
		if err := removeShadow(dir, p.RunID); err != nil {
			return err
		}
	}
	for _, name := range fifoNames {
		if err := unix.Unlink(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove a FIFO: %w", err)
		}
	}
	err := unix.Rmdir(dir)
	if errors.Is(err, unix.ENOTEMPTY) { // lines that nobody has fetched
		err = errors.Join(console.Mailbox{Directory: dir}.Clear(), unix.Rmdir(dir))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the run's folder: %w", err)
	}
	k.pump.Recorded(runOf(p))
	k.mu.Lock()
	delete(k.made, p.RunID)
	k.mu.Unlock()
	return nil
}

// Folders implements [Kernel].
func (k *linux) Folders() ([]string, error) {
	var all []string
	for _, dir := range k.runs {
		d, err := os.Open(dir)
		if err != nil {
			return nil, err
		}
		names, err := d.Readdirnames(-1)
		if err := errors.Join(err, d.Close()); err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	return all, nil
}

// openReader opens the reading end of a run's output, descriptor 1 or 2 of its main process. When the FIFO's name was taken away,
// the main process still has it.
func (k *linux) openReader(p Place, fd int) (int, error) {
	path := filepath.Join(k.folder(p.RunID), fifoNames[fd])
	r, err := pump.OpenReader(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) || p.Main == nil {
		return r, err
	}
	main, openErr := k.proc.Open(*p.Main)
	if openErr != nil {
		return -1, errors.Join(err, openErr)
	}
	defer main.Close()
	r, openErr = openOf(p.Main.PID, fd, path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC)
	if openErr == nil && main.Alive() != observe.Alive { // its number may have been another's meanwhile
		openErr = errors.Join(ErrGone, unix.Close(r))
	}
	if openErr != nil {
		return -1, errors.Join(err, openErr)
	}
	return r, nil
}

// openOf opens a FIFO through a process that has it, if it is the one that had this path.
func openOf(pid, fd int, path string, flags int) (int, error) {
	link := fmt.Sprintf("/proc/%d/fd/%d", pid, fd)
	if target, err := os.Readlink(link); err != nil || target != path+" (deleted)" {
		return -1, fmt.Errorf("the main process has another file in its place: %w", errors.Join(err, fs.ErrNotExist))
	}
	r, err := unix.Open(link, flags, 0)
	if err != nil {
		return -1, fmt.Errorf("cannot open a FIFO through its process: %w", err)
	}
	return r, nil
}
