package keeper_test

import (
	"errors"
	"strings"
	"testing"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

func refusedFor(t *testing.T, err error, want keeper.Check) {
	t.Helper()
	if check, ok := keeper.IsRefused(err); !ok || check != want {
		t.Errorf("the answer is %v, not a refusal for %s", err, want)
	}
}

func (w *world) lastExit() state.Exit {
	w.t.Helper()
	f := w.facts()
	if f == nil || len(f.Exits) == 0 {
		w.t.Fatalf("no end is known: %+v", f)
	}
	return f.Exits[len(f.Exits)-1]
}

// main is the process of the live run.
func (w *world) main() *fakeProcess {
	return w.kernel.processes[w.store.record(w.scope).Run.Identity.PID]
}

// I9, BP-1, EC-17: orders that do not fit are refused by the check that they fail, and nothing is done.
func TestRefusals(t *testing.T) {
	w := newWorld(t, workRuns)
	w.open()
	order := state.StartOrder{Launch: w.launch(), UID: "u"}

	late := order
	late.After = 7
	refusedFor(t, w.core.Start(late, nil), keeper.CheckAfter)

	faulty := order
	faulty.Launch.Executable = "../sh"
	refusedFor(t, w.core.Start(faulty, nil), keeper.CheckLaunch)

	closed := order
	closed.Launch.Workspace = "secret"
	refusedFor(t, w.core.Start(closed, nil), keeper.CheckWorkspace)

	readonly := order
	readonly.Launch.Directory.Workspace = "usr"
	refusedFor(t, w.core.Start(readonly, nil), keeper.CheckDirectory)

	inherits := order
	inherits.Launch.Env = []spec.LaunchEnv{{Name: "SSH_AUTH_SOCK", Inherit: true}}
	refusedFor(t, w.core.Start(inherits, nil), keeper.CheckInherit)

	other := order
	other.Launch.User = "games"
	refusedFor(t, w.core.Start(other, nil), keeper.CheckUser)

	missing := order
	missing.Launch.Args = []string{workMissing}
	refusedFor(t, w.core.Start(missing, nil), keeper.CheckExecutable)

	if w.facts() != nil || len(w.store.records) > 0 || len(w.kernel.processes) > 0 {
		t.Error("a refused start has done something")
	}
	w.gone()

	refusedFor(t, w.core.Stop(state.StopOrder{Scope: w.scope, RunID: "x"}, nil), keeper.CheckRun)
	w.drive(true)
	refusedFor(t, w.core.Stop(state.StopOrder{Scope: w.scope, RunID: "x"}, nil), keeper.CheckRun)
	refusedFor(t, w.stop(spec.ReasonMainExited), keeper.CheckStop)
	refusedFor(t, w.stop("Whim"), keeper.CheckStop)
	refusedFor(t, w.step(0), keeper.CheckStop)
	refusedFor(t, w.core.Archive(state.ScopeOrder{Scope: w.scope}, nil), keeper.CheckLive)
	refusedFor(t, w.core.Retire(t.Context(), state.ScopeOrder{Scope: w.scope}, nil), keeper.CheckLive)
	if n := len(w.main().signals); n > 0 {
		t.Errorf("%d signals were sent", n)
	}
}

// BP-3: start of what runs is a success, and so is one that repeats an order that was carried out.
func TestStartTwice(t *testing.T) {
	w := newWorld(t, workRuns)
	if err := errors.Join(w.start(), w.start()); err != nil {
		t.Fatal(err)
	}
	if n := len(w.kernel.processes); n != 1 {
		t.Errorf("%d processes", n)
	}
	if w.facts().Counters.Starts != 1 {
		t.Errorf("%d starts are counted", w.facts().Counters.Starts)
	}
}

// BP-11: a start that is cancelled before its record leaves nothing at all; one that is cancelled before the byte is on record as that.
func TestCancelledStart(t *testing.T) {
	for asks := 1; asks <= 3; asks++ {
		w := newWorld(t, workRuns)
		w.open()
		n := 0
		err := w.core.Start(state.StartOrder{Launch: w.launch(), UID: "u"}, func() error {
			if n++; n == asks {
				return keeper.ErrCancelled
			}
			return nil
		})
		if !errors.Is(err, keeper.ErrCancelled) {
			t.Errorf("cancelled when asked for the %d. time: %v", asks, err)
		}
		for _, p := range w.kernel.processes {
			if p.executed > 0 {
				t.Error("the workload ran")
			}
		}
		w.gone()
		if recorded := w.facts() != nil; recorded != (asks == 3) {
			t.Errorf("cancelled when asked for the %d. time: recorded %v", asks, recorded)
		} else if recorded && w.lastExit().Reason != spec.ReasonCancelled {
			t.Errorf("the end is %+v", w.lastExit())
		}
	}
}

// A failed start tells what failed, and no path.
func TestStartFailed(t *testing.T) {
	w := newWorld(t, workBroken)
	var failed *keeper.StartFailedError
	if err := w.start(); !errors.As(err, &failed) || !strings.Contains(failed.Message, "execute the program") {
		t.Fatalf("the answer is %v", err)
	}
	e := w.lastExit()
	if e.Reason != spec.ReasonStartFailed || e.Why != failed.Message || e.StartedAt != nil || e.ExitCode != nil {
		t.Errorf("the end is %+v", e)
	}
	w.gone()
}

// A ladder that has begun is frozen; one that has not is replaced (API.md rule 7).
func TestApplyLive(t *testing.T) {
	w := newWorld(t, workRuns)
	w.drive(true)
	live := state.LiveOrder{RunID: w.facts().Run.ID, Launch: w.launch(), Generation: 2}
	live.Launch.Stop = []spec.StopStep{{Signal: &spec.SignalAction{Name: "SIGHUP", To: spec.ToMain}, WaitFor: spec.WaitForExit, WaitSeconds: 5}}
	live.Launch.Readiness = &spec.LaunchProbe{Log: []string{"hello"}, PeriodSeconds: 10, TimeoutSeconds: 1, FailureThreshold: 3, SuccessThreshold: 1}
	if err := w.stop(spec.ReasonStopRequested); err != nil {
		t.Fatal(err)
	}
	if err := w.core.ApplyLive(live, nil); err != nil {
		t.Fatal(err)
	}
	run := w.store.record(w.scope).Run
	if run.Generation != 2 || run.LiveHash != live.Launch.LiveHash() || len(run.Stop.Ladder) != 1 {
		t.Errorf("the record is %+v", run)
	}
	if got := w.kernel.watched[run.ID]; len(got) != 1 || got[0] != "hello" {
		t.Errorf("the log is watched for %q", got)
	}
	other := live
	other.Launch.Args = []string{workExits}
	refusedFor(t, w.core.ApplyLive(other, nil), keeper.CheckSpecHash)

	if err := w.step(0); err != nil {
		t.Fatal(err)
	}
	live.Launch.Stop, live.Generation = w.launch().Stop, 3
	if err := w.core.ApplyLive(live, nil); err != nil {
		t.Fatal(err)
	}
	if got := w.facts().Run; len(got.Stop.Ladder) != 1 || len(got.Ladder) != 2 || got.Generation != 3 {
		t.Errorf("facts %+v", got)
	}
}

// I5: once the main process has ended, what its end is judged by stays as it was, though a child of it keeps the run.
func TestEndIsJudgedByItsRecord(t *testing.T) {
	w := newWorld(t, workFamily)
	w.drive(true)
	if err := w.stop(spec.ReasonStopRequested); err != nil {
		t.Fatal(err)
	}
	if err := w.step(0); err != nil {
		t.Fatal(err)
	}
	w.settle()
	before := w.store.record(w.scope).Run
	if before.MainExit == nil || w.facts().Run.Over() {
		t.Fatalf("the run is %+v", before)
	}
	live := state.LiveOrder{RunID: before.ID, Launch: w.launch(), Generation: 2}
	live.Launch.Restart.Policy = spec.RestartNever
	refusedFor(t, w.core.ApplyLive(live, nil), keeper.CheckRun)
	if after := w.store.record(w.scope).Run; after.LiveHash != before.LiveHash || after.Generation != before.Generation {
		t.Errorf("the record is now %+v", after)
	}
}

// Each moment is recorded once.
func TestReadyAndLogSeen(t *testing.T) {
	w := newWorld(t, workRuns)
	w.drive(true)
	id, number := w.facts().Run.ID, w.facts().Run.Number
	w.core.HandleLogSeen(w.scope, number+1) // of another run
	if !w.facts().Run.LogSeenAt.IsZero() {
		t.Error("a line of another run counts")
	}
	w.core.HandleLogSeen(w.scope, number)
	if err := w.core.MarkReady(state.ReadyOrder{Scope: w.scope, RunID: id}, nil); err != nil {
		t.Fatal(err)
	}
	seen, ready := w.facts().Run.LogSeenAt, w.facts().Run.ReadyAt
	if seen.IsZero() || ready.IsZero() {
		t.Fatalf("facts %+v", w.facts().Run)
	}
	w.core.HandleLogSeen(w.scope, number)
	if err := w.core.MarkReady(state.ReadyOrder{Scope: w.scope, RunID: id}, nil); err != nil {
		t.Fatal(err)
	}
	if w.facts().Run.LogSeenAt != seen || w.facts().Run.ReadyAt != ready {
		t.Error("a moment was recorded twice")
	}
}

// EN-5: a scope without a live run is archived, and whoever listens hears that it is gone.
func TestArchive(t *testing.T) {
	w := newWorld(t, workRuns)
	w.drive(true)
	w.drive(false)
	_, rev, _ := w.core.Facts(0)
	if err := w.core.Archive(state.ScopeOrder{Scope: w.scope}, nil); err != nil {
		t.Fatal(err)
	}
	if w.facts() != nil || w.store.archived[w.scope] != 1 {
		t.Errorf("facts %+v, archived %v", w.facts(), w.store.archived)
	}
	news, _, whole := w.core.Facts(rev)
	if whole || len(news) != 1 || !news[0].Gone {
		t.Errorf("news %+v", news)
	}
	if err := w.core.Archive(state.ScopeOrder{Scope: w.scope}, nil); err != nil {
		t.Errorf("archived twice: %v", err)
	}
	if all, _, _ := w.core.Facts(0); len(all) != 0 {
		t.Errorf("facts %+v", all)
	}
	w.drive(true) // a new life
	if n := w.facts().Run.Number; n != 2 {
		t.Errorf("the first run is number %d: what is kept of the earlier one is of number 1", n)
	}
	if c := w.facts().Counters; c.Starts != 1 || c.Restarts != 0 {
		t.Errorf("a new life counts the old one's: %+v", c)
	}
}

// BP-8: another boot ends every run, in the way that its record says.
func TestReboot(t *testing.T) {
	for _, noCgroups := range []bool{false, true} {
		w := newWorld(t, workIgnores)
		w.kernel.noCgroups = noCgroups
		w.drive(true)
		w.kernel.reboot()
		w.kernel.fork(keeper.Place{RunID: "stranger"}, "stranger").id.PID = 101 // somebody else has the number now
		w.open()
		if e := w.lastExit(); e.Class != spec.Unexpected || e.Reason != spec.ReasonHostRebooted || e.ExitCode != nil || e.Signal != "" {
			t.Errorf("the end is %+v", e)
		}
		w.drive(true)
		if err := errors.Join(w.stop(spec.ReasonStopRequested), w.step(0)); err != nil {
			t.Fatal(err)
		}
		w.kernel.reboot()
		w.open()
		if e := w.lastExit(); e.Class != spec.Expected || e.Reason != spec.ReasonStopRequested || e.ExitCode != nil {
			t.Errorf("the end is %+v", e)
		}
		for range 2 { // nothing of another boot can be left, also in the eyes of a keeper that finds the end on record
			if tree := w.facts().Run.Tree.State; tree != observe.TreeEmpty {
				t.Errorf("after a reboot the tree is %s", tree)
			}
			w.open()
		}
		for _, p := range w.kernel.processes {
			if p.kind == "stranger" && len(p.signals) > 0 {
				t.Error("I3: a stranger was signalled")
			}
		}
	}
}

// BP-6, EN-4: what cannot be verified is blocked, nothing is done to it, and it comes back when it can.
func TestUnverified(t *testing.T) {
	w := newWorld(t, workRuns)
	w.drive(true)
	p := w.main()
	w.kernel.die()
	w.kernel.hidden = true
	w.open()
	if f := w.facts(); f.Blocked != keeper.BlockedUnverified || f.Run.Alive != observe.Unknown || f.Run.Tree.State != observe.TreeUnknown {
		t.Fatalf("facts %+v", f)
	}
	refusedFor(t, w.start(), keeper.CheckBlocked)
	refusedFor(t, w.stop(spec.ReasonStopRequested), keeper.CheckBlocked)
	refusedFor(t, w.step(0), keeper.CheckBlocked)
	w.kernel.end(p, 0)
	w.settle()
	if w.facts().Blocked == "" || len(p.signals) > 0 {
		t.Error("something was done to it")
	}
	if len(w.core.Unsettled()) != 1 {
		t.Error("nobody looks again")
	}
	w.kernel.hidden = false
	w.core.Compare()
	if e := w.lastExit(); w.facts().Blocked != "" || e.ExitCode == nil || *e.ExitCode != 0 {
		t.Errorf("facts %+v", w.facts())
	}
}

// EN-4: a scope whose record cannot be used is blocked; an operator frees it.
func TestBlockedRecord(t *testing.T) {
	w := newWorld(t, workRuns)
	w.store.archived[w.scope] = 1
	w.core = keeper.NewCore(w.kernel, w.store, &state.Contents{Blocked: []state.Blocked{{Scope: w.scope, Reason: state.RecordUnreadable}}}, fakeHost(), nil)
	if f := w.facts(); f.Blocked != string(state.RecordUnreadable) || f.Run != nil {
		t.Fatalf("facts %+v", f)
	}
	refusedFor(t, w.start(), keeper.CheckBlocked)
	refusedFor(t, w.core.Archive(state.ScopeOrder{Scope: w.scope}, nil), keeper.CheckBlocked)
	w.core.Compare()
	if err := w.core.Retire(t.Context(), state.ScopeOrder{Scope: w.scope}, nil); err != nil {
		t.Fatal(err)
	}
	w.drive(true)
	refusedFor(t, w.core.Retire(t.Context(), state.ScopeOrder{Scope: scopeOf("nowhere")}, nil), keeper.CheckUsable)
}

// EN-4, I1: a record that cannot be used is not retired while a run lives that no usable record names: it may be the scope's, and the
// next start would be a second one. A run of another record is no reason, and one that has ended is none.
func TestBlockedRecordOfALiveRun(t *testing.T) {
	for _, cgroups := range []bool{true, false} {
		t.Run(map[bool]string{true: "cgroups", false: "no cgroups"}[cgroups], func(t *testing.T) {
			w := newWorld(t, workRuns)
			w.kernel.noCgroups = !cgroups
			w.drive(true)
			run := w.facts().Run.ID
			w.kernel.die()
			blocked := &state.Contents{Blocked: []state.Blocked{{Scope: w.scope, Reason: state.RecordNewer}}}
			w.core = keeper.NewCore(w.kernel, w.store, blocked, fakeHost(), nil)
			delete(w.store.records, w.scope) // nobody can read it
			w.store.archived[w.scope] = 1
			retire := func() error { return w.core.Retire(t.Context(), state.ScopeOrder{Scope: w.scope}, nil) }
			refusedFor(t, retire(), keeper.CheckLive)
			if unknown, err := w.core.UnknownRuns(); err != nil || len(unknown) != 1 || unknown[0].RunID != run {
				t.Errorf("unknown are %v, %v", unknown, err)
			}
			for _, p := range w.kernel.processes {
				w.kernel.signal(p, "SIGKILL")
			}
			if err := retire(); err != nil {
				t.Error(err)
			}
		})
	}
}

// EN-4: two records that claim one process are both blocked.
func TestProcessClaimedTwice(t *testing.T) {
	w := newWorld(t, workRuns)
	w.drive(true)
	twin := w.store.record(w.scope)
	twin.Scope = scopeOf("twin")
	if err := w.store.Put(twin); err != nil {
		t.Fatal(err)
	}
	w.kernel.die()
	w.open()
	w.core.Compare()
	all, _, _ := w.core.Facts(0)
	for _, f := range all {
		if f.Blocked != keeper.BlockedUnverified {
			t.Errorf("%s is not blocked", f.Scope)
		}
	}
}

// EN-2: what a record says of a phase changes no decision: the kernel is asked.
func TestPhaseIsNoEvidence(t *testing.T) {
	for _, phase := range []state.Phase{state.Released, state.Started} {
		w := newWorld(t, workRuns)
		w.drive(true)
		rec := w.store.record(w.scope)
		rec.Run.Phase = phase
		if err := w.store.Put(rec); err != nil {
			t.Fatal(err)
		}
		w.kernel.die()
		w.open()
		w.settle()
		if f := w.facts(); f.Run.Phase != state.Started || f.Run.Alive != observe.Alive {
			t.Errorf("with phase %s: facts %+v", phase, f.Run)
		}
		if err := w.start(); err != nil || len(w.kernel.processes) != 1 {
			t.Errorf("with phase %s: %v, %d processes", phase, err, len(w.kernel.processes))
		}
	}
}

// A history has a bound, and the newest ends stay.
func TestHistoryLimit(t *testing.T) {
	w := newWorld(t, workExits)
	for range state.HistoryLimit + 5 {
		if err := w.start(); err != nil {
			t.Fatal(err)
		}
		w.settle()
	}
	f := w.facts()
	if len(f.Exits) != state.HistoryLimit || w.lastExit().Number != state.HistoryLimit+5 {
		t.Errorf("%d ends, the last of run %d", len(f.Exits), w.lastExit().Number)
	}
	if f.Counters.Starts != state.HistoryLimit+5 || f.Counters.Restarts != state.HistoryLimit+4 {
		t.Errorf("counters %+v", f.Counters)
	}
}

// Facts by revision: every change once, in order; whoever knows too little hears everything.
func TestFactsSince(t *testing.T) {
	w := newWorld(t, workRuns)
	w.drive(true)
	facts, rev, whole := w.core.Facts(0)
	if !whole || len(facts) != 1 || facts[0].Rev != rev {
		t.Fatalf("%d facts, whole %v", len(facts), whole)
	}
	if news, _, whole := w.core.Facts(rev); whole || len(news) != 0 {
		t.Errorf("news %v", news)
	}
	if _, _, whole := w.core.Facts(rev + 1000); !whole {
		t.Error("a revision of the future is answered with a part")
	}
	w.drive(false)
	news, next, _ := w.core.Facts(rev)
	if len(news) != 1 || next <= rev || news[0].Rev != next {
		t.Errorf("news %+v up to %d", news, next)
	}
	if facts[0].Run.Stop != nil {
		t.Error("facts that were handed out have changed")
	}
}

// BP-2: a server's other profile starts when the first is over, and not before.
func TestOtherProfileOfTheServer(t *testing.T) {
	w := newWorld(t, workRuns)
	w.drive(true)
	other := state.StartOrder{Launch: w.launch(), UID: "u"}
	other.Launch.Scope.Profile = "other"
	refusedFor(t, w.core.Start(other, nil), keeper.CheckLive)
	w.drive(false)
	if err := w.core.Start(other, nil); err != nil {
		t.Error(err)
	}
	back := state.StartOrder{Launch: w.launch(), UID: "u", After: 1}
	refusedFor(t, w.core.Start(back, nil), keeper.CheckLive)
}
