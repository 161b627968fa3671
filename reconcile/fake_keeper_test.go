package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

func (h *host) Facts() ([]*observe.Facts, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.lateFacts {
		h.shown = slices.SortedFunc(maps.Values(h.records), func(a, b *observe.Facts) int { return compareKeys(a.Scope.ServerKey(), b.Scope.ServerKey()) })
	}
	return h.shown, !h.hidden
}

// record is what is known of a scope, nil when nothing is.
func (h *host) record(scope spec.Scope) *observe.Facts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.records[scope]
}

// change edits a copy of a scope's facts.
func (h *host) change(scope spec.Scope, edit func(*observe.Facts)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rev++
	next := &observe.Facts{Scope: scope}
	if old := h.records[scope]; old != nil {
		*next = *old
		if old.Run != nil {
			run := *old.Run
			next.Run = &run
		}
	}
	next.Rev = h.rev
	edit(next)
	h.records[scope] = next
}

func (h *host) did(kind string, scope spec.Scope, detail string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.orders = append(h.orders, kind+" "+scope.String()+detail)
	return h.refuse[kind]
}

func (h *host) Start(_ context.Context, o state.StartOrder) error {
	scope := o.Launch.Scope
	if err := h.did("Start", scope, " "+o.Cause); err != nil {
		return err
	}
	h.change(scope, func(f *observe.Facts) {
		for other, f := range h.records {
			if other.ServerKey() == scope.ServerKey() && !f.Run.Over() {
				h.t.Errorf("I1: start of %s while %s lives", scope, other)
			}
		}
		h.runs++
		number := int64(1)
		if f.Run != nil {
			number = f.Run.Number + 1
		}
		if o.After != number-1 {
			h.t.Errorf("start of %s after run %d, which is %d", scope, o.After, number-1)
		}
		if n := len(f.Exits); n > 0 && (f.Exits[n-1].Class == spec.Unexpected || f.Exits[n-1].Reason == spec.ReasonDeclaredRestart) {
			f.Counters.Restarts++
		}
		f.UID = o.UID
		f.Run = &observe.RunFacts{
			Number: number, ID: fmt.Sprintf("run-%d", h.runs), Phase: state.Started, SpecHash: o.Launch.SpecHash(), LiveHash: o.Launch.LiveHash(),
			FilesHash: o.Launch.FilesHash(), Files: state.GivenFiles(&o.Launch),
			Generation: o.Generation, Source: o.Source, Cause: o.Cause, By: o.By, LaunchingAt: h.wall, StartedAt: h.wall,
			Ladder: o.Launch.Stop, Endpoints: o.Launch.Endpoints, Readiness: withoutProbeArguments(o.Launch.Readiness), Restart: o.Launch.Restart,
			Liveness: o.Launch.Liveness, StartDeadlineSeconds: o.Launch.StartDeadlineSeconds, Players: o.Launch.Players,
			Commands: observe.CommandsOf(&o.Launch),
			Alive:    observe.Alive, Tree: observe.Tree{State: observe.TreePopulated, Count: 1},
		}
	})
	return nil
}

// Reload gives a run other files; what comes of the action is what the test says.
func (h *host) Reload(_ context.Context, o state.ReloadOrder) error {
	scope := o.Launch.Scope
	if err := h.did("Reload", scope, ""); err != nil {
		return err
	}
	h.change(scope, func(f *observe.Facts) {
		if f.Run.ID != o.RunID || f.Run.SpecHash != o.Launch.SpecHash() || f.Run.Stop != nil || o.Launch.Reload == nil {
			h.t.Errorf("a reload of %s that it cannot have: %+v", scope, f.Run)
		}
		f.Run.LiveHash, f.Run.FilesHash, f.Run.Generation, f.Run.Source = o.Launch.LiveHash(), o.Launch.FilesHash(), o.Generation, o.Source
		f.Run.Files = state.GivenFiles(&o.Launch)
		f.Run.Endpoints, f.Run.Readiness, f.Run.Restart, f.Run.Ladder = o.Launch.Endpoints, o.Launch.Readiness, o.Launch.Restart, o.Launch.Stop
		f.Run.Reload = &state.Reload{ID: o.ID, At: h.wall, WithinSeconds: o.Launch.Reload.TimeoutSeconds}
		d := state.Delivery{ID: o.ID, Command: state.ReloadCommand, RunID: o.RunID, At: h.wall, Result: h.resultOf(state.ReloadCommand)}
		f.Deliveries = append(slices.Clone(f.Deliveries), d)
	})
	return nil
}

func (h *host) Stop(_ context.Context, o state.StopOrder) error {
	if err := h.did("Stop", o.Scope, " "+o.Why); err != nil {
		return err
	}
	h.change(o.Scope, func(f *observe.Facts) {
		if f.Run.ID != o.RunID || f.Run.Stop != nil {
			h.t.Errorf("stop of %s: run %s, stop recorded %v", o.Scope, o.RunID, f.Run.Stop != nil)
		}
		f.Run.Stop = &state.Stop{Reason: o.Reason, Why: o.Why, By: o.By, At: h.now(), Ladder: f.Run.Ladder}
	})
	return nil
}

