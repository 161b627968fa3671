package reconcile

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// after has a server depend on others: on servers that are Ready by their names, on those that run as run/NAME, on jobs as job/NAME.
func after(list ...string) func(*spec.ServerSpec) {
	return func(s *spec.ServerSpec) {
		for _, text := range list {
			d := spec.Dependency{Name: text}
			if name, is := strings.CutPrefix(text, "job/"); is {
				d = spec.Dependency{Kind: spec.KindJob, Name: name}
			} else if name, is := strings.CutPrefix(text, "run/"); is {
				d = spec.Dependency{Name: name, Condition: spec.DependRunning}
			}
			s.DependsOn = append(s.DependsOn, d)
		}
	}
}

// waits checks that a server waits for others, and that nobody has to do anything about it.
func (h *host) waits(name, what string) {
	h.t.Helper()
	h.wantState(name, spec.StatePending)
	h.wantCondition(name, spec.ConditionReady, "False", "DependencyPending")
	h.wantCondition(name, spec.ConditionReconciling, "True", "DependencyPending")
	h.wantCondition(name, spec.ConditionStalled, "False", "NotStalled")
	h.wantMessage(name, spec.ConditionReady, what)
}

// stuck checks that a server waits for others, and that somebody has to do something about it.
func (h *host) stuck(name, reason, what string) {
	h.t.Helper()
	h.wantState(name, spec.StatePending)
	h.wantCondition(name, spec.ConditionStalled, "True", reason)
	h.wantMessage(name, spec.ConditionStalled, what)
}

func (h *host) wantMessage(name, kind, text string) {
	h.t.Helper()
	if c := conditionOf(h.view(name), kind); !strings.Contains(c.Message, text) {
		h.t.Fatalf("%s of %s says %q, want %q", kind, name, c.Message, text)
	}
}

// A run begins once what its server depends on is as it has to be: a first one, one after a crash, and one for a change. A loss
// later on ends nothing.
func TestDependencyGatesStarts(t *testing.T) {
	h := newHost(t)
	h.profile("game", logProbe)
	h.profile("proxy")
	h.server("front", "proxy", after("town"))
	h.settle()
	h.wantOrders()
	h.stuck("front", "DependencyNotFound", "server/town, which no source has")
	h.server("side", "proxy", after("run/town"))
	h.server("town", "game")
	h.settle()
	h.wantOrders("Start town/game Wanted", "Start side/proxy Wanted")
	h.waits("front", "server/town to be Ready")
	h.logs("town", "game")
	h.settle()
	h.wantOrders("Start front/proxy Wanted")

	h.profile("game", args("new"), logProbe) // it is replaced, and is not Ready for a while
	h.settle()
	h.took()
	h.wantState("front", spec.StateRunning)
	h.crash("front", "proxy")
	h.settle()
	h.wantOrders()
	h.waits("front", "server/town to be Ready")
	h.restart() // ours
	h.settle()
	h.wantOrders()
	h.logs("town", "game")
	h.settle()
	h.wantOrders("Start front/proxy Crashed")

	h.profile("game", args("newer"), logProbe)
	h.settle()
	h.took()
	h.profile("proxy", args("new"))
	h.settle()
	h.wantOrders("Stop side/proxy SpecChanged", "Step side/proxy 0", "Start side/proxy SpecChanged")
	h.wantState("front", spec.StateRunning)
	h.wantCondition("front", spec.ConditionRestartPending, "True", "DependencyPending")
	h.logs("town", "game")
	h.settle()
	h.wantOrders("Stop front/proxy SpecChanged", "Step front/proxy 0", "Start front/proxy SpecChanged")

	h.server("town", "game", stopped)
	h.settle()
	h.wantOrders("Stop town/game StateStopped", "Step town/game 0")
	if err := h.ask(ActionRestart, Ask{Server: key("front"), By: "anna"}); err != nil {
		t.Fatal(err)
	}
	h.wantOrders()
	h.wantState("front", spec.StateRunning)
	h.wantCondition("front", spec.ConditionRestartPending, "True", "DependencyStopped")
	h.crash("side", "proxy")
	h.settle()
	h.wantOrders()
	h.stuck("side", "DependencyStopped", "server/town, which is to be stopped")
	h.server("side", "proxy") // it depends on nothing any more
	h.settle()
	h.wantOrders("Start side/proxy SpecChanged")
}

// A live-class change of what a server depends on ends no run.
func TestDependencyIsLive(t *testing.T) {
	h := newHost(t)
	h.profile("proxy")
	h.server("front", "proxy")
	h.settle()
	h.took()
	h.server("front", "proxy", after("town"))
	h.settle()
	h.wantOrders("ApplyLive front/proxy")
	h.wantState("front", spec.StateRunning)
	h.crash("front", "proxy")
	h.settle()
	h.stuck("front", "DependencyNotFound", "server/town")
}

