package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// exits are rules that mean something different for each code.
var exits = []spec.ExitRule{
	{Codes: []int64{23}, Action: spec.ExitFail}, {Codes: []int64{0}, Action: spec.ExitComplete},
	{Codes: []int64{75}, Action: spec.ExitRestart}, {Signals: []string{"SIGTERM"}, Action: spec.ExitComplete},
}

func rules(r ...spec.ExitRule) func(*spec.ProfileSpec) {
	return func(p *spec.ProfileSpec) { p.Restart = &spec.Restart{Exits: r} }
}

func signalled(name string) func(*state.Exit) {
	return func(e *state.Exit) { e.Signal = name }
}

// The same ends, seen by exit rules.
func TestPatienceByRules(t *testing.T) {
	policy := spec.RestartPolicy{Policy: spec.RestartAlways, InitialSeconds: 1, MaxSeconds: 300, ResetSeconds: 600, Exits: exits}
	short, lasting, stable := time.Second, restartFloor, 600*time.Second
	declared := func(n int64, ran time.Duration) state.Exit {
		return ended(n, ran, code(75), expected(spec.ReasonDeclaredRestart))
	}
	crash := func(n int64, ran time.Duration) state.Exit { return ended(n, ran, signalled("SIGSEGV")) }
	row := func(n int, ran time.Duration) (list []state.Exit) {
		for i := range n {
			list = append(list, declared(int64(i+1), ran))
		}
		return list
	}
	for _, c := range []struct {
		what   string
		exits  []state.Exit
		sequel sequel
		inRow  int
		wait   bool
	}{
		{"a declared restart", row(1, short), sequelRestart, 0, false},
		{"as many as go at once", row(restartsAtOnce, 0), sequelRestart, 0, false},
		{"one more", row(restartsAtOnce+1, 0), sequelRestart, 0, true},
		{"many that lasted", row(60, lasting), sequelRestart, 0, false},
		{"one that lasted among many", append(append(row(10, 0), declared(11, lasting)), declared(12, 0)), sequelRestart, 0, false},
		{"after crashes it is still at once", []state.Exit{crash(1, short), crash(2, short), declared(3, short)}, sequelRestart, 2, false},
		{"between crashes it ends no row", []state.Exit{crash(1, short), crash(2, short), declared(3, short), crash(4, short)}, sequelRetry, 3, true},
		{"a stable one ends it", []state.Exit{crash(1, short), crash(2, short), declared(3, stable), crash(4, short)}, sequelRetry, 1, false},
		{"fail", []state.Exit{ended(1, short, code(23))}, sequelFail, 1, false},
		{"complete", []state.Exit{ended(1, short, code(0), expected(spec.ReasonCompleted))}, sequelComplete, 1, false},
		{"complete by a signal", []state.Exit{ended(1, short, signalled("SIGTERM"), expected(spec.ReasonCompleted))}, sequelComplete, 1, false},
		{"complete by the signal's code", []state.Exit{ended(1, short, code(143), expected(spec.ReasonCompleted))}, sequelComplete, 1, false},
		{"no rule", []state.Exit{ended(1, short, code(1))}, sequelRetry, 1, false},
		{"a start that failed", []state.Exit{ended(1, 0, func(e *state.Exit) { e.Reason = spec.ReasonStartFailed })}, sequelRetry, 1, false},
		{"not told (I4)", []state.Exit{ended(1, short, func(e *state.Exit) { e.Reason = spec.ReasonUnknown })}, sequelRetry, 1, false},
		{"what we ended after a failed probe", []state.Exit{ended(1, short, code(23), func(e *state.Exit) { e.Reason = spec.ReasonLivenessFailed })}, sequelRetry, 1, false},
		{"what was asked for", []state.Exit{ended(1, short, code(23), expected(spec.ReasonStopRequested))}, sequelStart, 0, false},
		{"another generation", []state.Exit{ended(1, short, code(23), generation(0))}, sequelStart, 0, false},
	} {
		p := patienceOf(c.exits, policy, 1, 0)
		if p.sequel != c.sequel || p.inRow != c.inRow || (p.delay > 0) != c.wait {
			t.Errorf("%s: %s, %d in a row, delay %v; want %s, %d, a wait %v", c.what, p.sequel, p.inRow, p.delay, c.sequel, c.inRow, c.wait)
		}
	}
	never := policy
	never.Policy = spec.RestartNever
	if p := patienceOf([]state.Exit{ended(1, short, code(23), func(e *state.Exit) { e.Reason = spec.ReasonStartDeadlineExceeded })}, never, 1, 0); p.sequel != sequelRetry {
		t.Errorf("a start deadline, with Never: %s", p.sequel)
	}
}

