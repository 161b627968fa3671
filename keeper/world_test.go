package keeper_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// world is a fake host with a keeper's core on it, and somebody who wants a server to run or to be stopped.
type world struct {
	t       testing.TB
	kernel  *fakeKernel
	store   *fakeStore
	core    *keeper.Core
	scope   spec.Scope
	kind    string
	edit    func(spec.Launch) spec.Launch // of what is launched; nil = nothing
	crashes int
	asked   map[string]bool // runs whose stop was asked for, with a step journaled while they lived
}

func newWorld(t testing.TB, kind string) *world {
	k := newFakeKernel()
	w := &world{t: t, kernel: k, store: newFakeStore(k), scope: scopeOf("town"), kind: kind, asked: map[string]bool{}}
	k.onReap, k.onExec, k.onDeliver, k.onType = w.onReap, w.onExec, w.onDeliver, w.onType
	return w
}

// onReap is I4: an end is on record before the kernel forgets it.
func (w *world) onReap(p *fakeProcess) {
	rec := w.store.record(p.scope)
	aborted := p.staged || p.kind == workBroken
	if p.probe != "" {
		return // no record tells of it
	}
	if p.program {
		if j := programOf(rec, p.run); !aborted && (j == nil || j.Exit == nil) {
			w.t.Fatalf("I4: the end of program %d is reaped before it is on record", p.id.PID)
		}
		return
	}
	if !aborted && !recorded(rec, p) {
		w.t.Fatalf("I4: the end of %d is reaped before it is on record", p.id.PID)
	}
}

// onDeliver is EN-6: a line is on record, open, before it is handed over.
func (w *world) onDeliver(p keeper.Place, d keeper.Delivery) {
	rec := w.store.record(p.Scope)
	if rec == nil || rec.Run == nil || rec.Run.ID != p.RunID {
		w.t.Fatalf("EN-6: a line for a run that is not on record")
	}
	open := d.Ref.ID != "" && rec.Delivery(d.Ref.ID) != nil && rec.Delivery(d.Ref.ID).Result == ""
	if d.Ref.ID == "" && rec.Run.Stop != nil {
		open = slices.ContainsFunc(rec.Run.Stop.Steps, func(e state.StepEntry) bool { return e.Index == d.Ref.Step && e.Result == "" })
	}
	if !open {
		w.t.Fatalf("EN-6: a line is handed over and is not on record: %+v", d.Ref)
	}
}

// onType is EN-6: who types is on record before he does.
func (w *world) onType(p keeper.Place) {
	rec := w.store.record(p.Scope)
	if rec == nil || !slices.ContainsFunc(rec.Deliveries, func(d state.Delivery) bool { return d.RunID == p.RunID && d.Keys != nil && d.Result == "" }) {
		w.t.Fatalf("EN-6: keys are typed that are not on record")
	}
}

// recorded reports whether a process's end is on record.
func recorded(rec *state.Record, p *fakeProcess) bool {
	if rec == nil || rec.Run == nil {
		return false
	}
	return rec.Run.ID == p.run && rec.Run.MainExit != nil ||
		slices.ContainsFunc(rec.History, func(e state.Exit) bool { return e.RunID == p.run })
}

// programOf is the journal entry of a program, nil without one.
func programOf(rec *state.Record, id string) *state.Program {
	if rec == nil {
		return nil
	}
	for _, d := range rec.Deliveries {
		if d.Program != nil && d.Program.ID == id {
			return d.Program
		}
	}
	if rec.Run == nil || rec.Run.Stop == nil {
		return nil
	}
	for _, e := range rec.Run.Stop.Steps {
		if e.Program != nil && e.Program.ID == id {
			return e.Program
		}
	}
	return nil
}

// onExec is I2: who a process is is on record before it executes anything.
func (w *world) onExec(p *fakeProcess) {
	rec := w.store.record(p.scope)
	if p.probe != "" {
		w.checkProbe(rec, p)
		return
	}
	if p.program {
		if j := programOf(rec, p.run); j == nil || j.Identity == nil || *j.Identity != p.id {
			w.t.Fatalf("I2: program %d is released and is on no record", p.id.PID)
		}
		return
	}
	if rec == nil || rec.Run == nil || rec.Run.Identity == nil || *rec.Run.Identity != p.id || rec.Run.Phase != state.Released {
		w.t.Fatalf("I2: process %d is released and is on no record", p.id.PID)
	}
	known := func(place keeper.Place) bool { return place.RunID == p.run && place.Main != nil && *place.Main == p.id }
	if !slices.ContainsFunc(w.core.LivePlaces(), known) {
		w.t.Fatalf("EN-8: process %d is released and would be taken for a stranger's", p.id.PID)
	}
}

func fakeHost() *keeper.Host {
	return &keeper.Host{Workspaces: []spec.Workspace{{Name: "usr", Path: "/usr"}, {Name: "data", Path: "/data", Writable: true}}}
}