// A server that depends on a job starts once that has succeeded; one that failed is told, and another attempt is waited for.
func TestDependencyOnAJob(t *testing.T) {
	h := newHost(t)
	h.profile("shop", withCommands(program("migrate", spec.RequiresStopped)))
	h.commands.result["migrate"] = "Failed"
	h.server("shop", "shop", after("job/migrate-7"))
	h.settle()
	h.stuck("shop", "DependencyNotFound", "job/migrate-7, which no source has")
	h.job("migrate-7", "shop", "migrate")
	h.settle()
	h.wantJob("migrate-7", spec.JobFailed, "CommandFailed")
	h.stuck("shop", "DependencyFailed", "job/migrate-7, which came to Failed")
	h.commands.result["migrate"] = "Done"
	h.job("migrate-7", "shop", "migrate", times(2))
	h.settle()
	h.wantJob("migrate-7", spec.JobSucceeded, "")
	h.wantState("shop", spec.StateRunning)
	h.restart()
	h.took()
	h.crash("shop", "shop")
	h.settle()
	h.wantOrders("Start shop/shop Crashed")
}

// Whoever would wait for itself is refused by the way that leads back to it, keeps what it had, and is accepted when the way is gone.
func TestDependencyCycle(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("a", "game", after("b"))
	h.server("b", "game")
	h.server("c", "game", after("a"))
	h.settle()
	h.wantOrders("Start b/game Wanted", "Start a/game Wanted", "Start c/game Wanted")
	h.server("b", "game", after("a"))
	h.settle()
	h.wantOrders()
	for name, way := range map[string]string{"a": "server/a -> server/b -> server/a", "b": "server/b -> server/a -> server/b"} {
		h.wantCondition(name, spec.ConditionAccepted, "False", "Invalid")
		h.wantMessage(name, spec.ConditionAccepted, way)
		h.wantMessage(name, spec.ConditionAccepted, "the last good spec governs")
	}
	h.wantCondition("c", spec.ConditionAccepted, "True", "Accepted")
	h.restart()
	h.settle()
	h.crash("a", "game")
	h.crash("b", "game")
	h.settle()
	h.wantOrders("Start b/game Crashed", "Start a/game Crashed")
	h.server("a", "game")
	h.settle()
	h.wantCondition("a", spec.ConditionAccepted, "True", "Accepted")
	h.wantCondition("b", spec.ConditionAccepted, "True", "Accepted")
	h.wantOrders("ApplyLive a/game", "ApplyLive b/game")

	h = newHost(t)
	h.profile("game")
	h.server("a", "game", after("b")) // never good, and another at once
	h.server("b", "game", after("a"))
	h.server("c", "game")
	h.settle()
	h.wantOrders("Start c/game Wanted")
	h.remove("b")
	h.settle()
	h.wantCondition("a", spec.ConditionAccepted, "True", "Accepted")
	h.stuck("a", "DependencyNotFound", "server/b")
}

// A job that needs a run is on the way, too, until it has succeeded.
func TestDependencyCycleOverAJob(t *testing.T) {
	h := newHost(t)
	h.profile("game", withCommands(console("save")))
	h.job("save-1", "town", "save")
	h.server("town", "game", after("job/save-1"))
	h.settle()
	h.wantOrders()
	h.wantMessage("town", spec.ConditionAccepted, "server/town -> job/save-1 -> server/town")
	h.server("town", "game")
	h.settle()
	h.wantJob("save-1", spec.JobSucceeded, "")
	h.server("town", "game", after("job/save-1"))
	h.settle()
	h.wantCondition("town", spec.ConditionAccepted, "True", "Accepted")
}

// Servers that would wait for themselves over a job are looked at again when it has succeeded, though nothing else has changed and none of
// what they remember depends on it.
func TestDependencyCycleEndsWithItsJob(t *testing.T) {
	h := newHost(t)
	h.profile("game", withCommands(console("save")))
	h.server("town", "game")
	h.settle()
	h.wantOrders("Start town/game Wanted")
	h.server("shop", "game", after("job/save-1"))
	h.server("town", "game", after("shop"))
	h.job("save-1", "town", "save")
	h.settle()
	h.wantOrders("Do town/game save for run-1", "Start shop/game Wanted", "ApplyLive town/game")
	h.wantCondition("shop", spec.ConditionAccepted, "True", "Accepted")
	h.wantCondition("town", spec.ConditionAccepted, "True", "Accepted")
}

