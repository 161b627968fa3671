package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"reconciler.dev/reconciler/spec"
)

// Ask is a person's request about one server.
type Ask struct {
	Server spec.Key
	By     string        // the actor, from the peer's credentials
	Reason string        // free text
	For    time.Duration // how long a hold lasts; 0 = until it is released
	Force  bool          // Stop and Restart: go to the kill at once
}

// What an Ask may be refused with.
var (
	ErrNoServer = errors.New("there is no such server")
	ErrStopped  = errors.New("the server is stopped: start it instead")
	ErrClosing  = errors.New("the reconciler is shutting down")
	// ErrUnrecorded comes with what the disk said.
	ErrUnrecorded = errors.New("cannot record it")
)

// UntoldError names the servers that a shutdown has left alone, as nobody can tell what runs there.
type UntoldError struct {
	Keys []spec.Key // sorted
}

func (e *UntoldError) Error() string {
	return "cannot end " + keyList(e.Keys) + ": what runs there cannot be told; see 'reconciler doctor'"
}

// Action is what a person may ask for.
type Action string

// The actions.
const (
	ActionStop    Action = "Stop"
	ActionStart   Action = "Start"
	ActionRestart Action = "Restart"
	ActionRelease Action = "Release"

	actionWithdraw Action = "Withdraw" // of a job: its Restart, as long as that has not begun
)

// Stop holds a server Stopped. It returns when the hold is durable; the stop itself follows and shows in the snapshot.
func (l *Loop) Stop(ctx context.Context, a Ask) error { return l.ask(ctx, ActionStop, a) }

// Start releases a hold and, where the manifest says Stopped, holds the server Running. A server that waits for its next
// try, has failed or has completed starts at once.
func (l *Loop) Start(ctx context.Context, a Ask) error { return l.ask(ctx, ActionStart, a) }

// Restart replaces the server's run by a new one, once, also across our crash. Of a server that waits or has
// ended it starts one. A server that is to be stopped answers ErrStopped.
func (l *Loop) Restart(ctx context.Context, a Ask) error { return l.ask(ctx, ActionRestart, a) }

// Release ends a hold: the manifest's state counts again. Without a hold it is a success that changes nothing.
func (l *Loop) Release(ctx context.Context, a Ask) error { return l.ask(ctx, ActionRelease, a) }

func (l *Loop) ask(ctx context.Context, action Action, a Ask) error {
	select {
	case err := <-l.Submit(action, a):
		return err
	case <-ctx.Done():
		return fmt.Errorf("cannot wait until %s of %s is recorded: %w", action, a.Server, context.Cause(ctx))
	}
}

// Submit is Stop, Start, Restart or Release without waiting: the answer comes on the channel, once.
func (l *Loop) Submit(action Action, a Ask) <-chan error {
	q := &ask{Ask: a, action: action, answer: make(chan error, 1)}
	l.mu.Lock()
	if l.ended {
		q.answer <- ErrClosing
	} else {
		l.inbox = append(l.inbox, q)
	}
	l.mu.Unlock()
	l.Wake()
	return q.answer
}

// ask is a request on its way to being recorded.
type ask struct {
	Ask
	action Action
	job    *JobMemory // that asks; nil = a person does
	answer chan error // one slot
}

