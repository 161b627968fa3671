package keeper_test

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// BP-9, I5: a stop that is recorded but not begun does not make an exit an asked-for one.
func TestExitBeforeFirstStep(t *testing.T) {
	w := newWorld(t, workRuns)
	w.drive(true)
	if err := w.stop(spec.ReasonStopRequested); err != nil {
		t.Fatal(err)
	}
	w.kernel.end(w.main(), 1<<8)
	if err := w.step(0); err != nil { // it comes too late
		t.Fatal(err)
	}
	if e := w.lastExit(); e.Class != spec.Unexpected || e.Reason != spec.ReasonExited || e.StopStep != nil {
		t.Errorf("the end is %+v", e)
	}
}

// I5: whichever record fails to be written when a step comes after the end, the end is not called asked-for by it.
func TestStepAfterAnEndThatCannotBeRecorded(t *testing.T) {
	puts := 0
	for n := 1; n <= 12; n++ {
		w := newWorld(t, workRuns)
		w.drive(true)
		if err := w.stop(spec.ReasonStopRequested); err != nil {
			t.Fatal(err)
		}
		w.kernel.end(w.main(), 1<<8)
		failAt := w.kernel.calls + n
		w.kernel.failAt = failAt
		_ = w.step(0) // it may be refused, and may come too late
		if w.kernel.calls < failAt || w.kernel.names[failAt-1] != "Put" {
			continue
		}
		puts++
		w.kernel.failAt = 0
		for range 3 {
			w.settle()
		}
		if e := w.lastExit(); e.Class != spec.Unexpected || e.Reason != spec.ReasonExited || e.StopStep != nil {
			t.Errorf("call %d fails: the end is %+v", n, e)
		}
	}
	if puts == 0 {
		t.Error("no record was to be written")
	}
}

// The first reason of a stop stays, so a person's stop over a failed probe's does not hide the failure, nor the other way round.
func TestFirstReasonStays(t *testing.T) {
	for _, tt := range []struct {
		first, second spec.ExitReason
		class         spec.ExitClass
	}{
		{spec.ReasonLivenessFailed, spec.ReasonStopRequested, spec.Unexpected},
		{spec.ReasonStopRequested, spec.ReasonLivenessFailed, spec.Expected},
	} {
		w := newWorld(t, workRuns)
		w.drive(true)
		if err := errors.Join(w.stop(tt.first), w.stop(tt.second), w.step(0)); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if e := w.lastExit(); e.Class != tt.class || e.Reason != tt.first {
			t.Errorf("%s over %s: the end is %+v", tt.second, tt.first, e)
		}
	}
}

// I6, EC-10: the main process ended, its family lives: two facts; the rest is ended as MainExited, whoever asks.
func TestMainExited(t *testing.T) {
	w := newWorld(t, workFamily)
	w.drive(true)
	w.kernel.end(w.main(), 3<<8)
	w.settle()
	f := w.facts()
	if f.Run.Over() || f.Run.MainExit == nil || f.Run.Alive != observe.Dead || f.Run.Tree != (observe.Tree{State: observe.TreePopulated, Count: 1}) {
		t.Fatalf("facts %+v", f.Run)
	}
	if err := w.stop(spec.ReasonStopRequested); err != nil {
		t.Fatal(err)
	}
	if r := w.facts().Run.Stop.Reason; r != spec.ReasonMainExited {
		t.Errorf("the stop's reason is %s", r)
	}
	// The first step is to the main process, which is gone: it may be passed over, and does not apply.
	if err := errors.Join(w.step(1), w.step(2)); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if e := w.lastExit(); e.Class != spec.Unexpected || e.Reason != spec.ReasonMainExited || *e.ExitCode != 3 || !e.Killed || *e.StopStep != 2 {
		t.Errorf("the end is %+v", e)
	}
	w.gone()
}

// BP-4, EN-6: steps go in order, each once; only the kill may be jumped to, and only it may be repeated.
func TestLadder(t *testing.T) {
	w := newWorld(t, workIgnores)
	w.drive(true)
	if err := w.stop(spec.ReasonStopRequested); err != nil {
		t.Fatal(err)
	}
	refusedFor(t, w.step(1), keeper.CheckStep)
	refusedFor(t, w.step(5), keeper.CheckStep)
	refusedFor(t, w.step(-1), keeper.CheckStep)
	if err := errors.Join(w.step(0), w.step(0), w.step(1)); err != nil {
		t.Fatal(err)
	}
	refusedFor(t, w.step(0), keeper.CheckStep)
	if got := strings.Join(w.main().signals, " "); got != "SIGTERM SIGINT" {
		t.Errorf("signals %s", got)
	}
	for i, s := range w.facts().Run.Stop.Steps {
		if s.Index != i || s.Result != "Sent" || s.At.Uptime == 0 || s.At.BootID == "" {
			t.Errorf("step %d: %+v", i, s)
		}
	}
	if err := errors.Join(w.step(2), w.step(2)); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if e := w.lastExit(); e.Class != spec.Expected || !e.Killed || e.Signal != "SIGKILL" || *e.StopStep != 2 {
		t.Errorf("the end is %+v", e)
	}
	if c := w.facts().Counters; c.Stops["2/true"] != 1 || c.Exits["Expected/StopRequested"] != 1 || c.LogBytes != 10 || c.LogDroppedLines != 1 {
		t.Errorf("counters %+v", c)
	}
	w.gone()
}

// EC-9, BP-2: a process that even the kernel cannot end is shown as alive and stopping, by the next keeper too, and nothing is
// started beside it. When it has ended at last, that is told like any other end.
func TestWhatCannotBeKilled(t *testing.T) {
	for _, noCgroups := range []bool{false, true} {
		w := newWorld(t, workStuck)
		w.kernel.noCgroups = noCgroups
		w.drive(true)
		p := w.main()
		if err := errors.Join(w.stop(spec.ReasonStopRequested), w.step(0), w.step(1), w.step(2)); err != nil {
			t.Fatal(err)
		}
		stays := func(when string) {
			t.Helper()
			w.settle()
			run := w.facts().Run
			if run.Over() || run.Alive != observe.Alive || run.Tree.State != observe.TreePopulated || run.Stop.Killed == nil {
				t.Fatalf("%s: facts %+v", when, run)
			}
			_ = w.start() // a success or a refusal, but no process
			other := state.StartOrder{Launch: w.launch(), UID: "u"}
			other.Launch.Scope.Profile = "other"
			refusedFor(t, w.core.Start(other, nil), keeper.CheckLive)
			refusedFor(t, w.core.Archive(state.ScopeOrder{Scope: w.scope}, nil), keeper.CheckLive)
			refusedFor(t, w.core.Retire(t.Context(), state.ScopeOrder{Scope: w.scope}, nil), keeper.CheckLive)
			if n := len(w.kernel.processes); n != 1 {
				t.Fatalf("%s: %d processes", when, n)
			}
		}
		stays("killed")
		if err := w.step(2); err != nil {
			t.Errorf("the kill again: %v", err)
		}
		stays("killed again")
		w.kernel.die()
		w.open()
		stays("under the next keeper")
		w.kernel.end(p, uint32(unix.SIGKILL))
		w.settle()
		if e := w.lastExit(); e.Class != spec.Expected || e.Reason != spec.ReasonStopRequested || !e.Killed || e.Signal != "SIGKILL" {
			t.Errorf("the end is %+v", e)
		}
		w.gone()
	}
}
