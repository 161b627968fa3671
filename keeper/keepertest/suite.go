package keepertest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// suite is one case under way.
type suite struct {
	*testing.T
	host  Host
	scope spec.Scope
}

// order starts what the scope's facts say is next.
func (s *suite) order(b Behaviour) state.StartOrder {
	o := state.StartOrder{Launch: s.host.Launch(s.scope, b), UID: "uid", Generation: 1, Cause: "Wanted"}
	if f := s.host.Facts(s.scope); f != nil && f.Run != nil {
		o.After = f.Run.Number
	}
	return o
}

// start starts a workload and waits until it behaves.
func (s *suite) start(b Behaviour) *observe.RunFacts {
	s.Helper()
	if err := s.host.Start(s.order(b)); err != nil {
		s.Fatalf("start: %v", err)
	}
	run := s.await("started", func(f *observe.Facts) bool { return f.Run != nil && f.Run.Phase == state.Started }).Run
	s.host.Settle(s.scope)
	return run
}

func (s *suite) stop(r spec.ExitReason) {
	s.Helper()
	if err := s.host.Stop(state.StopOrder{Scope: s.scope, RunID: s.run().ID, Reason: r, Why: "Hold", By: "me"}); err != nil {
		s.Fatalf("stop: %v", err)
	}
}

func (s *suite) step(index int) error {
	s.Helper()
	return s.host.Step(state.StepOrder{Scope: s.scope, RunID: s.run().ID, Index: index})
}

func (s *suite) run() *observe.RunFacts {
	s.Helper()
	f := s.host.Facts(s.scope)
	if f == nil || f.Run == nil {
		s.Fatalf("there is no run: %+v", f)
	}
	return f.Run
}

// patience is how long anything may take on a busy host; a model needs none of it.
const patience = 30 * time.Second

// await turns until the facts are as they shall be.
func (s *suite) await(what string, is func(*observe.Facts) bool) *observe.Facts {
	s.Helper()
	for deadline := time.Now().Add(patience); ; s.host.Turn() {
		if f := s.host.Facts(s.scope); f != nil && is(f) {
			return f
		}
		if time.Now().After(deadline) {
			s.Fatalf("not %s: %+v", what, s.host.Facts(s.scope))
		}
	}
}

// over waits for the end of the run and returns it.
func (s *suite) over() state.Exit {
	s.Helper()
	f := s.await("over", func(f *observe.Facts) bool { return f.Run != nil && f.Run.Over() })
	if pids := s.host.Processes(s.scope); len(pids) > 0 {
		s.Errorf("I6: the run is over and processes %v live", pids)
	}
	return f.Exits[len(f.Exits)-1]
}

// want compares an end; code or signal is -1 or "" where there is none.
func (s *suite) want(e state.Exit, class spec.ExitClass, reason spec.ExitReason, code int, signal string) {
	s.Helper()
	got := -1
	if e.ExitCode != nil {
		got = *e.ExitCode
	}
	if e.Class != class || e.Reason != reason || got != code || e.Signal != signal {
		s.Errorf("the end is %s, %s, code %d, signal %q, not %s, %s, %d, %q", e.Class, e.Reason, got, e.Signal, class, reason, code, signal)
	}
}

func (s *suite) refused(err error, checks ...keeper.Check) {
	s.Helper()
	if check, ok := keeper.IsRefused(err); !ok || !slices.Contains(checks, check) {
		s.Errorf("the answer is %v, not a refusal for %v", err, checks)
	}
}

func startTwice(s *suite) {
	s.start(Runs)
	pids := s.host.Processes(s.scope)
	if len(pids) != 1 {
		s.Fatalf("processes %v", pids)
	}
	o := s.order(Runs)
	if err := errors.Join(s.host.Start(o), s.host.Start(state.StartOrder{Launch: o.Launch, UID: "uid"})); err != nil {
		s.Errorf("start of what runs: %v", err)
	}
	if again := s.host.Processes(s.scope); !slices.Equal(again, pids) {
		s.Errorf("I1: processes %v after %v", again, pids)
	}
	if c := s.host.Facts(s.scope).Counters; c.Starts != 1 {
		s.Errorf("%d starts are counted", c.Starts)
	}
}

