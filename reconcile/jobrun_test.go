package reconcile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// silent is a keeper that takes commands and answers none of them: whoever waits waits in vain. The record tells.
type silent struct {
	*host
	given chan state.DoOrder
	until chan time.Duration // how long each was waited for
}

func (k silent) Do(ctx context.Context, o state.DoOrder) (state.Receipt, error) {
	if o.Recall {
		return k.host.Do(ctx, o)
	}
	began := time.Now()
	_, err := k.host.Do(ctx, o)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return state.Receipt{}, err
	}
	k.given <- o
	<-ctx.Done()
	k.until <- time.Since(began)
	return state.Receipt{}, context.Cause(ctx)
}

// A deadline passes by the clock alone: nothing begins after it, whoever waits for the keeper gives up, and what was under way is
// told by the record, once (BP-11, EN-6). Meanwhile a job of another server comes to its end (I12).
func TestJobDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.profile("game", withCommands(console("save"), console("load")))
		h.server("town", "game")
		h.server("other", "game")
		h.settle()
		h.commands.hang["save"] = true
		k := silent{h, make(chan state.DoOrder, 8), make(chan time.Duration, 8)}
		h.loop.opts.Executor, h.loop.opts.Clock = k, ClockFunc(h.ticking(time.Now()))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.loop.Run(ctx) }()

		thirty := int64(30)
		add := func(name, server, command string) {
			t.Helper()
			ask := JobAsk{Key: key(name), By: "anna", Spec: spec.JobSpec{Server: server, Command: command, DeadlineSeconds: &thirty}}
			if err := h.loop.AddJob(ctx, ask); err != nil {
				t.Fatal(err)
			}
		}
		add("save-1", "town", "save")
		add("load-1", "town", "load")
		add("load-2", "other", "load")
		order, other := <-k.given, <-k.given
		if other.Scope.Server == order.Scope.Server {
			t.Errorf("%s and %s are both under way in one server", order.Command, other.Command)
		}
		if order.Command != "save" { // servers wait for nobody: either may come first
			order = other
		}
		synctest.Wait()
		phase := func(name string) spec.JobPhase { return h.loop.Snapshot().Job(key(name)).Status.Phase }
		if phase("save-1") != spec.JobRunning || phase("load-1") != spec.JobPending {
			t.Errorf("save is %s, load is %s", phase("save-1"), phase("load-1"))
		}
		if waited := <-k.until; waited > 30*time.Second {
			t.Errorf("the keeper was waited for %v, the job has 30 s", waited)
		}
		time.Sleep(time.Minute) // inside the bubble
		synctest.Wait()
		if phase("save-1") != spec.JobRunning || phase("load-1") != spec.JobCancelled {
			t.Errorf("after the deadline save is %s, load is %s", phase("save-1"), phase("load-1"))
		}
		h.change(order.Scope, func(f *observe.Facts) {
			f.Deliveries = []state.Delivery{{ID: order.ID, Command: order.Command, RunID: order.RunID, Result: state.Done}}
		})
		h.loop.Wake()
		time.Sleep(time.Second)
		synctest.Wait()
		if phase("save-1") != spec.JobSucceeded {
			t.Errorf("save is %s", phase("save-1"))
		}
		h.once()
		cancel()
		<-done
	})
}
