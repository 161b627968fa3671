package keeper

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Stop records a stop. Nothing is sent: that is for [Core.Step]. A run that is over, or whose stop is on record, is a success.
//
// The first reason stays, because it says why the run ends, and that is decided once: a person's stop over one that began after a
// failed probe does not make the failure one that was asked for, and a failed probe during a person's stop changes nothing
// either. What shall come after the end is no part of it: the asker's wish lives on its own side. A stop of a run whose
// main process has ended by itself is one of what it left behind, whatever the order says: MainExited.
//
// A stop for a change says what shall run next. When that could not be started now, the stop is refused as its start would be.
func (c *Core) Stop(o state.StopOrder, g Guard) error {
	s := c.find(o.Scope)
	if s == nil {
		return refuse(CheckRun, "%s has no run", o.Scope)
	}
	defer c.release(s)
	if err := s.check(o.RunID, g); err != nil {
		return err
	}
	c.settle(s)
	run := s.live()
	if run == nil || run.Stop != nil {
		return nil
	}
	reason := o.Reason
	switch {
	case run.MainExit != nil:
		reason = spec.ReasonMainExited
	case reason == spec.ReasonMainExited:
		return refuse(CheckStop, "the main process of %s has not ended", s.name)
	case !slices.Contains([]spec.ExitReason{spec.ReasonStopRequested, spec.ReasonLivenessFailed, spec.ReasonStartDeadlineExceeded}, reason):
		return refuse(CheckStop, "%q is no reason for a stop", reason)
	}
	if o.Next != nil && run.MainExit == nil {
		image, _, err := c.vet(o.Next)
		if err != nil {
			return err
		}
		image.Undo()
		image.Close()
	}
	now := c.kernel.Now()
	err := c.edit(s, func(r *state.Record) {
		r.Run.Stop = &state.Stop{Reason: reason, Why: o.Why, By: o.By, At: now, Ladder: r.Run.Launch.Stop}
	})
	if err != nil {
		return err
	}
	c.endProbes(s)
	c.publish(s)
	return nil
}

// Step journals and sends one step of the recorded ladder; index len(ladder) is the kill of the tree. A step whose sending
// is on record, or which was journaled before we died, is a success and not sent again; the kill is sent again as long as
// something lives, since it means the same each time. A step that could not be delivered is a success too: the journal says so.
func (c *Core) Step(o state.StepOrder, g Guard) error {
	s := c.find(o.Scope)
	if s == nil {
		return refuse(CheckRun, "%s has no run", o.Scope)
	}
	defer c.release(s)
	if err := s.check(o.RunID, g); err != nil {
		return err
	}
	c.settle(s) // an exit that is there already was not caused by this step
	run := s.live()
	if run == nil {
		return nil
	}
	if run.Stop == nil {
		return refuse(CheckStop, "no stop of %s is recorded", s.name)
	}
	if s.dead && run.MainExit == nil && s.never == (never{}) {
		return fmt.Errorf("the end of %s could not be recorded yet: no step can have caused it", s.name)
	}
	if o.Index == len(run.Stop.Ladder) {
		return c.kill(s)
	}
	done, err := s.checkStep(o.Index)
	if err != nil || done {
		return err
	}
	return c.send(s, o.Index)
}

// check refuses an order that is not about the scope's last run.
func (s *scope) check(runID string, g Guard) error {
	if s.blocked != "" {
		return s.refuseBlocked()
	}
	if s.rec == nil || s.rec.Run == nil || s.rec.Run.ID != runID {
		return refuse(CheckRun, "%s has another run than the one that is meant: look at the facts again", s.name)
	}
	return g.ask()
}

