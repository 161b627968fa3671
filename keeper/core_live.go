package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// ApplyLive writes the live-class fields of a launch into the record of its run, or its restart policy alone. A ladder that
// has begun stays, and so does everything once the main process has ended: its end is judged by the rules of that moment.
func (c *Core) ApplyLive(o state.LiveOrder, g Guard) error {
	s := c.find(o.Launch.Scope)
	if s == nil {
		return refuse(CheckRun, "%s has no run", o.Launch.Scope)
	}
	defer c.release(s)
	if err := s.check(o.RunID, g); err != nil {
		return err
	}
	c.settle(s)
	run := s.live()
	if run == nil {
		return refuse(CheckRun, "the run of %s is over", s.name)
	}
	if faults := o.Launch.Validate(); len(faults) > 0 {
		return refuseFaults(faults)
	}
	if s.dead && run.MainExit == nil && s.never == (never{}) {
		return fmt.Errorf("the end of %s could not be recorded yet: nothing that it is judged by may change", s.name)
	}
	if run.MainExit != nil {
		return refuse(CheckRun, "the main process of %s has ended: its run is judged by what its record said then", s.name)
	}
	next := o
	if o.RestartOnly {
		next = state.LiveOrder{Launch: run.Launch, Generation: run.Generation, Source: run.Source}
		next.Launch.Restart = o.Launch.Restart
	}
	if next.Launch.SpecHash() != run.SpecHash {
		return refuse(CheckSpecHash, "the new spec of %s needs a new run", s.name)
	}
	if !o.RestartOnly && len(state.ChangedFiles(run.Files, &next.Launch)) > 0 {
		return refuse(CheckSpecHash, "the new files of %s need a new run", s.name)
	}
	hash, files := next.Launch.LiveHash(), next.Launch.FilesHash()
	if hash == run.LiveHash && files == run.FilesHash && next.Generation == run.Generation && next.Source == run.Source {
		return nil
	}
	literals := logLiterals(&run.Launch)
	err := c.edit(s, func(r *state.Record) {
		r.Run.Launch, r.Run.LiveHash, r.Run.FilesHash, r.Run.Generation, r.Run.Source = next.Launch, hash, files, next.Generation, next.Source
		if stop := r.Run.Stop; stop != nil && len(stop.Steps) == 0 && stop.Killed == nil {
			stop.Ladder = next.Launch.Stop
		}
	})
	if err != nil {
		return err
	}
	if !slices.Equal(literals, logLiterals(&next.Launch)) {
		c.watchLog(s)
	}
	c.publish(s)
	return nil
}

// logLiterals are what a launch's readiness waits for in the log.
func logLiterals(l *spec.Launch) []string {
	if l.Readiness == nil {
		return nil
	}
	return l.Readiness.Log
}

// MarkReady records when the run was Ready for the first time, or after a reload.
func (c *Core) MarkReady(o state.ReadyOrder, g Guard) error {
	s := c.find(o.Scope)
	if s == nil {
		return refuse(CheckRun, "%s has no run", o.Scope)
	}
	defer c.release(s)
	if err := s.check(o.RunID, g); err != nil {
		return err
	}
	run := s.live()
	if run == nil {
		return nil
	}
	now := c.kernel.Now().Wall
	if o.Reload != "" {
		return c.markReloaded(s, o.Reload, now)
	}
	if !run.ReadyAt.IsZero() {
		return nil
	}
	if err := c.edit(s, func(r *state.Record) { r.Run.ReadyAt = now }); err != nil {
		return err
	}
	c.publish(s)
	return nil
}

// markReloaded records that a run was Ready after a reload.
func (c *Core) markReloaded(s *scope, id string, now time.Time) error {
	reload := s.rec.Run.Reload
	if reload == nil || reload.ID != id {
		return refuse(CheckRun, "%s was reloaded otherwise since: look at the facts again", s.name)
	}
	if !reload.ProvenAt.IsZero() {
		return nil
	}
	proven := *reload
	proven.ProvenAt = now
	if err := c.edit(s, func(r *state.Record) { r.Run.Reload = &proven }); err != nil {
		return err
	}
	c.publish(s)
	return nil
}

// Archive moves the record of a scope without a live run out of the way, and keeps it. No record is a success.
func (c *Core) Archive(o state.ScopeOrder, g Guard) error {
	s := c.find(o.Scope)
	if s == nil {
		return nil
	}
	defer c.release(s)
	if s.blocked != "" {
		return s.refuseBlocked()
	}
	if err := g.ask(); err != nil {
		return err
	}
	c.settle(s)
	if s.live() != nil {
		return refuse(CheckLive, "%s has a live run: stop it first", s.name)
	}
	if len(s.openPrograms()) > 0 {
		return refuse(CheckLive, "a command of %s runs: wait until it has ended", s.name)
	}
	if len(s.remain) > 0 || len(s.litter) > 0 || len(s.probes) > 0 {
		return fmt.Errorf("cannot archive %s: what its last run left cannot be removed yet", s.name)
	}
	if err := c.records.Archive(s.name); err != nil && !errors.Is(err, state.ErrNoRecord) {
		return err
	}
	c.mu.Lock()
	c.numbers[s.name] = max(s.lastNumber(), c.numbers[s.name])
	c.mu.Unlock()
	c.forget(s)
	return nil
}

// Retire frees a blocked scope, on an operator's word, and takes the scope's archive out of the way. Nothing is deleted and
// nothing is signalled. It is refused as long as something lives that may be the scope's; of a process that cannot be verified
// that is the operator's to know.
func (c *Core) Retire(ctx context.Context, o state.ScopeOrder, g Guard) error {
	if !isScope(o.Scope) {
		return refuse(CheckMessage, "%q is no scope", o.Scope.String())
	}
	s := c.findOrMake(o.Scope)
	defer c.release(s)
	err := c.retire(ctx, s, g)
	if err == nil || s.rec == nil && s.blocked == "" {
		c.forget(s)
	}
	return err
}

func (c *Core) retire(ctx context.Context, s *scope, g Guard) error {
	if err := g.ask(); err != nil {
		return err
	}
	if s.blocked == "" && s.live() != nil {
		return refuse(CheckLive, "%s has a live run: stop it first", s.name)
	}
	if s.blocked == BlockedUnverified {
		// Its record is sound, its process is not: the record goes the way of one whose run is over.
		if err := c.end(s); err != nil {
			return err
		}
		return c.records.Archive(s.name)
	}
	if err := c.mayRun(s); err != nil {
		return err
	}
	err := c.records.Retire(ctx, s.name)
	switch {
	case errors.Is(err, state.ErrNoRecord):
		return refuse(CheckUsable, "nothing is kept of %s: there is nothing to retire", s.name)
	case errors.Is(err, state.ErrUsable):
		return refuse(CheckUsable, "the record of %s can be used: there is nothing to retire", s.name)
	}
	return err
}

// isScope reports whether a scope that came from outside is one: its parts name files.
func isScope(s spec.Scope) bool {
	parsed, ok := spec.ParseScopeID(s.ID())
	return ok && parsed == s
}
