package cli

import (
	"fmt"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/spec"
)

// verdict is what one look at a server says of a goal.
type verdict int

const (
	notYet verdict = iota
	reached
	missed // and it will not be reached by waiting
)

// goal is where an order sends a server, and what it was like when the order was given.
type goal struct {
	verb    string
	key     spec.Key
	outcome api.Outcome
	given   time.Time
	run     int64 // number of the run at that time
	seen    bool  // what is shown is newer than the order
}

func newGoal(verb string, k spec.Key, out api.Outcome, now time.Time) *goal {
	g := &goal{verb: verb, key: k, outcome: out, given: now}
	if r := out.Server.Status.Run; r != nil {
		g.run = r.Number
	}
	return g
}

// word is what has become of the server.
func (g *goal) word() string {
	switch {
	case g.verb == api.VerbStop:
		return "stopped"
	case g.verb == api.VerbRestart:
		return "restarted"
	case g.outcome.Unchanged:
		return "running (already)"
	}
	return "started"
}

// judge looks at a server. A nil server is one that is in no source and has no process any more.
func (g *goal) judge(s *api.Server) (verdict, error) {
	if s == nil {
		if g.verb == api.VerbStop {
			return reached, nil
		}
		return missed, fmt.Errorf("%s was removed meanwhile", serverRef(g.key))
	}
	if g.verb == api.VerbStop {
		return g.stopped(s)
	}
	return g.ready(s)
}

func (g *goal) stopped(s *api.Server) (verdict, error) {
	st := s.Status
	held := st.Hold != nil && st.Hold.State == spec.WishStopped
	g.seen = g.seen || held || g.acted(st)
	switch {
	case !g.seen && s.Metadata.DeletionTimestamp == nil:
		return notYet, nil // what is shown is older than the order
	case st.State == spec.StateStopped:
		return reached, nil
	case st.Hold != nil && st.Hold.State == spec.WishRunning:
		return missed, fmt.Errorf("%s was started meanwhile by %s", serverRef(g.key), st.Hold.By)
	case !held && s.Metadata.DeletionTimestamp == nil:
		return missed, fmt.Errorf("%s: the hold ended before it was stopped", serverRef(g.key))
	case st.State == spec.StateBlocked:
		return missed, fmt.Errorf("%s is blocked: %s", serverRef(g.key), why(st))
	}
	return notYet, nil
}

// acted reports whether somebody has acted on the server since the order was given: we have.
func (g *goal) acted(st spec.ServerStatus) bool {
	before := g.outcome.Server.Status.LastAction
	return st.LastAction != nil && (before == nil || !st.LastAction.At.Equal(before.At))
}

func (g *goal) ready(s *api.Server) (verdict, error) {
	st := s.Status
	heldStopped := st.Hold != nil && st.Hold.State == spec.WishStopped
	renewed := g.verb != api.VerbRestart || st.Run != nil && st.Run.Number > g.run
	g.seen = g.seen || g.acted(st)
	switch {
	case renewed && !heldStopped && st.State == spec.StateRunning && conditionStatus(st, spec.ConditionReady) == "True":
		return reached, nil
	case endedSince(g.key, st, g.given) != nil:
		return missed, endedSince(g.key, st, g.given)
	case !g.seen:
		return notYet, nil // what is shown is older than the order
	case heldStopped:
		return missed, fmt.Errorf("%s was stopped meanwhile by %s", serverRef(g.key), st.Hold.By)
	}
	switch st.State {
	case spec.StateFailed:
		return missed, fmt.Errorf("%s has failed: %s", serverRef(g.key), why(st))
	case spec.StateBlocked:
		return missed, fmt.Errorf("%s is blocked: %s", serverRef(g.key), why(st))
	}
	return notYet, nil
}

// endedSince is the end of a run after t that leads to no Ready by itself, as an error (EC-12): an unexpected one, and one that
// completed.
func endedSince(k spec.Key, st spec.ServerStatus, t time.Time) error {
	x := st.LastExit
	if x == nil || x.Class != spec.Unexpected && x.Reason != spec.ReasonCompleted || !x.FinishedAt.After(t) {
		return nil
	}
	text := string(x.Reason)
	if end := endText(x); end != none {
		text += ", " + end
	}
	return fmt.Errorf("%s did not become ready: its process ended (%s); 'reconciler logs %s --previous' may say why", serverRef(k), text, k.Name)
}

// why is the first condition that says what is wrong.
func why(st spec.ServerStatus) string {
	for _, kind := range []string{spec.ConditionStalled, spec.ConditionAccepted, spec.ConditionRunning, spec.ConditionReady} {
		for _, c := range st.Conditions {
			bad := c.Status == "False"
			if kind == spec.ConditionStalled {
				bad = c.Status == "True"
			}
			if c.Type != kind || !bad {
				continue
			}
			if c.Message == "" {
				return c.Reason
			}
			return c.Message + " (" + c.Reason + ")"
		}
	}
	return "no condition says why"
}
