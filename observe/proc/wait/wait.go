// Package wait reads how a child ended, by its pidfd: waitid(2) with P_PIDFD (Linux 5.4).
//
// It imports next to nothing, so that the anchor, which runs before most of the program is initialised, can use it too.
package wait

import (
	"errors"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// End is how a child ended and what it had used by then.
type End struct {
	Status uint32        // the wait status word (wait(2))
	CPU    time.Duration // user and system time, with that of its children that it has waited for
	MaxRSS int64         // the largest resident set it had, in bytes
}

// The options of waitid(2).
const (
	NoHang = syscall.WNOHANG
	Exited = syscall.WEXITED
	NoWait = syscall.WNOWAIT // leave the zombie as it is
)

const byPidfd = 3 // P_PIDFD

// siginfo is siginfo_t as waitid(2) fills it in on 64-bit Linux.
type siginfo struct {
	signo, errno, code int32
	_                  int32
	pid                int32
	uid                uint32
	status             int32
	_                  [100]byte
}

// The codes of a child's end (CLD_* of siginfo.h).
const (
	cldExited = 1
	cldKilled = 2
	cldDumped = 3
)

// Pidfd is waitid of one child with these options. It reports false while the child has not ended and NoHang is among them; syscall.ECHILD
// says that it is no child of ours, or was reaped.
func Pidfd(pidfd, options int) (End, bool, error) {
	var info siginfo
	var usage syscall.Rusage
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPidfd, uintptr(pidfd), uintptr(unsafe.Pointer(&info)),
			uintptr(options), uintptr(unsafe.Pointer(&usage)), 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			return End{}, false, errno
		}
		break
	}
	if info.pid == 0 {
		return End{}, false, nil
	}
	status, err := info.word()
	if err != nil {
		return End{}, false, err
	}
	return End{
		Status: status,
		CPU:    time.Duration(usage.Utime.Nano() + usage.Stime.Nano()),
		MaxRSS: usage.Maxrss << 10, // the kernel counts in KiB
	}, true, nil
}

// word is the wait status word of an ended child.
func (i *siginfo) word() (uint32, error) {
	switch i.code {
	case cldExited:
		return uint32(i.status&0xff) << 8, nil
	case cldKilled:
		return uint32(i.status & 0x7f), nil
	case cldDumped:
		return uint32(i.status&0x7f) | 0x80, nil
	}
	return 0, errors.New("waitid: code " + strconv.Itoa(int(i.code)) + " is no end of a process")
}
