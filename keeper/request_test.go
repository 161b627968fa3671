package keeper_test

import (
	"errors"
	"slices"
	"testing"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// asks makes requests of the lines of a launch, and takes its console away.
func asks(l *spec.Launch) {
	l.Console = nil
	l.Endpoints = []spec.LaunchEndpoint{{Name: "rest", Port: 8212, Protocol: spec.ProtocolTCP}}
	for i := range l.Stop {
		if c := l.Stop[i].Console; c != nil {
			l.Stop[i].Console, l.Stop[i].HTTP = nil, &spec.HTTPAction{Endpoint: "rest", Scheme: spec.SchemeHTTP, Method: "POST", Path: "/" + c.Line}
		}
	}
}

// asking is a running server without a console, whose ladder begins with a request.
func asking(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, workTalks)
	w.drive(true)
	l := w.launch()
	asks(&l)
	l.Stop = slices.Delete(l.Stop, 1, 2)
	if err := w.core.ApplyLive(state.LiveOrder{RunID: w.facts().Run.ID, Launch: l, Generation: 2}, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

// EN-6: a request needs no console. It is on record before it is made, and made once.
func TestRequestStep(t *testing.T) {
	w := asking(t)
	var got []keeper.Delivery
	check := w.kernel.onDeliver
	w.kernel.onDeliver = func(p keeper.Place, d keeper.Delivery) {
		check(p, d)
		got = append(got, d)
	}
	if err := errors.Join(w.stop(spec.ReasonStopRequested), w.step(0), w.step(0)); err != nil {
		t.Fatal(err)
	}
	if steps := w.facts().Run.Stop.Steps; len(steps) != 1 || steps[0].Result != "" {
		t.Errorf("before it is answered: %+v", steps)
	}
	w.kernel.tell(w.core)
	if steps := w.facts().Run.Stop.Steps; len(steps) != 1 || steps[0].Result != state.Done {
		t.Errorf("once it is answered: %+v", steps)
	}
	if len(got) != 1 || got[0].HTTP == nil || got[0].HTTP.Path != "/save" || got[0].Line != "" || got[0].Launch.Endpoint("rest") == nil || got[0].Within.Seconds() != 30 {
		t.Errorf("the kernel is handed %+v", got)
	}
}

// EN-6: a request whose end nobody knows is told so and not made again, and the ladder goes on.
func TestDyingInARequestStep(t *testing.T) {
	w := asking(t)
	if err := errors.Join(w.stop(spec.ReasonStopRequested), w.step(0)); err != nil {
		t.Fatal(err)
	}
	w.kernel.die()
	w.open()
	if steps := w.facts().Run.Stop.Steps; len(steps) != 1 || steps[0].Result != state.Indeterminate {
		t.Fatalf("steps %+v", steps)
	}
	if err := errors.Join(w.step(0), w.step(1)); err != nil {
		t.Fatal(err)
	}
	if n := len(w.main().lines); n != 1 {
		t.Errorf("the request was made %d times", n)
	}
}

// A main process that is gone answers nothing: the request is passed over.
func TestRequestStepNeedsAMainProcess(t *testing.T) {
	w := asking(t)
	main := w.main()
	w.kernel.fork(keeper.Place{Scope: w.scope, RunID: main.run, Cgroup: main.cgroup}, "child")
	w.kernel.signal(main, "SIGKILL")
	w.settle()
	if err := errors.Join(w.stop(spec.ReasonMainExited), w.step(2)); err != nil {
		t.Fatal(err)
	}
	if steps := w.facts().Run.Stop.Steps; len(steps) != 1 || steps[0].Index != 2 || len(main.lines) > 0 {
		t.Errorf("steps %+v, lines %q", steps, main.lines)
	}
}
