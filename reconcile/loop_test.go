package reconcile

import (
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

func TestStartsWhatIsDeclared(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.wantOrders("Start town/game Wanted")
	h.wantState("town", spec.StateRunning)
	h.wantCondition("town", spec.ConditionReady, "True", "NoProbe")
	h.wantCondition("town", spec.ConditionAccepted, "True", "Accepted")
	if v := h.view("town"); v.UID != "uid-1" || v.Generation != 1 {
		t.Errorf("uid %q, generation %d", v.UID, v.Generation)
	}
	if got := len(h.view("town").Status.Conditions); got != len(spec.ConditionTypes) {
		t.Errorf("%d conditions, want %d", got, len(spec.ConditionTypes))
	}
	if h.records[scopeOf("town", "game")].Run.ReadyAt.IsZero() {
		t.Error("the first Ready was not recorded")
	}
}

// I8: an unchanged wish, a comment, a moved file and our own restart are plans with zero steps.
func TestUnchangedWishOrdersNothing(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.took()
	for _, c := range []struct {
		what string
		do   func()
	}{
		{"the same Set again", h.publish},
		{"an equal object in a new Set", func() { h.server("town", "game") }},
		{"an equal profile in a new Set", func() { h.profile("game") }},
		{"a moved file", func() { h.server("town", "game"); h.servers["town"].Source.File = "elsewhere.yaml" }},
		{"our restart", h.restart},
		{"an hour", func() { h.pass(time.Hour) }},
	} {
		c.do()
		h.settle()
		if got := h.took(); len(got) != 0 {
			t.Errorf("%s: orders %q", c.what, got)
		}
		if v := h.view("town"); v.Generation != 1 || v.UID != "uid-1" {
			t.Errorf("%s: generation %d, uid %s", c.what, v.Generation, v.UID)
		}
	}
}

func TestChangedSpecRestartsOnce(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.took()
	h.profile("game", args("--port", "2"))
	h.settle()
	h.wantOrders("Stop town/game SpecChanged", "Step town/game 0", "Start town/game SpecChanged")
	if v := h.view("town"); v.Generation != 2 || v.Status.ObservedGeneration != 2 {
		t.Errorf("generation %d, observed %d", v.Generation, v.Status.ObservedGeneration)
	}
	h.pass(time.Hour)
	h.wantOrders()
}

func TestLiveChangeIsAppliedToTheRun(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.took()
	h.profile("game", policy(spec.RestartNever))
	h.settle()
	h.wantOrders("ApplyLive town/game")
	if got := h.records[scopeOf("town", "game")].Run.Restart.Policy; got != spec.RestartNever {
		t.Errorf("the run's policy is %s", got)
	}
}

func TestStopLadder(t *testing.T) {
	h := newHost(t)
	h.profile("game", func(p *spec.ProfileSpec) {
		p.Actions.Stop = &spec.Stop{Steps: []spec.Step{
			{Action: spec.Action{Signal: &spec.SignalRule{Name: "SIGINT"}}, WaitSeconds: 10},
			{Action: spec.Action{Signal: &spec.SignalRule{Name: "SIGTERM"}}, WaitSeconds: 5},
		}}
	})
	h.server("town", "game")
	h.settle()
	h.took()
	h.ignoresTerm["town"] = true
	h.server("town", "game", stopped)
	h.settle()
	h.wantOrders("Stop town/game StateStopped", "Step town/game 0")
	h.wantState("town", spec.StateStopping)
	h.pass(9 * time.Second)
	h.wantOrders()
	h.restart() // goes on where the ladder was
	h.settle()
	h.wantOrders()
	h.pass(time.Second)
	h.wantOrders("Step town/game 1")
	h.wall = h.wall.Add(-24 * time.Hour) // a wait runs on the monotonic clock
	h.pass(5 * time.Second)
	h.wantOrders("Step town/game 2")
	h.wantState("town", spec.StateStopped)
	h.pass(time.Hour)
	h.wantOrders()
}

func TestCrashBacksOff(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.took()
	h.crash("town", "game")
	h.settle()
	h.wantOrders("Start town/game Crashed") // the first at once
	h.crash("town", "game")
	h.settle()
	h.wantOrders()
	h.wantState("town", spec.StateBackOff)
	h.wantCondition("town", spec.ConditionCrashLoop, "True", "BackOff")
	next := h.view("town").Status.NextStartAt
	if next == nil || next.Sub(h.wall) < 900*time.Millisecond || next.Sub(h.wall) > 1100*time.Millisecond {
		t.Fatalf("next start at %v, now %v", next, h.wall)
	}
	h.restart() // the backoff survives
	h.settle()
	h.wantOrders()
	h.pass(1100 * time.Millisecond)
	h.wantOrders("Start town/game Crashed")
	h.wantCondition("town", spec.ConditionCrashLoop, "True", "NotStable")
	h.pass(600 * time.Second)
	h.wantCondition("town", spec.ConditionCrashLoop, "False", "NoCrashLoop")
	h.crash("town", "game")
	h.settle()
	h.wantOrders("Start town/game Crashed") // a stable run begins anew
}

// EN-12: a step of the wall clock, a day back in the middle of a wait, freezes no restart.
func TestClockStepsBackDuringBackoff(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.crash("town", "game")
	h.settle()
	h.crash("town", "game")
	h.settle()
	h.took()
	h.wall = h.wall.Add(-24 * time.Hour)
	h.pass(1100 * time.Millisecond)
	h.wantOrders("Start town/game Crashed")
	h.crash("town", "game")
	h.settle()
	h.wall = h.wall.Add(-24 * time.Hour)
	h.restart() // nobody has seen the end before the step
	h.pass(2200 * time.Millisecond)
	h.wantOrders("Start town/game Crashed")
}

func TestRestartPolicies(t *testing.T) {
	for _, c := range []struct {
		policy string
		code   int
		want   spec.ServerState
		starts bool
	}{
		{spec.RestartAlways, 0, spec.StateRunning, true},
		{spec.RestartAlways, 1, spec.StateRunning, true},
		{spec.RestartOnFailure, 0, spec.StateStopped, false},
		{spec.RestartOnFailure, 1, spec.StateRunning, true},
		{spec.RestartNever, 0, spec.StateStopped, false},
		{spec.RestartNever, 1, spec.StateFailed, false},
	} {
		h := newHost(t)
		h.profile("game", policy(c.policy))
		h.server("town", "game")
		h.settle()
		h.took()
		h.exit("town", "game", c.code)
		h.pass(time.Hour)
		if started := len(h.took()) > 0; started != c.starts {
			t.Errorf("%s, exit code %d: started again: %v", c.policy, c.code, started)
		}
		h.wantState("town", c.want)
		if c.starts {
			continue
		}
		h.restart()
		h.pass(time.Minute)
		h.wantOrders() // it stays so
		if err := h.ask(ActionStart, Ask{Server: key("town"), By: "anna"}); err != nil {
			t.Fatal(err)
		}
		h.wantOrders("Start town/game Asked")
		h.exit("town", "game", c.code)
		h.settle()
		h.wantOrders()
		h.profile("game", policy(c.policy), args("new"))
		h.settle()
		h.wantOrders("Start town/game SpecChanged")
	}
}

func TestProfileChangeStopsTheOldScopeFirst(t *testing.T) {
	h := newHost(t)
	h.profile("old")
	h.profile("new")
	h.server("town", "old")
	h.settle()
	h.took()
	h.server("town", "new")
	h.settle()
	h.wantOrders("Stop town/old ProfileChanged", "Step town/old 0", "Start town/new ProfileChanged")
	h.restart()
	h.settle()
	h.wantOrders()
}

func TestRemovedServerIsStoppedArchivedAndForgotten(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.took()
	h.remove("town")
	h.set.Known = false // I7: not every source has been read
	h.settle()
	h.wantOrders()
	h.publish()
	h.settle()
	h.wantOrders("Stop town/game Removed", "Step town/game 0", "Archive town/game")
	if n := len(h.loop.Snapshot().Servers); n != 0 {
		t.Errorf("%d servers are shown", n)
	}
	if len(h.memories) != 0 {
		t.Errorf("memories: %v", h.memories)
	}
	h.server("town", "game")
	h.settle()
	h.wantOrders("Start town/game Wanted")
	if v := h.view("town"); v.UID != "uid-2" {
		t.Errorf("uid %s after it came back", v.UID)
	}
}

// Faults in the newest manifest: the last good spec governs, also after a crash and after our restart.
func TestInvalidWishKeepsTheLastGood(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.took()
	delete(h.profiles, "game")
	h.publish()
	h.settle()
	h.wantOrders()
	h.wantCondition("town", spec.ConditionAccepted, "False", "ProfileNotFound")
	h.wantCondition("town", spec.ConditionStalled, "True", "ProfileNotFound")
	h.wantState("town", spec.StateRunning)
	h.crash("town", "game")
	h.restart()
	h.settle()
	h.wantOrders("Start town/game Crashed")
	h.server("town", "game", stopped) // state follows the newest all the same
	h.settle()
	h.wantOrders("Stop town/game StateStopped", "Step town/game 0")
}

func TestNeverGoodRunsNothing(t *testing.T) {
	h := newHost(t)
	h.server("town", "game")
	h.pass(time.Hour)
	h.wantOrders()
	h.wantState("town", spec.StatePending)
	h.wantCondition("town", spec.ConditionAccepted, "False", "ProfileNotFound")
	h.profile("game")
	h.settle()
	h.wantOrders("Start town/game Wanted")
}

// While sources are still being read, a profile may come yet: that is no fault to report.
func TestProfileOfASourceThatIsNotReadYet(t *testing.T) {
	h := newHost(t)
	h.server("town", "game")
	h.set.Known = false
	h.settle()
	h.wantCondition("town", spec.ConditionAccepted, "Unknown", "SourcesPending")
	h.wantCondition("town", spec.ConditionStalled, "False", "NotStalled")
	h.profile("game")
	h.settle()
	h.wantOrders("Start town/game Wanted")
	for _, e := range h.view("town").Events {
		if e.Type != EventNormal {
			t.Errorf("event %+v", e)
		}
	}
}

func TestNothingIsDecidedBeforeTheKeeperIsHeard(t *testing.T) {
	h := newHost(t)
	h.hidden = true
	h.profile("game")
	h.server("town", "game")
	h.pass(time.Hour)
	h.wantOrders()
	h.wantState("town", spec.StatePending)
	h.hidden = false
	h.settle()
	h.wantOrders("Start town/game Wanted")
}

// While the keeper is away, no server is taken for gone: its records are only out of sight.
func TestRemovalWhileTheKeeperIsAway(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.took()
	h.hidden = true
	h.restart()
	h.remove("town")
	h.pass(time.Hour)
	h.restart()
	h.pass(time.Hour)
	h.wantOrders()
	h.hidden = false
	h.settle()
	h.wantOrders("Stop town/game Removed", "Step town/game 0", "Archive town/game")
}

func TestBlockedScopeIsLeftAlone(t *testing.T) {
	h := newHost(t)
	h.change(scopeOf("town", "game"), func(f *observe.Facts) { f.Blocked = "RecordUnreadable" })
	h.profile("game")
	h.profile("other")
	h.server("town", "game")
	h.pass(time.Hour)
	h.wantOrders()
	h.wantState("town", spec.StateBlocked)
	h.wantCondition("town", spec.ConditionStalled, "True", "Blocked")
	h.server("town", "other") // another scope of the same server must wait, too
	h.pass(time.Hour)
	h.wantOrders()
	h.remove("town")
	h.pass(time.Hour)
	h.wantOrders()
}

func TestMainExitedEndsWhatItLeft(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.took()
	h.ignoresTerm["town"] = true
	h.change(scopeOf("town", "game"), func(f *observe.Facts) { f.Run.Alive, f.Run.Tree.Count = observe.Dead, 2 })
	h.settle()
	// The default ladder has no step to the tree: the kill follows at once.
	h.wantOrders("Stop town/game MainExited", "Step town/game 1", "Start town/game Wanted")
}

func TestRefusedOrderIsTriedAgainAndShown(t *testing.T) {
	h := newHost(t)
	h.refuse["Start"] = errBusy
	h.profile("game")
	h.server("town", "game")
	h.pass(3 * time.Second)
	if n := len(h.took()); n < 3 || n > 6 {
		t.Errorf("%d tries within 3 s", n)
	}
	h.wantCondition("town", spec.ConditionReconciling, "True", "OrderFailed")
	h.pass(time.Hour)
	if n := len(h.took()); n < 110 || n > 130 {
		t.Errorf("%d tries within an hour, want one in 30 s", n)
	}
	h.wantCondition("town", spec.ConditionStalled, "True", "OrderFailed")
	delete(h.refuse, "Start")
	h.pass(30 * time.Second)
	h.wantState("town", spec.StateRunning)
	h.wantCondition("town", spec.ConditionStalled, "False", "NotStalled")
}

func TestLateFactsCauseNoSecondOrder(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.lateFacts = true
	h.settle()
	h.wantOrders("Start town/game Wanted")
	h.lateFacts = false
	h.settle()
	h.wantOrders()
	h.wantState("town", spec.StateRunning)
}
