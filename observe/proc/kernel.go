package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Features is what this kernel lets us do, found out by trying.
type Features struct {
	BootID     string // of this boot
	PidfdInode bool   // every pidfd of a process has the same inode, never used again in this boot (Linux 6.9)
	PidfdInfo  bool   // PIDFD_GET_INFO (6.13)
	// PidfdInfoExit says that PIDFD_GET_INFO tells the exit of a reaped process (6.15). Only [Kernel.ProbeExit] can find
	// out.
	PidfdInfoExit bool
	Cgroups       bool // a base for cgroups was found; see [Kernel.FindCgroups]
	CgroupKill    bool // it has cgroup.kill (5.14)
	// CloneIntoCgroup says that processes can be born in their cgroup. The keeper's stage finds out and sets it.
	CloneIntoCgroup bool
	Ptrace          bool // CAP_SYS_PTRACE in the initial user namespace: an exit 0 of a zombie's stat can be believed
	Subreaper       bool // the orphans of our runs come to us; see [Kernel.BecomeSubreaper]
}

// Kernel answers with the features of this host. Its methods may be called by several goroutines once the features
// are found.
type Kernel struct {
	Features
}

// Probe finds out what can be found out without a child.
func Probe() (*Kernel, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("cannot learn which boot this is: %w", err)
	}
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open a pidfd (Linux 5.4 or later is needed): %w", err)
	}
	defer unix.Close(fd)

	k := &Kernel{}
	k.BootID = strings.TrimSpace(string(boot))
	k.PidfdInode = isPidfs(fd)
	k.PidfdInfo = unix.IoctlPidfdInfo(fd, &unix.PidfdInfo{Mask: unix.PIDFD_INFO_PID}) == nil
	k.Ptrace = mayPtraceAll()
	var subreaper int32
	if err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&subreaper)), 0, 0, 0); err == nil {
		k.Subreaper = subreaper != 0
	}
	return k, nil
}

// ProbeExit finds out whether the kernel tells the exit of a reaped process; pidfd is of one.
func (k *Kernel) ProbeExit(pidfd int) {
	_, k.PidfdInfoExit = infoExit(pidfd)
}

// BecomeSubreaper makes the orphans below us our children. It lasts until we end, an exec of ourselves included.
func (k *Kernel) BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot become the subreaper: %w", err)
	}
	k.Subreaper = true
	return nil
}

// pidfsMagic is PID_FS_MAGIC of linux/magic.h, "PIDF".
const pidfsMagic = 0x50494446

func isPidfs(pidfd int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(pidfd, &fs) == nil && fs.Type == pidfsMagic
}

// initUserNamespace is the inode of the first user namespace (PROC_USER_INIT_INO of linux/proc_ns.h).
const initUserNamespace = 0xEFFFFFFD

// mayPtraceAll reports whether the kernel shows us all of every process.
func mayPtraceAll() bool {
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/user", &st) != nil || st.Ino != initUserNamespace {
		return false
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return err == nil && caps&(1<<unix.CAP_SYS_PTRACE) != 0
		}
	}
	return false
}
