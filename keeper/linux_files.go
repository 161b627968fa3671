package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/secret"
	"reconciler.dev/reconciler/spec"
)

// imageFile is a file that is written before a run is started, with its secrets in it.
type imageFile struct {
	rule *spec.LaunchFile
	text secret.Text
	root int // O_PATH, of its workspace; -1 = the image's directory
}

// madeFile is a file that was made where there was none.
type madeFile struct {
	parent int
	name   string
}

// newFile is what a file is called before it has its content and its name. A keeper that dies leaves one a directory at most.
const newFile = ".reconciler-new"

// The modes of files: one with a secret is its user's alone.
const (
	fileMode       = 0o640
	secretFileMode = 0o600
)

// fillFiles puts the secrets into the contents of files.
func (i *linuxImage) fillFiles(l *spec.Launch, h *Host) error {
	for n := range l.Files {
		f := &l.Files[n]
		text, err := h.Secrets().Fill(f.Content)
		if err != nil {
			return refuse(CheckSecret, "spec.files[%d].content: %v", n, err)
		}
		i.files = append(i.files, imageFile{rule: f, text: text, root: -1})
	}
	return nil
}

// openFiles opens the workspaces of files that are not in the directory.
func (i *linuxImage) openFiles(h *Host) (err error) {
	for n := range i.files {
		f := &i.files[n]
		if f.rule.Workspace == "" {
			continue
		}
		w, _ := h.Workspace(f.rule.Workspace) // it is there: the launch was permitted
		if f.root, err = openRoot(w); err != nil {
			return err
		}
	}
	return nil
}

// appliedContents are the contents whose change a run is told of.
func (i *linuxImage) appliedContents() (w words) {
	for _, f := range i.files {
		if f.rule.OnChange != spec.ChangeIgnore {
			w = append(w, f.text)
		}
	}
	return w
}

// contents are those of all files.
func (i *linuxImage) contents() (w words) {
	for _, f := range i.files {
		w = append(w, f.text)
	}
	return w
}

// WriteFiles implements [Image].
func (i *linuxImage) WriteFiles() error {
	for n := range i.files {
		if err := i.writeFile(&i.files[n]); err != nil {
			return fileError(n, err)
		}
	}
	return nil
}

// fileError says which file could not be written.
func fileError(n int, err error) error {
	return &ExecError{Op: fmt.Sprintf("write spec.files[%d]", n), Errno: errnoOf(err), Remedy: fileRemedy(err)}
}

func fileRemedy(err error) string {
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOTDIR):
		return "a part of its path is a symlink or no directory, and files are written through none"
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return "there is a directory in its place"
	}
	return ""
}

// writeFile replaces a file by one with the content that is wished for, in one step. Whatever the server's user does in the
// directory meanwhile, nothing outside of it is written, and nobody else's file gets its owner or its mode.
func (i *linuxImage) writeFile(f *imageFile) error {
	dir, name := path.Split(f.rule.Path)
	parent, err := i.openParent(f, path.Clean(dir))
	if err != nil {
		return err
	}
	var st unix.Stat_t
	err = unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing || !missing && f.rule.Write == spec.WriteIfMissing {
		return errors.Join(ignore(err, fs.ErrNotExist), unix.Close(parent))
	}
	err = i.fileIn(parent, f)
	if err == nil {
		err = unix.Renameat(parent, newFile, parent, name)
	}
	if err != nil {
		return errors.Join(err, ignore(unix.Unlinkat(parent, newFile, 0), fs.ErrNotExist), unix.Close(parent))
	}
	if missing {
		i.wrote = append(i.wrote, madeFile{parent, name})
		return nil
	}
	return unix.Close(parent)
}

func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// openParent opens the directory of a file, through no symlink, and makes what is missing of it.
func (i *linuxImage) openParent(f *imageFile, rel string) (int, error) {
	root := f.root
	if root < 0 {
		root = i.dir
	}
	const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS
	fd, err := openBeneath(root, rel, unix.O_PATH|unix.O_DIRECTORY, resolve)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	at, err := unix.FcntlInt(uintptr(root), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	return i.makeDirectory(at, rel, resolve)
}

// fileIn makes a file with the content in a directory, under the name that is nobody's.
func (i *linuxImage) fileIn(parent int, f *imageFile) error {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(parent, newFile, flags, secretFileMode)
	if errors.Is(err, unix.EEXIST) { // a keeper died
		if err = unix.Unlinkat(parent, newFile, 0); err == nil {
			fd, err = unix.Openat(parent, newFile, flags, secretFileMode)
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(i.finishFile(fd, f), unix.Close(fd))
}

func (i *linuxImage) finishFile(fd int, f *imageFile) error {
	for b := f.text.Reveal(); len(b) > 0; {
		n, err := unix.Write(fd, b)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		b = b[max(n, 0):]
	}
	if c := i.user.credential; c != nil {
		if err := unix.Fchown(fd, int(c.UID), int(c.GID)); err != nil {
			return err
		}
	}
	mode := uint32(fileMode)
	if len(f.text.Parts) > 0 {
		mode = secretFileMode
	}
	if err := unix.Fchmod(fd, mode); err != nil { // whatever the umask is
		return err
	}
	if f.rule.Write == spec.WriteIfMissing {
		return unix.Fsync(fd) // an empty one that a power cut leaves would be there for good
	}
	return nil
}

// undoFiles removes the files that were made where there were none.
func (i *linuxImage) undoFiles() {
	for _, m := range slices.Backward(i.wrote) {
		_ = unix.Unlinkat(m.parent, m.name, 0) // the workload never ran, and who took it away meanwhile has done it
	}
}

func (i *linuxImage) closeFiles() {
	for _, f := range i.files {
		f.text.Zero()
		if f.root >= 0 {
			_ = unix.Close(f.root)
		}
	}
	for _, m := range i.wrote {
		_ = unix.Close(m.parent)
	}
	i.files, i.wrote = nil, nil
}
