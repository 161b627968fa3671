package keeper

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Guard is asked while nothing else happens in the scope: before an order is carried out, and by a start again before its
// record and before the byte. An error stops the order. A nil Guard says yes.
type Guard func() error

func (g Guard) ask() error {
	if g == nil {
		return nil
	}
	return g()
}

// Start starts a run. A scope with a live run is a success (BP-3). A [Refused] or an [ErrCancelled] before the record has
// changed nothing; after it the run has ended StartFailed or Cancelled, and that is in its history. Any other
// error says that it is not known whether the workload runs: facts will tell.
func (c *Core) Start(o state.StartOrder, g Guard) error {
	s := c.findOrMake(o.Launch.Scope)
	defer c.release(s)
	err := c.start(s, o, g)
	if s.rec == nil && s.blocked == "" {
		c.forget(s) // made for this order, which came to nothing
	}
	return err
}

func (c *Core) start(s *scope, o state.StartOrder, g Guard) error {
	if s.blocked != "" {
		return s.refuseBlocked()
	}
	if err := g.ask(); err != nil {
		return err
	}
	c.settle(s)
	if s.live() != nil {
		if s.never != (never{}) {
			return fmt.Errorf("cannot start %s: the end of its last run cannot be recorded yet", s.name)
		}
		return nil
	}
	if len(s.openPrograms()) > 0 {
		return refuse(CheckBusy, "a command of %s runs that needs it at rest", s.name)
	}
	if last := s.lastNumber(); o.After != last {
		return refuse(CheckAfter, "the last run of %s is number %d, not %d: look at the facts again", s.name, last, o.After)
	}
	if err := c.claim(s.name); err != nil {
		return err
	}
	defer c.unclaim(s.name)
	image, host, err := c.vet(&o.Launch)
	if err != nil {
		return err
	}
	if err := g.ask(); err != nil {
		image.Undo()
		image.Close()
		return err
	}
	if err := c.recordLaunching(s, &o, image); err != nil {
		image.Undo()
		image.Close()
		return err
	}
	err = c.launch(s, host, image, g)
	image.Close()
	return err
}

// vet looks whether a launch may be started here, and could be now. It has changed nothing when it fails.
func (c *Core) vet(l *spec.Launch) (Image, *Host, error) {
	if faults := l.Validate(); len(faults) > 0 {
		return nil, nil, refuseFaults(faults)
	}
	host := c.Host()
	if err := host.Permit(l); err != nil {
		return nil, nil, err
	}
	image, err := c.kernel.Vet(l, host)
	return image, host, err
}

// claim refuses a start while another scope of the same server has a run that is not over, or is about to: whoever asks
// has not heard of it yet.
func (c *Core) claim(name spec.Scope) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	server := name.ServerKey()
	other, claimed := c.starting[server]
	for _, s := range c.servers[server] {
		if s.name == name || s.entry == nil {
			continue
		}
		f := s.entry.Value.(*observe.Facts)
		if len(f.Programs()) > 0 && f.Run.Over() {
			return refuse(CheckBusy, "a command of %s runs: it has to end before %s starts", s.name, name)
		}
		if !f.Run.Over() {
			other, claimed = s.name, true
		}
	}
	if claimed {
		return refuse(CheckLive, "%s has a live run: it is stopped before %s starts", other, name)
	}
	c.starting[server] = name
	return nil
}

func (c *Core) unclaim(name spec.Scope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.starting, name.ServerKey())
}

func (s *scope) lastNumber() int64 {
	if s.rec == nil || s.rec.Run == nil {
		return 0
	}
	return s.rec.Run.Number
}

func (s *scope) refuseBlocked() error {
	return refuse(CheckBlocked, "%s is blocked (%s): nothing is started or signalled there until an operator retires it", s.name, s.blocked)
}

func refuseFaults(faults []spec.Fault) error { return refuseFaultsFor(CheckLaunch, faults) }

func refuseFaultsFor(check Check, faults []spec.Fault) error {
	lines := make([]string, len(faults))
	for i, f := range faults {
		lines[i] = f.Error()
	}
	return refuse(check, "%s", strings.Join(lines, "; "))
}

// nextNumber is the number of the scope's next run, which none before it had: a scope that was archived and comes back goes
// on from where it was, and so does one whose record a power cut took back. What is kept of earlier runs, their logs above
// all, stays theirs.
func (c *Core) nextNumber(s *scope) int64 {
	c.mu.Lock()
	archived := c.numbers[s.name]
	c.mu.Unlock()
	if !s.numbered {
		s.logged, s.numbered = c.kernel.LastLogged(s.name), true
	}
	return max(s.lastNumber(), archived, s.logged) + 1
}

