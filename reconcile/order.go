package reconcile

import (
	"context"
	"errors"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/probe"
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
	Reload  *state.ReloadOrder
	Save    *SaveOrder
	Check   *CheckOrder
	Look    *LookOrder
	Do      *CommandOrder
	Prove   *ProveOrder
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
const playersTimeout = spec.PlayersSeconds * time.Second

// CheckOrder asks a run, mostly at an endpoint: whether it is Ready or lives, by Probe, or how many play, by Players. Some are asked
// through the keeper.
type CheckOrder struct {
	For      spec.Purpose
	RunID    string
	Endpoint spec.LaunchEndpoint
	Probe    *spec.LaunchProbe
	Players  *spec.LaunchPlayers
	Count    int    // the answer, when there was no error
	Hindered string // why the keeper could not ask; it is public
	Output   string // what the program of a failed probe has written last; not for the public
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
	case o.Reload != nil:
		return "Reload"
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
	case o.Prove != nil:
		return "Prove"
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
	case o.Reload != nil:
		return e.Reload(ctx, *o.Reload)
	case o.Archive != nil:
		return e.Archive(ctx, *o.Archive)
	case o.Save != nil:
		return o.Save.write(ctx, store, jobs)
	case o.Check != nil:
		return o.Check.carryOut(ctx, o.Scope, e, c)
	case o.Look != nil:
		found, err := e.Listening(ctx, o.Look.Runs)
		o.Look.Found = found
		return err
	case o.Do != nil:
		receipt, err := e.Do(ctx, o.Do.DoOrder)
		o.Do.Receipt = receipt
		return err
	case o.Prove != nil:
		receipt, err := e.Do(ctx, o.Prove.DoOrder)
		o.Prove.Receipt = receipt
		return err
	}
	return errors.New("cannot carry out an order without content")
}

func (o *CheckOrder) carryOut(ctx context.Context, scope spec.Scope, e Executor, c Checker) (err error) {
	if o.ThroughKeeper() {
		return o.Take(e.Probe(ctx, o.Probing(scope)))
	}
	if o.Players != nil {
		o.Count, err = c.Count(ctx, o.Endpoint, o.Players)
		return err
	}
	return c.Check(ctx, o.Endpoint, o.Probe)
}

// ThroughKeeper reports whether only the keeper can ask.
func (o *CheckOrder) ThroughKeeper() bool {
	if o.Players != nil {
		return o.Players.HTTP != nil
	}
	return o.Probe.Exec != nil || o.Probe.HTTP != nil || o.Probe.Notify || o.Probe.Proxy != nil && o.Probe.Proxy.BasicAuth != nil
}

// Probing is the order for the keeper.
func (o *CheckOrder) Probing(scope spec.Scope) state.ProbeOrder {
	return state.ProbeOrder{Scope: scope, RunID: o.RunID, For: o.For, At: o.Endpoint.Address}
}

// Take is the answer to the order from what the keeper answered. That it did not is nobody's failure.
func (o *CheckOrder) Take(p observe.Probed, err error) error {
	switch {
	case err != nil:
		return probe.CannotRun(err)
	case p.Result == observe.ProbePassed:
		o.Count = p.Count
		return nil
	case p.Result == observe.ProbeFailed:
		o.Output = p.Output
		return errors.New(p.Detail)
	}
	o.Hindered = p.Detail
	return probe.CannotRun(errors.New(p.Detail))
}

// probePatience is how long after its own time the keeper's answer to a question is waited for: whether that was over is for the
// keeper to say.
const probePatience = 5 * time.Second

// timeout is how long an order may take.
func (o Order) timeout() time.Duration {
	if o.Check != nil {
		return o.Check.timeout()
	}
	if o.Look != nil {
		return lookTimeout
	}
	if o.Do != nil {
		return o.Do.Within
	}
	if o.Prove != nil {
		return time.Duration(o.Prove.Launch.Check.TimeoutSeconds)*time.Second + proveGrace
	}
	return orderTimeout
}

func (o *CheckOrder) timeout() time.Duration {
	limit := playersTimeout
	if o.Players == nil {
		limit = time.Duration(max(o.Probe.TimeoutSeconds, 1)) * time.Second
	}
	if o.ThroughKeeper() {
		limit += probePatience
	}
	return limit
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
