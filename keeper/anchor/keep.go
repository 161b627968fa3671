package anchor

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"reconciler.dev/reconciler/observe/proc/wait"
)

// ExitHeld is the exit code with which a keeper says that another one has the state directory.
const ExitHeld = 3

// The waits before a keeper is started again. The first that dies is replaced at once; when they die young it takes longer each time.
const (
	firstPause = 5 * time.Millisecond
	upPause    = 200 * time.Millisecond // the longest, if the keeper had come up
	// LastPause is the longest else: an anchor whose keeper does not come back within several of them has none to offer.
	LastPause = 2 * time.Second
	oldAge    = 5 * time.Second // from here on a keeper's death says nothing of the next one's
	// heldFor is how long an anchor tries to get the state directory back when another keeper has it.
	heldFor = 5 * LastPause
)

const (
	setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	setName           = 15 // PR_SET_NAME
)

// Comm is the name that an anchor has for the kernel: its command line is its keeper's.
const Comm = "reconciler-anch"

// keep is the anchor's life with its keepers.
type keep struct {
	args    []string
	shelf   *Shelf
	pidfd   int // of the keeper; -1 = there is none
	started time.Time
	ups     int              // keepers that had come up before this one was started
	deaths  int              // of keepers, over all
	last    uint32           // wait status of the one before
	pause   time.Duration    // before the next start
	held    time.Time        // since when another keeper has the directory; zero = it has not
	ending  bool             // the keeper's end is ours
	again   <-chan time.Time // when the next start is due; nil = there is a keeper
}

// Enter makes a process that is started as a keeper its anchor, and does not return then; a process that an anchor has started as its
// keeper goes on. It is to be called while the program is initialised: see internal/anchored of the command.
func Enter() {
	if !Inherited() {
		os.Exit(Main(os.Args))
	}
	rename(base(os.Args[0])) // it is called "exe", as what the anchor has executed
}

// Main is an anchor's life: it starts this program anew with these arguments (the first is its name) as its child, the keeper, and
// again each time that is killed, never two at a time. It returns the keeper's exit code once that has ended by its own will, or failed
// without ever having come up.
func Main(args []string) int {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		return complain("cannot become the reaper of what a keeper leaves behind", errno)
	}
	rename(Comm)
	runtime.GOMAXPROCS(1)
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGINT)
	k := &keep{args: args, shelf: NewShelf(roomFor()), pidfd: -1}
	if err := k.start(); err != nil {
		return complain("cannot start the keeper", err)
	}
	for {
		select {
		case s := <-signals:
			if code, over := k.heard(s); over {
				return code
			}
		case <-k.again:
			k.restart()
		}
	}
}

// complain says why there is no keeper at all. Later nobody is told anything: to write may mean to wait for a disk.
func complain(what string, err error) int {
	_, _ = os.Stderr.WriteString("error: " + what + ": " + err.Error() + "\n")
	return 1
}

// roomFor is how many descriptors may be held: some are needed for the rest.
func roomFor() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	const rest = 64
	return int(min(limit.Cur, MaxHeld+rest)) - rest
}

// start starts a keeper with one end of a new socket pair, and serves the other.
func (k *keep) start() error {
	offer, err := NewOffer(k.deaths, k.last)
	if err != nil {
		return err
	}
	defer syscall.Close(offer.Connection)
	_, err = syscall.ForkExec("/proc/self/exe", k.args, &syscall.ProcAttr{
		Env:   append(environ(), offer.Variable),
		Files: []uintptr{0, 1, 2, uintptr(offer.Connection)},
		Sys:   &syscall.SysProcAttr{PidFD: &k.pidfd},
	})
	if err != nil {
		k.pidfd = -1
		_ = syscall.Close(offer.Served)
		return err
	}
	k.started, k.again, k.ups = time.Now(), nil, k.shelf.cameUp()
	go k.shelf.Serve(offer.Served) // until the keeper has ended
	return nil
}

func (k *keep) restart() {
	if k.start() != nil { // no memory, or no more processes: that may change
		k.later(LastPause)
	}
}

// heard acts on a signal, and reports whether that was the end, and with which code.
func (k *keep) heard(s os.Signal) (code int, over bool) {
	if s != syscall.SIGCHLD {
		if k.pidfd < 0 {
			return 0, true
		}
		k.ending = true
		signalTo(k.pidfd, syscall.SIGTERM)
		return 0, false
	}
	if k.pidfd < 0 {
		return 0, false // an orphan has ended: it waits for the next keeper
	}
	end, ended, err := wait.Pidfd(k.pidfd, wait.Exited|wait.NoHang)
	if err == nil && !ended {
		signalTo(k.pidfd, syscall.SIGCHLD) // an orphan's end is the keeper's to look at
		return 0, false
	}
	_ = syscall.Close(k.pidfd)
	k.pidfd = -1
	return k.died(syscall.WaitStatus(end.Status))
}

// died decides what follows a keeper's end.
func (k *keep) died(status syscall.WaitStatus) (code int, over bool) {
	k.deaths, k.last = k.deaths+1, uint32(status)
	switch {
	case status.Signaled() && k.ending:
		return 128 + int(status.Signal()), true
	case k.ending, status.Exited() && status.ExitStatus() == 0:
		return status.ExitStatus(), true
	case status.Exited() && k.shelf.cameUp() == 0:
		return status.ExitStatus(), true
	case status.Exited() && status.ExitStatus() == ExitHeld:
		if k.held.IsZero() {
			k.held = time.Now()
		}
		if time.Since(k.held) > heldFor {
			return ExitHeld, true
		}
	default:
		k.held = time.Time{}
	}
	longest := LastPause
	if k.shelf.cameUp() > k.ups {
		longest = upPause
	}
	if time.Since(k.started) > oldAge {
		k.pause = 0
	}
	k.later(longest)
	return 0, false
}

// later starts the next keeper after a pause, the first time after none.
func (k *keep) later(longest time.Duration) {
	k.pause = min(k.pause, longest)
	k.again = time.After(k.pause)
	k.pause = max(2*k.pause, firstPause)
}

// signalTo sends a signal to the keeper. It may have ended just now: then SIGCHLD says so.
func signalTo(pidfd int, s syscall.Signal) {
	_, _, _ = syscall.Syscall6(sysPidfdSendSignal, uintptr(pidfd), uintptr(s), 0, 0, 0, 0)
}
