package reconcile

import (
	"context"
	"errors"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Order is one thing to be done beside the loop: for the keeper (at most one in flight a server), the store (one batch in
// flight) or a probe (one of each purpose in flight a run). Exactly one member is set.
type Order struct {
	Scope spec.Scope // zero for Save and Look

	Start   *state.StartOrder
	Stop    *state.StopOrder
	Step    *state.StepOrder
	Live    *state.LiveOrder
	Ready   *state.ReadyOrder
	Archive *state.ScopeOrder
	Save    *SaveOrder
	Check   *CheckOrder
	Look    *LookOrder
	Do      *CommandOrder
}

// SaveOrder makes memories durable; nil deletes one.
type SaveOrder struct {
	Memories map[spec.Key]*Memory
	Jobs     map[spec.Key]*JobMemory
}

// CommandOrder is a command of a job, or the question what became of it.
type CommandOrder struct {
	state.DoOrder
	Job     spec.Key
	Within  time.Duration // how long it may wait to be begun, and its answer be waited for
	Receipt state.Receipt // the answer, when there was no error
}

// playersTimeout is how long a server may take to say how many play.
const playersTimeout = 3 * time.Second

// CheckOrder asks an endpoint of a run: whether it is Ready or lives, by Probe, or how many play, by Players.
type CheckOrder struct {
	For      purpose
	RunID    string
	Endpoint spec.LaunchEndpoint
	Probe    *spec.LaunchProbe
	Players  *spec.LaunchPlayers
	Count    int // the answer, when there was no error
}

// Kind names what the order is, for logs and metrics.
func (o Order) Kind() string {
	switch {
	case o.Start != nil:
		return "Start"
	case o.Stop != nil:
		return "Stop"
	case o.Step != nil:
		return "Step"
	case o.Live != nil:
		return "ApplyLive"
	case o.Ready != nil:
		return "MarkReady"
	case o.Archive != nil:
		return "Archive"
	case o.Save != nil:
		return "Save"
	case o.Check != nil:
		return "Check"
	case o.Look != nil:
		return "Look"
	case o.Do != nil:
		return "Do"
	}
	return "None"
}

// CarryOut does what the order says; its answer is for [Loop.Done].
func (o Order) CarryOut(ctx context.Context, e Executor, store Store, jobs JobStore, c Checker) error {
	switch {
	case o.Start != nil:
		return e.Start(ctx, *o.Start)
	case o.Stop != nil:
		return e.Stop(ctx, *o.Stop)
	case o.Step != nil:
		return e.Step(ctx, *o.Step)
	case o.Live != nil:
		return e.ApplyLive(ctx, *o.Live)
	case o.Ready != nil:
		return e.MarkReady(ctx, *o.Ready)
	case o.Archive != nil:
		return e.Archive(ctx, *o.Archive)
	case o.Save != nil:
		return o.Save.write(ctx, store, jobs)
	case o.Check != nil:
		return o.Check.carryOut(ctx, c)
	case o.Look != nil:
		found, err := e.Listening(ctx, o.Look.Runs)
		o.Look.Found = found
		return err
	case o.Do != nil:
		receipt, err := e.Do(ctx, o.Do.DoOrder)
		o.Do.Receipt = receipt
		return err
	}
	return errors.New("cannot carry out an order without content")
}

func (o *CheckOrder) carryOut(ctx context.Context, c Checker) (err error) {
	if o.Players != nil {
		o.Count, err = c.Count(ctx, o.Endpoint, o.Players)
		return err
	}
	return c.Check(ctx, o.Endpoint, o.Probe)
}

// timeout is how long an order may take.
func (o Order) timeout() time.Duration {
	if o.Check != nil && o.Check.Players != nil {
		return playersTimeout
	}
	if o.Check != nil {
		return time.Duration(max(o.Check.Probe.TimeoutSeconds, 1)) * time.Second
	}
	if o.Look != nil {
		return lookTimeout
	}
	if o.Do != nil {
		return o.Do.Within
	}
	return orderTimeout
}

// detail tells orders of one kind for one scope apart: the delivery that one is about, or what a run is asked for.
func (o Order) detail() string {
	switch {
	case o.Do != nil:
		return o.Do.ID
	case o.Check != nil:
		return string(o.Check.For)
	}
	return ""
}
