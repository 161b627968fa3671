package reconcile

import (
	"slices"
	"strconv"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// outlook is what a status shows beside what deciding takes.
type outlook struct {
	object     *spec.Accepted[spec.Server] // nil = in no source
	res        resolved                    // of object
	recorded   bool                        // the newest good manifest is durable
	limited    string                      // why the host has no room for its start now
	waitsFor   string                      // copies that keep the roll-out from replacing this one
	keeper     bool                        // the keeper has been heard whole at least once
	guarantees []spec.Guarantee
	coming     map[string]coming // by the name of a schedule
}

// statusOf puts the public status together. It shows no process number, path, argument, environment value or hash (I10).
// Transition times are left to [carry].
func statusOf(s *standing, o *outlook, d *decision, now state.Moment) spec.ServerStatus {
	st := spec.ServerStatus{State: stateOf(s, o, d), Guarantees: o.guarantees}
	if s.mem != nil {
		st.ObservedGeneration = s.mem.Generation
		st.LastAction = s.mem.LastAction
	}
	if h := s.hold(now); h != nil {
		st.Hold = &spec.HoldStatus{State: h.State, Reason: h.Reason, By: h.By, Since: h.Since, Until: timeOrNil(h.Until)}
	}
	if o.object != nil {
		from := o.object.Source
		st.Source = &spec.SourceStatus{File: from.File, Document: from.Document, Revision: from.Revision}
	}
	if shown := s.shown(d); shown != nil {
		f := shown.facts
		if run := f.Run; run != nil {
			st.Run = &spec.RunStatus{Number: run.Number, StartedAt: timeOrNil(run.StartedAt), ReadyAt: timeOrNil(run.ReadyAt), Restarts: f.Counters.Restarts}
			st.Leftovers = leftovers(run)
			if d.sit == up && shown == d.lane {
				st.Run.ReadyBy = readyByOf(run)
			}
			if d.sit == up && shown == d.lane && s.probing.runID == run.ID {
				st.Players = s.probing.crowd.status()
			}
		}
		st.Console = consoleOf(f)
		if n := len(f.Exits); n > 0 {
			st.LastExit = &f.Exits[n-1].ExitStatus
		}
	}
	switch {
	case d.gate == gateBackOff:
		at := d.lane.end.At.Wall.Add(d.dueAt - d.lane.end.At.Uptime)
		st.NextStartAt = &at
	case d.refused && d.sit == vacant && d.wish.intent == intentRun:
		at := now.Wall.Add(s.attempt.until - now.Uptime)
		st.NextStartAt = &at
	}
	st.Schedules = scheduleStatuses(s, o)
	st.Conditions = conditions(s, o, d, &st)
	if st.Run != nil && isReady(st.Conditions) {
		st.Run.ReadyBy = nil // also as long as the keeper has not recorded it
	}
	return st
}

func isReady(conditions []spec.Condition) bool {
	return slices.ContainsFunc(conditions, func(c spec.Condition) bool { return c.Type == spec.ConditionReady && c.Status == conditionTrue })
}

// readyByOf is when a run that has not been Ready yet is ended for it; nil = never.
func readyByOf(run *observe.RunFacts) *time.Time {
	if run.StartDeadlineSeconds <= 0 || !run.ReadyAt.IsZero() || run.StartedAt.IsZero() {
		return nil
	}
	by := run.StartedAt.Add(time.Duration(run.StartDeadlineSeconds) * time.Second)
	return &by
}

// consoleOf says how lines reach a run and what became of the last one; nil = nothing is to be said.
func consoleOf(f *observe.Facts) *spec.ConsoleStatus {
	var c spec.ConsoleStatus
	if !f.Run.Over() && f.Run.Console != nil {
		c.Input = f.Run.Console.Input
	}
	for i := range f.Deliveries {
		d := &f.Deliveries[i]
		if d.Command != "" {
			continue // what a command came to is told where it was asked for
		}
		c.Last = &spec.DeliveryStatus{By: d.By, At: d.At, Run: d.Run, Rail: d.Rail, Result: string(d.Result), Reason: d.Reason}
		if d.Keys != nil {
			c.Last.Keys, c.Last.Bytes, c.Last.Until = true, d.Keys.Bytes, d.Keys.Until
		}
	}
	if c == (spec.ConsoleStatus{}) {
		return nil
	}
	return &c
}

// shown is the scope whose run and last end the status tells: the one that was decided on, else the one that ended last.
func (s *standing) shown(d *decision) *lane {
	if d.lane != nil {
		return d.lane
	}
	var last *lane
	for _, l := range s.lanes {
		if last == nil || endOf(l).After(endOf(last)) {
			last = l
		}
	}
	return last
}

func endOf(l *lane) time.Time {
	if n := len(l.facts.Exits); n > 0 {
		return l.facts.Exits[n-1].FinishedAt
	}
	return time.Time{}
}

// leftovers says what remains of a run whose main process is gone: a number, Unknown, or nothing.
func leftovers(run *observe.RunFacts) string {
	mainGone := run.MainExit != nil || run.Alive == observe.Dead || run.Over()
	switch {
	case !mainGone:
		return ""
	case run.Tree.State == observe.TreeUnknown:
		return "Unknown"
	case run.Tree.State == observe.TreePopulated && run.Tree.Count > 0:
		return strconv.Itoa(run.Tree.Count)
	case run.Tree.State == observe.TreePopulated:
		return "Unknown"
	}
	return ""
}

// stateOf is the one word.
func stateOf(s *standing, o *outlook, d *decision) spec.ServerState {
	switch d.sit {
	case blocked, unverified:
		return spec.StateBlocked
	case launching:
		return spec.StateStarting
	case draining, ending, stopping:
		return spec.StateStopping
	case up:
		if d.lane.facts.Run.ReadyAt.IsZero() && !d.ready.ok() {
			return spec.StateStarting
		}
		return spec.StateRunning
	}
	switch {
	case !o.keeper:
		return spec.StatePending
	case d.wish.intent == intentEnd, d.wish.intent == intentGone, d.gate == gateComplete:
		return spec.StateStopped
	case d.gate == gateFailed:
		return spec.StateFailed
	case d.gate == gateBackOff:
		return spec.StateBackOff
	}
	return spec.StatePending
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// carry gives each condition its transition time: the old one while the status is the same; else, and on the first
// visit, the time that the facts give, so that our own restart changes none that facts can tell.
func carry(old, next []spec.Condition, s *standing, d *decision, now time.Time) {
	for i := range next {
		c := &next[i]
		at := slices.IndexFunc(old, func(o spec.Condition) bool { return o.Type == c.Type })
		if at >= 0 && old[at].Status == c.Status {
			c.LastTransitionTime = old[at].LastTransitionTime
			continue
		}
		c.LastTransitionTime = sinceFacts(c, s, d, now)
		if at >= 0 && c.LastTransitionTime.Before(old[at].LastTransitionTime) {
			c.LastTransitionTime = now
		}
	}
}

// sinceFacts is since when a condition has its status, as well as facts and memory know.
func sinceFacts(c *spec.Condition, s *standing, d *decision, now time.Time) time.Time {
	created, changed := now, now
	if s.mem != nil {
		created, changed = s.mem.CreatedAt, s.mem.ChangedAt
	}
	ended, begun, ready := created, created, created
	if l := s.shown(d); l != nil {
		if t := endOf(l); !t.IsZero() {
			ended = t
		}
		if run := l.facts.Run; !run.Over() {
			begun = firstTime(run.StartedAt, run.LaunchingAt)
			ready = readySince(run, begun, now)
			if run.Stop != nil {
				ended = run.Stop.At.Wall
			}
		}
	}
	isTrue := c.Status == conditionTrue
	switch c.Type {
	case spec.ConditionAccepted:
		if isTrue {
			return created
		}
	case spec.ConditionRunning:
		if isTrue {
			return begun
		}
		return ended
	case spec.ConditionReady:
		if isTrue {
			return ready
		}
		if d.sit == up || d.sit == launching {
			return begun
		}
		return ended
	case spec.ConditionCrashLoop:
		if isTrue {
			return ended
		}
		return created
	case spec.ConditionRestartPending:
		if isTrue {
			return changed
		}
		return created
	case spec.ConditionReconciling:
		if !isTrue {
			return later(ready, ended)
		}
	case spec.ConditionStalled:
		if !isTrue {
			return created
		}
	case spec.ConditionEndpointsReachable:
		switch {
		case isTrue && c.Reason == noEndpoints:
			return begun
		case isTrue:
			return firstTime(readyTime(d), now)
		case d.sit == vacant:
			return ended
		}
		return begun
	}
	return now
}

// readyTime is when the run that was decided on was Ready first, which it was not without its endpoints; zero = never.
func readyTime(d *decision) (at time.Time) {
	if run := runOf(d); !run.Over() {
		at = run.ReadyAt
	}
	return at
}

// readySince is when a living run became Ready, by what made it so.
func readySince(run *observe.RunFacts, begun, now time.Time) time.Time {
	switch with := run.Readiness; {
	case len(run.Endpoints) > 0:
		return firstTime(run.ReadyAt, now)
	case with == nil:
		return begun
	case with.Notify:
		return firstTime(run.NotifiedAt, now)
	case len(with.Log) > 0:
		return firstTime(run.LogSeenAt, now)
	}
	return firstTime(run.ReadyAt, now)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func firstTime(times ...time.Time) time.Time {
	for _, t := range times {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}
