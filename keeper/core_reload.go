package keeper

import (
	"errors"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Reload gives a run that goes on other files, and has it read them, as the new launch declares. An error before the record says so
// is a refusal: the files may be written, and the run knows nothing of them. After it the launch governs the run, and what became
// of the action is on record as a delivery of the order's id: it is carried out at most once (EN-6).
func (c *Core) Reload(o state.ReloadOrder, g Guard) error {
	scope := o.Launch.Scope
	s := c.find(scope)
	if s == nil {
		return refuse(CheckRun, "%s has no run", scope)
	}
	defer c.release(s)
	if err := s.check(o.RunID, g); err != nil {
		return err
	}
	c.settle(s)
	if s.delivery(o.ID) != nil {
		return nil
	}
	if err := s.checkReload(&o); err != nil {
		return err
	}
	image, host, err := c.vet(&o.Launch)
	if err != nil {
		return err
	}
	defer image.Close()
	reload := o.Launch.Reload
	var program Image
	if reload.Exec != nil {
		if program, err = c.vetProgram(o.Launch.Beside(reload.Exec), host, "spec.actions.reload.exec"); err != nil {
			return err
		}
		program.Close() // it is looked at again when it is run
	}
	if err := image.WriteFiles(); err != nil {
		if exec := new(ExecError); errors.As(err, &exec) {
			return refuse(CheckDirectory, "%s", exec.Error())
		}
		return err
	}
	now := c.kernel.Now().Wall
	literals := logLiterals(&s.rec.Run.Launch)
	err = c.edit(s, func(r *state.Record) {
		r.Run.Launch, r.Run.LiveHash, r.Run.FilesHash = o.Launch, o.Launch.LiveHash(), o.Launch.FilesHash()
		r.Run.Generation, r.Run.Source = o.Generation, o.Source
		r.Run.Files = state.GivenFiles(&o.Launch)
		r.Run.Reload = &state.Reload{ID: o.ID, At: now, WithinSeconds: reload.TimeoutSeconds}
	})
	if err != nil {
		return err
	}
	err = c.reload(s, &o, reload, now, g)
	c.publish(s)
	if now := logLiterals(&o.Launch); len(now) > 0 && len(literals) == 0 {
		c.watchLog(s)
	}
	return err
}

// checkReload refuses what a reload cannot bring to the run, or what is not to be brought now.
func (s *scope) checkReload(o *state.ReloadOrder) error {
	run := s.live()
	switch {
	case !state.IsDeliveryID(o.ID):
		return refuse(CheckMessage, "%q is no id of a delivery", o.ID)
	case run == nil:
		return refuse(CheckRun, "the run of %s is over", s.name)
	case o.Launch.Reload == nil:
		return refuse(CheckCommand, "the spec of %s declares no reload", s.name)
	case o.Launch.SpecHash() != run.SpecHash:
		return refuse(CheckSpecHash, "the new spec of %s needs a new run", s.name)
	}
	if err := s.checkAddressee(); err != nil {
		return err
	}
	for _, e := range s.openPrograms() {
		if e.command() {
			return refuse(CheckBusy, "a command runs in %s: wait until it has ended", s.name)
		}
	}
	return s.checkTurn(run)
}

// reload carries the action out. What becomes of it is on record.
func (c *Core) reload(s *scope, o *state.ReloadOrder, reload *spec.LaunchReload, now time.Time, g Guard) error {
	run := s.rec.Run
	like := spec.LaunchCommand{Name: state.ReloadCommand, LaunchAction: reload.LaunchAction, TimeoutSeconds: reload.TimeoutSeconds}
	d := state.Delivery{ID: o.ID, Command: state.ReloadCommand, RunID: run.ID, Run: run.Number, Rail: like.Rail(run.Launch.Console), By: o.By, At: now}
	nobody := func(state.Delivery, Outcome) {} // facts tell
	switch {
	case reload.Exec != nil:
		return c.doProgram(s, d, o.Launch.Beside(reload.Exec), programSpec{field: "spec.actions.reload.exec", within: reload.TimeoutSeconds}, g, nobody)
	case reload.Signal != nil:
		return c.doSignal(s, d, reload.Signal, nobody)
	}
	return c.doDelivery(s, d, reload.LaunchAction, &like, nobody)
}
