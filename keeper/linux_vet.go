package keeper

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/secret"
	"reconciler.dev/reconciler/keeper/stage"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// linuxImage holds what was checked by descriptors.
type linuxImage struct {
	exec int    // O_PATH, of the executable itself, after every symlink
	path string // its real path: what is executed goes by it (see recheck)
	dir  int    // O_PATH, of the working directory
	home string // its path
	user *runUser
	// notify is the socket on which the run may speak of itself.
	notify string
	args   words // without the program's name
	env    words // all of it
	files  []imageFile
	wrote  []madeFile
	made   []madeDir // directories that were made, outermost first
	id     fileID    // of exec
}

type fileID struct{ dev, ino uint64 }

// madeDir is a directory that was made in an open one.
type madeDir struct {
	parent int
	name   string
}

// Vet implements [Kernel].
func (k *linux) Vet(l *spec.Launch, h *Host) (Image, error) {
	u, err := k.users.find(l.User)
	if err != nil {
		return nil, err
	}
	image := &linuxImage{exec: -1, dir: -1, user: u, notify: k.notify}
	if err := image.openExecutable(l, h); err != nil {
		image.Close()
		return nil, err
	}
	err = image.openDirectory(l, h)
	if err == nil {
		err = image.fill(l, h)
	}
	if err == nil {
		err = image.openFiles(h)
	}
	if err != nil {
		image.Undo()
		image.Close()
		return nil, err
	}
	return image, nil
}

// fill reads the secrets that the launch is executed with.
func (i *linuxImage) fill(l *spec.Launch, h *Host) error {
	var err error
	if i.args, err = fillArguments(h, l.Args, "spec.actions.start.args"); err != nil {
		return err
	}
	if i.env, err = fillEnvironment(h, l, i.home, i.user.name, i.notify); err != nil {
		return err
	}
	return i.fillFiles(l, h)
}

// Prints implements [Image].
func (i *linuxImage) Prints(runID string) []state.SecretPrint {
	return prints(runID, i.args, i.env, i.appliedContents())
}

// Prints implements [Kernel].
func (k *linux) Prints(l *spec.Launch, h *Host, runID string) ([]state.SecretPrint, error) {
	image := &linuxImage{exec: -1, dir: -1, user: &runUser{}, notify: k.notify}
	defer image.Close()
	if err := image.fill(l, h); err != nil {
		return nil, err
	}
	return image.Prints(runID), nil
}

// Redact implements [Kernel].
func (k *linux) Redact(run *state.Run, h *Host, text string) (string, error) {
	var known []secret.Value
	defer func() {
		for _, v := range known {
			v.Zero()
		}
	}()
	for _, ref := range run.Launch.Secrets() {
		v, err := h.Secrets().Read(ref)
		if err != nil {
			return "", err
		}
		known = append(known, v)
		for _, p := range run.Secrets {
			if p.Ref == ref && p.Print != v.Print(run.ID) {
				return "", fmt.Errorf("secret %s is another than the run was executed with", ref)
			}
		}
	}
	return string(secret.RedactLine([]byte(text), known...)), nil
}

