package reconcile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// throughKeeper declares an endpoint and probes of it that only the keeper can ask.
func throughKeeper(p *spec.ProfileSpec) {
	p.Endpoints = []spec.Endpoint{{Name: "rest", Port: spec.IntOrString{Int: 4000}}}
	p.ReadinessProbe = &spec.Probe{HTTP: &spec.HTTP{Endpoint: "rest", Path: "/ready"}}
	p.LivenessProbe = &spec.Probe{HTTP: &spec.HTTP{Endpoint: "rest"}, PeriodSeconds: number(5)}
	p.Players = &spec.Players{HTTP: &spec.HTTP{Endpoint: "rest"}, Field: "players"}
}

// What the keeper finds counts as what we find ourselves does, and says why.
func TestProbesThroughTheKeeper(t *testing.T) {
	h := newHost(t)
	h.profile("game", throughKeeper)
	h.players = 2
	h.finds[spec.ForReadiness] = observe.Probed{Result: observe.ProbeFailed, Detail: "endpoint rest: not yet"}
	h.server("town", "game")
	h.settle()
	h.wantCondition("town", spec.ConditionReady, "False", "ProbeFailed")
	if c := conditionOf(h.view("town"), spec.ConditionReady); c.Message != "endpoint rest: not yet" {
		t.Errorf("it says %q", c.Message)
	}
	delete(h.finds, spec.ForReadiness)
	h.pass(10 * time.Second)
	h.wantCondition("town", spec.ConditionReady, "True", "ProbeSucceeded")
	if p := h.view("town").Status.Players; p == nil || p.Count == nil || *p.Count != 2 {
		t.Errorf("players %+v", p)
	}
	if h.checked+h.counted != 0 {
		t.Errorf("we asked ourselves %d times", h.checked+h.counted)
	}
	h.took()
	h.finds[spec.ForLiveness] = observe.Probed{Result: observe.ProbeFailed, Detail: "endpoint rest: gone"}
	h.pass(16 * time.Second)
	h.wantOrders("Stop town/game LivenessFailed", "Step town/game 0", "Start town/game Crashed")
}

// What the keeper could not ask, or did not answer, counts neither way.
func TestProbesThatTheKeeperCannotAsk(t *testing.T) {
	for what, spoil := range map[string]func(h *host){
		"it says so": func(h *host) {
			h.finds[spec.ForLiveness], h.finds[spec.ForReadiness] = observe.NotRun("no"), observe.NotRun("no")
		},
		"it is not there": func(h *host) { h.refuse["Probe"] = errors.New("no keeper is connected") },
	} {
		t.Run(what, func(t *testing.T) {
			h := newHost(t)
			h.profile("game", throughKeeper)
			h.server("town", "game")
			h.settle()
			h.took()
			spoil(h)
			before := h.probed[spec.ForLiveness]
			h.pass(time.Hour)
			h.wantOrders()
			h.wantCondition("town", spec.ConditionReady, "True", "ProbeSucceeded")
			if h.probed[spec.ForLiveness] < before+700 {
				t.Errorf("it was asked %d times in an hour", h.probed[spec.ForLiveness]-before)
			}
		})
	}
}

// byPrograms declares probes that are programs, with an argument, and no endpoint.
func byPrograms(argument string) func(*spec.ProfileSpec) {
	return func(p *spec.ProfileSpec) {
		p.ReadinessProbe = &spec.Probe{Exec: &spec.Exec{Executable: "bin/ready", Args: []string{argument}}}
		p.LivenessProbe = &spec.Probe{Exec: &spec.Exec{Executable: "bin/alive"}, PeriodSeconds: number(5)}
	}
}

