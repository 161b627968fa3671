package reconcile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

func TestHoldStopsAndStartReleases(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.took()
	if err := h.ask(ActionStop, Ask{Server: key("town"), By: "anna", Reason: "backup"}); err != nil {
		t.Fatal(err)
	}
	h.wantOrders("Stop town/game Hold", "Step town/game 0")
	st := h.view("town").Status
	if st.Hold == nil || st.Hold.By != "anna" || st.Hold.Reason != "backup" || st.Hold.State != spec.WishStopped {
		t.Errorf("hold %+v", st.Hold)
	}
	if st.LastAction == nil || st.LastAction.Type != "Stop" || st.LastAction.By != "anna" {
		t.Errorf("last action %+v", st.LastAction)
	}
	h.restart()
	h.pass(time.Hour)
	h.wantOrders() // the hold survives
	if err := h.ask(ActionRestart, Ask{Server: key("town"), By: "anna"}); !errors.Is(err, ErrStopped) {
		t.Errorf("restart of a stopped server: %v", err)
	}
	if err := h.ask(ActionStart, Ask{Server: key("town"), By: "bert"}); err != nil {
		t.Fatal(err)
	}
	h.wantOrders("Start town/game Asked")
	if st := h.view("town").Status; st.Hold != nil {
		t.Errorf("hold %+v after start", st.Hold)
	}
}

func TestStartOverAManifestThatSaysStopped(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game", stopped)
	h.settle()
	h.wantOrders()
	if err := h.ask(ActionStart, Ask{Server: key("town"), By: "anna", For: time.Minute}); err != nil {
		t.Fatal(err)
	}
	h.wantOrders("Start town/game Wanted")
	if hold := h.view("town").Status.Hold; hold == nil || hold.State != spec.WishRunning || hold.Until == nil {
		t.Fatalf("hold %+v", hold)
	}
	h.server("town", "game") // a change of the manifest's state leaves the hold alone
	h.server("town", "game", stopped)
	h.settle()
	h.wantOrders()
	h.pass(time.Minute)
	h.wantOrders("Stop town/game StateStopped", "Step town/game 0")
	if m := h.memories["default/town"]; m.Hold != nil {
		t.Errorf("the hold that is over is remembered: %+v", m.Hold)
	}
}

func TestReleaseEndsAHold(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	if err := h.ask(ActionRelease, Ask{Server: key("town"), By: "anna"}); err != nil {
		t.Errorf("release without a hold: %v", err)
	}
	if err := h.ask(ActionStop, Ask{Server: key("town"), By: "anna"}); err != nil {
		t.Fatal(err)
	}
	h.took()
	if err := h.ask(ActionRelease, Ask{Server: key("town"), By: "anna"}); err != nil {
		t.Fatal(err)
	}
	h.wantOrders("Start town/game Wanted")
}

func TestForceGoesToTheKill(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.took()
	h.ignoresTerm["town"] = true
	if err := h.ask(ActionStop, Ask{Server: key("town"), By: "anna"}); err != nil {
		t.Fatal(err)
	}
	h.wantOrders("Stop town/game Hold", "Step town/game 0")
	if err := h.ask(ActionStop, Ask{Server: key("town"), By: "anna", Force: true}); err != nil {
		t.Fatal(err)
	}
	h.wantOrders("Step town/game 1")
	h.wantState("town", spec.StateStopped)
}

func TestRestartHappensOnceAcrossOurCrash(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.took()
	h.ignoresTerm["town"] = true
	if err := h.ask(ActionRestart, Ask{Server: key("town"), By: "anna"}); err != nil {
		t.Fatal(err)
	}
	h.wantOrders("Stop town/game Restart", "Step town/game 0")
	h.restart()
	h.pass(time.Minute)
	h.wantOrders("Step town/game 1", "Start town/game Restart")
	h.restart()
	h.pass(time.Hour)
	h.wantOrders()
}

func TestRestartEndsTheBackoff(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	for range 3 {
		h.crash("town", "game")
		h.pass(10 * time.Second)
	}
	h.crash("town", "game")
	h.settle()
	h.wantState("town", spec.StateBackOff)
	h.took()
	if err := h.ask(ActionRestart, Ask{Server: key("town"), By: "anna"}); err != nil {
		t.Fatal(err)
	}
	h.wantOrders("Start town/game Restart")
	h.crash("town", "game")
	h.settle()
	h.wantOrders("Start town/game Crashed") // the count begins anew
}

func TestAskOfNoServer(t *testing.T) {
	h := newHost(t)
	if err := h.ask(ActionStop, Ask{Server: key("nobody"), By: "anna"}); !errors.Is(err, ErrNoServer) {
		t.Errorf("got %v", err)
	}
}