func (i *linuxImage) openExecutable(l *spec.Launch, h *Host) error {
	w, _ := h.Workspace(l.Workspace) // it is there: the launch was permitted
	if err := i.openDirect(w, l.Executable); err != nil {
		if i.exec, err = openExecutable(w, l.Executable, h); err != nil {
			return err
		}
		if i.path, err = pathOf(i.exec); err != nil {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(i.exec, &st); err != nil {
		return fmt.Errorf("cannot look at the executable: %w", err)
	}
	name := w.Name + ":" + l.Executable
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return refuse(CheckExecutable, "spec.actions.start.executable: %s is not a regular file", name)
	case st.Mode&0o111 == 0:
		return refuse(CheckExecutable, "spec.actions.start.executable: %s is not executable: chmod +x it", name)
	}
	i.id = fileID{st.Dev, st.Ino}
	return nil
}

// openDirect opens an executable to which no symlink leads from the root directory on: it lies where its declared path says, in
// its workspace, and its real path need not be asked for. An error says no more than that this is not so.
func (i *linuxImage) openDirect(w spec.Workspace, rel string) error {
	real := path.Join(w.Path, rel)
	if w.Executables != nil || !path.IsAbs(real) || !filepath.IsLocal(rel) {
		return unix.EXDEV
	}
	fd, err := openBeneath(unix.AT_FDCWD, real, unix.O_PATH, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return err
	}
	i.exec, i.path = fd, real
	return nil
}

// openExecutable opens the file that an executable's path leads to, wherever symlinks take it, as long as that is in an
// opened workspace which lets it be executed.
func openExecutable(w spec.Workspace, rel string, h *Host) (int, error) {
	root, err := openRoot(w)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	fd, err := openBeneath(root, rel, unix.O_PATH, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS)
	if err == nil && w.Executables == nil {
		return fd, nil
	}
	if errors.Is(err, unix.EXDEV) {
		fd, err = openBeneath(root, rel, unix.O_PATH, unix.RESOLVE_NO_MAGICLINKS)
	}
	if err != nil {
		return -1, refuseOpen(CheckExecutable, "spec.actions.start.executable", w.Name+":"+rel, err)
	}
	if err := inSomeWorkspace(fd, h); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// inSomeWorkspace proves that an open file lies in an opened workspace that lets it be executed: it is opened again from that
// workspace's root, by its real path, through no symlink, and must be the same file.
func inSomeWorkspace(fd int, h *Host) error {
	real, err := pathOf(fd)
	if err != nil {
		return err
	}
	for _, w := range h.Workspaces {
		if ok, err := holdsFile(w, real, fd); err != nil || ok {
			return err
		}
	}
	return refuse(CheckExecutable, "spec.actions.start.executable: its symlinks lead out of every opened workspace, or to a file that may not be executed there")
}

func holdsFile(w spec.Workspace, real string, fd int) (bool, error) {
	root, err := openRoot(w)
	if err != nil {
		return false, nil // a workspace that is not there holds nothing
	}
	defer unix.Close(root)
	base, err := pathOf(root)
	if err != nil {
		return false, err
	}
	rel, ok := strings.CutPrefix(real, strings.TrimSuffix(base, "/")+"/")
	if !ok || !mayExecute(w, rel) {
		return false, nil
	}
	again, err := openBeneath(root, rel, unix.O_PATH, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return false, nil // it was moved meanwhile: not proven
	}
	defer unix.Close(again)
	a, err := idOf(again)
	if err != nil {
		return false, err
	}
	b, err := idOf(fd)
	return a == b, err
}

func openRoot(w spec.Workspace) (int, error) {
	fd, err := unix.Open(w.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, refuse(CheckWorkspace, "workspace %s cannot be opened: %v", w.Name, err)
	}
	return fd, nil
}

func openBeneath(dir int, rel string, flags int, resolve uint64) (int, error) {
	how := &unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Resolve: resolve}
	for {
		fd, err := unix.Openat2(dir, rel, how)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) { // EAGAIN: a rename elsewhere got in the way
			continue
		}
		return fd, err
	}
}

func refuseOpen(c Check, field, name string, err error) error {
	switch {
	case errors.Is(err, unix.EXDEV):
		return refuse(c, "%s: %s leads out of its workspace", field, name)
	case errors.Is(err, unix.ELOOP):
		return refuse(c, "%s: %s goes through a symlink that may not be followed", field, name)
	}
	return refuse(c, "%s: %s cannot be opened: %v", field, name, err)
}

func pathOf(fd int) (string, error) {
	link := "/proc/self/fd/" + strconv.Itoa(fd)
	var short [256]byte // nearly every path fits: a larger stack would have to be made for each start
	buf := short[:]
	n, err := unix.Readlink(link, buf)
	if err == nil && n == len(buf) {
		buf = make([]byte, unix.PathMax)
		n, err = unix.Readlink(link, buf)
	}
	if err != nil {
		return "", fmt.Errorf("cannot learn a file's real path: %w", err)
	}
	return string(buf[:n]), nil
}

func idOf(fd int) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fileID{}, fmt.Errorf("cannot look at a file: %w", err)
	}
	return fileID{st.Dev, st.Ino}, nil
}

