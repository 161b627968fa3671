package reconcile

import (
	"slices"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/state"
)

// reloading is since when the loop knows of the newest reload of a live run. As long as it is not proven, endpoints and probe have to
// say that all is well again, by answers to what was asked after it.
type reloading struct {
	id   string        // "" = there is nothing to prove
	seen time.Duration // on the uptime clock
}

// follow has a run asked anew after a reload.
func (r *reloading) follow(run *observe.RunFacts, p *probing, l *listening, now state.Moment) {
	id := ""
	if run.Reload != nil && run.Reload.ProvenAt.IsZero() {
		id = run.Reload.ID
	}
	if id == r.id {
		return
	}
	*r = reloading{id: id, seen: now.Uptime}
	if id != "" {
		p.readiness.renew(now)
		l.renewed, l.since, l.next = false, now.Uptime, now.Uptime
	}
}

// reloadState is how far the reload of a run has come.
type reloadState int

const (
	reloadNone   reloadState = iota // there was none, or it is proven
	reloadSent                      // what became of its action is not known yet
	reloadOpen                      // its action is done, and the run has to be Ready again
	reloadFailed                    // it did not come to what was asked for, for certain or as far as anybody knows
)

// reloadOf tells how far the reload of a run has come, and by when it has to be proven.
func (s *standing) reloadOf(f *observe.Facts, now state.Moment) (at reloadState, by time.Duration) {
	if f.Run.Over() {
		return reloadNone, 0
	}
	r := f.Run.Reload
	if r == nil || !r.ProvenAt.IsZero() || s.reloading.id != r.ID {
		return reloadNone, 0
	}
	i := slices.IndexFunc(f.Deliveries, func(d state.Delivery) bool { return d.ID == r.ID })
	if i < 0 {
		return reloadFailed, 0 // the keeper died before it was begun
	}
	by = s.reloading.seen + time.Duration(r.WithinSeconds)*time.Second
	switch d := &f.Deliveries[i]; {
	case d.Result == "":
		return reloadSent, 0
	case d.Result != state.Sent && d.Result != state.Done, now.Uptime >= by:
		return reloadFailed, 0
	}
	return reloadOpen, by
}

// reloads is the reload of a run whose files are others. One that is not proven yet comes before the next.
func (d *decision) reloads(s *standing, run *observe.RunFacts, why string, now state.Moment) *Order {
	if s.good.launch.Reload.Disruptive {
		if d.pending = why; !s.granted {
			return nil
		}
	}
	if d.reload != reloadNone || d.gate != "" && d.gate != gateConfig || !d.prove(s, run, now) {
		return nil
	}
	scope := s.good.launch.Scope
	return &Order{Scope: scope, Reload: &state.ReloadOrder{
		RunID: run.ID, Launch: *s.good.launch, Generation: s.mem.Generation, Source: s.source, By: systemActor,
	}}
}

// proven is the order that says that a run is Ready after its reload; nil = it is not yet.
func (d *decision) proven(s *standing, run *observe.RunFacts) *Order {
	asked := run.Readiness.Endpoint() == "" || s.probing.runID == run.ID && s.probing.readiness.renewed
	looked := len(run.Endpoints) == 0 || s.listening.runID == run.ID && s.listening.renewed
	if !d.ready.ok() || !asked || !looked {
		return nil
	}
	scope := d.lane.facts.Scope
	return &Order{Scope: scope, Ready: &state.ReadyOrder{Scope: scope, RunID: run.ID, Reload: run.Reload.ID}}
}

// renew asks at once, and wants to know what comes of what is asked from now on.
func (q *question) renew(now state.Moment) {
	q.next, q.renewed, q.stale = now.Uptime, false, q.inFlight
}