// recordLaunching writes that a process may come to be: from here on a successor knows where to look for it.
func (c *Core) recordLaunching(s *scope, o *state.StartOrder, image Image) error {
	old, number := s.rec, c.nextNumber(s)
	if old == nil {
		s.rec = &state.Record{Version: state.RecordVersion, Scope: s.name}
	}
	id := c.kernel.NewRunID()
	err := c.edit(s, func(r *state.Record) {
		r.Version, r.UID = state.RecordVersion, o.UID
		if restarted(r) {
			r.Counters.Restarts++
		}
		r.Counters.Starts++
		r.Run = &state.Run{
			Number: number, ID: id, Phase: state.Launching, Cgroup: c.kernel.CgroupName(id),
			Launch: o.Launch, SpecHash: o.Launch.SpecHash(), LiveHash: o.Launch.LiveHash(), Secrets: image.Prints(id),
			FilesHash: o.Launch.FilesHash(), Files: state.GivenFiles(&o.Launch),
			Generation: o.Generation, Source: o.Source, Cause: o.Cause, By: o.By, LaunchingAt: c.kernel.Now().Wall,
		}
	})
	if err != nil {
		s.rec = old
		return err
	}
	s.resetRun()
	return nil // what is published is what came of it: whoever ordered it knows that it is under way
}

// resetRun forgets what was known of the run before.
func (s *scope) resetRun() {
	s.proc, s.dead, s.exit, s.gone, s.reboot, s.never = nil, false, nil, "", false, never{}
	s.totals, s.pump, s.changed = nil, false, nil
}

// launch brings a recorded run to life. Whatever fails, what was made before is taken back and the run ends.
func (c *Core) launch(s *scope, host *Host, image Image, g Guard) error {
	held, err := c.hold(s, host, image)
	if err != nil {
		return c.undo(s, image, held, err)
	}
	identity := held.Identity()
	err = c.progress(s, state.Progress{Phase: state.Released, Identity: &identity})
	if err != nil {
		return c.undo(s, image, held, err)
	}
	if err := g.ask(); err != nil {
		return c.undo(s, image, held, fmt.Errorf("%w: %w", ErrCancelled, err))
	}
	c.show(s) // who executes now may ask at once which run it is of
	if err := held.Release(); err != nil {
		if exec := new(ExecError); errors.As(err, &exec) {
			return c.undo(s, image, held, err)
		}
		s.proc, s.again = held, true
		c.publish(s)
		return fmt.Errorf("cannot tell whether the workload of %s was executed: %w", s.name, err)
	}
	s.proc = held
	err = c.recordStarted(s)
	c.publish(s)
	return err
}

// hold makes what the run needs, forks its stage and listens to it. After an error there may be a stage nevertheless.
func (c *Core) hold(s *scope, host *Host, image Image) (Held, error) {
	place := s.place()
	if err := c.kernel.MakeFolder(place, image); err != nil {
		return nil, err
	}
	if place.Cgroup != "" {
		if err := c.kernel.MakeCgroup(place); err != nil {
			return nil, err
		}
	}
	if err := image.WriteFiles(); err != nil {
		return nil, err
	}
	held, err := c.kernel.Hold(HoldRequest{Place: place, Launch: &s.rec.Run.Launch, Host: host, Image: image})
	if err != nil {
		return nil, err
	}
	return held, c.listen(s, place)
}

// listen takes in what a run writes. Nothing of it has run yet: its FIFOs are opened for it first, as each opening at the
// other end of one that is read would wake the reader for nothing.
func (c *Core) listen(s *scope, place Place) error {
	if err := c.kernel.Attach(place); err != nil {
		return err
	}
	s.pump = true
	if probe := s.rec.Run.Launch.Readiness; probe != nil && len(probe.Log) > 0 {
		return c.kernel.WatchLog(place, probe.Log)
	}
	return nil
}

// recordStarted writes that the workload was executed. Without a probe and endpoints it is Ready from here on: the
// reconciler would say so at once, and each word of it costs a record.
func (c *Core) recordStarted(s *scope) error {
	p := state.Progress{Phase: state.Started, StartedAt: c.kernel.Now().Wall}
	if l := &s.rec.Run.Launch; l.Readiness == nil && len(l.Endpoints) == 0 {
		p.ReadyAt = p.StartedAt
	}
	err := c.progress(s, p)
	if err != nil {
		s.again = true
	}
	return err
}

// undo ends a start that failed after its record: no process, cgroup, folder or descriptor of it is left, and the run ends.
func (c *Core) undo(s *scope, image Image, held Held, cause error) error {
	s.never = never{spec.ReasonStartFailed, publicMessage(cause)}
	answer := error(&StartFailedError{Message: s.never.message, Cause: cause})
	if errors.Is(cause, ErrCancelled) {
		s.never, answer = never{reason: spec.ReasonCancelled}, cause
	}
	if held != nil {
		if err := held.Abandon(); err != nil {
			s.again = true // what is left shows in the tree
		}
	}
	s.dead = true
	image.Undo()
	c.settle(s)
	if s.live() != nil {
		return errors.Join(answer, fmt.Errorf("cannot record the end of %s yet", s.name))
	}
	return answer
}

// publicMessage is what may be said of a failed start: what failed, or what ran out, without a path of this host.
func publicMessage(err error) string {
	if exec := new(ExecError); errors.As(err, &exec) {
		return exec.Error()
	}
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return "the host could not make what the run needs: " + errno.Error()
	}
	return "the host could not make what the run needs"
}
