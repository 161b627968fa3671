package reconcile

import (
	"errors"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe/probe"
	"reconciler.dev/reconciler/spec"
)

var errDeaf = errors.New("connection refused")

func number(n int64) *int64 { return &n }

// livenessProbe asks a second endpoint, every 5 s, and gives up after 3 failures.
func livenessProbe(p *spec.ProfileSpec) {
	p.Endpoints = append(p.Endpoints, spec.Endpoint{Name: "alive", Port: spec.IntOrString{Int: 4001}})
	p.LivenessProbe = &spec.Probe{Socket: &spec.SocketCheck{Endpoint: "alive"}, PeriodSeconds: number(5)}
}

func startDeadline(n int64) func(*spec.ProfileSpec) {
	return func(p *spec.ProfileSpec) { p.StartDeadlineSeconds = &n }
}

// notCarriedOut makes an error that says that a probe could not be carried out.
func notCarriedOut(t *testing.T) error {
	err := probe.Checker{}.Check(t.Context(), spec.LaunchEndpoint{}, &spec.LaunchProbe{})
	if !probe.NotRun(err) {
		t.Fatal("the test's own error is none")
	}
	return err
}

func TestLivenessActsAfterEnoughFailuresInARow(t *testing.T) {
	h := newHost(t)
	h.profile("game", livenessProbe)
	h.server("town", "game")
	h.settle()
	h.took()
	h.checks["alive"] = errDeaf
	h.pass(10 * time.Second) // two failures
	h.checks["alive"] = nil
	h.pass(5 * time.Second)
	h.checks["alive"] = errDeaf
	h.pass(12 * time.Second) // two again: they are not in a row with the first
	h.wantOrders()
	h.pass(4 * time.Second) // the third
	h.wantOrders("Stop town/game LivenessFailed", "Step town/game 0", "Start town/game Crashed")
	st := h.view("town").Status
	if e := st.LastExit; e == nil || e.Class != spec.Unexpected || e.Reason != spec.ReasonLivenessFailed {
		t.Errorf("the last exit is %+v", e)
	}
	if st.Run.Restarts != 1 {
		t.Errorf("%d restarts, want 1", st.Run.Restarts)
	}
}

// From the first Ready on: what takes long to start is not ended for it.
func TestLivenessWaitsForTheFirstReady(t *testing.T) {
	h := newHost(t)
	h.profile("game", socketProbe, livenessProbe)
	h.server("town", "game")
	h.checks["game"], h.checks["alive"] = errDeaf, errDeaf
	h.settle()
	h.took()
	h.pass(time.Hour)
	h.wantOrders()
	h.checks["game"] = nil
	h.pass(11 * time.Second)
	h.wantState("town", spec.StateRunning)
	h.pass(8 * time.Second) // Ready after 10 s of the 19, and asked twice since
	h.wantOrders()
	h.pass(time.Second)
	if got := h.took(); len(got) == 0 || got[0] != "Stop town/game LivenessFailed" {
		t.Errorf("orders %q", got)
	}
}

// Each cause alone would restart the server; none of them may.
func TestLivenessHoldsBack(t *testing.T) {
	for _, c := range []struct {
		what  string
		spoil func(h *host)
	}{
		{"a probe that could not be carried out", func(h *host) { h.checks["alive"] = notCarriedOut(t) }},
		{"readiness that fails", func(h *host) { h.checks["game"] = errDeaf }},
		{"no liveness probe", func(h *host) {
			h.profile("game", socketProbe)
			h.settle()
			h.took()
			h.checks["alive"] = errDeaf
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			h := newHost(t)
			h.profile("game", socketProbe, livenessProbe)
			h.server("town", "game")
			h.settle()
			h.took()
			c.spoil(h)
			h.pass(time.Hour)
			h.wantOrders()
		})
	}
}

// A long save is not cut short: while a run ends nobody asks whether it lives, and what is asked still counts for nothing.
func TestLivenessIsHeldWhileStopping(t *testing.T) {
	h := newHost(t)
	h.profile("game", livenessProbe)
	h.server("town", "game")
	h.settle()
	h.ignoresTerm["town"] = true
	h.checks["alive"] = errDeaf
	h.pass(10 * time.Second) // two failures
	h.server("town", "game", stopped)
	h.settle()
	h.checked = 0
	h.took()
	h.pass(29 * time.Second)
	if h.checked != 0 {
		t.Errorf("it was asked %d times", h.checked)
	}
	h.wantOrders()
	h.pass(2 * time.Second)
	h.wantOrders("Step town/game 1")
	if e := h.view("town").Status.LastExit; e.Reason != spec.ReasonStopRequested {
		t.Errorf("it ended by %s", e.Reason)
	}
}

