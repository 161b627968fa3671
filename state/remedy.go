package state

import (
	"errors"

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

// fullDisk reports whether there was no room.
func fullDisk(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
