package faultd

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// signalList is a flag: names with or without SIG, joined by commas.
type signalList []os.Signal

// deaf is what a workload ignores that means to survive being stopped.
const deaf = "TERM,INT,HUP,QUIT"

func (l *signalList) String() string {
	names := make([]string, len(*l))
	for i, s := range *l {
		names[i] = strings.TrimPrefix(unix.SignalName(s.(syscall.Signal)), "SIG")
	}
	return strings.Join(names, ",")
}

// Set implements flag.Value; it replaces the default. The empty list is allowed.
func (l *signalList) Set(text string) error {
	*l = nil
	if text == "" {
		return nil
	}
	for name := range strings.SplitSeq(text, ",") {
		s := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"))
		if s == 0 {
			return fmt.Errorf("there is no signal %q", name)
		}
		*l = append(*l, s)
	}
	return nil
}

// ignore sets SIG_IGN, which children inherit across exec.
func (l signalList) ignore() {
	if len(l) > 0 { // an empty list would mean all signals
		signal.Ignore(l...)
	}
}

// die ends this process by a signal, so that its parent's wait shows that signal. Go handles SIGSEGV and its like itself and
// would exit with 2; the kernel's default action is put back first. No core file is left.
func die(s syscall.Signal) int {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fail(err)
	}
	var byDefault [8]uint64 // struct sigaction, all zero = SIG_DFL; larger than any architecture's
	const maskSize = 8      // sizeof(sigset_t) in the kernel
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&byDefault)), 0, maskSize, 0, 0)
	if errno != 0 && s != unix.SIGKILL {
		return fail(fmt.Errorf("cannot die of %s: %w", unix.SignalName(s), errno))
	}
	if err := unix.Kill(os.Getpid(), s); err != nil {
		return fail(err)
	}
	return forever() // the signal may reach another thread first
}
