package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// LinuxDisk is the disk of this host. It calls the kernel directly: a record is replaced several times in each run's
// life, and package os would try to add every file to its poller.
type LinuxDisk struct{}

var _ Disk = LinuxDisk{}

// retry repeats a call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

func open(path string, flags int, mode uint32) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, mode)
		return err
	})
	return fd, pathError("open", path, err)
}

func infoOf(st *unix.Stat_t) Info {
	mode := fs.FileMode(st.Mode & 0o777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	default:
		mode |= fs.ModeIrregular
	}
	return Info{Mode: mode, UID: int(st.Uid), Size: st.Size, Device: st.Dev, Inode: st.Ino}
}

// ReadFile implements [Disk]. A FIFO or device of that name is refused without waiting for a peer.
func (LinuxDisk) ReadFile(path string, limit int64) ([]byte, Info, error) {
	fd, err := open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, Info{Mode: fs.ModeSymlink}, pathError("read", path, errors.New("a symbolic link, not a regular file"))
	}
	if err != nil {
		return nil, Info{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return nil, Info{}, pathError("stat", path, err)
	}
	info := infoOf(&st)
	if !info.Mode.IsRegular() {
		return nil, info, pathError("read", path, errors.New("not a regular file"))
	}
	if info.Size > limit {
		return nil, info, pathError("read", path, fmt.Errorf("%d bytes long, the limit is %d", info.Size, limit))
	}
	b := make([]byte, info.Size)
	n, err := readFull(fd, b)
	if err != nil {
		return nil, info, pathError("read", path, err)
	}
	return b[:n], info, nil
}

func readFull(fd int, b []byte) (n int, err error) {
	for n < len(b) {
		var m int
		err := retry(func() error { m, err = unix.Read(fd, b[n:]); return err })
		if err != nil {
			return n, err
		}
		if m == 0 {
			break
		}
		n += m
	}
	return n, nil
}

// Stat implements [Disk].
func (LinuxDisk) Stat(path string) (Info, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Lstat(path, &st) }); err != nil {
		return Info{}, pathError("stat", path, err)
	}
	return infoOf(&st), nil
}

// List implements [Disk].
func (LinuxDisk) List(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// Create implements [Disk].
func (LinuxDisk) Create(path string) (File, error) {
	fd, err := open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &linuxFile{fd: fd, path: path}, nil
}

// Open implements [Disk].
func (LinuxDisk) Open(path string) (File, error) {
	fd, err := open(path, unix.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return &linuxFile{fd: fd, path: path}, nil
}

// Lock implements [Disk] with flock(2): it belongs to the open file, so that no close of another descriptor of the same file
// gives it away, and close-on-exec keeps it out of every workload.
func (LinuxDisk) Lock(path string) (File, error) {
	fd, err := open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	f := &linuxFile{fd: fd, path: path}
	err = retry(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if err == unix.EWOULDBLOCK {
		err = ErrLocked
	}
	if err == nil {
		err = f.stillAt(path)
	}
	if err != nil {
		return nil, errors.Join(pathError("lock", path, err), f.Close())
	}
	return f, nil
}

// stillAt refuses a lock on a file that somebody removed or replaced between open and flock: the next comer would lock
// another one.
func (f *linuxFile) stillAt(path string) error {
	var here, there unix.Stat_t
	if err := unix.Fstat(f.fd, &here); err != nil {
		return err
	}
	if err := unix.Lstat(path, &there); err != nil {
		return err
	}
	if here.Dev != there.Dev || here.Ino != there.Ino {
		return errors.New("the file was replaced while it was being locked")
	}
	if here.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("not a regular file")
	}
	return nil
}

// Mkdir implements [Disk].
func (LinuxDisk) Mkdir(path string, mode fs.FileMode) error {
	if err := retry(func() error { return unix.Mkdir(path, uint32(mode.Perm())) }); err != nil {
		return pathError("mkdir", path, err)
	}
	return pathError("chmod", path, unix.Chmod(path, uint32(mode.Perm()))) // the umask may have taken bits away
}

// Rename implements [Disk].
func (LinuxDisk) Rename(oldPath, newPath string) error {
	err := retry(func() error { return unix.Rename(oldPath, newPath) })
	if err != nil {
		return &os.LinkError{Op: "rename", Old: oldPath, New: newPath, Err: err}
	}
	return nil
}

// Exchange implements [Disk].
func (LinuxDisk) Exchange(a, b string) error {
	err := retry(func() error {
		return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	})
	if err == unix.EINVAL { // what rename(2) says for a file system without it
		err = errors.ErrUnsupported
	}
	if err != nil {
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
	return nil
}

// Remove implements [Disk].
func (LinuxDisk) Remove(path string) error {
	return pathError("remove", path, retry(func() error { return unix.Unlink(path) }))
}

// SyncDir implements [Disk].
func (LinuxDisk) SyncDir(dir string) error {
	fd, err := open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return pathError("sync", dir, retry(func() error { return unix.Fsync(fd) }))
}

// BootID implements [Disk].
func (LinuxDisk) BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

type linuxFile struct {
	fd   int
	path string
}

func (f *linuxFile) WriteAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		var m int
		err := retry(func() error { m, err = unix.Pwrite(f.fd, p[n:], off+int64(n)); return err })
		if err == nil && m == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return n, pathError("write", f.path, err)
		}
		n += m
	}
	return n, nil
}

func (f *linuxFile) Truncate(size int64) error {
	return pathError("truncate", f.path, retry(func() error { return unix.Ftruncate(f.fd, size) }))
}

func (f *linuxFile) Sync() error {
	return pathError("sync", f.path, retry(func() error { return unix.Fdatasync(f.fd) }))
}

func (f *linuxFile) Close() error {
	return pathError("close", f.path, unix.Close(f.fd)) // never repeated: the descriptor is gone even after EINTR
}
