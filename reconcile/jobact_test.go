package reconcile

import (
	"slices"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Start, Stop and Restart act through holds, once, and wait for what comes of it.
func TestJobActsThroughHolds(t *testing.T) {
	h := newTown(t)
	if err := h.addJob("stop-1", spec.JobSpec{Server: "town", Type: spec.JobStop}); err != nil {
		t.Fatal(err)
	}
	h.wantJob("stop-1", spec.JobSucceeded, "")
	h.wantOrders("Stop town/game Hold", "Step town/game 0")
	if hold := h.view("town").Status.Hold; hold == nil || hold.State != spec.WishStopped || hold.By != "anna" || hold.Reason != "job stop-1" {
		t.Errorf("hold %+v", hold)
	}
	if err := h.addJob("start-1", spec.JobSpec{Server: "town", Type: spec.JobStart}); err != nil {
		t.Fatal(err)
	}
	h.wantJob("start-1", spec.JobSucceeded, "")
	h.wantOrders("Start town/game Asked")
	h.job("restart-1", "town", "", restartJob)
	h.settle()
	h.wantJob("restart-1", spec.JobSucceeded, "")
	h.wantOrders("Stop town/game Restart", "Step town/game 0", "Start town/game Restart")
	h.restart()
	h.publish()
	h.settle()
	h.wantOrders()
}

// A job waits as long as it takes, and is told what came between.
func TestJobWaitsForConvergence(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   spec.JobType
		first  func(*host)
		do     func(*host)
		phase  spec.JobPhase
		reason string
	}{
		{"a stop that takes its ladder", spec.JobStop, func(h *host) { h.ignoresTerm["town"] = true }, func(h *host) { h.pass(time.Hour) }, spec.JobSucceeded, ""},
		{"a stop that somebody undoes", spec.JobStop, func(h *host) { h.ignoresTerm["town"] = true }, func(h *host) { h.hold(ActionStart) }, spec.JobFailed, JobReasonSuperseded},
		{"a stop of which nobody can tell what is left", spec.JobStop, func(h *host) { h.ignoresTerm["town"] = true }, func(h *host) {
			h.change(town, func(f *observe.Facts) { f.Blocked = "Unverified" })
		}, spec.JobFailed, JobReasonBlocked},
		{"a stop that is late", spec.JobStop, func(h *host) { h.ignoresTerm["town"] = true }, func(h *host) { h.pass(10 * time.Second) }, spec.JobFailed, JobReasonLate},
		{"a stop that is withdrawn after it began", spec.JobStop, func(h *host) { h.ignoresTerm["town"] = true }, func(h *host) { _ = h.cancelJob("job") }, spec.JobCancelled, JobReasonRequested},
		{"a restart whose run crashes", spec.JobRestart, func(h *host) { h.profile("game", logProbe) }, func(h *host) { h.crash("town", "game") }, spec.JobFailed, "Signaled"},
		{"a restart that gets ready", spec.JobRestart, func(h *host) { h.profile("game", logProbe) }, func(h *host) {
			h.change(town, func(f *observe.Facts) { f.Run.LogSeenAt = h.wall })
		}, spec.JobSucceeded, ""},
		{"a restart that somebody stops", spec.JobRestart, func(h *host) { h.profile("game", logProbe) }, func(h *host) { h.hold(ActionStop) }, spec.JobFailed, JobReasonSuperseded},
		{"a start that somebody stops", spec.JobStart, func(h *host) { h.profile("game", logProbe); h.hold(ActionStop) }, func(h *host) { h.hold(ActionStop) }, spec.JobFailed, JobReasonSuperseded},
		{"a removal while it waits", spec.JobStart, func(h *host) { h.profile("game", logProbe); h.hold(ActionStop) }, func(h *host) { h.remove("town") }, spec.JobFailed, JobReasonGone},
		{"our restart while it waits", spec.JobStop, func(h *host) { h.ignoresTerm["town"] = true }, func(h *host) {
			h.restart()
			h.settle()
			delete(h.ignoresTerm, "town")
			h.end(town, spec.ExitStatus{Class: spec.Expected, Reason: spec.ReasonStopRequested, Signal: "SIGTERM"})
		}, spec.JobSucceeded, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newTown(t)
			c.first(h)
			h.settle()
			ten := int64(10)
			if c.phase == spec.JobSucceeded {
				ten = 7200
			}
			if err := h.addJob("job", spec.JobSpec{Server: "town", Type: c.kind, DeadlineSeconds: &ten}); err != nil {
				t.Fatal(err)
			}
			h.wantJob("job", spec.JobRunning, "")
			c.do(h)
			h.settle()
			h.wantJob("job", c.phase, c.reason)
		})
	}
}

