package reconcile

import (
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// ailing is the stop of a run that is to be ended although it, or another in its place, is wished: its livenessProbe failed, or its
// start took too long; nil = it is well. A probe that could not be carried out denies nothing.
func (d *decision) ailing(s *standing, run *observe.RunFacts, now state.Moment) *Order {
	switch {
	case s.probing.runID != run.ID:
		return nil
	case run.Liveness != nil && !s.probing.liveness.tally.Passing: // it is asked from the first Ready on, and passes until then
		return stopOrder(d.lane.facts.Scope, run, spec.ReasonLivenessFailed, WhyLiveness, "")
	case d.late(s, run, now):
		return stopOrder(d.lane.facts.Scope, run, spec.ReasonStartDeadlineExceeded, WhyDeadline, "")
	}
	return nil
}

// late reports whether a run should have been Ready by now, and was not. One that we have not asked yet may be Ready: it is asked
// before it is judged.
func (d *decision) late(s *standing, run *observe.RunFacts, now state.Moment) bool {
	if len(run.Endpoints) > 0 && !s.listening.looked || run.StartDeadlineSeconds <= 0 || !run.ReadyAt.IsZero() || d.ready.ok() || d.lane.up.Number != run.Number {
		return false
	}
	if by := readyBy(d.lane.up, run); now.Uptime < by {
		d.lookAt(by)
		return false
	}
	q := &s.probing.readiness
	return q.silent(spec.ForReadiness) || q.tally.Results > 0 && !q.unrun
}

// readyBy is the uptime by which a run must have been Ready. What had passed before it was first seen is taken off by the wall
// clock, which may have jumped: never less than nothing, never more than all.
func readyBy(seen sighting, run *observe.RunFacts) time.Duration {
	deadline := time.Duration(run.StartDeadlineSeconds) * time.Second
	passed := min(max(seen.At.Wall.Sub(run.StartedAt), 0), deadline)
	return seen.At.Uptime + deadline - passed
}
