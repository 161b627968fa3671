package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/console"
	"reconciler.dev/reconciler/keeper/terminal"
	"reconciler.dev/reconciler/spec"
)

// openTerminal makes the terminal of a run that starts, which is all three of its standard files.
func (k *linux) openTerminal(p Place, u *runUser) ([3]int, error) {
	uid, gid := os.Geteuid(), os.Getegid()
	if u.credential != nil {
		uid, gid = int(u.credential.UID), int(u.credential.GID)
	}
	t, slave, err := terminal.Open(k.stager, k.folder(p.RunID), sizeOf(p.Terminal), uid, gid)
	if err != nil {
		return [3]int{-1, -1, -1}, terminalError(err)
	}
	k.keepTerminal(p, t)
	return [3]int{slave, slave, slave}, nil
}

func sizeOf(t *spec.LaunchTTY) terminal.Size {
	return terminal.Size{Rows: uint16(t.Rows), Columns: uint16(t.Columns)} // the launch is valid: 1 to 1000
}

func terminalError(err error) error {
	t := new(terminal.Error)
	if !errors.As(err, &t) {
		return err
	}
	return fmt.Errorf("%w (%w)", &ExecError{Op: t.Op, Errno: errnoOf(t.Err), Remedy: t.Remedy}, t.Err)
}

// runTerminal is the terminal of a run, and the watch over its custodian.
type runTerminal struct {
	*terminal.Terminal
	place Place

	mu      sync.Mutex
	watched int // the connection to the custodian that the loop watches; -1 = none
	since   time.Time
}

// keepTerminal remembers the terminal of a run and watches over its custodian.
func (k *linux) keepTerminal(p Place, made *terminal.Terminal) *runTerminal {
	t := &runTerminal{Terminal: made, place: p, watched: -1}
	k.mu.Lock()
	k.terminals[p.RunID] = t
	k.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	k.watchCustodian(t)
	return t
}

// watchCustodian has another custodian made when this one has ended: somebody has killed it, or the kernel has for want of memory.
// The caller holds the terminal.
func (k *linux) watchCustodian(t *runTerminal) {
	conn := t.Conn()
	if conn < 0 {
		return
	}
	err := k.loop.Add(conn, unix.EPOLLIN|unix.EPOLLONESHOT, func(uint32) { k.late.Go(func() { k.renewCustodian(t) }) })
	if err != nil {
		k.log.Warn("the custodian of a run's terminal is not watched over", "scope", t.place.Scope.String(), "run", t.place.Number, "error", err)
		return
	}
	t.watched, t.since = conn, time.Now()
}

// unwatchCustodian comes before its connection is closed. The caller holds the terminal.
func (k *linux) unwatchCustodian(t *runTerminal) {
	if t.watched >= 0 {
		k.loop.Remove(t.watched)
		t.watched = -1
	}
}

// custodianLife is how long a custodian must have lived to be replaced at once: one that is killed over and over is not.
const custodianLife = time.Second

func (k *linux) renewCustodian(t *runTerminal) {
	t.mu.Lock()
	wait := time.Until(t.since.Add(custodianLife))
	t.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-k.ctx.Done():
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watched < 0 {
		return // the run is over
	}
	k.unwatchCustodian(t)
	if err := t.Renew(k.stager); err != nil {
		k.log.Error("the custodian of a run's terminal has ended and there can be no other: the run is hung up when this keeper ends", "scope", t.place.Scope.String(), "run", t.place.Number, "error", err)
		return
	}
	k.log.Warn("the custodian of a run's terminal was ended by somebody else; there is another", "scope", t.place.Scope.String(), "run", t.place.Number)
	k.watchCustodian(t)
}

// terminalOf is the terminal of a run, nil = this keeper has none of it.
func (k *linux) terminalOf(p Place) *runTerminal {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.terminals[p.RunID]
}

// attachTerminal reads what a run writes to its terminal, which a predecessor may have made.
func (k *linux) attachTerminal(p Place) error {
	t := k.terminalOf(p)
	if t == nil {
		taken, err := terminal.Take(k.folder(p.RunID))
		if err != nil {
			return err
		}
		t = k.keepTerminal(p, taken)
	}
	fd, err := t.Reader()
	if err != nil {
		return err
	}
	if err := k.pump.AttachTerminal(runOf(p), fd); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	return nil
}

// endTerminal ends the terminal of a run that is over, if it had one.
func (k *linux) endTerminal(p Place) error {
	t := k.terminalOf(p)
	if t == nil {
		return terminal.EndIn(k.folder(p.RunID))
	}
	t.mu.Lock()
	k.unwatchCustodian(t)
	err := t.End()
	t.mu.Unlock()
	if err != nil {
		return err
	}
	k.mu.Lock()
	delete(k.terminals, p.RunID)
	k.mu.Unlock()
	return nil
}

// letGoTerminals leaves all terminals to their custodians.
func (k *linux) letGoTerminals() []error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	for id, t := range k.terminals {
		t.mu.Lock()
		k.unwatchCustodian(t)
		errs = append(errs, t.Close())
		t.mu.Unlock()
		delete(k.terminals, id)
	}
	return errs
}

// Type implements [Kernel].
func (k *linux) Type(p Place, keys []byte) (int, error) {
	t := k.terminalOf(p)
	if t == nil {
		return 0, terminal.ErrGone
	}
	n, err := t.Write(keys)
	if errors.Is(err, unix.EAGAIN) {
		return n, nil
	}
	return n, err
}

// Echoes implements [Kernel].
func (k *linux) Echoes(p Place) bool {
	t := k.terminalOf(p)
	if t == nil {
		return false
	}
	mode, err := t.Mode()
	return err == nil && mode == terminal.Echo
}

// Resize implements [Kernel].
func (k *linux) Resize(p Place, size spec.LaunchTTY, redraw bool) error {
	t := k.terminalOf(p)
	if t == nil {
		return terminal.ErrGone
	}
	if redraw {
		return t.Redraw(sizeOf(&size))
	}
	return t.Resize(sizeOf(&size))
}

// toTerminal types a line.
func (k *linux) toTerminal(ctx context.Context, p Place, line console.Line, output console.Output) console.Outcome {
	t := k.terminalOf(p)
	if t == nil {
		return console.Outcome{Result: console.Undeliverable, Reason: console.NotListening, Err: errors.New("the terminal of the run is not at hand: its custodian was ended while no keeper ran")}
	}
	return console.Terminal(ctx, t.Terminal, line, output)
}
