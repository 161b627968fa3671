package keeper_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// BP-3, BP-4, BP-9: start, start again, stop.
func TestStartAndStop(t *testing.T) {
	r := newRig(t)
	l := r.launch("town", "run")
	f := r.ready(l)
	if f.Run.Alive != observe.Alive || f.Run.Tree.State != observe.TreePopulated {
		t.Errorf("a started run is %s, its tree %s", f.Run.Alive, f.Run.Tree.State)
	}
	pid := r.pid(l.Scope)
	if err := r.client.Start(t.Context(), state.StartOrder{Launch: l, UID: "u"}); err != nil {
		t.Errorf("start of what runs: %v", err)
	}
	if again := r.pid(l.Scope); again != pid {
		t.Errorf("a second process: %d after %d", again, pid)
	}
	r.stop(l.Scope)
	e := r.awaitOver(l.Scope)
	if e.Class != spec.Expected || e.Reason != spec.ReasonStopRequested || e.ExitCode == nil || *e.ExitCode != 0 || e.StopStep == nil || *e.StopStep != 1 {
		t.Errorf("the end is %+v", e)
	}
	if e.Why != "Hold" || e.StartedAt == nil {
		t.Errorf("the end is %+v", e)
	}
}

// I4: an end that nobody asked for, by a signal.
func TestCrash(t *testing.T) {
	r := newRig(t)
	l := r.launch("town", "run")
	r.ready(l)
	signalTo(t, r.pid(l.Scope), unix.SIGKILL)
	e := r.awaitOver(l.Scope)
	if e.Class != spec.Unexpected || e.Reason != spec.ReasonSignaled || e.Signal != "SIGKILL" || e.ExitCode != nil {
		t.Errorf("the end is %+v", e)
	}
}