// The program of a probe is run by the keeper. What it came to counts as any answer does, and what kept it from being run is said and
// counts neither way.
func TestProbesByPrograms(t *testing.T) {
	h := newHost(t)
	message := func(want string) {
		t.Helper()
		if c := conditionOf(h.view("town"), spec.ConditionReady); c.Message != want {
			t.Errorf("it says %q, want %q", c.Message, want)
		}
	}
	h.profile("game", byPrograms("a"), func(p *spec.ProfileSpec) { p.StartDeadlineSeconds = number(60) })
	h.finds[spec.ForReadiness] = observe.NotRun("it is missing")
	h.server("town", "game")
	h.settle()
	h.wantCondition("town", spec.ConditionReady, "False", "ProbePending")
	message("it was not probed yet: it is missing")
	h.pass(5 * time.Minute)
	h.wantOrders("Start town/game Wanted")
	if n := h.probed[spec.ForLiveness]; n != 0 {
		t.Errorf("it was asked %d times whether it lives before it was Ready", n)
	}
	delete(h.finds, spec.ForReadiness)
	h.pass(10 * time.Second)
	h.wantCondition("town", spec.ConditionReady, "True", "ProbeSucceeded")
	h.took()
	const code = "the program of the probe ended with exit code 1"
	h.finds[spec.ForReadiness] = observe.Probed{Result: observe.ProbeFailed, Detail: code, Output: "not for everybody"}
	h.pass(30 * time.Second)
	h.wantCondition("town", spec.ConditionReady, "False", "ProbeFailed")
	message(code)
	h.wantOrders()
	h.finds[spec.ForLiveness] = observe.Probed{Result: observe.ProbeFailed, Detail: code}
	h.pass(16 * time.Second)
	if got := h.took(); len(got) == 0 || got[0] != "Stop town/game LivenessFailed" {
		t.Errorf("orders %q", got)
	}
}

// The arguments of a probe's program are not told by the keeper: another one is another question all the same, which is asked at once,
// and of which nothing has failed yet.
func TestProbeProgramWithOtherArguments(t *testing.T) {
	h := newHost(t)
	h.profile("game", byPrograms("a"))
	h.server("town", "game")
	h.settle()
	h.finds[spec.ForReadiness] = observe.Probed{Result: observe.ProbeFailed, Detail: "no"}
	h.pass(20 * time.Second)
	h.wantCondition("town", spec.ConditionReady, "True", "ProbeSucceeded")
	before := h.probed[spec.ForReadiness]
	h.profile("game", byPrograms("b"))
	h.settle()
	if n := h.probed[spec.ForReadiness] - before; n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	h.wantCondition("town", spec.ConditionReady, "True", "ProbeSucceeded")
}

// A server that shall say that it lives has no endpoint for it: the keeper is asked what it has heard, from the first Ready on.
func TestSignsOfLife(t *testing.T) {
	h := newHost(t)
	h.profile("game", socketProbe, func(p *spec.ProfileSpec) {
		p.LivenessProbe = &spec.Probe{Notify: &spec.Notify{}, PeriodSeconds: number(5)}
	})
	h.checks["game"] = errDeaf
	h.server("town", "game")
	h.settle()
	h.pass(time.Minute)
	if n := h.probed[spec.ForLiveness]; n != 0 {
		t.Errorf("it was asked %d times before it was Ready", n)
	}
	h.checks["game"] = nil
	h.pass(time.Minute)
	if n := h.probed[spec.ForLiveness]; n < 10 || n > 13 {
		t.Errorf("it was asked %d times in a minute", n)
	}
	h.took()
	h.finds[spec.ForLiveness] = observe.Probed{Result: observe.ProbeFailed, Detail: "silent"}
	h.pass(16 * time.Second)
	if got := h.took(); len(got) == 0 || got[0] != "Stop town/game LivenessFailed" {
		t.Errorf("orders %q", got)
	}
}

// The keeper judges whether the time of a probe is over; its answer is awaited for longer than that.
func TestKeeperHasTheLastWordOnTime(t *testing.T) {
	h := newHost(t)
	h.profile("game", throughKeeper)
	h.server("town", "game")
	checks := 0
	for range 20 {
		orders, _ := h.loop.Turn(h.now())
		for _, o := range orders {
			if o.Check != nil {
				checks++
				if limit := o.timeout(); limit != 6*time.Second && (o.Check.For != spec.ForPlayers || limit != 8*time.Second) {
					t.Errorf("%s may take %s", strings.ToLower(string(o.Check.For)), limit)
				}
			}
			h.loop.Done(h.now(), o, o.CarryOut(t.Context(), h, h, jobTable{h}, h))
		}
	}
	if checks < 3 {
		t.Errorf("%d questions were asked", checks)
	}
}
