package keeper_test

import (
	"testing"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// BP-12, BP-13: lines and commands have a connection of their own. It takes nothing else, belongs to the newest control session and
// its process, and is fenced with it; each of these wrong alone is refused.
func TestConnectionForJobs(t *testing.T) {
	r := newRig(t)
	l := r.launch("town", "run")
	f := r.ready(l)
	hello := keeper.Hello{Protocol: keeper.Protocol, Version: "test", Purpose: keeper.PurposeJobs, Session: r.client.Welcome().Session}
	connect := func(h keeper.Hello) (*keeper.Asker, keeper.Check) {
		t.Helper()
		a, err := keeper.Connect(t.Context(), r.layout, h)
		check, _ := keeper.IsRefused(err)
		if err != nil && check == "" {
			t.Fatal(err)
		}
		if a != nil {
			t.Cleanup(a.Close)
		}
		return a, check
	}
	none, newer := hello, hello
	none.Session = 0
	newer.Session++
	for what, h := range map[string]keeper.Hello{"no session": none, "another session": newer} {
		if _, check := connect(h); check != keeper.CheckSession {
			t.Errorf("%s: refused by %q", what, check)
		}
	}

	jobs, _ := connect(hello)
	send := state.SendOrder{Scope: l.Scope, RunID: f.Run.ID, ID: "a", Line: "hello"}
	if check, _ := keeper.IsRefused(jobs.Ask(t.Context(), keeper.OpSend, send)); check != keeper.CheckConsole {
		t.Errorf("a line to a server without a console: refused by %q", check)
	}
	do := state.DoOrder{Scope: l.Scope, RunID: f.Run.ID, ID: "b", Command: "nothing"}
	if check, _ := keeper.IsRefused(jobs.Ask(t.Context(), keeper.OpDo, do)); check != keeper.CheckCommand {
		t.Errorf("a command that is not declared: refused by %q", check)
	}
	stop := state.StopOrder{Scope: l.Scope, RunID: f.Run.ID, Reason: spec.ReasonStopRequested}
	for op, body := range map[keeper.Op]any{
		keeper.OpStop: stop, keeper.OpStep: state.StepOrder{Scope: l.Scope, RunID: f.Run.ID}, keeper.OpStart: r.order(r.launch("other", "run")),
		keeper.OpRetire: state.ScopeOrder{Scope: l.Scope}, keeper.OpShutdown: struct{}{}, keeper.OpHost: keeper.Host{},
	} {
		if check, _ := keeper.IsRefused(jobs.Ask(t.Context(), op, body)); check != keeper.CheckSession {
			t.Errorf("%s on the connection for jobs: refused by %q", op, check)
		}
	}

	fresh := r.newClient()
	eventually(t, "the newer session knows all", func() bool { _, known := fresh.Facts(); return known })
	for op, body := range map[keeper.Op]any{keeper.OpSend: send, keeper.OpDo: do} {
		if check, _ := keeper.IsRefused(jobs.Ask(t.Context(), op, body)); check != keeper.CheckSession {
			t.Errorf("%s of an older session: refused by %q", op, check)
		}
	}
	if facts, _ := fresh.Facts(); len(facts) != 1 || facts[0].Run.Stop != nil || len(facts[0].Deliveries) > 0 {
		t.Errorf("facts %+v", facts[0])
	}
}
