package reconcile

import (
	"hash/fnv"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// sequel is what follows the end of a scope's last run while the server is wished to run.
type sequel string

const (
	sequelStart    sequel = "Start"    // at once: nothing ran yet, it was stopped on purpose, or its spec changed since
	sequelRetry    sequel = "Retry"    // after the delay
	sequelRestart  sequel = "Restart"  // at once, it restarted itself; not faster than the floor
	sequelComplete sequel = "Complete" // never by itself: it has done its work
	sequelFail     sequel = "Fail"     // never by itself: its policy says so
)

// The floor under declared restarts. A run that restarts itself is followed at once. Of runs that do so within restartFloor
// of their start, restartsAtOnce in a row are; from then on there is restartFloor between two starts, so that a server which
// exits as soon as it runs does not take the host with it. A run that lasts ends the row.
const (
	restartFloor   = 10 * time.Second
	restartsAtOnce = 5
)

// patience is how a scope's ends look to the restart policy. It is computed from the record's ends alone, so that it
// survives both processes.
type patience struct {
	sequel sequel
	inRow  int           // ends in a row that nobody asked for, declared restarts left out; the last one included
	quick  int           // declared restarts in a row of runs shorter than restartFloor, the last one included
	delay  time.Duration // from the last end to the next try; 0 = at once
	last   *state.Exit   // the end that decides; nil = none counts
}

// patienceOf applies a policy to the ends of a scope, oldest first. Ends up to the number fresh, and ends of another
// generation than the wished one, are forgotten: a person's start and a changed spec begin anew.
func patienceOf(exits []state.Exit, policy spec.RestartPolicy, generation, fresh int64) patience {
	counted := exits
	for i := len(exits) - 1; i >= 0; i-- {
		e := &exits[i]
		if e.Number <= fresh || e.Generation != generation || asked(e) {
			counted = exits[i+1:]
			break
		}
	}
	if len(counted) == 0 {
		return patience{sequel: sequelStart}
	}
	last := &counted[len(counted)-1]
	p := patience{sequel: sequelOf(last, &policy), last: last}
	p.inRow = inRow(counted, &policy)
	switch p.sequel {
	case sequelRetry:
		p.delay = delay(p.inRow, policy, last.RunID)
	case sequelRestart:
		if p.quick = quickInRow(counted, &policy); p.quick > restartsAtOnce {
			p.delay = restartFloor - lasted(last)
		}
	}
	return p
}

// asked reports whether an end was part of doing what somebody wanted, so that the next start is no new try.
func asked(e *state.Exit) bool {
	return e.Class == spec.Expected && (e.Reason == spec.ReasonStopRequested || e.Reason == spec.ReasonCancelled)
}

// sequels is what follows each action of the restart policy.
var sequels = map[spec.ExitAction]sequel{
	spec.ExitBackoff: sequelRetry, spec.ExitRestart: sequelRestart, spec.ExitComplete: sequelComplete, spec.ExitFail: sequelFail,
}

// sequelOf is what the restart policy says of an end. Of one that we brought about, after a failed probe or a missed deadline,
// it says nothing: that one is tried again (BP-9).
func sequelOf(e *state.Exit, policy *spec.RestartPolicy) sequel {
	if e.Reason == spec.ReasonLivenessFailed || e.Reason == spec.ReasonStartDeadlineExceeded {
		return sequelRetry
	}
	return sequels[policy.Action(e.ExitCode, e.Signal)]
}

// inRow counts the ends at the end of the list, back to and with the last one whose run was stable. Declared restarts do not
// count, and do not end the row either.
func inRow(exits []state.Exit, policy *spec.RestartPolicy) int {
	stable := time.Duration(policy.ResetSeconds) * time.Second
	n := 0
	for i := len(exits) - 1; i >= 0; i-- {
		e := &exits[i]
		if sequelOf(e, policy) != sequelRestart {
			n++
		}
		if lasted(e) >= stable {
			break
		}
	}
	return n
}

// quickInRow counts the declared restarts at the end of the list whose runs were shorter than the floor.
func quickInRow(exits []state.Exit, policy *spec.RestartPolicy) int {
	n := 0
	for i := len(exits) - 1; i >= 0; i-- {
		if e := &exits[i]; lasted(e) >= restartFloor || sequelOf(e, policy) != sequelRestart {
			break
		}
		n++
	}
	return n
}

// lasted is how long the run of an end was, by the wall clock; one that was not seen to start, or that ended before it began, was no
// time at all.
func lasted(e *state.Exit) time.Duration {
	if e.StartedAt == nil {
		return 0
	}
	return max(e.FinishedAt.Sub(*e.StartedAt), 0)
}

// delay is the time between the nth end in a row and the next try: none for the first, then the initial one, doubled for
// each further end up to the maximum, spread by up to a tenth either way so that servers that fell together do not rise together.
func delay(n int, policy spec.RestartPolicy, runID string) time.Duration {
	if n <= 1 || policy.InitialSeconds <= 0 || policy.MaxSeconds <= 0 {
		return 0
	}
	most := time.Duration(policy.MaxSeconds) * time.Second
	d := time.Duration(policy.InitialSeconds) * time.Second
	for i := 2; i < n && d < most; i++ {
		d *= 2
	}
	d = min(d, most)
	return d + time.Duration(float64(d)*0.1*spread(runID))
}

// spread maps a run's id evenly to [-1, 1). The same run always gets the same.
func spread(runID string) float64 {
	h := fnv.New64a()
	h.Write([]byte(runID))
	// FNV's low bits mix better than its high ones.
	return float64(h.Sum64()&0xffff)/0x8000 - 1
}

// sighting is when the loop first saw an end. From then on the wait runs on the monotonic clock: the wall clock may jump.
type sighting struct {
	Number int64
	At     state.Moment
}

// dueAt is the uptime at which the next try is due. The part of the delay that passed before the end was seen is
// taken off by the wall clock, which may have jumped: never less than nothing, never more than the delay.
func (p patience) dueAt(seen sighting) time.Duration {
	passed := min(max(seen.At.Wall.Sub(p.last.FinishedAt), 0), p.delay)
	return seen.At.Uptime + p.delay - passed
}

// stableLeft is how much of the time that makes a run stable was left at a moment of the wall clock.
func stableLeft(startedAt time.Time, policy spec.RestartPolicy, at time.Time) time.Duration {
	stable := time.Duration(policy.ResetSeconds) * time.Second
	return stable - min(max(at.Sub(startedAt), 0), stable)
}