// apply is what the memory becomes by a request; m itself when nothing changes. It changes nothing of what it is given.
func (q *ask) apply(m *Memory, manifest string, last Mark, running bool, now time.Time) (*Memory, error) {
	next := *m
	if q.job != nil {
		if q.action == ActionRestart && !q.job.On.is(last) {
			return nil, ErrRunGone
		}
		next.LastJob = q.job.id()
	}
	next.LastAction = &spec.ActionStatus{Type: string(q.action), By: q.By, At: now}
	hold := &Hold{Reason: q.Reason, By: q.By, Since: now}
	if q.For > 0 {
		hold.Until = now.Add(q.For)
	}
	switch q.action {
	case ActionStop:
		hold.State, hold.Force = spec.WishStopped, q.Force
		next.Hold = hold
	case ActionStart:
		next.Hold = nil
		if manifest == spec.WishStopped {
			hold.State = spec.WishRunning
			next.Hold = hold
		}
		if !running {
			next.Fresh = &last
		}
	case ActionRestart:
		wished := manifest
		if m.Hold != nil && (m.Hold.Until.IsZero() || now.Before(m.Hold.Until)) {
			wished = m.Hold.State
		}
		if wished == spec.WishStopped {
			return nil, ErrStopped
		}
		next.Fresh = &last
		next.Restart = &Request{Mark: last, By: q.By, Reason: q.Reason, At: now, Force: q.Force}
		if q.job != nil {
			next.Restart.Job, next.Restart.Scheduled = q.job.id(), q.job.Origin != nil // announcements are no restarts
		}
	case actionWithdraw:
		if m.Restart == nil || m.Restart.Job != q.job.id() {
			return m, nil
		}
		next.Restart, next.LastAction = nil, m.LastAction
	case ActionRelease:
		if m.Hold == nil {
			return m, nil
		}
		next.Hold = nil
	default:
		return nil, fmt.Errorf("cannot do %q: it is none of Stop, Start, Restart and Release", q.action)
	}
	return &next, nil
}

// lastRun is the run that a request is about: the one that lives, else the last of the selected profile.
func (s *server) lastRun() (m Mark, running bool) {
	l, sit := s.foremost()
	if sit == vacant {
		l = s.own()
	}
	if l == nil || l.facts.Run == nil {
		return Mark{Profile: s.profileName()}, false
	}
	run := l.facts.Run
	return Mark{Profile: l.facts.Scope.Profile, Number: run.Number, Run: run.ID}, !run.Over()
}

// profileName is the profile that governs the server, else the one that it selects.
func (s *server) profileName() string {
	switch {
	case s.good != nil:
		return s.good.launch.Scope.Profile
	case s.object != nil:
		return s.object.Object.Spec.Profile
	case len(s.lanes) > 0:
		return s.lanes[0].facts.Scope.Profile
	}
	return ""
}

// Shutdown stops every run, sets no hold, and starts nothing from then on. It returns nil when no run is left, and
// an [UntoldError] when none is but those that cannot be told and are left alone.
func (l *Loop) Shutdown(ctx context.Context, by string) error {
	answer := make(chan error, 1)
	l.mu.Lock()
	if l.ended {
		answer <- ErrClosing
	} else {
		l.closers = append(l.closers, closer{by, answer})
	}
	l.mu.Unlock()
	l.Wake()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("cannot wait until every run has ended: %w", context.Cause(ctx))
	}
}

// closer waits for a shutdown.
type closer struct {
	by     string
	answer chan error // one slot
}

// takeClosers begins a shutdown when somebody asked for one.
func (l *Loop) takeClosers() {
	l.mu.Lock()
	fresh := l.closers
	l.closers = nil
	l.mu.Unlock()
	if len(fresh) == 0 {
		return
	}
	l.waiting = append(l.waiting, fresh...)
	if l.closing {
		return
	}
	l.closing, l.closedBy, l.changed = true, fresh[0].by, true
	for _, s := range l.servers {
		s.closing, s.closedBy = true, l.closedBy
		l.touch(s)
	}
}

// answerClosers tells those who wait for a shutdown that nothing is left that we may end.
func (l *Loop) answerClosers(now time.Duration) {
	if len(l.waiting) == 0 || !l.heard {
		return
	}
	var untold []spec.Key
	for _, s := range l.servers {
		switch {
		case s.busy:
			return
		case s.attempt.key.kind == "Start" && s.attempt.err == nil && now < s.attempt.until:
			l.soonest(s.attempt.until) // its run may not show in the facts yet
			return
		case s.last.sit == blocked || s.last.sit == unverified:
			untold = append(untold, s.key)
		case s.last.sit != vacant:
			return
		}
	}
	var left error
	if len(untold) > 0 {
		slices.SortFunc(untold, compareKeys)
		left = &UntoldError{untold}
	}
	for _, c := range l.waiting {
		c.answer <- left
	}
	l.waiting = nil
}