// Where both are to end, who depends goes first: by the manifest, by removal, and in a shutdown. A forced stop waits for nobody,
// and nobody is waited for that was killed and stays.
func TestDependentsEndFirst(t *testing.T) {
	begin := func(t *testing.T) *host {
		h := newHost(t)
		h.profile("game")
		h.server("town", "game")
		h.server("front", "game", after("town"))
		h.server("far", "game", after("front"))
		h.settle()
		h.wantOrders("Start town/game Wanted", "Start front/game Wanted", "Start far/game Wanted")
		h.ignoresTerm["front"] = true
		return h
	}
	gone := spec.ExitStatus{Class: spec.Expected, Reason: spec.ReasonStopRequested}
	t.Run("by the manifest", func(t *testing.T) {
		h := begin(t)
		h.server("town", "game", stopped)
		h.server("front", "game", after("town"), stopped)
		h.server("far", "game", after("front"), stopped)
		h.settle()
		h.wantOrders("Stop far/game StateStopped", "Step far/game 0", "Stop front/game StateStopped", "Step front/game 0")
		h.wantState("town", spec.StateRunning)
		h.wantCondition("town", spec.ConditionReconciling, "True", "DependentsFirst")
		h.wantMessage("town", spec.ConditionReconciling, "front")
		h.restart()
		h.settle()
		h.wantOrders()
		h.end(scopeOf("front", "game"), gone)
		h.settle()
		h.wantOrders("Stop town/game StateStopped", "Step town/game 0")
	})
	t.Run("by removal", func(t *testing.T) {
		h := begin(t)
		h.remove("town")
		h.remove("front")
		h.settle()
		h.wantOrders("Stop front/game Removed", "Step front/game 0")
		h.end(scopeOf("front", "game"), gone)
		h.settle()
		h.wantOrders("Archive front/game", "Stop town/game Removed", "Step town/game 0", "Archive town/game")
		h.wantState("far", spec.StateRunning)
	})
	t.Run("one alone", func(t *testing.T) {
		h := begin(t)
		h.server("town", "game", stopped)
		h.settle()
		h.wantOrders("Stop town/game StateStopped", "Step town/game 0")
	})
	t.Run("by force", func(t *testing.T) {
		h := begin(t)
		h.server("front", "game", after("town"), stopped)
		if err := h.ask(ActionStop, Ask{Server: key("town"), By: "anna", Force: true}); err != nil {
			t.Fatal(err)
		}
		if got := h.took(); !slices.Contains(got, "Stop town/game Hold") {
			t.Errorf("orders %q", got)
		}
	})
	t.Run("one that stays", func(t *testing.T) {
		h := begin(t)
		h.refuse["Step"] = errBusy
		h.server("town", "game", stopped)
		h.server("front", "game", after("town"), stopped)
		h.settle()
		h.wantState("town", spec.StateRunning)
		h.change(scopeOf("front", "game"), func(f *observe.Facts) {
			stop, at := *f.Run.Stop, h.now()
			stop.Killed = &at
			f.Run.Stop = &stop
		})
		h.settle()
		if got := h.took(); !slices.Contains(got, "Stop town/game StateStopped") {
			t.Errorf("orders %q", got)
		}
	})
	t.Run("in a shutdown", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := begin(t)
			ctx, cancel := context.WithCancel(t.Context())
			h.loop.opts.Clock = ClockFunc(h.ticking(time.Now()))
			done := make(chan error)
			go func() { done <- h.loop.Run(ctx) }()
			if err := h.loop.Shutdown(ctx, "anna"); err != nil {
				t.Error(err)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			got := slices.DeleteFunc(h.took(), func(s string) bool { return !strings.HasPrefix(s, "Stop") })
			if want := []string{"Stop far/game Shutdown", "Stop front/game Shutdown", "Stop town/game Shutdown"}; !slices.Equal(got, want) {
				t.Errorf("orders %q, want %q", got, want)
			}
		})
	})
}

// What nobody should have remembered, two that depend on each other, ends all the same.
func TestDependentsOfEachOtherEnd(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("a", "game")
	h.server("b", "game")
	h.settle()
	for name, on := range map[string]string{"a": "b", "b": "a"} {
		m := h.memories["default/"+name]
		m.Launch.DependsOn = []spec.Dependency{{Kind: spec.KindServer, Name: on, Condition: spec.DependReady}}
		h.memories["default/"+name] = m
	}
	h.took()
	h.restart()
	h.remove("a")
	h.remove("b")
	h.settle()
	if got := h.took(); !slices.Contains(got, "Stop a/game Removed") || !slices.Contains(got, "Stop b/game Removed") {
		t.Errorf("orders %q", got)
	}
}