// A repaired probe begins anew, before the old one's failures end the run.
func TestLivenessFollowsTheNewestProbe(t *testing.T) {
	h := newHost(t)
	h.profile("game", livenessProbe)
	h.server("town", "game")
	h.settle()
	h.checks["alive"] = errDeaf
	h.pass(10 * time.Second)
	h.took()
	h.profile("game", livenessProbe, func(p *spec.ProfileSpec) { p.LivenessProbe.FailureThreshold = number(5) })
	h.pass(19 * time.Second)
	h.wantOrders("ApplyLive town/game")
	h.pass(5 * time.Second)
	if got := h.took(); len(got) == 0 || got[0] != "Stop town/game LivenessFailed" {
		t.Errorf("orders %q", got)
	}
}

// The answer to a question of the run before says nothing of the one that lives.
func TestLivenessIsOfOneRun(t *testing.T) {
	h := newHost(t)
	h.profile("game", livenessProbe, func(p *spec.ProfileSpec) { p.LivenessProbe.FailureThreshold = number(1) })
	h.server("town", "game")
	h.settle()
	h.pass(5*time.Second - 1)
	h.uptime, h.wall = h.uptime+1, h.wall.Add(1)
	orders, _ := h.loop.Turn(h.now())
	if len(orders) != 1 || orders[0].Check == nil {
		t.Fatalf("orders %v, want one question", orders)
	}
	h.crash("town", "game")
	var asked []Order // of another run
	for len(asked) == 0 || asked[0].Check == nil {
		for _, o := range asked {
			h.loop.Done(h.now(), o, o.CarryOut(t.Context(), h, h, jobTable{h}, h))
		}
		asked, _ = h.loop.Turn(h.now())
	}
	h.took()
	h.loop.Done(h.now(), orders[0], errDeaf)
	h.settle()
	h.loop.Done(h.now(), asked[0], nil)
	h.settle()
	h.wantOrders()
}

func TestStartDeadline(t *testing.T) {
	for _, c := range []struct {
		what  string
		ready func(*spec.ProfileSpec)
		early func(h *host)
	}{
		{"a log", logProbe, func(*host) {}},
		{"a socket", socketProbe, func(h *host) { h.checks["game"] = errDeaf }},
	} {
		t.Run(c.what, func(t *testing.T) {
			h := newHost(t)
			c.early(h)
			h.profile("game", c.ready, startDeadline(60))
			h.server("town", "game")
			h.settle()
			h.took()
			by := h.view("town").Status.Run.ReadyBy
			if by == nil || !by.Equal(h.wall.Add(time.Minute)) {
				t.Errorf("it must be Ready by %v", by)
			}
			h.pass(59 * time.Second)
			h.wantOrders()
			h.wantState("town", spec.StateStarting)
			h.pass(time.Second)
			h.wantOrders("Stop town/game StartDeadlineExceeded", "Step town/game 0", "Start town/game Crashed")
			if e := h.view("town").Status.LastExit; e.Class != spec.Unexpected || e.Reason != spec.ReasonStartDeadlineExceeded {
				t.Errorf("the last exit is %+v", e)
			}
		})
	}
}

func TestStartDeadlineIsMet(t *testing.T) {
	h := newHost(t)
	h.profile("game", logProbe, startDeadline(60))
	h.server("town", "game")
	h.settle()
	h.took()
	h.pass(59 * time.Second)
	h.restart() // it is looked at, and has a second left
	h.settle()
	h.wantOrders()
	h.logs("town", "game")
	h.settle()
	h.took()
	if by := h.view("town").Status.Run.ReadyBy; by != nil {
		t.Errorf("it is Ready, and must be by %v", by)
	}
	h.pass(time.Hour)
	h.wantOrders()
}

// Our restart, and a wall clock that jumps meanwhile, end nothing that was not asked whether it is Ready.
func TestStartDeadlineOverOurRestart(t *testing.T) {
	h := newHost(t)
	h.checks["game"] = errDeaf
	h.profile("game", socketProbe, startDeadline(60))
	h.server("town", "game")
	h.pass(30 * time.Second)
	h.checks["game"] = nil
	h.wall = h.wall.Add(24 * time.Hour)
	h.restart()
	h.settle()
	h.took()
	h.pass(time.Minute)
	h.wantOrders()
	h.wantState("town", spec.StateRunning)

	h = newHost(t)
	h.checks["game"] = errDeaf
	h.profile("game", socketProbe, startDeadline(60))
	h.server("town", "game")
	h.pass(30 * time.Second)
	h.restart()
	h.pass(29 * time.Second)
	h.took()
	h.pass(time.Second) // it goes on where it was
	if got := h.took(); len(got) == 0 || got[0] != "Stop town/game StartDeadlineExceeded" {
		t.Errorf("orders %q", got)
	}
}