// alive does something that the keeper may die in; then a new keeper is there, of the same disk and kernel.
func (w *world) alive(do func() error) (err error) {
	w.t.Helper()
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(crash); !ok {
				panic(p)
			}
			err = errDied
		}
		if err == errDied {
			w.crashes++
			w.kernel.crashAt = 0
			w.kernel.die()
			w.check()
			w.open()
		}
		w.check()
	}()
	if w.core == nil {
		w.open()
	}
	return do()
}

var errDied = fmt.Errorf("the keeper died")

func (w *world) open() {
	w.core = keeper.NewCore(w.kernel, w.store, w.store.contents(), fakeHost(), nil)
}

func (w *world) launch() spec.Launch {
	l := spec.Launch{
		Scope: w.scope, Workspace: "usr", Executable: "bin/x", Args: []string{w.kind}, Directory: spec.LaunchFolder{Workspace: "data", Path: "town"},
		Stop: []spec.StopStep{
			{Signal: &spec.SignalAction{Name: "SIGTERM", To: spec.ToMain}, WaitFor: spec.WaitForExit, WaitSeconds: 30},
			{Signal: &spec.SignalAction{Name: "SIGINT", To: spec.ToTree}, WaitFor: spec.WaitForExit, WaitSeconds: 30},
		},
		Restart:    spec.RestartPolicy{Policy: spec.RestartAlways, InitialSeconds: 1, MaxSeconds: 300, ResetSeconds: 600},
		Disruption: spec.LaunchDisruption{MaxUnavailable: 1},
	}
	if w.kind == workLadder {
		step := func(kind string, wait spec.WaitFor) spec.StopStep {
			return spec.StopStep{Exec: &spec.LaunchExec{Workspace: "usr", Executable: "bin/y", Args: []string{kind}}, WaitFor: wait, WaitSeconds: 30}
		}
		l.Stop = append([]spec.StopStep{step(workMissing, spec.WaitForExit), step(workDone, spec.WaitForDone), step(workFamily, spec.WaitForDone), step(workQuits, spec.WaitForExit)}, l.Stop...)
	}
	if w.kind == workTalks {
		l.Console = &spec.LaunchConsole{Input: spec.ConsoleStdin}
		l.Stop = append([]spec.StopStep{
			{Console: &spec.ConsoleAction{Line: "save", Expect: "saved"}, WaitFor: spec.WaitForDone, WaitSeconds: 30},
			{Console: &spec.ConsoleAction{Line: "exit"}, WaitFor: spec.WaitForExit, WaitSeconds: 30},
		}, l.Stop...)
	}
	if w.edit != nil {
		l = w.edit(l)
	}
	return l
}

func (w *world) facts() *observe.Facts {
	f := w.core.FactsOf(w.scope)
	return f
}

func (w *world) start() error {
	return w.alive(func() error {
		o := state.StartOrder{Launch: w.launch(), UID: "u", Generation: 1, Cause: "Wanted"}
		if f := w.facts(); f != nil && f.Run != nil {
			o.After = f.Run.Number
		}
		return w.core.Start(o, nil)
	})
}

func (w *world) stop(reason spec.ExitReason) error {
	return w.alive(func() error {
		return w.core.Stop(state.StopOrder{Scope: w.scope, RunID: w.facts().Run.ID, Reason: reason, Why: "Hold"}, nil)
	})
}

func (w *world) step(index int) error {
	return w.alive(func() error {
		return w.core.Step(state.StepOrder{Scope: w.scope, RunID: w.facts().Run.ID, Index: index}, nil)
	})
}

func (w *world) settle() {
	_ = w.alive(func() error { w.core.Settle(w.scope); return nil })
}

// turn does the next thing towards a server that runs, or is stopped, and reports whether it is as it shall be.
func (w *world) turn(running bool) bool {
	w.settle()
	f := w.facts()
	over := f == nil || f.Run.Over()
	switch {
	case running && over:
		_ = w.start()
		return false
	case running:
		return f.Run.Phase == state.Started && f.Run.Alive == observe.Alive
	case over:
		return len(w.core.Unsettled()) == 0
	case f.Run.Stop == nil:
		reason := spec.ReasonStopRequested
		if f.Run.MainExit != nil {
			reason = spec.ReasonMainExited
		}
		_ = w.stop(reason)
	case len(f.Run.Stop.Steps) == 0 && f.Run.MainExit == nil:
		_ = w.step(0)
	case w.kind == workLadder && len(f.Run.Stop.Steps) < len(f.Run.Stop.Ladder) && f.Run.MainExit == nil:
		if f.Run.Stop.Steps[len(f.Run.Stop.Steps)-1].Result == "" {
			w.kernel.clock += 31 * time.Second // the family does not end by itself
			return false
		}
		_ = w.step(len(f.Run.Stop.Steps))
	case w.kind == workTalks && len(f.Run.Stop.Steps) < len(f.Run.Stop.Ladder) && f.Run.MainExit == nil:
		if f.Run.Stop.Steps[len(f.Run.Stop.Steps)-1].Result == "" {
			_ = w.alive(func() error { w.kernel.tell(w.core); return nil })
			return false
		}
		_ = w.step(len(f.Run.Stop.Steps))
	default:
		_ = w.step(len(f.Run.Stop.Ladder))
	}
	return false
}

