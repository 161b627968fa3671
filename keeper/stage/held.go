package stage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The ends of a release that are neither an exec nor an [ExecError].
var (
	ErrDied      = errors.New("the stage ended before it took the word: the workload never ran")
	ErrUndecided = errors.New("it is not known yet whether the workload was executed")
	ErrSpent     = errors.New("the stage was let go of before")
)

// ExecError says that the workload's program could not be executed.
type ExecError struct {
	Op    string // "change to the directory" or "execute the program"
	Errno syscall.Errno
}

// Error names the operation and the errno, and no path.
func (e *ExecError) Error() string {
	if e.Errno == syscall.ENOENT && e.Op == opExec {
		return "cannot " + e.Op + ": " + e.Errno.Error() + " (the file, its interpreter or its dynamic loader)"
	}
	return "cannot " + e.Op + ": " + e.Errno.Error()
}

// Unwrap returns the errno.
func (e *ExecError) Unwrap() error { return e.Errno }

const (
	opDir  = "change to the directory"
	opExec = "execute the program"
)

// Held is a stage at its gate.
type Held struct {
	// PID is the process id of the stage, and of the workload that it becomes.
	PID int

	stager *Stager
	pidfd  int
	fd     int      // our end of the gate, until it is watched
	gate   *os.File // our end of the gate from then on
	word   []byte
	sent   bool
	spent  bool
	runs   Program // that was executed, as far as it was seen
}

// Program is the file of a program by its numbers; the zero value is none.
type Program struct{ Dev, Ino uint64 }

// Runs is the program that the stage was seen to have become just after it closed its gate: none before that, of what ended
// at once, and where this host does not let us look. Of a script it is the interpreter.
func (h *Held) Runs() Program { return h.runs }

// Pidfd is the stage's pidfd, for as long as the Held is not spent: until Release or Await returned anything but
// ErrUndecided, or Abandon or Kill returned nil.
func (h *Held) Pidfd() int { return h.pidfd }

// Dup makes a pidfd that is the caller's own.
func (h *Held) Dup() (int, error) {
	if h.spent {
		return -1, ErrSpent
	}
	return unix.FcntlInt(uintptr(h.pidfd), unix.F_DUPFD_CLOEXEC, 3)
}

// Release opens the gate and waits for the exec. Nil means that the workload's program was executed; whoever reaps it
// needs a handle from before (Dup). With ErrUndecided, which wraps the context's error, the exec is under way and may
// still succeed: Await goes on waiting, Kill ends it. After every other error nothing of the workload ran, and the
// stage is reaped and gone: *ExecError says that it could not be executed, ErrDied that something killed the stage,
// the context's error that it was done before the gate was opened. Whoever bounds the wait alone calls Open and Await.
func (h *Held) Release(ctx context.Context) error {
	if err := h.Open(ctx); err != nil {
		return err
	}
	return h.Await(ctx)
}

// Open opens the gate, and waits for nothing: that is for Await to do. Its errors are those of Release, but for *ExecError and ErrUndecided.
func (h *Held) Open(ctx context.Context) error {
	if h.spent || h.sent {
		return ErrSpent
	}
	if err := ctx.Err(); err != nil {
		return h.failed(fmt.Errorf("the stage was not released: %w", err))
	}
	err := h.stager.fault(StepSend)
	if err == nil {
		err = h.send()
	}
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return h.failed(ErrDied)
	}
	if err != nil {
		return h.failed(fmt.Errorf("cannot release the stage: %w", err))
	}
	h.sent = true
	return nil
}

// Await waits for the exec after an Open, or goes on waiting after an ErrUndecided; its results are those of Release.
func (h *Held) Await(ctx context.Context) error {
	if h.spent || !h.sent {
		return ErrSpent
	}
	var answer [16]byte
	n, err := h.read(ctx, answer[:])
	switch {
	case errors.Is(err, io.EOF) && !h.executed():
		return h.failed(ErrDied)
	case errors.Is(err, io.EOF):
		h.close()
		return nil
	case errors.Is(err, unix.ECONNRESET): // closed with the word unread
		return h.failed(ErrDied)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUndecided, err)
	case n != 8:
		return fmt.Errorf("%w: the stage answered %d bytes, not 8", ErrUndecided, n)
	}
	e := &ExecError{Op: opExec, Errno: syscall.Errno(binary.NativeEndian.Uint32(answer[4:]))}
	if binary.NativeEndian.Uint32(answer[:]) == 1 {
		e.Op = opDir
	}
	return h.failed(e)
}

// renameTries bounds the wait for the new name of a process that has closed its gate, a millisecond each.
const renameTries = 100

// executed tells whether a gate was closed by the exec or by the stage's death with the word read: what died is still
// called a stage. The exec closes the gate after it has changed the program and a moment before it changes the name,
// and a workload may choose that very name.
func (h *Held) executed() bool {
	of := "/proc/" + strconv.Itoa(h.PID) + "/" // our unreaped child: the number is its own
	if another, _ := h.runsAnother(of + "exe"); another {
		return true // nearly always, by one look
	}
	for range renameTries {
		over := readable(h.pidfd, 0)
		if !isNamed(of+"comm", Comm+"\n") {
			return true
		}
		if over {
			return false
		}
		another, err := h.runsAnother(of + "exe")
		if err == nil || errors.Is(err, unix.ENOENT) { // it is dying, and has no program any more
			return another
		}
		readable(h.pidfd, time.Millisecond) // we may not see its program
	}
	return true
}