func TestStartDeadlineAndAProbeThatCannotBeCarriedOut(t *testing.T) {
	h := newHost(t)
	h.checks["game"] = notCarriedOut(t)
	h.profile("game", socketProbe, startDeadline(60))
	h.server("town", "game")
	h.settle()
	h.took()
	h.pass(time.Hour)
	h.wantOrders()
	h.checks["game"] = errDeaf
	h.pass(10 * time.Second)
	if got := h.took(); len(got) == 0 || got[0] != "Stop town/game StartDeadlineExceeded" {
		t.Errorf("orders %q", got)
	}
}

// Nothing is ended for a probe as long as it is not known whether a run is wished.
func TestAilingIsLeftAloneWhenNobodyKnows(t *testing.T) {
	h := newHost(t)
	h.profile("game", livenessProbe)
	h.server("town", "game")
	h.settle()
	h.memories = map[string]Memory{} // as when our state was lost
	delete(h.servers, "town")
	h.publish()
	h.set.Known = false
	h.restart()
	h.checks["alive"] = errDeaf
	h.took()
	h.pass(time.Hour)
	h.wantOrders()
}

// What is not Ready stays so over our restart, until an answer says otherwise.
func TestUnreadyDoesNotFlapOverOurRestart(t *testing.T) {
	h := newHost(t)
	h.profile("game", socketProbe)
	h.server("town", "game")
	h.settle()
	h.checks["game"] = errDeaf
	h.pass(31 * time.Second)
	h.wantCondition("town", spec.ConditionReady, "False", "ProbeFailed")
	h.restart()
	h.hidden = true
	h.settle()
	h.hidden = false
	h.settle()
	h.wantCondition("town", spec.ConditionReady, "False", "LastKnown")
	h.wantState("town", spec.StateRunning)
	h.pass(10 * time.Second)
	h.wantCondition("town", spec.ConditionReady, "False", "ProbeFailed")
	h.checks["game"] = nil
	h.pass(10 * time.Second)
	h.wantCondition("town", spec.ConditionReady, "True", "ProbeSucceeded")
	h.restart()
	h.settle()
	h.wantCondition("town", spec.ConditionReady, "True", "LastKnown")
	for name, m := range h.memories {
		if m.Unready != "" {
			t.Errorf("%s is still remembered as unready", name)
		}
	}
}

func TestPlayersAreCounted(t *testing.T) {
	h := newHost(t)
	h.profile("game", socketProbe, func(p *spec.ProfileSpec) {
		p.Players = &spec.Players{Query: &spec.Query{Protocol: "Minecraft", Endpoint: "game"}}
	})
	h.players = 3
	h.server("town", "game")
	h.settle()
	players := func() (int, bool, time.Time) {
		p := h.view("town").Status.Players
		if p == nil {
			t.Fatal("nobody counts")
		}
		if p.Count == nil {
			return 0, false, p.At
		}
		return *p.Count, true, p.At
	}
	n, known, since := players()
	if n != 3 || !known {
		t.Errorf("%d players, known: %v; want 3", n, known)
	}
	h.pass(time.Minute)
	if _, _, at := players(); !at.Equal(since) || h.counted != 5 {
		t.Errorf("since %v, then %v; counted %d times in a minute", since, at, h.counted)
	}
	h.checks["game"] = errDeaf
	h.pass(15 * time.Second)
	if n, known, _ := players(); known || n != 0 {
		t.Errorf("%d players, known: %v; nobody knows", n, known)
	}
	h.checks["game"], h.players = nil, 0
	h.pass(15 * time.Second)
	if n, known, _ := players(); n != 0 || !known {
		t.Errorf("%d players, known: %v; want none", n, known)
	}
	h.crash("town", "game")
	h.checks["game"], h.counted = errDeaf, 0
	h.pass(time.Minute)
	if p := h.view("town").Status.Players; p != nil || h.counted != 0 {
		t.Errorf("%+v players on a new run that is not Ready, counted %d times", p, h.counted)
	}
	h.server("town", "game", stopped)
	h.settle()
	if p := h.view("town").Status.Players; p != nil {
		t.Errorf("%+v players on nothing", p)
	}
}