// drive turns until the server is as it shall be.
func (w *world) drive(running bool) {
	w.t.Helper()
	for range 100 {
		if w.turn(running) {
			return
		}
	}
	w.t.Fatalf("it does not converge: facts %+v, calls %v", w.facts(), tail(w.kernel.names))
}

func tail(names []string) []string { return names[max(0, len(names)-30):] }

// check is what must hold at every moment.
func (w *world) check() {
	w.t.Helper()
	rec := w.store.record(w.scope)
	live := 0
	for _, p := range w.kernel.processes {
		if p.executed == 0 {
			continue
		}
		if p.executed > 1 {
			w.t.Fatalf("I1: process %d was executed %d times", p.id.PID, p.executed)
		}
		if p.status == nil && !p.program {
			live++
		}
		if n := count(p.signals, "SIGTERM"); n > 1 {
			w.t.Fatalf("a step was sent %d times: %v", n, p.signals)
		}
		for _, line := range p.lines {
			if count(p.lines, line) > 1 {
				w.t.Fatalf("EN-6: a line was handed over twice: %q", p.lines)
			}
		}
		if p.probe != "" {
			continue
		}
		if p.program {
			if j := programOf(rec, p.run); p.status == nil && (j == nil || j.Identity == nil || *j.Identity != p.id) {
				w.t.Fatalf("I2: program %d runs and is on no record: %+v", p.id.PID, rec)
			}
			continue
		}
		if p.status == nil && (rec == nil || rec.Run == nil || rec.Run.Identity == nil || *rec.Run.Identity != p.id) {
			w.t.Fatalf("I2: process %d of %s runs and is on no record: %+v", p.id.PID, p.run, rec)
		}
	}
	if live > 1 {
		w.t.Fatalf("I1: %d live runs", live)
	}
	if rec != nil {
		w.checkRecord(rec)
	}
}

func count(all []string, s string) int {
	n := 0
	for _, x := range all {
		if x == s {
			n++
		}
	}
	return n
}

// checkRecord compares every end on record with what really happened.
func (w *world) checkRecord(rec *state.Record) {
	w.t.Helper()
	seen := map[string]bool{}
	for i, e := range rec.History {
		if seen[e.RunID] || i > 0 && e.Number != rec.History[i-1].Number+1 {
			w.t.Fatalf("I4: an end is doubled or lost: %+v", rec.History)
		}
		seen[e.RunID] = true
		for _, p := range w.kernel.processes {
			if p.run == e.RunID && p.status == nil {
				w.t.Fatalf("I6: run %d is over and process %d lives", e.Number, p.id.PID)
			}
			if p.run == e.RunID && p.executed > 0 && p.kind != "child" {
				w.checkEnd(e, p)
			}
		}
	}
}

func (w *world) checkEnd(e state.Exit, p *fakeProcess) {
	w.t.Helper()
	told := e.ExitCode != nil || e.Signal != ""
	switch {
	case told && e.ExitCode != nil && *p.status != uint32(*e.ExitCode)<<8:
		w.t.Fatalf("I4: the end %+v is not what happened: %#x", e, *p.status)
	case told && e.Signal != "" && *p.status != 9:
		w.t.Fatalf("I4: the end %+v is not what happened: %#x", e, *p.status)
	}
	asked := slices.Contains(p.signals, "SIGTERM") || slices.Contains(p.signals, "SIGKILL") || len(p.lines) > 0 || p.kind == workLadder
	if (e.Class == spec.Expected) && !asked {
		w.t.Fatalf("I5: nobody asked for the end %+v", e)
	}
}

// gone is what must be left when everything is stopped: nothing.
func (w *world) gone() {
	w.t.Helper()
	if n := len(w.kernel.folders) + len(w.kernel.cgroups) + len(w.kernel.attached) + len(w.kernel.collected) + w.kernel.images; n > 0 {
		w.t.Fatalf("EC-7: left behind: folders %v, cgroups %v, pumps %v and %v, images %d (calls %v)",
			w.kernel.folders, w.kernel.cgroups, w.kernel.attached, w.kernel.collected, w.kernel.images, tail(w.kernel.names))
	}
	for _, p := range w.kernel.processes {
		if p.status == nil || p.ours && !p.reaped && p.kind != "child" {
			w.t.Fatalf("EC-7: process %d is left: %+v", p.id.PID, p)
		}
	}
}
