package dir

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// restTime is how long a file must not change before it counts.
	restTime = 20 * time.Millisecond
	// openLimit is how long a file that does not change may be held open for writing before it counts all the same.
	openLimit = time.Minute
	// racyTime is how old a change must be, when the file is read, for the next change to be sure to have another time stamp.
	racyTime = 50 * time.Millisecond
)

// fingerprint tells two states of a file apart without reading it.
type fingerprint struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds since 1970
}

// fingerprintOf is the fingerprint in a stat.
func fingerprintOf(st *unix.Stat_t) fingerprint {
	return fingerprint{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}
}

// age is how long ago the file last changed, by the clock of this host. It is negative when that clock disagrees with the
// file's.
func (f fingerprint) age(now time.Time) time.Duration {
	return time.Duration(now.UnixNano() - max(f.mtime, f.ctime))
}

// errBusy says that the file is being written.
var errBusy = errors.New("is being written")

// reading is a file's bytes and the fingerprint that they belong to.
type reading struct {
	print fingerprint
	data  []byte
	hash  [sha256.Size]byte
	large bool // larger than sizeLimit, and not read
}

// readAt reads the regular file of that name in the directory dirfd, following symbolic links. errBusy means that it
// changed while it was read, or, unless evenOpen is set, that somebody has it open for writing.
func readAt(dirfd int, name string, evenOpen bool) (reading, error) {
	// Non-blocking, so that a FIFO or a device in the place of the file cannot hold us up.
	fd, err := openRetry(dirfd, name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return reading{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return reading{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return reading{}, errNotRegular
	}
	r := reading{print: fingerprintOf(&st)}
	if !evenOpen && beingWritten(fd) {
		return r, errBusy
	}
	if st.Size > sizeLimit {
		r.large = true
		return r, nil
	}
	if r.data, err = readAll(fd, int(st.Size)); err != nil {
		return r, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		return r, err
	}
	if fingerprintOf(&st) != r.print || int64(len(r.data)) != st.Size {
		return r, errBusy
	}
	r.hash = sha256.Sum256(r.data)
	return r, nil
}

// errNotRegular says that something in the place of a file is none.
var errNotRegular = errors.New("is not a regular file")

// beingWritten reports whether somebody has the file open for writing, as far as the kernel tells us: a read lease is granted
// only while nobody has (fcntl(2), F_SETLEASE). It is given back at once. Who neither owns the file nor has
// CAP_LEASE, or a file system without leases, learns nothing, and the file's rest has to do.
func beingWritten(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	if err != nil {
		return errors.Is(err, unix.EAGAIN)
	}
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	return false
}

// readAll reads a file of about that size, but no more than one byte over sizeLimit.
func readAll(fd, size int) ([]byte, error) {
	buf := make([]byte, size+1)
	n := 0
	for {
		m, err := unix.Read(fd, buf[n:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, err
		case m == 0:
			return buf[:n], nil
		}
		n += m
		if n > sizeLimit {
			return buf[:n], nil
		}
		if n == len(buf) {
			buf = append(buf, make([]byte, len(buf)+512)...)
		}
	}
}

// openRetry is openat that goes on after a signal.
func openRetry(dirfd int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dirfd, name, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// trouble is an error in words for people, without any path.
func trouble(err error) string {
	var errno unix.Errno
	switch {
	case errors.Is(err, unix.ENOENT):
		return "leads nowhere: its target is not there"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "cannot be read: permission denied for the user that the reconciler runs as"
	case errors.Is(err, unix.ELOOP):
		return "goes through too many symbolic links"
	case errors.Is(err, errNotRegular):
		return "is not a regular file"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "ended early"
	case errors.As(err, &errno):
		return fmt.Sprintf("cannot be read: %s", errno.Error())
	}
	return "cannot be read"
}