func (h *host) Step(_ context.Context, o state.StepOrder) error {
	if err := h.did("Step", o.Scope, fmt.Sprintf(" %d", o.Index)); err != nil {
		return err
	}
	ends := false
	h.change(o.Scope, func(f *observe.Facts) {
		stop := *f.Run.Stop
		if o.Index == len(stop.Ladder) {
			at := h.now()
			stop.Killed = &at
			ends = true
		} else {
			stop.Steps = append(slices.Clone(stop.Steps), state.StepEntry{Index: o.Index, At: h.now(), Result: "Sent"})
			ends = !h.ignoresTerm[o.Scope.Server]
		}
		f.Run.Stop = &stop
	})
	if ends {
		how := spec.ExitStatus{Class: spec.Expected, Reason: spec.ReasonStopRequested, Signal: "SIGTERM"}
		if r := h.record(o.Scope).Run.Stop.Reason; r == spec.ReasonLivenessFailed || r == spec.ReasonStartDeadlineExceeded {
			how.Class, how.Reason = spec.Unexpected, r
		}
		h.end(o.Scope, how)
	}
	return nil
}

func (h *host) ApplyLive(_ context.Context, o state.LiveOrder) error {
	only := ""
	if o.RestartOnly {
		only = " restart"
	}
	if err := h.did("ApplyLive", o.Launch.Scope, only); err != nil {
		return err
	}
	h.change(o.Launch.Scope, func(f *observe.Facts) {
		if o.RestartOnly {
			f.Run.LiveHash, f.Run.Restart = f.Run.LiveHash+" with another restart", o.Launch.Restart
			return
		}
		f.Run.LiveHash, f.Run.FilesHash, f.Run.Generation, f.Run.Source = o.Launch.LiveHash(), o.Launch.FilesHash(), o.Generation, o.Source
		f.Run.Ladder, f.Run.Endpoints, f.Run.Readiness, f.Run.Restart = o.Launch.Stop, o.Launch.Endpoints, withoutProbeArguments(o.Launch.Readiness), o.Launch.Restart
		f.Run.Liveness, f.Run.StartDeadlineSeconds, f.Run.Players = o.Launch.Liveness, o.Launch.StartDeadlineSeconds, o.Launch.Players
		f.Run.Commands = observe.CommandsOf(&o.Launch)
	})
	return nil
}

func (h *host) MarkReady(_ context.Context, o state.ReadyOrder) error {
	h.change(o.Scope, func(f *observe.Facts) {
		if o.Reload == "" {
			f.Run.ReadyAt = h.wall
			return
		}
		if f.Run.Reload == nil || f.Run.Reload.ID != o.Reload {
			h.t.Errorf("%s is Ready after a reload that it did not have: %+v", o.Scope, f.Run.Reload)
			return
		}
		proven := *f.Run.Reload
		proven.ProvenAt = h.wall
		f.Run.Reload = &proven
	})
	return nil
}

func (h *host) Listening(_ context.Context, runs []observe.RunName) (found []observe.RunListening, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looked++
	if h.blind {
		return nil, errBusy
	}
	for _, run := range runs {
		f := h.records[run.Scope]
		if f == nil || f.Run.Over() || f.Run.ID != run.ID {
			continue
		}
		one := observe.RunListening{RunName: run}
		for _, e := range f.Run.Endpoints {
			l, said := h.heard[e.Name]
			if !said {
				l.By = observe.ListenerOwn
			}
			l.Endpoint = e.Name
			one.Endpoints = append(one.Endpoints, l)
		}
		found = append(found, one)
	}
	return found, nil
}

func (h *host) Archive(_ context.Context, o state.ScopeOrder) error {
	if err := h.did("Archive", o.Scope, ""); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.records, o.Scope)
	return nil
}

// end ends the run of a scope.
func (h *host) end(scope spec.Scope, how spec.ExitStatus) {
	h.change(scope, func(f *observe.Facts) {
		run := f.Run
		started := run.StartedAt
		how.StartedAt, how.FinishedAt = &started, h.wall
		why := ""
		if run.Stop != nil {
			why = run.Stop.Why
		}
		f.Exits = append(slices.Clone(f.Exits), state.Exit{Number: run.Number, RunID: run.ID, Generation: run.Generation, Why: why, Cause: run.Cause, ExitStatus: how})
		run.Phase, run.Alive, run.Tree = state.Exited, observe.Dead, observe.Tree{State: observe.TreeEmpty}
	})
}

// crash ends the run of a scope without anybody having asked.
func (h *host) crash(server, profile string) {
	h.end(scopeOf(server, profile), spec.ExitStatus{Class: spec.Unexpected, Reason: spec.ReasonSignaled, Signal: "SIGSEGV"})
}

// exit ends the run of a scope with a code, as the keeper would classify it.
func (h *host) exit(server, profile string, code int) {
	scope := scopeOf(server, profile)
	how := spec.ExitStatus{Class: spec.Unexpected, Reason: spec.ReasonExited, ExitCode: &code}
	switch h.record(scope).Run.Restart.Action(&code, "") {
	case spec.ExitComplete:
		how.Class, how.Reason = spec.Expected, spec.ReasonCompleted
	case spec.ExitRestart:
		how.Class, how.Reason = spec.Expected, spec.ReasonDeclaredRestart
	}
	h.end(scope, how)
}

// withoutProbeArguments is what a keeper tells of a probe.
func withoutProbeArguments(p *spec.LaunchProbe) *spec.LaunchProbe {
	if p == nil || p.Exec == nil {
		return p
	}
	told, exec := *p, *p.Exec
	exec.Args, told.Exec = nil, &exec
	return &told
}
