package reconcile

import (
	"fmt"
	"strings"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// tell notes what happened between two views of a server, in the words of Kubernetes where it has one.
func (s *server) tell(old, next *ServerView, now time.Time) {
	normal := func(reason, message string) { s.happened(EventNormal, reason, message, now) }
	warning := func(reason, message string) { s.happened(EventWarning, reason, message, now) }

	if !s.told {
		if s.told = s.keeper; !s.told {
			return // what is there is not known yet
		}
		if run := runOf(&s.last); !run.Over() {
			normal("Adopted", "the run that was there goes on")
		} else if run != nil {
			s.toldStop, s.toldKill = run.ID, run.ID // by the reconciler before us
			if run.Stop != nil {
				s.toldSteps = len(run.Stop.Steps)
			}
		}
		// What facts tell for the first time has happened before, conditions apart.
		base := &ServerView{Status: spec.ServerStatus{Run: next.Status.Run, LastExit: next.Status.LastExit, State: next.Status.State, Console: next.Status.Console}}
		if old != nil {
			base.Status.Conditions = old.Status.Conditions
		}
		old = base
	}
	s.tellExit(old.Status.LastExit, next.Status.LastExit, normal, warning)
	if a, b := old.Status.Run, next.Status.Run; b != nil && b.StartedAt != nil && (a == nil || a.Number != b.Number || a.StartedAt == nil) {
		started := s.shown(&s.last).facts.Run
		normal("Started", startText(started.Cause, started.By))
	}
	tellLine(old.Status.Console, next.Status.Console, normal, warning)
	s.tellStop(normal, warning)
	s.tellConditions(old, next, normal, warning)
	if old.Status.State != next.Status.State && next.Status.State == spec.StateBackOff {
		warning("BackOff", "it waits before the next try")
	}
}

// tellLine tells of a line that somebody sent, once it is known what became of it, and of somebody who types, when he begins and ends.
func tellLine(old, next *spec.ConsoleStatus, normal, warning func(string, string)) {
	if next == nil || next.Last == nil || next.Last.Result == "" && !next.Last.Keys {
		return
	}
	if old != nil && old.Last != nil && *old.Last == *next.Last {
		return
	}
	d := next.Last
	what := "a line from " + d.By + " by " + d.Rail + ": " + resultText(d.Result, d.Reason)
	switch {
	case d.Keys && d.Result == "":
		normal("Keys", d.By+" types on the terminal")
		return
	case d.Keys && d.Result == string(state.Indeterminate):
		warning("Keys", "nobody knows how much "+d.By+" has typed on the terminal: the keeper has ended meanwhile")
		return
	case d.Keys:
		normal("Keys", fmt.Sprintf("%s has typed %d bytes on the terminal", d.By, d.Bytes))
		return
	}
	if d.Result == string(state.Sent) || d.Result == string(state.Done) {
		normal("Line", what)
		return
	}
	warning("Line", what)
}

func resultText(result, reason string) string {
	if reason == "" {
		return result
	}
	return result + " (" + reason + ")"
}

// tellSteps tells of steps of the ladder that did not come to what was asked for.
func (s *server) tellSteps(stop *state.Stop, warning func(string, string)) {
	for ; s.toldSteps < len(stop.Steps); s.toldSteps++ {
		switch e := stop.Steps[s.toldSteps]; e.Result {
		case "":
			return
		case state.Failed, state.Undeliverable, state.Indeterminate:
			warning("StepFailed", fmt.Sprintf("step %d of the stop: %s", e.Index+1, resultText(string(e.Result), e.Reason)))
		}
	}
}

func (s *server) tellExit(old, next *spec.ExitStatus, normal, warning func(string, string)) {
	if next == nil || old != nil && old.FinishedAt.Equal(next.FinishedAt) {
		return
	}
	if next.Class == spec.Expected {
		normal("Exited", exitText(next))
		return
	}
	warning("Exited", exitText(next))
}

// exitText says how a run ended, without what tells two alike ends apart.
func exitText(e *spec.ExitStatus) string {
	var b strings.Builder
	b.WriteString(string(e.Class) + ", " + string(e.Reason))
	switch {
	case e.Signal != "":
		b.WriteString(", " + e.Signal)
	case e.ExitCode != nil:
		fmt.Fprintf(&b, ", exit code %d", *e.ExitCode)
	}
	if e.Killed {
		b.WriteString(", the kill was reached")
	}
	return b.String()
}

func startText(cause, by string) string {
	if by == "" {
		return "a run was started: " + cause
	}
	return "a run was started: " + cause + ", by " + by
}

// tellStop tells of a stop that was recorded since, and of the kill.
func (s *server) tellStop(normal, warning func(string, string)) {
	run := runOf(&s.last)
	if run == nil || run.Stop == nil {
		return
	}
	if s.toldStop != run.ID {
		s.toldStop, s.toldSteps = run.ID, 0
		if run.Stop.Why == WhyLiveness || run.Stop.Why == WhyDeadline {
			normal = warning
		}
		normal("Stopping", stopText(run.Stop)+s.affects(run))
	}
	s.tellSteps(run.Stop, warning)
	if run.Stop.Killed != nil && s.toldKill != run.ID {
		s.toldKill = run.ID
		warning("Killed", "the stop steps were not enough: the whole tree was killed")
	}
}

func stopText(stop *state.Stop) string {
	text := "the run is being ended: " + reasonOr(stop.Why, string(stop.Reason))
	if stop.By != "" {
		text += ", by " + stop.By
	}
	return text
}

// tellConditions tells of conditions that turned.
func (s *server) tellConditions(old, next *ServerView, normal, warning func(string, string)) {
	for i := range next.Status.Conditions {
		c := &next.Status.Conditions[i]
		was := conditionOf(old, c.Type)
		if was.Status == c.Status && was.Reason == c.Reason {
			continue
		}
		switch c.Type {
		case spec.ConditionAccepted:
			switch {
			case c.Status == conditionTrue && (was.Reason == "Recording" || was.Status == conditionFalse):
				normal("Accepted", "it was accepted")
			case c.Status == conditionFalse:
				warning(c.Reason, c.Message)
			}
		case spec.ConditionReady:
			switch {
			case c.Status == conditionTrue && was.Status == conditionFalse:
				normal("Ready", c.Message)
			case c.Status == conditionFalse && was.Status == conditionTrue && c.Reason == "ProbeFailed":
				warning("Unhealthy", c.Message)
			}
		case spec.ConditionEndpointsReachable:
			switch {
			case c.Reason == portConflict:
				warning("PortConflict", c.Message)
			case c.Reason == "NotListening" && was.Status == conditionTrue:
				warning("NotListening", c.Message)
			case c.Reason == "AddressTooWide":
				warning("AddressTooWide", c.Message)
			case c.Reason == "OpenProxy":
				warning("OpenProxy", c.Message)
			case c.Reason == "PortShared":
				warning("PortShared", c.Message)
			}
		case spec.ConditionCrashLoop:
			if c.Status == conditionTrue && was.Status != conditionTrue {
				warning("CrashLoop", "it ended again and again")
			}
		case spec.ConditionRestartPending:
			switch {
			case c.Reason == "RolloutWaiting" || c.Reason == reasonOccupied || c.Reason == reasonWindow:
				normal(c.Reason, c.Message)
			case c.Reason == reasonAnnounced:
				normal("Announced", c.Message)
			}
			if run := runOf(&s.last); was.Reason == reasonAnnounced && !run.Over() && run.Stop == nil && s.last.countdown == nil {
				normal("PutOff", "what was announced of its end does not come: "+reasonOr(c.Message, c.Reason))
			}
		case spec.ConditionStalled:
			if c.Status == conditionTrue && !toldOfPort(old, next, c) && conditionOf(next, spec.ConditionAccepted).Status != conditionFalse {
				warning(c.Reason, stalledText(s, c))
			}
		}
	}
}

// stalledText is why a server is stalled, without what a check of its spec has written: that is for those who look at it.
func stalledText(s *server, c *spec.Condition) string {
	if c.Reason == reasonConfig {
		return s.proving.why
	}
	return c.Message
}

// toldOfPort reports whether what stalls a server was told already, as it is what EndpointsReachable says too.
func toldOfPort(old, next *ServerView, stalled *spec.Condition) bool {
	c, was := conditionOf(next, spec.ConditionEndpointsReachable), conditionOf(old, spec.ConditionEndpointsReachable)
	same := c.Reason == portConflict && stalled.Reason == portConflict && c.Message == stalled.Message
	return same && (was.Reason != c.Reason || was.Message == c.Message)
}

func conditionOf(v *ServerView, kind string) spec.Condition {
	for _, c := range v.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return spec.Condition{}
}

// tellAsks tells of what people asked for, once it is recorded.
func (s *server) tellAsks(asks []*ask, now time.Time) {
	for _, q := range asks {
		if q.action == actionWithdraw {
			continue // the job tells
		}
		message := "asked for by " + q.By
		if q.Reason != "" {
			message += ": " + q.Reason
		}
		s.happened(EventNormal, string(q.action), message, now)
	}
}

// happened notes an event, for the views and for who is told of each.
func (s *server) happened(kind, reason, message string, now time.Time) {
	s.events = happen(s.events, kind, reason, message, now)
	s.untold = append(s.untold, s.events[len(s.events)-1])
}

// announce tells what has happened since the last time.
func (l *Loop) announce(s *server) {
	if l.opts.Told != nil {
		for _, e := range s.untold {
			l.opts.Told(s.key, e)
		}
	}
	s.untold = nil
}
