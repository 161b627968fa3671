package sim

import (
	"fmt"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// asked reports whether the record says, at this moment, that the end of p was asked for (BP-9).
func (k *kernel) asked(p *proc) bool {
	r := k.w.record(p.scope)
	if r == nil || r.Run == nil || r.Run.ID != p.run || r.Run.Stop == nil {
		return false
	}
	s := r.Run.Stop
	return s.Reason == spec.ReasonStopRequested && (len(s.Steps) > 0 || s.Killed != nil)
}

// ailing is the reason of ours for which the record says, at this moment, that p was being ended (BP-9).
func (k *kernel) ailing(p *proc) spec.ExitReason {
	r := k.w.record(p.scope)
	if r == nil || r.Run == nil || r.Run.ID != p.run || r.Run.Stop == nil {
		return ""
	}
	s := r.Run.Stop
	if s.Reason != spec.ReasonLivenessFailed && s.Reason != spec.ReasonStartDeadlineExceeded || len(s.Steps) == 0 && s.Killed == nil {
		return ""
	}
	return s.Reason
}

// means is what the rules in the record say, at this moment, of an end of p (BP-9).
func (k *kernel) means(p *proc, status uint32) spec.ExitAction {
	r := k.w.record(p.scope)
	if r == nil || r.Run == nil || r.Run.ID != p.run {
		return spec.ExitBackoff
	}
	code, signal := told(status)
	return meaning(&r.Run.Launch.Restart, code, signal)
}

// needRecord checks that a run is on record before anything of it exists (EN-1).
func (k *kernel) needRecord(what string, scope spec.Scope, runID string) *state.Record {
	r := k.w.record(scope)
	if r == nil || r.Run == nil || r.Run.ID != runID {
		k.w.failf("I2", "%s for %s while its record does not name the run", what, scope)
		return nil
	}
	return r
}

// needJournaledStop checks that a ladder signal was journaled before it is sent, and was not sent before (I3, EN-6).
func (k *kernel) needJournaledStop(scope spec.Scope, runID, signal string) {
	r := k.w.record(scope)
	if r == nil || r.Run == nil || r.Run.ID != runID {
		k.w.failf("I3", "%s was sent to a run of %s that is not the recorded one", signal, scope)
		return
	}
	s := r.Run.Stop
	if s == nil || len(s.Steps) == 0 {
		k.w.failf("I5", "%s was sent to %s before a step was journaled", signal, scope)
		return
	}
	last := s.Steps[len(s.Steps)-1]
	key := fmt.Sprintf("%s/%d", runID, last.Index)
	if k.w.sent[key] {
		k.w.failf("I3", "step %d of the ladder of %s was sent twice", last.Index, scope)
	}
	k.w.sent[key] = true
	if last.Index >= len(s.Ladder) || s.Ladder[last.Index].Signal == nil || s.Ladder[last.Index].Signal.Name != signal {
		k.w.failf("I3", "%s was sent to %s, which is not the journaled step", signal, scope)
	}
}

// needKill checks that a tree is killed only after the kill was journaled, or when nothing of the workload ever ran.
func (k *kernel) needKill(p keeper.Place) {
	r := k.w.record(p.Scope)
	if r == nil || r.Run == nil || r.Run.ID != p.RunID {
		if k.executed(p.RunID) {
			k.w.failf("I3", "the tree of a run of %s was killed that is not the recorded one", p.Scope)
		}
		return
	}
	if k.executed(p.RunID) && (r.Run.Stop == nil || r.Run.Stop.Killed == nil) {
		k.w.failf("I5", "the tree of %s was killed before the kill was journaled", p.Scope)
	}
}

func (k *kernel) executed(runID string) bool {
	for _, p := range k.procs {
		if p.run == runID && p.released {
			return true
		}
	}
	return false
}
