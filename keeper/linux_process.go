package keeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/stage"
	"reconciler.dev/reconciler/observe/proc"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// linuxProcess is a main process, watched by the loop from its release on.
type linuxProcess struct {
	kernel *linux
	proc   *proc.Process
	place  Place
	found  bool            // it was there before us
	told   *state.MainExit // by the anchor

	mu        sync.Mutex
	watched   bool
	unsettled time.Time // when the end was first seen without being told
}

// linuxHeld is a stage at its gate.
type linuxHeld struct {
	*linuxProcess
	held   *stage.Held
	image  *linuxImage
	failed atomic.Bool // the exec failed after nobody waited for it any more
}

// Hold implements [Kernel].
func (k *linux) Hold(r HoldRequest) (Held, error) {
	image := r.Image.(*linuxImage)
	stdio, err := k.stdioFor(r.Place, image)
	if err != nil {
		return nil, err
	}
	held, err := k.fork(r, image, stdio)
	if err := errors.Join(err, closeStdio(stdio)); err != nil {
		return nil, err
	}
	p, err := k.own(held, r.Place)
	if err != nil {
		return nil, errors.Join(err, held.Abandon())
	}
	return &linuxHeld{linuxProcess: p, held: held, image: image}, nil
}

// stdioFor opens what a stage gets as its standard files.
func (k *linux) stdioFor(p Place, image *linuxImage) ([3]int, error) {
	switch {
	case p.Program:
		k.know(p.RunID, image)
		return k.openProgramStdio(p.RunID)
	case p.Terminal != nil:
		return k.openTerminal(p, image.user)
	}
	return k.openStdio(p.RunID)
}

func (k *linux) fork(r HoldRequest, image *linuxImage, stdio [3]int) (*stage.Held, error) {
	s := stage.Spec{
		Exec: image.exec, Path: image.path, Dir: image.dir, Stdio: stdio, Cgroup: -1,
		Argv:       append([]string{declaredPath(r.Launch, r.Host)}, image.args.reveal()...),
		Env:        image.env.reveal(),
		Credential: image.user.credential,
		Terminal:   r.Place.Terminal != nil,
	}
	if r.Place.Cgroup != "" {
		g, err := k.cgroup(r.Place)
		if err != nil {
			return nil, err
		}
		s.Cgroup, err = g.Open()
		if err != nil {
			return nil, err
		}
		defer unix.Close(s.Cgroup)
	}
	return k.stager.Hold(s)
}

// declaredPath is what a program is told of its own name: the executable's path as it is declared, before any symlink, by
// which programs with several names tell what they are to be.
func declaredPath(l *spec.Launch, h *Host) string {
	w, _ := h.Workspace(l.Workspace) // it is there: the launch was permitted
	return path.Join(w.Path, l.Executable)
}

// own reads who a stage is and takes a pidfd of it that outlives the stage's own.
func (k *linux) own(held *stage.Held, place Place) (*linuxProcess, error) {
	identity, err := k.proc.IdentifyChild(held.PID, held.Pidfd())
	if err != nil {
		return nil, err
	}
	pidfd, err := held.Dup()
	if err != nil {
		return nil, fmt.Errorf("cannot keep a pidfd: %w", err)
	}
	place.Main = &identity
	return k.track(k.proc.Own(identity, pidfd), place), nil
}

// track remembers that a process's exit is ours to take.
func (k *linux) track(p *proc.Process, place Place) *linuxProcess {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mains[p.ID.PID] = struct{}{}
	return &linuxProcess{kernel: k, proc: p, place: place}
}

// Open implements [Kernel].
func (k *linux) Open(place Place) (Process, error) {
	p, err := k.proc.Open(*place.Main)
	switch {
	case errors.Is(err, proc.ErrGone), errors.Is(err, proc.ErrOtherBoot), errors.Is(err, proc.ErrOtherProcess):
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnverified, err)
	}
	main := k.track(p, place)
	main.found = true
	if err := main.watch(); err != nil {
		main.Close()
		return nil, fmt.Errorf("%w: %w", ErrUnverified, err)
	}
	return main, nil
}

// watch asks the loop to tell when the process has ended, and again when it was reaped by another.
func (p *linuxProcess) watch() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.kernel.loop.Add(p.proc.Fd(), unix.EPOLLIN|unix.EPOLLET, func(uint32) { p.kernel.settle(p.place.Scope) })
	p.watched = err == nil
	return err
}

// Identity implements [Process].
func (p *linuxProcess) Identity() state.Identity { return p.proc.ID }

// Staged implements [Process].
func (p *linuxProcess) Staged() (bool, error) {
	comm, err := p.proc.Comm()
	return comm == stage.Comm, err
}

// Signal implements [Process].
func (p *linuxProcess) Signal(name string) error {
	sig := unix.SignalNum(name)
	if sig == 0 {
		return fmt.Errorf("there is no signal %s", name)
	}
	err := p.proc.Signal(sig)
	if errors.Is(err, proc.ErrGone) {
		return ErrGone
	}
	return err
}