func missedRun(s *suite) {
	s.start(Runs)
	s.host.Kill(s.scope)
	s.over()
	o := s.order(Runs)
	o.After = 0
	s.refused(s.host.Start(o), keeper.CheckAfter)
	s.start(Runs)
	if n := s.run().Number; n != 2 {
		s.Errorf("the second run is number %d", n)
	}
}

func missing(s *suite) {
	s.refused(s.host.Start(s.order(Missing)), keeper.CheckExecutable)
	s.host.Turn()
	if f := s.host.Facts(s.scope); f != nil {
		s.Errorf("facts %+v", f)
	}
}

func broken(s *suite) {
	var failed *keeper.StartFailedError
	if err := s.host.Start(s.order(Broken)); !errors.As(err, &failed) {
		s.Fatalf("the answer is %v", err)
	}
	e := s.over()
	s.want(e, spec.Unexpected, spec.ReasonStartFailed, -1, "")
	if e.Why != failed.Message || e.StartedAt != nil {
		s.Errorf("the end is %+v", e)
	}
}

func exits(s *suite) {
	if err := s.host.Start(s.order(Exits)); err != nil {
		s.Fatal(err)
	}
	s.want(s.over(), spec.Unexpected, spec.ReasonExited, 3, "")
	if c := s.host.Facts(s.scope).Counters; c.Exits["Unexpected/Exited"] != 1 {
		s.Errorf("counters %+v", c)
	}
}

func killed(s *suite) {
	s.start(Runs)
	s.host.Kill(s.scope)
	s.want(s.over(), spec.Unexpected, spec.ReasonSignaled, -1, "SIGKILL")
}

func stopped(s *suite) {
	s.start(Runs)
	s.stop(spec.ReasonStopRequested)
	if err := s.step(0); err != nil {
		s.Fatal(err)
	}
	e := s.over()
	s.want(e, spec.Expected, spec.ReasonStopRequested, 0, "")
	if e.StopStep == nil || *e.StopStep != 1 || e.Killed || e.Why != "Hold" || e.By != "me" || e.StartedAt == nil {
		s.Errorf("the end is %+v", e)
	}
	if err := errors.Join(s.host.Stop(state.StopOrder{Scope: s.scope, RunID: s.run().ID}), s.step(0)); err != nil {
		s.Errorf("stop of what is stopped: %v", err)
	}
}

func notBegun(s *suite) {
	s.start(Runs)
	s.stop(spec.ReasonStopRequested)
	s.host.Kill(s.scope)
	s.want(s.over(), spec.Unexpected, spec.ReasonSignaled, -1, "SIGKILL")
}

func ladder(s *suite) {
	s.start(Ignores)
	s.refused(s.step(0), keeper.CheckStop)
	s.stop(spec.ReasonStopRequested)
	s.refused(s.step(1), keeper.CheckStep)
	if err := errors.Join(s.step(0), s.step(0), s.step(1), s.step(1)); err != nil {
		s.Fatal(err)
	}
	s.refused(s.step(0), keeper.CheckStep)
	run := s.await("at the second step", func(f *observe.Facts) bool { return len(f.Run.Stop.Steps) == 2 }).Run
	for i, e := range run.Stop.Steps {
		if e.Index != i || e.Result != "Sent" || e.At.BootID == "" || e.At.Uptime == 0 {
			s.Errorf("step %+v", e)
		}
	}
	if err := s.step(2); err != nil {
		s.Fatal(err)
	}
	s.over()
}

func killTree(s *suite) {
	s.start(Ignores)
	s.stop(spec.ReasonStopRequested)
	if err := s.step(2); err != nil { // --force
		s.Fatal(err)
	}
	e := s.over()
	s.want(e, spec.Expected, spec.ReasonStopRequested, -1, "SIGKILL")
	if !e.Killed || e.StopStep != nil {
		s.Errorf("the end is %+v", e)
	}
}