// A restart that has not begun when it is withdrawn does not begin.
func TestRestartJobIsWithdrawn(t *testing.T) {
	h := newTown(t)
	h.refuse["Stop"] = errLost // the stop does not get there
	h.job("restart-1", "town", "", restartJob)
	h.settle()
	h.wantJob("restart-1", spec.JobRunning, "")
	if err := h.cancelJob("restart-1"); err != nil {
		t.Fatal(err)
	}
	h.wantJob("restart-1", spec.JobCancelled, JobReasonRequested)
	delete(h.refuse, "Stop")
	h.took()
	h.pass(time.Hour)
	h.wantOrders()
}

// BP-12: a restart is of the run that it was bound to, and of no other.
func TestRestartJobIsFenced(t *testing.T) {
	h := newTown(t)
	h.job("restart-1", "town", "", restartJob)
	for range 2 { // accepted, bound
		orders, _ := h.loop.Turn(h.now())
		for _, o := range orders {
			h.loop.Done(h.now(), o, o.CarryOut(t.Context(), h, h, jobTable{h}, h))
		}
	}
	h.change(town, func(f *observe.Facts) { f.Run.Number, f.Run.ID = 2, "run-2" }) // it crashed, and another one has begun
	h.settle()
	h.wantJob("restart-1", spec.JobRefused, "Refused")
	if st := h.jobView("restart-1").Status; st.Check != CheckJobRun {
		t.Errorf("check %q", st.Check)
	}
	h.wantOrders()
}

// A command that requires Stopped: stops, runs, restores what is wished.
func TestCommandOfAStoppedServer(t *testing.T) {
	h := newTown(t, program("migrate", spec.RequiresStopped))
	h.job("migrate-7", "town", "migrate")
	h.settle()
	h.wantOrders("Stop town/game Job", "Step town/game 0", "Do town/game migrate for no run", "Start town/game Wanted")
	h.wantJob("migrate-7", spec.JobSucceeded, "")
	h.wantState("town", spec.StateRunning)

	h.hold(ActionStop)
	h.took()
	h.job("migrate-8", "town", "migrate")
	h.settle()
	h.wantOrders("Do town/game migrate for no run")
	h.wantJob("migrate-8", spec.JobSucceeded, "")
	h.wantState("town", spec.StateStopped)
	h.once()
}

// The wish is restored whatever comes of the command, and whoever dies meanwhile.
func TestTheWishIsRestored(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(*host)
		phase spec.JobPhase
	}{
		{"the command fails", func(h *host) { h.finish(town, state.Failed) }, spec.JobFailed},
		{"nobody knows what became of it", func(h *host) { h.finish(town, state.Indeterminate) }, spec.JobFailed},
		{"we die", func(h *host) { h.restart(); h.settle(); h.finish(town, state.Done) }, spec.JobSucceeded},
		{"it is withdrawn", func(h *host) { _ = h.cancelJob("migrate-7"); h.finish(town, state.Done) }, spec.JobSucceeded},
		{"our memory of the job is lost", func(h *host) {
			clear(h.jobs)
			h.removeJob("migrate-7")
			h.restart()
			h.finish(town, state.Done)
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newTown(t, program("migrate", spec.RequiresStopped))
			h.commands.hang["migrate"] = true
			h.job("migrate-7", "town", "migrate")
			h.settle()
			h.wantState("town", spec.StateStopped)
			h.wantCondition("town", spec.ConditionReconciling, conditionTrue, WhyJob)
			h.took()
			h.pass(time.Hour) // as long as it takes; its deadline is over
			h.wantOrders()
			c.do(h)
			h.pass(time.Minute)
			h.wantState("town", spec.StateRunning)
			if c.phase != "" {
				if st := h.jobView("migrate-7").Status; st.Phase != c.phase {
					t.Errorf("%s, want %s", st.Phase, c.phase)
				}
			}
			h.once()
		})
	}
}