// recheck proves, just before the byte, that the real path still leads to the file that was checked. The path is what is
// executed, not the descriptor: programs find themselves by the name that the kernel gives them (AT_EXECFN: HAProxy's master
// executes itself again by it), and interpreters open their script by it.
func (i *linuxImage) recheck() error {
	var st unix.Stat_t
	if err := unix.Lstat(i.path, &st); err != nil {
		return &ExecError{Op: "open the executable again", Errno: errnoOf(err)}
	}
	if (fileID{st.Dev, st.Ino}) != i.id {
		return &ExecError{Op: "find the executable that was checked", Errno: unix.ESTALE}
	}
	return nil
}

// executed proves that what was seen to run is the file that was checked, where that could be seen: somebody who may rename
// directories of a workspace could have been quicker than recheck. Of a script it is the interpreter that is seen.
func (i *linuxImage) executed(seen stage.Program) error {
	if seen == (stage.Program{}) || (fileID{seen.Dev, seen.Ino}) == i.id {
		return nil
	}
	if script, err := stage.IsScript(i.exec); err == nil && script {
		return nil
	}
	return &ExecError{Op: "execute what was checked", Errno: unix.ESTALE}
}

// openDirectory opens the working directory and makes what is missing of it.
func (i *linuxImage) openDirectory(l *spec.Launch, h *Host) error {
	w, _ := h.Workspace(l.Directory.Workspace)
	i.home = path.Join(w.Path, l.Directory.Path)
	root, err := openRoot(w)
	if err != nil {
		return err
	}
	const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS
	fd, err := openBeneath(root, l.Directory.Path, unix.O_PATH|unix.O_DIRECTORY, resolve)
	if errors.Is(err, unix.ENOENT) {
		fd, err = i.makeDirectory(root, l.Directory.Path, resolve)
	} else {
		err = errors.Join(err, unix.Close(root))
	}
	if err != nil {
		return refuseOpen(CheckDirectory, "spec.directory", w.Name+":"+l.Directory.Path, err)
	}
	i.dir = fd
	return nil
}

// makeDirectory makes a directory and those above it, 0750 and the user's, beneath at, which is its own to close.
func (i *linuxImage) makeDirectory(at int, rel string, resolve uint64) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY
	names := strings.Split(path.Clean(rel), "/")
	for _, name := range names {
		next, err := -1, error(unix.ENOENT) // of the only one it is known
		if len(names) > 1 {
			next, err = openBeneath(at, name, flags, resolve)
		}
		if errors.Is(err, unix.ENOENT) {
			if next, err = i.makeOne(at, name); err == nil {
				at = next // its parent stays open, in made
				continue
			}
		}
		closeErr := unix.Close(at)
		if err := errors.Join(err, closeErr); err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

func (i *linuxImage) makeOne(parent int, name string) (int, error) {
	if err := unix.Mkdirat(parent, name, 0o750); err != nil {
		return -1, err
	}
	fd, err := i.own(parent, name)
	if err != nil {
		return -1, errors.Join(err, unix.Unlinkat(parent, name, unix.AT_REMOVEDIR))
	}
	i.made = append(i.made, madeDir{parent, name})
	return fd, nil
}

// own gives a directory that was just made to the run's user.
func (i *linuxImage) own(parent int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW
	fd, err := openBeneath(parent, name, flags, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return -1, err
	}
	err = unix.Fchmod(fd, 0o750) // whatever the umask is
	if c := i.user.credential; err == nil && c != nil {
		err = unix.Fchown(fd, int(c.UID), int(c.GID))
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// Undo implements [Image].
func (i *linuxImage) Undo() {
	i.undoFiles()
	for n := len(i.made) - 1; n >= 0; n-- {
		// One that is not empty any more is somebody's: it stays.
		_ = unix.Unlinkat(i.made[n].parent, i.made[n].name, unix.AT_REMOVEDIR)
	}
}

// Close implements [Image].
func (i *linuxImage) Close() {
	i.args.zero()
	i.env.zero()
	i.closeFiles()
	for _, fd := range []int{i.exec, i.dir} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	i.exec, i.dir = -1, -1
	for _, m := range i.made {
		_ = unix.Close(m.parent)
	}
	i.made = nil
}