func family(s *suite) {
	s.start(Family)
	s.host.Kill(s.scope)
	f := s.await("without its main process", func(f *observe.Facts) bool { return f.Run.MainExit != nil })
	if f.Run.Over() || f.Run.Alive != observe.Dead || f.Run.Tree.State != observe.TreePopulated || f.Run.Tree.Count != 1 {
		s.Errorf("facts %+v", f.Run)
	}
	s.stop(spec.ReasonStopRequested)
	if r := s.await("stopping", func(f *observe.Facts) bool { return f.Run.Stop != nil }).Run.Stop.Reason; r != spec.ReasonMainExited {
		s.Errorf("the stop's reason is %s", r)
	}
	if err := s.step(2); err != nil {
		s.Fatal(err)
	}
	s.want(s.over(), spec.Unexpected, spec.ReasonMainExited, -1, "SIGKILL")
}

func otherRun(s *suite) {
	s.refused(s.host.Stop(state.StopOrder{Scope: s.scope, RunID: "x", Reason: spec.ReasonStopRequested}), keeper.CheckRun)
	s.start(Runs)
	pids := s.host.Processes(s.scope)
	s.refused(s.host.Stop(state.StopOrder{Scope: s.scope, RunID: "x", Reason: spec.ReasonStopRequested}), keeper.CheckRun)
	s.refused(s.host.Step(state.StepOrder{Scope: s.scope, RunID: "x", Index: 2}), keeper.CheckRun)
	s.refused(s.host.MarkReady(state.ReadyOrder{Scope: s.scope, RunID: "x"}), keeper.CheckRun)
	s.refused(s.host.Archive(state.ScopeOrder{Scope: s.scope}), keeper.CheckLive)
	if again := s.host.Processes(s.scope); !slices.Equal(again, pids) {
		s.Errorf("I9: processes %v after %v", again, pids)
	}
}

func crashRunning(s *suite) {
	id := s.start(Runs).ID
	pids := s.host.Processes(s.scope)
	for range 3 {
		s.host.Crash()
		run := s.await("adopted", func(f *observe.Facts) bool { return f.Run.Alive == observe.Alive }).Run
		if again := s.host.Processes(s.scope); run.ID != id || !slices.Equal(again, pids) {
			s.Fatalf("BP-7: run %s with processes %v, after %s with %v", run.ID, again, id, pids)
		}
		if err := s.host.Start(s.order(Runs)); err != nil {
			s.Errorf("start of what runs: %v", err)
		}
	}
	s.stop(spec.ReasonStopRequested)
	if err := s.step(0); err != nil {
		s.Fatal(err)
	}
	if e := s.over(); e.Class != spec.Expected || e.Reason != spec.ReasonStopRequested {
		s.Errorf("the end is %+v", e)
	}
}

func crashInLadder(s *suite) {
	s.start(Ignores)
	s.stop(spec.ReasonStopRequested)
	if err := s.step(0); err != nil {
		s.Fatal(err)
	}
	s.host.Crash()
	run := s.await("adopted", func(f *observe.Facts) bool { return f.Run.Alive == observe.Alive }).Run
	if run.Stop == nil || len(run.Stop.Steps) != 1 || run.Stop.Steps[0].Result != "Sent" {
		s.Fatalf("stop %+v", run.Stop)
	}
	at := run.Stop.Steps[0].At
	if err := s.step(0); err != nil {
		s.Errorf("a step that was sent: %v", err)
	}
	if again := s.run().Stop.Steps; len(again) != 1 || again[0].At != at {
		s.Errorf("the step was journaled again: %+v", again)
	}
	if err := s.step(2); err != nil {
		s.Fatal(err)
	}
	if e := s.over(); e.Class != spec.Expected || !e.Killed {
		s.Errorf("the end is %+v", e)
	}
}

func crashAtEnd(s *suite) {
	s.start(Runs)
	s.host.Kill(s.scope)
	s.host.Crash()
	e := s.over()
	told := e.Reason == spec.ReasonSignaled && e.Signal == "SIGKILL" && e.ExitCode == nil
	unknown := e.Reason == spec.ReasonUnknown && e.Signal == "" && e.ExitCode == nil
	if e.Class != spec.Unexpected || !told && !unknown {
		s.Errorf("I4: the end is %+v", e)
	}
	if n := len(s.host.Facts(s.scope).Exits); n != 1 {
		s.Errorf("I4: %d ends of one run", n)
	}
}

