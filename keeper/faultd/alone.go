package faultd

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// alone begins this program anew in a network namespace of its own, which has loopback and nothing else. It needs
// CAP_SYS_ADMIN. It returns only with an error.
func alone(flagName string) error {
	// A program that is executed by one thread has that thread's namespaces.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("cannot make a network namespace: %w", err)
	}
	if err := upLoopback(); err != nil {
		return fmt.Errorf("cannot bring loopback up: %w", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	args := slices.DeleteFunc(slices.Clone(os.Args), func(a string) bool { return a == flagName })
	return syscall.Exec(exe, args, os.Environ())
}

func upLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}