// checkStep reports whether a step is journaled already, and refuses one that is not the next. Steps between may be
// passed over only where they cannot apply: those to a main process that is gone.
func (s *scope) checkStep(index int) (done bool, err error) {
	stop := s.rec.Run.Stop
	last := -1
	if n := len(stop.Steps); n > 0 {
		last = stop.Steps[n-1].Index
	}
	switch {
	case index < 0 || index > len(stop.Ladder):
		return false, refuse(CheckStep, "the ladder of %s has no step %d", s.name, index)
	case index == last:
		return true, nil
	case index < last || stop.Killed != nil:
		return false, refuse(CheckStep, "step %d of %s is passed", index, s.name)
	}
	for i := last + 1; i < index; i++ {
		if s.applies(stop.Ladder[i]) {
			return false, refuse(CheckStep, "step %d of %s comes before step %d", i, s.name, index)
		}
	}
	return false, nil
}

// applies reports whether a step can reach anything: a main process that has ended takes no more.
func (s *scope) applies(step spec.StopStep) bool {
	return s.rec.Run.MainExit == nil || step.Signal != nil && step.Signal.To == spec.ToTree
}

// send journals a step, sends it once, and notes what came of it. What comes of a line is told later.
func (c *Core) send(s *scope, index int) error {
	step := s.rec.Run.Stop.Ladder[index]
	now := c.kernel.Now()
	var program *state.Program
	if step.Exec != nil {
		program = c.newProgram(s, s.rec.Run.ID, step.WaitSeconds)
		now = program.At
	}
	err := c.edit(s, func(r *state.Record) {
		r.Run.Stop.Steps = append(r.Run.Stop.Steps, state.StepEntry{Index: index, At: now, Program: program})
		if program != nil {
			r.Run.Programs = program.Number
		}
	})
	if err != nil {
		return err
	}
	if program != nil {
		c.runStep(s, index, program)
		return nil
	}
	if isDelivered(&step) && s.hears(&step) {
		c.handOver(s, stepDelivery(s.rec.Run.ID, index, &step))
		c.publish(s)
		return nil
	}
	result := state.Sent
	if err := c.deliver(s, step); err != nil {
		result = state.Undeliverable
	}
	err = c.edit(s, func(r *state.Record) { setStepResult(r.Run.Stop, len(r.Run.Stop.Steps)-1, result, "") })
	c.publish(s)
	return err
}

// isDelivered reports whether a step is a line or a request, of which is told later what came of it.
func isDelivered(step *spec.StopStep) bool { return step.Console != nil || step.HTTP != nil }

func stepDelivery(runID string, index int, step *spec.StopStep) Delivery {
	d := Delivery{Ref: DeliveryRef{RunID: runID, Step: index}, HTTP: step.HTTP, Within: time.Duration(step.WaitSeconds) * time.Second}
	if step.Console != nil {
		d.Line, d.Expect = step.Console.Line, step.Console.Expect
	}
	return d
}

// hears reports whether a line or a request has a way to the run: somebody is there to read it.
func (s *scope) hears(step *spec.StopStep) bool {
	return s.proc != nil && !s.dead && (step.Console == nil || s.rec.Run.Launch.Console != nil)
}

var errNoAddressee = errors.New("the main process has ended")

func (c *Core) deliver(s *scope, step spec.StopStep) error {
	if step.Signal == nil {
		return errNoAddressee // a line or a request without a reader
	}
	return c.signal(s, step.Signal)
}

// signal sends a signal that is on record.
func (c *Core) signal(s *scope, a *spec.SignalAction) error {
	switch {
	case a.To == spec.ToTree:
		return c.kernel.SignalTree(s.place(), a.Name)
	case s.proc == nil || s.dead:
		return errNoAddressee
	}
	return s.proc.Signal(a.Name)
}

// kill journals the kill of the tree, once, and kills what lives.
func (c *Core) kill(s *scope) error {
	if s.rec.Run.Stop.Killed == nil {
		now := c.kernel.Now()
		if err := c.edit(s, func(r *state.Record) { r.Run.Stop.Killed = &now }); err != nil {
			return err
		}
		c.publish(s)
	}
	c.settlePrograms(s) // what runs beside it ends with it
	tree, err := c.kernel.Tree(s.place())
	if err == nil && tree.State == observe.TreeEmpty {
		return nil
	}
	if err := c.kernel.KillTree(s.place()); err != nil {
		return fmt.Errorf("cannot kill what is left of %s: %w", s.name, err)
	}
	return nil
}
