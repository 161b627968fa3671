package state

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// remedy is what a person can do about a disk's error, as the end of a message.
func remedy(err error) string {
	switch {
	case fullDisk(err):
		return " (free space on that file system; nothing is lost meanwhile, and it is tried again)"
	case errors.Is(err, unix.EROFS):
		return " (mount that file system writable again; an error of the disk may have made it read-only, see dmesg)"
	case errors.Is(err, unix.EIO):
		return " (the disk fails: see dmesg, and move the state directory to another one)"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return " (raise the limit of open files)"
	}
	return ""
}

// Cause is what a disk's error is and what can be done about it, in words that everybody may hear: without a path.
func Cause(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error() + remedy(err)
	}
	return "the store does not take it"
}

// fullDisk reports whether there was no room.
func fullDisk(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