// runsAnother reports whether an exe file of /proc is seen to lead to another program than the stage's: the exec changes it before it
// closes the gate, and what is dying has none.
func (h *Held) runsAnother(exe string) (bool, error) {
	var st unix.Stat_t
	if err := unix.Stat(exe, &st); err != nil || h.stager.isProgram(&st) {
		return false, err
	}
	h.runs = Program{st.Dev, st.Ino}
	return true, nil
}

// isNamed reports whether a comm file can be read and says this. It is read for each start: os.ReadFile takes ten system
// calls for what takes three.
func isNamed(comm, name string) bool {
	fd, err := unix.Open(comm, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var b [32]byte // longer than any name
	n, err := unix.Read(fd, b[:])
	return err == nil && string(b[:n]) == name
}

// Abandon closes the gate: a stage that was not released exits, and is reaped. What was released and is undecided
// must be killed. Once spent it does nothing.
func (h *Held) Abandon() error {
	if h.spent {
		return nil
	}
	if h.sent {
		return fmt.Errorf("cannot abandon a stage that was released: %w", ErrUndecided)
	}
	h.closeGate()
	return h.reap()
}

// Kill kills the stage, or what it became, and reaps it. An error means that it did not die in time, and Kill may be
// called again. Once spent it does nothing.
func (h *Held) Kill() error {
	if h.spent {
		return nil
	}
	if err := kill(h.pidfd); err != nil {
		return err
	}
	return h.reap()
}

// failed reaps a stage that ran nothing and returns err.
func (h *Held) failed(err error) error {
	h.closeGate()
	if rerr := h.reap(); rerr != nil {
		return errors.Join(err, rerr)
	}
	return err
}

// send puts the word on the gate: one datagram, whole or not at all.
func (h *Held) send() error {
	return unix.Sendto(h.fd, h.word, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, nil)
}

// promptTime is how long an exec is awaited in the kernel, which is the cheapest way and cannot be broken off. Nearly
// all end in a hundredth of it.
const promptTime = 20 * time.Millisecond

// read reads the gate until ctx is done.
func (h *Held) read(ctx context.Context, p []byte) (int, error) {
	if err := h.stager.fault(StepAwait); err != nil {
		return 0, err
	}
	if h.gate == nil {
		if readable(h.fd, promptTime) {
			n, err := unix.Read(h.fd, p)
			if n == 0 && err == nil {
				err = io.EOF
			}
			return n, err
		}
		if err := h.watch(); err != nil {
			return 0, err
		}
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_ = h.gate.SetReadDeadline(time.Unix(1, 0)) // fails only on a closed file, and we hold it open
	})
	n, err := h.gate.Read(p)
	if !stop() {
		<-woken
		if err := h.gate.SetReadDeadline(time.Time{}); err != nil {
			return 0, err
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, ctx.Err()
	}
	return n, err
}

// watch hands our end of the gate to the poller, so that waiting for it takes no thread and can be broken off.
func (h *Held) watch() error {
	if err := h.stager.fault(StepWatch); err != nil {
		return fmt.Errorf("cannot watch the gate: %w", err)
	}
	if err := unix.SetNonblock(h.fd, true); err != nil {
		return fmt.Errorf("cannot watch the gate: %w", err)
	}
	h.gate, h.fd = os.NewFile(uintptr(h.fd), "gate"), -1
	return nil
}

// endTime is what a stage gets to end, and again after it was killed.
const endTime = 5 * time.Second

// reap waits for the end of the process, reaps it and ends the Held.
func (h *Held) reap() error {
	h.closeGate()
	if err := reap(h.pidfd); err != nil {
		return err
	}
	h.close()
	return nil
}

// reap waits for the end of a child, kills one that does not end, and reaps it.
func reap(pidfd int) error {
	if !ended(pidfd) {
		if err := kill(pidfd); err != nil {
			return err
		}
		if !ended(pidfd) {
			return errors.New("the stage was killed and does not die: it hangs in the kernel")
		}
	}
	for {
		err := unix.Waitid(unix.P_PIDFD, pidfd, nil, unix.WEXITED, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil && !errors.Is(err, unix.ECHILD) {
			return fmt.Errorf("cannot reap the stage: %w", err)
		}
		return nil
	}
}

func kill(pidfd int) error {
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot kill the stage: %w", err)
	}
	return nil
}

// ended waits for the end of a process, at most endTime.
func ended(pidfd int) bool { return readable(pidfd, endTime) }

// readable waits until a descriptor can be read or was hung up.
func readable(fd int, atMost time.Duration) bool {
	until := time.Now().Add(atMost)
	for {
		left := max(time.Until(until), 0)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		if errors.Is(err, unix.EINTR) && left > 0 {
			continue
		}
		return err == nil && n > 0
	}
}

func (h *Held) closeGate() {
	if h.gate != nil {
		h.gate.Close()
		h.gate = nil
	}
	if h.fd >= 0 {
		unix.Close(h.fd)
		h.fd = -1
	}
}

// close ends the Held: gate, pidfd and the entry in the books.
func (h *Held) close() {
	if h.spent {
		return
	}
	h.closeGate()
	unix.Close(h.pidfd)
	h.pidfd, h.spent = -1, true
	h.stager.letGo(h.PID)
}