// exitPatience is how long the end of another's child may stay untold before it is called unknown. Its parent reaps it
// meanwhile, or never does.
const exitPatience = 2 * time.Second

var errUntold = errors.New("the process has ended and its parent has not told yet how")

// Peek implements [Process].
func (p *linuxProcess) Peek() (state.MainExit, bool, error) {
	now := time.Now()
	end, settled := p.toldByAnchor(now.Round(0))
	if !settled {
		end, settled = p.proc.Exit(now.Round(0))
	}
	if settled {
		if kills, ok := p.oomKills(); ok && kills > 0 && end.Status != nil && *end.Status&0x7f == uint32(unix.SIGKILL) {
			end.OOM = true
		}
		return end, true, nil
	}
	if end.From == "" {
		return state.MainExit{}, false, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unsettled.IsZero() {
		p.unsettled = now
	}
	if now.Sub(p.unsettled) < exitPatience {
		return state.MainExit{}, false, errUntold
	}
	return end, true, nil
}

func (p *linuxProcess) oomKills() (int64, bool) {
	if p.place.Cgroup == "" {
		return 0, false
	}
	g, err := p.kernel.cgroup(p.place)
	if err != nil {
		return 0, false
	}
	return g.OOMKills()
}

// Reap implements [Process].
func (p *linuxProcess) Reap() error {
	if p.place.Cgroup == "" {
		p.rememberFamily()
	}
	if p.found {
		if err := p.leaveToAnchor(); err != nil {
			return err
		}
	}
	return p.proc.Reap()
}

// rememberFamily looks who belongs to a run while its main process's number still proves it.
func (p *linuxProcess) rememberFamily() {
	f, err := p.kernel.family(p.place)
	if err != nil {
		return // the FIFOs' holders are found later, too
	}
	ids := make([]state.Identity, len(f.Members))
	for i, m := range f.Members {
		ids[i] = m.ID
	}
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	p.kernel.seen[p.place.RunID] = ids
}

// Close implements [Process].
func (p *linuxProcess) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watched {
		p.kernel.loop.Remove(p.proc.Fd())
		p.watched = false
	}
	p.kernel.mu.Lock()
	delete(p.kernel.mains, p.proc.ID.PID)
	p.kernel.mu.Unlock()
	_ = p.proc.Close() // a handle of its own: nothing is lost
}

// The waits for an exec. The first holds up other starts, the second does not.
const (
	execSoon = 20 * time.Millisecond
	execLate = 10 * time.Second
)

// Release implements [Held].
func (h *linuxHeld) Release() error {
	if err := h.image.recheck(); err != nil {
		return err
	}
	if err := h.watch(); err != nil {
		return &ExecError{Op: "watch the process", Errno: errnoOf(err)}
	}
	err := h.held.Open(context.Background()) // however long we had to wait for a processor
	if err == nil {
		err = h.awaitSoon()
	}
	if errors.Is(err, stage.ErrUndecided) && !h.place.Program { // whoever asked for a program is told when it has ended
		err = h.await()
	}
	if errors.Is(err, stage.ErrUndecided) {
		h.kernel.late.Go(h.awaitLate)
		return err
	}
	if err == nil {
		if err := h.image.executed(h.held.Runs()); err != nil {
			return errors.Join(err, h.Signal("SIGKILL"))
		}
		h.image, h.held = nil, nil // what a process was made of is not kept for as long as it lives
	}
	return execError(err)
}

func (h *linuxHeld) awaitSoon() error {
	ctx, cancel := context.WithTimeout(context.Background(), execSoon)
	defer cancel()
	return h.held.Await(ctx)
}

// await waits on without holding up other starts.
func (h *linuxHeld) await() error {
	resume := h.kernel.pause()
	defer resume()
	ctx, cancel := context.WithTimeout(h.kernel.ctx, execLate)
	defer cancel()
	return h.held.Await(ctx)
}

// awaitLate ends a release that took too long for anybody to wait.
func (h *linuxHeld) awaitLate() {
	err := h.held.Await(h.kernel.ctx)
	if errors.Is(err, stage.ErrUndecided) {
		return // this keeper ends; the next one will see
	}
	h.failed.Store(err != nil)
	h.kernel.settle(h.place.Scope)
}

// execError is what a finished release came to.
func execError(err error) error {
	if err == nil {
		return nil
	}
	if exec := new(stage.ExecError); errors.As(err, &exec) {
		return &ExecError{Op: exec.Op, Errno: exec.Errno}
	}
	if errors.Is(err, stage.ErrDied) {
		return &ExecError{Op: "release the stage: something has ended it before it took the word"}
	}
	return &ExecError{Op: "release the stage", Errno: errnoOf(err)}
}

// errnoOf is 0 where the kernel gave none.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return 0
}

// Staged implements [Process].
func (h *linuxHeld) Staged() (bool, error) {
	if h.failed.Load() {
		return true, nil
	}
	return h.linuxProcess.Staged()
}

// Abandon implements [Held].
func (h *linuxHeld) Abandon() error {
	err := h.held.Abandon()
	h.Close()
	return err
}