// A server that exits as soon as it runs is followed at once a few times, and then at the pace of the floor, for as long as it
// goes on; one that lasts is at once again.
func TestDeclaredRestartsHaveAFloor(t *testing.T) {
	h := newHost(t)
	h.profile("game", rules(exits...))
	h.server("town", "game")
	h.settle()
	began := h.uptime
	for range 200 {
		h.exit("town", "game", 75) // at once
		h.settle()
		for v := h.loop.Snapshot().Server(key("town")); v.Status.State == spec.StateBackOff; v = h.loop.Snapshot().Server(key("town")) {
			if r := conditionOf(v, spec.ConditionReady); r.Reason != "BackOff" || !strings.Contains(r.Message, "restarts of its own") || v.Status.NextStartAt == nil {
				t.Fatalf("while it waits: %+v, next start %v", r, v.Status.NextStartAt)
			}
			if c := conditionOf(v, spec.ConditionCrashLoop); c.Status != conditionFalse {
				t.Fatalf("a declared restart is called a crash: %+v", c)
			}
			h.pass(time.Second)
			h.settle()
		}
	}
	run := h.records[scopeOf("town", "game")].Run
	if run.Number != 201 || run.Cause != CauseDeclared {
		t.Errorf("run %d, cause %s", run.Number, run.Cause)
	}
	if took := h.uptime - began; took < (200-restartsAtOnce-1)*restartFloor {
		t.Errorf("200 restarts took %v", took)
	}
	h.pass(restartFloor)
	h.exit("town", "game", 75)
	h.settle()
	if run := h.records[scopeOf("town", "game")].Run; run.Number != 202 {
		t.Errorf("a run that lasted is not followed at once: run %d", run.Number)
	}
}

// Complete and Fail stay until the spec changes or a person starts it; neither our restart nor the keeper's changes anything.
func TestCompleteAndFailStay(t *testing.T) {
	for _, c := range []struct {
		code   int
		state  spec.ServerState
		reason string
	}{{0, spec.StateStopped, "Completed"}, {143, spec.StateStopped, "Completed"}, {23, spec.StateFailed, "Failed"}} {
		for what, wakes := range map[string]func(h *host){
			"another spec":     func(h *host) { h.profile("game", args("new"), rules(exits...)) },
			"another rule":     func(h *host) { h.profile("game", rules(exits[1:]...), args()) },
			"a person's start": func(h *host) { h.hold(ActionStart) },
			"their restart":    func(h *host) { h.hold(ActionRestart) },
		} {
			h := newHost(t)
			h.profile("game", rules(exits...))
			h.server("town", "game")
			h.settle()
			h.exit("town", "game", c.code)
			for range 3 {
				h.settle()
				h.pass(24 * time.Hour)
				h.restart()
			}
			h.settle()
			v := h.loop.Snapshot().Server(key("town"))
			ready, stalled, going := conditionOf(v, spec.ConditionReady), conditionOf(v, spec.ConditionStalled), conditionOf(v, spec.ConditionReconciling)
			if v.Status.State != c.state || ready.Reason != c.reason || !strings.Contains(ready.Message, fmt.Sprint(c.code)) {
				t.Errorf("%d: %s, Ready %+v", c.code, v.Status.State, ready)
			}
			if (stalled.Status == conditionTrue) != (c.state == spec.StateFailed) || going.Status != conditionFalse {
				t.Errorf("%d: Stalled %+v, Reconciling %+v", c.code, stalled, going)
			}
			if h.records[scopeOf("town", "game")].Run.Number != 1 {
				t.Fatalf("%d: it was started again", c.code)
			}
			wakes(h)
			h.settle()
			if n := h.records[scopeOf("town", "game")].Run.Number; n != 2 {
				t.Errorf("%d, %s: run %d", c.code, what, n)
			}
		}
	}
}

// A copy that completes on the new spec is no broken one: the roll-out goes on. One that fails halts it.
func TestCompletedCopyHaltsNoRollOut(t *testing.T) {
	for code, goesOn := range map[int]bool{0: true, 23: false} {
		h := newHost(t)
		h.profile("game", logProbe, rules(exits...))
		for _, name := range []string{"a", "b"} {
			h.server(name, "game")
			h.settle()
			h.logs(name, "game")
		}
		h.settle()
		h.profile("game", logProbe, args("new"), rules(exits...))
		h.settle()
		if n := h.records[scopeOf("b", "game")].Run.Number; n != 1 {
			t.Fatalf("both are replaced at once: b is at run %d", n)
		}
		h.exit("a", "game", code)
		h.settle()
		if n := h.records[scopeOf("b", "game")].Run.Number; (n == 2) != goesOn {
			t.Errorf("a ended with %d: b is at run %d", code, n)
		}
	}
}

// While a run waits to be replaced its record gets the newest rules, once, and nothing else.
func TestRestartFollowsTheNewestSpec(t *testing.T) {
	h := newHost(t)
	h.profile("game", logProbe)
	h.server("a", "game")
	h.server("b", "game")
	h.settle()
	h.took()
	h.profile("game", logProbe, args("new"), rules(exits...)) // neither gets Ready: one is replaced, the other waits
	h.settle()
	var waits string
	for _, name := range []string{"a", "b"} {
		if r := h.records[scopeOf(name, "game")].Run; r.Number == 1 {
			waits = name
			if !slices.EqualFunc(r.Restart.Exits, exits, func(x, y spec.ExitRule) bool { return x.Action == y.Action }) || r.Generation != 1 {
				t.Errorf("the run that waits: generation %d, %+v", r.Generation, r.Restart)
			}
		}
	}
	if waits == "" {
		t.Fatal("none waits")
	}
	want := "ApplyLive restart " + waits + "/game"
	took := h.took()
	if n := len(slices.DeleteFunc(slices.Clone(took), func(o string) bool { return !strings.Contains(o, "ApplyLive") || !strings.Contains(o, waits+"/game") })); n != 1 {
		t.Errorf("%d times %q in %q", n, want, took)
	}
	h.restart()
	h.settle()
	if more := h.took(); len(more) != 0 {
		t.Errorf("after our restart %q", more)
	}
}
