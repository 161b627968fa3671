package proc

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

var scratch = sync.Pool{New: func() any { return new([4096]byte) }}

// readAt reads a file of /proc or of a cgroup, by its name in a directory. Such files are small and are read a few times for each
// start, end and scrape: os.ReadFile takes ten system calls for what takes four, as it offers each file to the poller, and
// a new buffer.
func readAt(dir int, name string) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd) // read only: nothing can be lost
	first := scratch.Get().(*[4096]byte)
	defer scratch.Put(first)
	b := first[:0]
	for {
		if len(b) == cap(b) {
			b = slices.Grow(b, cap(b))
		}
		n, err := unix.Read(fd, b[len(b):cap(b)])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if n == 0 {
			return bytes.Clone(b), nil
		}
		b = b[:len(b)+n]
	}
}

// shortRecord is more than any record of a file that readShort reads has bytes: a process's number, and what is only one record.
const shortRecord = 64

// readShort is readAt for a file of short records, or of one that fits into b, and keeps what it reads in b. The kernel hands out
// as many records as there is room for (seq_file, fs/seq_file.c): where one more would have fitted there is none, and the
// read that would say so is saved.
func readShort(dir int, name string, b []byte) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd) // read only: nothing can be lost
	b = b[:0]
	for {
		b = slices.Grow(b, 2*shortRecord)
		room := cap(b) - len(b)
		n, err := unix.Read(fd, b[len(b):cap(b)])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		b = b[:len(b)+n]
		if n == 0 || room-n >= shortRecord {
			return b, nil
		}
	}
}

// readOf reads a file of a process in /proc.
func readOf(pid int, name string) ([]byte, error) {
	return readAt(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/"+name)
}
