package anchor

import (
	"syscall"
	"time"
	"unsafe"
)

// pollFd is struct pollfd of poll(2).
type pollFd struct {
	fd              int32
	events, revents int16
}

const pollIn = 1

// readable waits until something can be read, or the other side is closed. At until it gives up with ErrAway.
func readable(fd int, until time.Time) error {
	for {
		left := time.Until(until)
		if left <= 0 {
			return ErrAway
		}
		fds := pollFd{fd: int32(fd), events: pollIn}
		ts := syscall.NsecToTimespec(int64(left))
		n, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
		switch {
		case errno != 0 && errno != syscall.EINTR:
			return errno
		case errno == 0 && n > 0:
			return nil
		}
	}
}
