package reconcile

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// turns counts what the loop does.
type turns struct{ turns, visited, orders, failed atomic.Int64 }

func (m *turns) Turn(_ time.Duration, visited int) {
	m.turns.Add(1)
	m.visited.Add(int64(visited))
}

func (m *turns) Order(_ string, _ time.Duration, err error) {
	m.orders.Add(1)
	if err != nil {
		m.failed.Add(1)
	}
}

// At rest the loop looks around once in [resync], at no server, and does nothing.
func TestNothingIsDoneAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.profile("game")
		for _, name := range []string{"a", "b", "c"} {
			h.server(name, "game")
		}
		ctx, cancel := context.WithCancel(t.Context())
		m := &turns{}
		h.loop.opts.Clock, h.loop.opts.Meter = ClockFunc(h.ticking(time.Now())), m
		done := make(chan error)
		go func() { done <- h.loop.Run(ctx) }()
		time.Sleep(20 * time.Minute) // inside the bubble; past every reset time
		synctest.Wait()
		turned, visited, ordered := m.turns.Load(), m.visited.Load(), m.orders.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := m.turns.Load() - turned; n < 359 || n > 361 {
			t.Errorf("%d turns in an hour, want one in %v", n, resync)
		}
		if n := m.visited.Load() - visited; n != 0 {
			t.Errorf("%d servers were looked at", n)
		}
		if n := m.orders.Load() - ordered; n != 0 {
			t.Errorf("%d orders", n)
		}
		cancel()
		<-done
	})
}

// stuck is a keeper that answers nothing about one server.
type stuck struct {
	*host
	server string
}

func (k stuck) Start(ctx context.Context, o state.StartOrder) error {
	if o.Launch.Scope.Server == k.server {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return k.host.Start(ctx, o)
}

// I12: an order that is not answered delays no other server, and its own is tried again when its time is over.
func TestOneStuckOrderDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.profile("game")
		h.server("a", "game")
		h.server("b", "game")
		ctx, cancel := context.WithCancel(t.Context())
		m := &turns{}
		h.loop.opts.Executor = stuck{h, "a"}
		h.loop.opts.Clock, h.loop.opts.Meter = ClockFunc(h.ticking(time.Now())), m
		done := make(chan error)
		go func() { done <- h.loop.Run(ctx) }()
		synctest.Wait()
		h.wantState("a", spec.StatePending)
		h.wantState("b", spec.StateRunning)
		for range 3 {
			h.crash("b", "game")
			h.loop.Wake()
			synctest.Wait()
			time.Sleep(5 * time.Second) // inside the bubble
			synctest.Wait()
			h.wantState("b", spec.StateRunning)
		}
		time.Sleep(orderTimeout)
		synctest.Wait()
		if m.failed.Load() == 0 {
			t.Error("the stuck order never failed")
		}
		h.wantCondition("a", spec.ConditionReconciling, "True", "NoAnswer")
		cancel()
		<-done
	})
}

// Whoever waits when the loop ends is answered; so is who comes later.
func TestEverybodyIsAnsweredAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.profile("game")
		h.server("a", "game")
		h.hidden = true // so that nothing is recorded
		ctx, cancel := context.WithCancel(t.Context())
		h.loop.opts.Clock = ClockFunc(h.ticking(time.Now()))
		done := make(chan error)
		go func() { done <- h.loop.Run(ctx) }()
		synctest.Wait()
		early := h.loop.Submit(ActionStop, Ask{Server: key("a"), By: "anna"})
		down := make(chan error)
		go func() { down <- h.loop.Shutdown(t.Context(), "anna") }()
		synctest.Wait()
		cancel()
		<-done
		late := h.loop.Submit(ActionStop, Ask{Server: key("a"), By: "anna"})
		for what, answer := range map[string]<-chan error{"early": early, "late": late, "shutdown": down} {
			if err := <-answer; err == nil {
				t.Errorf("%s: answered as done", what)
			}
		}
	})
}

// handing is a keeper that hands over each start.
type handing struct {
	*host
	started chan state.StartOrder
	changed chan struct{}
	facts   atomic.Pointer[[]*observe.Facts]
}

func (k *handing) Facts() ([]*observe.Facts, bool) { return *k.facts.Load(), true }
func (k *handing) Changed() <-chan struct{}        { return k.changed }
func (k *handing) Start(_ context.Context, o state.StartOrder) error {
	k.started <- o
	return nil
}

// From the facts of a crash to the order at the keeper's door, through the running loop, among 1,000 servers.
func BenchmarkRunCrashToStart1000(b *testing.B) {
	h := thousand(b, 1000)
	k := &handing{host: h, started: make(chan state.StartOrder), changed: make(chan struct{}, 1)}
	k.facts.Store(&h.shown)
	h.loop.opts.Executor = k
	began := time.Now()
	h.loop.opts.Clock = ClockFunc(func() state.Moment {
		return state.Moment{Wall: h.wall.Add(time.Since(began)), BootID: h.boot, Uptime: h.uptime + time.Since(began)}
	})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- h.loop.Run(ctx) }()
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		f := h.shown[i%1000]
		i++
		next, run := *f, *f.Run
		started := run.StartedAt
		run.Phase, run.Alive, run.Tree.State = state.Exited, observe.Dead, observe.TreeEmpty
		next.Run = &run
		next.Exits = append(next.Exits[:len(next.Exits):len(next.Exits)], state.Exit{
			Number: run.Number, RunID: run.ID, Generation: run.Generation,
			ExitStatus: spec.ExitStatus{Class: spec.Unexpected, Reason: spec.ReasonSignaled, StartedAt: &started, FinishedAt: h.wall},
		})
		list := append([]*observe.Facts(nil), *k.facts.Load()...)
		list[(i-1)%1000] = &next
		k.facts.Store(&list)
		k.changed <- struct{}{}
		<-k.started
		run.Number++ // it runs again, and has run for long
		again := run
		again.Phase, again.Alive, again.Tree.State = state.Started, observe.Alive, observe.TreePopulated
		up := next
		up.Run, up.Exits = &again, nil
		h.shown[(i-1)%1000] = &up
		list = append([]*observe.Facts(nil), list...)
		list[(i-1)%1000] = &up
		k.facts.Store(&list)
	}
	cancel()
	<-done
}