func live(s *suite) {
	run := s.start(Runs)
	o := state.LiveOrder{RunID: run.ID, Launch: s.host.Launch(s.scope, Runs), Generation: 2, Source: state.Source{File: "b.yaml"}}
	o.Launch.Stop = []spec.StopStep{{Signal: &spec.SignalAction{Name: "SIGTERM", To: spec.ToTree}, WaitFor: spec.WaitForExit, WaitSeconds: 5}}
	if err := errors.Join(s.host.ApplyLive(o), s.host.ApplyLive(o)); err != nil {
		s.Fatal(err)
	}
	f := s.await("changed", func(f *observe.Facts) bool { return f.Run.Generation == 2 })
	if len(f.Run.Ladder) != 1 || f.Run.Source.File != "b.yaml" || f.Run.LiveHash != o.Launch.LiveHash() || f.Run.SpecHash != run.SpecHash {
		s.Errorf("facts %+v", f.Run)
	}
	other := o
	other.Launch.Args = append(slices.Clone(o.Launch.Args), "-more")
	s.refused(s.host.ApplyLive(other), keeper.CheckSpecHash)
	s.host.Crash()
	s.await("adopted", func(f *observe.Facts) bool { return f.Run.Alive == observe.Alive && len(f.Run.Ladder) == 1 })
}

// restart follows the newest spec also in a run that another shall replace, and its end is judged by it (BP-9).
func restartOnly(s *suite) {
	run := s.start(Runs)
	o := state.LiveOrder{RunID: run.ID, Launch: s.host.Launch(s.scope, Runs), Generation: 2, RestartOnly: true}
	o.Launch.Args = append(slices.Clone(o.Launch.Args), "-more")
	o.Launch.Restart.Exits = []spec.ExitRule{{Signals: []string{"SIGKILL"}, Action: spec.ExitComplete}}
	if err := errors.Join(s.host.ApplyLive(o), s.host.ApplyLive(o)); err != nil {
		s.Fatal(err)
	}
	f := s.await("changed", func(f *observe.Facts) bool { return len(f.Run.Restart.Exits) == 1 })
	if f.Run.Generation != run.Generation || f.Run.SpecHash != run.SpecHash || f.Run.LiveHash == run.LiveHash {
		s.Errorf("facts %+v", f.Run)
	}
	s.host.Kill(s.scope)
	if e := s.over(); e.Class != spec.Expected || e.Reason != spec.ReasonCompleted || e.Signal != "SIGKILL" || e.Generation != run.Generation {
		s.Errorf("the end is %+v", e)
	}
	if err := s.host.ApplyLive(o); err == nil {
		s.Error("a run that is over was changed")
	}
}

func ready(s *suite) {
	run := s.start(Runs)
	o := state.ReadyOrder{Scope: s.scope, RunID: run.ID}
	if err := s.host.MarkReady(o); err != nil {
		s.Fatal(err)
	}
	at := s.await("ready", func(f *observe.Facts) bool { return !f.Run.ReadyAt.IsZero() }).Run.ReadyAt
	if err := s.host.MarkReady(o); err != nil {
		s.Fatal(err)
	}
	if again := s.run().ReadyAt; again != at {
		s.Errorf("ready at %s, then at %s", at, again)
	}
}

func archive(s *suite) {
	s.start(Runs)
	s.host.Kill(s.scope)
	s.over()
	if err := s.host.Archive(state.ScopeOrder{Scope: s.scope}); err != nil {
		s.Fatal(err)
	}
	for deadline := time.Now().Add(patience); s.host.Facts(s.scope) != nil; s.host.Turn() {
		if time.Now().After(deadline) {
			s.Fatalf("facts of an archived scope: %+v", s.host.Facts(s.scope))
		}
	}
	if err := s.host.Archive(state.ScopeOrder{Scope: s.scope}); err != nil {
		s.Errorf("archived twice: %v", err)
	}
	if n := s.start(Runs).Number; n != 2 {
		s.Errorf("the first run of a new life is number %d: what is kept of the earlier one is of number 1", n)
	}
}
