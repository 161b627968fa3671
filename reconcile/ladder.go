package reconcile

import (
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// rung is where a run's recorded stop stands.
type rung struct {
	next int           // the step that is due; -1 = none
	at   time.Duration // when the next step is due, on the uptime clock; 0 = none is
}

// rungOf reads the ladder from the record alone, so that a restarted reconciler goes on where it was. The index behind the last
// step is the kill of the tree. A step that is journaled counts as sent, whatever became of it: it is never repeated.
// The kill is, while something lives: it means the same each time, and a keeper may have died between its journal
// entry and the kill.
func rungOf(run *observe.RunFacts, force bool, now state.Moment) rung {
	stop, ladder := run.Stop, ladderOf(run)
	if force || stop.Killed != nil {
		return rung{next: len(ladder)}
	}
	next := 0
	if n := len(stop.Steps); n > 0 {
		last := stop.Steps[n-1]
		if at, waits := waitEnd(ladder, last, now); waits {
			return rung{next: -1, at: at}
		}
		next = last.Index + 1
	}
	if run.Alive == observe.Dead || run.MainExit != nil {
		next = nextForTree(ladder, next)
	}
	return rung{next: min(next, len(ladder))}
}

// ladderOf is the ladder of the recorded stop.
func ladderOf(run *observe.RunFacts) []spec.StopStep {
	if len(run.Stop.Ladder) > 0 {
		return run.Stop.Ladder
	}
	return run.Ladder
}

// waitEnd says until when the wait of a journaled step lasts, if it still does. It counts from the journal entry, on the
// monotonic clock; in another boot it is long over. A step that failed is not waited for. One of which nobody knows whether it
// was delivered is: it may have been.
func waitEnd(ladder []spec.StopStep, e state.StepEntry, now state.Moment) (time.Duration, bool) {
	if e.Result == state.Undeliverable || e.Result == state.Failed || e.Index < 0 || e.Index >= len(ladder) || e.At.BootID != now.BootID {
		return 0, false
	}
	step := ladder[e.Index]
	if step.WaitFor == spec.WaitForDone && (e.Result == state.Sent || e.Result == state.Done) {
		return 0, false
	}
	end := e.At.Uptime + time.Duration(step.WaitSeconds)*time.Second
	return end, now.Uptime < end
}

// nextForTree is the first step from next on that still has an addressee when the main process is gone; else the kill.
func nextForTree(ladder []spec.StopStep, next int) int {
	for i := next; i < len(ladder); i++ {
		if s := ladder[i].Signal; s != nil && s.To == spec.ToTree {
			return i
		}
	}
	return len(ladder)
}