// Before and after: in their order; a failure passes over what is left, and after is done in any case once something may have begun.
func TestBeforeAndAfter(t *testing.T) {
	backup := around(program("backup", spec.RequiresAny), "save-off", "save-on")
	for _, c := range []struct {
		name   string
		do     func(*host)
		phase  spec.JobPhase
		reason string
		orders []string
	}{
		{"all is well", func(*host) {}, spec.JobSucceeded, "", []string{"save-off", "backup", "save-on"}},
		{"the first fails", func(h *host) { h.commands.result["save-off"] = state.Failed }, spec.JobFailed, JobReasonCommand, []string{"save-off", "save-on"}},
		{"the first is handed over to nobody", func(h *host) { h.commands.result["save-off"] = state.Undeliverable }, spec.JobFailed, JobReasonCommand, []string{"save-off"}},
		{"the first is refused", func(h *host) { h.commands.refuse["save-off"] = refused{"console", "there is none"} }, spec.JobRefused, "Refused", []string{"save-off"}},
		{"nobody knows of the second", func(h *host) { h.commands.result["backup"] = state.Indeterminate }, spec.JobFailed, JobReasonIndeterminate, []string{"save-off", "backup", "save-on"}},
		{"the last fails", func(h *host) { h.commands.result["save-on"] = state.Failed }, spec.JobFailed, JobReasonAfter, []string{"save-off", "backup", "save-on"}},
		{"it is withdrawn in the middle", func(h *host) {
			h.commands.hang["save-off"] = true
			h.settle()
			_ = h.cancelJob("backup-1")
			h.finish(town, state.Sent)
		}, spec.JobCancelled, JobReasonRequested, []string{"save-off", "save-on"}},
		{"it is late in the middle", func(h *host) {
			h.commands.hang["save-off"] = true
			h.pass(2 * time.Hour)
			h.finish(town, state.Sent)
		}, spec.JobFailed, JobReasonLate, []string{"save-off", "save-on"}},
		{"we die in the middle", func(h *host) {
			h.commands.hang["backup"] = true
			h.settle()
			h.restart()
			h.settle()
			h.finish(town, state.Done)
		}, spec.JobSucceeded, "", []string{"save-off", "backup", "save-on"}},
		{"the run ends in the middle", func(h *host) {
			h.commands.hang["backup"] = true
			h.settle()
			h.crash("town", "game")
			h.settle()
			h.finish(town, state.Done)
		}, spec.JobFailed, JobReasonAfter, []string{"save-off", "backup"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newTown(t, console("save-off"), console("save-on"), backup)
			h.job("backup-1", "town", "backup")
			c.do(h)
			h.pass(time.Minute)
			h.wantJob("backup-1", c.phase, c.reason)
			var got []string
			for _, o := range h.took() {
				if command, ok := cutCommand(o); ok {
					got = append(got, command)
				}
			}
			if !slices.Equal(got, c.orders) {
				t.Errorf("carried out %q, want %q", got, c.orders)
			}
			h.once()
		})
	}
}

// After a command that requires Stopped, what follows goes to the run that the wish has brought back.
func TestAfterTheWishIsRestored(t *testing.T) {
	h := newTown(t, console("warn"), console("greet"), around(program("migrate", spec.RequiresStopped), "warn", "greet"))
	h.job("migrate-7", "town", "migrate")
	h.settle()
	h.wantOrders("Do town/game warn for run-1", "Stop town/game Job", "Step town/game 0", "Do town/game migrate for no run",
		"Start town/game Wanted", "Do town/game greet for run-2")
	h.wantJob("migrate-7", spec.JobSucceeded, "")
	if st := h.jobView("migrate-7").Status; st.Run != 2 {
		t.Errorf("run %d", st.Run)
	}
}

// What follows in any case waits for the run that it is for, also when the job is late by then; not for ever.
func TestAfterWaitsForTheRun(t *testing.T) {
	for _, c := range []struct {
		name   string
		ready  bool
		phase  spec.JobPhase
		reason string
		last   string
	}{
		{"it gets ready", true, spec.JobSucceeded, "", "Do town/game greet for run-2"},
		{"it does not", false, spec.JobFailed, JobReasonAfter, "Start town/game Wanted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			h.profile("game", logProbe, withCommands(console("greet"), around(program("migrate", spec.RequiresStopped), "", "greet")))
			h.server("town", "game")
			h.settle()
			h.job("migrate-7", "town", "migrate", seconds(10))
			h.settle()
			h.pass(time.Minute)
			h.wantJob("migrate-7", spec.JobRunning, "")
			if c.ready {
				h.change(town, func(f *observe.Facts) { f.Run.LogSeenAt = h.wall })
			}
			h.pass(tidyPatience)
			h.wantJob("migrate-7", c.phase, c.reason)
			if orders := h.took(); orders[len(orders)-1] != c.last {
				t.Errorf("the last of %q, want %q", orders, c.last)
			}
		})
	}
}

// A server that is removed gets no command any more, and what was under way then is told as what nobody knows.
func TestCommandOfARemovedServer(t *testing.T) {
	for _, c := range []struct {
		name, hangs string
		reason      string
		orders      []string
	}{
		{"before the command", "warn", JobReasonGone, []string{"warn"}},
		{"in the middle of it", "migrate", JobReasonIndeterminate, []string{"warn", "migrate"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newTown(t, console("warn"), around(program("migrate", spec.RequiresStopped), "warn", ""))
			h.commands.hang[c.hangs] = true
			h.job("migrate-7", "town", "migrate")
			h.settle()
			h.remove("town")
			if c.hangs == "warn" {
				h.finish(town, state.Done)
			}
			h.pass(2 * time.Minute)
			h.wantJob("migrate-7", spec.JobFailed, c.reason)
			var got []string
			for _, o := range h.took() {
				if command, ok := cutCommand(o); ok {
					got = append(got, command)
				}
			}
			if !slices.Equal(got, c.orders) {
				t.Errorf("carried out %q, want %q", got, c.orders)
			}
			if len(h.records) > 0 {
				t.Errorf("records are left: %v", h.records)
			}
			h.once()
		})
	}
}
