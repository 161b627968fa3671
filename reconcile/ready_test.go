package reconcile

import (
	"errors"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
)

func socketProbe(p *spec.ProfileSpec) {
	p.Endpoints = []spec.Endpoint{{Name: "game", Port: spec.IntOrString{Int: 4000}}}
	p.ReadinessProbe = &spec.Probe{Socket: &spec.SocketCheck{Endpoint: "game"}}
}

func TestLogProbeLatches(t *testing.T) {
	h := newHost(t)
	h.profile("game", logProbe)
	h.server("town", "game")
	h.settle()
	h.wantState("town", spec.StateStarting)
	h.wantCondition("town", spec.ConditionReady, "False", "LogNotSeen")
	h.logs("town", "game")
	h.settle()
	h.wantState("town", spec.StateRunning)
	h.wantCondition("town", spec.ConditionReady, "True", "LogSeen")
	if h.view("town").Status.Run.ReadyAt == nil {
		t.Error("the first Ready was not recorded")
	}
	h.crash("town", "game")
	h.settle()
	h.wantCondition("town", spec.ConditionReady, "False", "LogNotSeen") // of the next run
}

func TestSocketProbeByThresholds(t *testing.T) {
	h := newHost(t)
	h.checks["game"] = errors.New("connection refused")
	h.profile("game", socketProbe)
	h.server("town", "game")
	h.settle()
	h.wantCondition("town", spec.ConditionReady, "False", "ProbeFailed")
	h.wantState("town", spec.StateStarting)
	h.checks["game"] = nil
	h.pass(10 * time.Second)
	h.wantCondition("town", spec.ConditionReady, "True", "ProbeSucceeded")
	h.wantState("town", spec.StateRunning)
	h.checks["game"] = errors.New("connection refused")
	h.pass(20 * time.Second)
	h.wantCondition("town", spec.ConditionReady, "True", "ProbeSucceeded") // two of three
	h.pass(10 * time.Second)
	h.wantCondition("town", spec.ConditionReady, "False", "ProbeFailed")
	h.wantState("town", spec.StateRunning) // not Ready is no reason to say Starting again
	if h.checked < 5 || h.checked > 6 {
		t.Errorf("%d probes in 40 s", h.checked)
	}
	h.took()
	h.pass(time.Hour)
	h.wantOrders() // EC-13: a readiness probe restarts nothing
}

func TestReadyDoesNotFlapOverOurRestart(t *testing.T) {
	h := newHost(t)
	h.profile("game", socketProbe)
	h.server("town", "game")
	h.settle()
	h.wantCondition("town", spec.ConditionReady, "True", "ProbeSucceeded")
	before := conditionOf(h.view("town"), spec.ConditionReady).LastTransitionTime
	h.pass(time.Hour)
	h.restart()
	h.checks["game"] = errors.New("connection refused")
	h.settle()
	h.wantCondition("town", spec.ConditionReady, "True", "LastKnown")
	if after := conditionOf(h.view("town"), spec.ConditionReady).LastTransitionTime; !after.Equal(before) {
		t.Errorf("the transition time went from %v to %v", before, after)
	}
	h.pass(19 * time.Second) // two failures at most: the first probe is up to a period away
	h.wantCondition("town", spec.ConditionReady, "True", "ProbeSucceeded")
	h.pass(12 * time.Second)
	h.wantCondition("town", spec.ConditionReady, "False", "ProbeFailed")
}

func TestNothingIsProbedWhileARunEnds(t *testing.T) {
	h := newHost(t)
	h.profile("game", socketProbe)
	h.server("town", "game")
	h.settle()
	h.ignoresTerm["town"] = true
	h.server("town", "game", stopped)
	h.settle()
	h.checked = 0
	h.pass(29 * time.Second)
	h.wantCondition("town", spec.ConditionReady, "False", "Stopping")
	if h.checked != 0 {
		t.Errorf("%d probes", h.checked)
	}
}