// A hold is on disk before it is answered, and before anything follows from it.
func TestHoldOnAFullDisk(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.took()
	h.diskErr = errors.New("no space left on device")
	if err := h.ask(ActionStop, Ask{Server: key("town"), By: "anna"}); !errors.Is(err, ErrUnrecorded) {
		t.Errorf("the hold was answered with %v", err)
	}
	h.wantOrders()
	h.wantState("town", spec.StateRunning)
	h.crash("town", "game") // what is remembered goes on governing
	h.settle()
	h.wantOrders("Start town/game Crashed")
	h.diskErr = nil
	h.pass(time.Minute)
	h.restart()
	h.pass(time.Minute)
	h.wantOrders() // the hold that was refused is not found on disk later
	if h.view("town").Status.Hold != nil {
		t.Error("the hold that was refused is in force")
	}
}

// UIDs are on disk before the first start.
func TestNoStartBeforeTheUIDIsDurable(t *testing.T) {
	h := newHost(t)
	h.diskErr = errors.New("no space left on device")
	h.profile("game")
	h.server("town", "game")
	h.pass(time.Minute)
	h.wantOrders()
	h.diskErr = nil
	h.pass(time.Minute)
	h.wantOrders("Start town/game Wanted")
}

// A run that no memory and no source knows is left alone: we may have lost our state.
func TestRunOfNobodyIsLeftAlone(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.took()
	clear(h.memories)
	h.remove("town")
	h.restart()
	h.pass(time.Hour)
	h.wantOrders()
	h.wantCondition("town", spec.ConditionAccepted, "Unknown", "NotDeclared")
	h.server("town", "game") // declared again, it is the same server
	h.settle()
	h.wantOrders()
	if v := h.view("town"); v.UID != "uid-1" || v.Generation != 1 {
		t.Errorf("uid %s, generation %d", v.UID, v.Generation)
	}
	clear(h.memories)
	h.remove("town")
	h.restart()
	h.settle()
	if err := h.ask(ActionStop, Ask{Server: key("town"), By: "anna"}); err != nil {
		t.Fatal(err)
	}
	h.wantOrders("Stop town/game Removed", "Step town/game 0", "Archive town/game")
}

func TestShutdownEndsEveryRunAndSetsNoHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.profile("game")
		h.server("a", "game")
		h.server("b", "game")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		start := time.Now()
		h.loop.opts.Clock = ClockFunc(h.ticking(start))
		go func() { done <- h.loop.Run(ctx) }()
		synctest.Wait()
		h.wantState("a", spec.StateRunning)
		h.ignoresTerm["b"] = true
		if err := h.loop.Shutdown(ctx, "anna"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("it took %v, want b's ladder of 30 s", took)
		}
		h.wantState("b", spec.StateStopped)
		if err := h.loop.Stop(ctx, Ask{Server: key("a")}); !errors.Is(err, ErrClosing) {
			t.Errorf("an ask during a shutdown: %v", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		h.restart()
		h.took()
		h.settle()
		if got := h.took(); len(got) != 2 {
			t.Errorf("the next reconciler orders %q, want two starts", got)
		}
	})
}

// A shutdown names what it leaves alone, in order, and ends the rest.
func TestShutdownNamesWhatCannotBeTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.profile("game")
		for _, name := range []string{"c", "b", "a"} {
			h.server(name, "game")
		}
		for _, name := range []string{"c", "a"} {
			h.change(scopeOf(name, "game"), func(f *observe.Facts) { f.Blocked = "RecordUnreadable" })
		}
		ctx, cancel := context.WithCancel(t.Context())
		h.loop.opts.Clock = ClockFunc(h.ticking(time.Now()))
		done := make(chan error)
		go func() { done <- h.loop.Run(ctx) }()
		synctest.Wait()
		h.wantState("b", spec.StateRunning)
		err := h.loop.Shutdown(ctx, "anna")
		left := new(UntoldError)
		if !errors.As(err, &left) || err.Error() != "cannot end a, c: what runs there cannot be told; see 'reconciler doctor'" {
			t.Errorf("the shutdown says %v", err)
		}
		h.wantState("b", spec.StateStopped)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestRunLeavesRunsAloneAndWatchersAreWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.profile("game")
		h.server("a", "game")
		ctx, cancel := context.WithCancel(t.Context())
		h.loop.opts.Clock = ClockFunc(h.ticking(time.Now()))
		changed, end := h.loop.Watch()
		defer end()
		done := make(chan error)
		go func() { done <- h.loop.Run(ctx) }()
		<-changed
		synctest.Wait()
		h.wantState("a", spec.StateRunning)
		h.took()
		h.crash("a", "game")
		h.loop.Wake()
		synctest.Wait()
		h.wantOrders("Start a/game Crashed")
		h.crash("a", "game")
		time.Sleep(resync + 2*time.Second) // inside the bubble: nobody wakes the loop, it looks by itself
		synctest.Wait()
		h.wantOrders("Start a/game Crashed")
		cancel()
		<-done
		h.wantOrders()
	})
}
