package keeper_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// answers collects what askers are told.
type answers []state.Receipt

func (a *answers) told(d state.Delivery, o keeper.Outcome) {
	*a = append(*a, state.Receipt{Delivery: d, Detail: o.Detail, Reply: o.Reply, Cut: o.Cut})
}

func (a answers) last() state.Receipt {
	if len(a) == 0 {
		return state.Receipt{}
	}
	return a[len(a)-1]
}

// commanded gives the launches of a world a command of each kind, named for what its program does.
func commanded(l spec.Launch) spec.Launch {
	for _, kind := range []string{workRuns, workDone, workExits, workFamily, workBroken, workMissing, workStuck} {
		exec := &spec.LaunchExec{Workspace: "usr", Executable: "bin/y", Args: []string{kind}}
		l.Commands = append(l.Commands, spec.LaunchCommand{Name: kind, LaunchAction: spec.LaunchAction{Exec: exec}, Requires: spec.RequiresAny, TimeoutSeconds: 60})
	}
	more := func(name string, a spec.LaunchAction, needs spec.Requires, own ...spec.Parameter) {
		l.Commands = append(l.Commands, spec.LaunchCommand{Name: name, LaunchAction: a, Requires: needs, Parameters: own, TimeoutSeconds: 60})
	}
	done := spec.LaunchAction{Exec: &spec.LaunchExec{Workspace: "usr", Executable: "bin/y", Args: []string{workDone}}}
	more("poke", spec.LaunchAction{Signal: &spec.SignalAction{Name: "SIGHUP", To: spec.ToMain}}, spec.RequiresAny)
	more("poke-all", spec.LaunchAction{Signal: &spec.SignalAction{Name: "SIGHUP", To: spec.ToTree}}, spec.RequiresAny)
	more("migrate", done, spec.RequiresStopped)
	more("look", done, spec.RequiresRunning)
	more("count", done, spec.RequiresAny, spec.Parameter{Name: "to", Type: spec.ParameterInteger})
	more("elsewhere", spec.LaunchAction{Exec: &spec.LaunchExec{Workspace: "other", Executable: "bin/y"}}, spec.RequiresAny)
	if l.Console != nil {
		more("save", spec.LaunchAction{Console: &spec.ConsoleAction{Line: "save", Expect: "saved"}}, spec.RequiresAny)
	}
	return l
}

// newCommanded is a world whose server has commands and runs.
func newCommanded(t testing.TB, kind string) *world {
	w := newWorld(t, kind)
	w.edit = commanded
	w.drive(true)
	return w
}

func (w *world) doOrder(id, command string) state.DoOrder {
	o := state.DoOrder{Scope: w.scope, ID: id, Command: command, By: "me"}
	f := w.facts()
	switch {
	case f != nil && !f.Run.Over():
		o.RunID = f.Run.ID
	default:
		l := w.launch()
		o.Launch = &l
		if f != nil && f.Run != nil {
			o.After = f.Run.Number
		}
	}
	return o
}

// programs are the processes of programs that were ever made, in order.
func (w *world) programs() (all []*fakeProcess) {
	for _, p := range w.kernel.processes {
		if p.program && p.kind != "child" {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *fakeProcess) int { return a.id.PID - b.id.PID })
	return all
}

// What a program comes to is told by how it ended, once, with the end of what it wrote.
func TestDoProgram(t *testing.T) {
	for _, c := range []struct {
		command string
		act     func(*world, *fakeProcess) // while it runs
		result  state.DeliveryResult
		reason  string
		detail  string
	}{
		{workDone, nil, state.Done, "", ""},
		{workExits, nil, state.Failed, "Exited", "it ended with exit code 3"},
		{workRuns, func(w *world, p *fakeProcess) { w.kernel.signal(p, "SIGTERM") }, state.Done, "", ""},
		{workRuns, func(w *world, p *fakeProcess) { w.kernel.signal(p, "SIGKILL") }, state.Failed, "Signaled", "it was ended by SIGKILL"},
		{workRuns, func(w *world, _ *fakeProcess) { w.kernel.clock += 61 * time.Second }, state.Failed, "TimedOut", "it took longer than 60 s, and was killed"},
		{workFamily, func(w *world, p *fakeProcess) { w.kernel.signal(p, "SIGTERM") }, state.Done, "", ""}, // its child is killed
		{workRuns, func(w *world, _ *fakeProcess) { w.kernel.signal(w.main(), "SIGKILL") }, state.Failed, "RunEnded", "it was killed because its run ended"},
		{workBroken, nil, state.Undeliverable, "StartFailed", "cannot execute the program: no such file or directory"},
	} {
		for name, make := range hosts(workIgnores) {
			t.Run(c.command+" "+c.reason+" on "+name, func(t *testing.T) {
				w := make(t)
				w.edit = commanded
				w.drive(true)
				var got answers
				o := w.doOrder("job-1.1", c.command)
				if err := w.core.Do(o, nil, got.told); err != nil {
					t.Fatal(err)
				}
				if c.act != nil {
					if len(got) > 0 {
						t.Fatalf("told too early: %+v", got)
					}
					if again := w.core.Do(w.doOrder("job-2.1", workDone), nil, got.told); !isRefused(again, keeper.CheckBusy) {
						t.Errorf("another at the same time: %v", again)
					}
					c.act(w, w.programs()[0])
					w.settle()
					w.settle()
				}
				r := got.last()
				if r.Result != c.result || r.Reason != c.reason || r.Detail != c.detail || r.Command != c.command || r.By != "me" || r.Rail != state.RailExec || r.Run != 1 {
					t.Errorf("told %+v", r)
				}
				if c.result != state.Undeliverable && (r.Reply != "[1mout\uFFFD\n" || !r.Cut || r.Program.StartedAt.IsZero() || r.Program.Exit == nil) {
					t.Errorf("told %+v, %+v", r, r.Program)
				}
				// Asked for again, the same delivery is not made again, and the same is told.
				if err := w.core.Do(o, nil, got.told); err != nil || len(got) != 2 || got[1].Result != c.result || got[1].Reply != r.Reply {
					t.Errorf("asked again: %v, %+v", err, got)
				}
				if n := len(w.programs()); n != 1 {
					t.Errorf("%d programs were forked", n)
				}
				w.drive(false)
				w.gone()
			})
		}
	}
}

func isRefused(err error, check keeper.Check) bool {
	got, ok := keeper.IsRefused(err)
	return ok && got == check
}

// BP-1, EN-3: what does not match what is declared, or has no run, is refused: no fork, no record, nothing started.
func TestDoRefusals(t *testing.T) {
	none := func(state.Delivery, keeper.Outcome) { t.Error("somebody is told of what was refused") }
	w := newCommanded(t, workRuns)
	before := slices.Clone(w.store.records[w.scope])
	order := func(change func(*state.DoOrder)) state.DoOrder {
		o := w.doOrder("a", workDone)
		change(&o)
		return o
	}
	for _, c := range []struct {
		why   string
		o     state.DoOrder
		check keeper.Check
	}{
		{"no id", order(func(o *state.DoOrder) { o.ID = "" }), keeper.CheckMessage},
		{"an id that is a path", order(func(o *state.DoOrder) { o.ID = "../a" }), keeper.CheckMessage},
		{"another run", order(func(o *state.DoOrder) { o.RunID = "other" }), keeper.CheckRun},
		{"another scope", order(func(o *state.DoOrder) { o.Scope.Profile = "other" }), keeper.CheckRun},
		{"no such command", order(func(o *state.DoOrder) { o.Command = "don" }), keeper.CheckCommand},
		{"an unknown parameter", order(func(o *state.DoOrder) { o.Parameters = map[string]spec.IntOrString{"a": {}} }), keeper.CheckParameters},
		{"a parameter of another type", order(func(o *state.DoOrder) {
			o.Command, o.Parameters = "count", map[string]spec.IntOrString{"to": {IsString: true, String: "5"}}
		}), keeper.CheckParameters},
		{"text that is no number", order(func(o *state.DoOrder) { o.Command, o.Text = "count", map[string]string{"to": "5x"} }), keeper.CheckParameters},
		{"a parameter too few", order(func(o *state.DoOrder) { o.Command = "count" }), keeper.CheckParameters},
		{"a program that is missing", order(func(o *state.DoOrder) { o.Command = workMissing }), keeper.CheckExecutable},
		{"a workspace that is not opened", order(func(o *state.DoOrder) { o.Command = "elsewhere" }), keeper.CheckWorkspace},
		{"one that needs rest", order(func(o *state.DoOrder) { o.Command = "migrate" }), keeper.CheckCommand},
		{"at rest, while it runs", order(func(o *state.DoOrder) { l := w.launch(); o.RunID, o.Launch = "", &l }), keeper.CheckLive},
		{"at rest, without a spec", order(func(o *state.DoOrder) { o.RunID = "" }), keeper.CheckMessage},
	} {
		if err := w.core.Do(c.o, nil, none); !isRefused(err, c.check) {
			t.Errorf("%s: %v, want %s", c.why, err, c.check)
		}
	}
	errGuard := errors.New("fenced")
	if err := w.core.Do(w.doOrder("a", workDone), func() error { return errGuard }, none); !errors.Is(err, errGuard) {
		t.Errorf("a fenced asker gets %v", err)
	}
	if after := w.store.records[w.scope]; string(after) != string(before) || len(w.programs()) > 0 {
		t.Errorf("something was done: %s, programs %v", after, w.programs())
	}
	if err := w.stop(spec.ReasonStopRequested); err != nil {
		t.Fatal(err)
	}
	refusedFor(t, w.core.Do(w.doOrder("a", workDone), nil, none), keeper.CheckRun)
	over := w.doOrder("a", workDone)
	w.drive(false)
	refusedFor(t, w.core.Do(over, nil, none), keeper.CheckRun)
	refusedFor(t, w.core.Do(w.doOrder("a", "poke"), nil, none), keeper.CheckCommand)
	refusedFor(t, w.core.Do(w.doOrder("a", "look"), nil, none), keeper.CheckCommand)
	missed := w.doOrder("a", workDone)
	missed.After = 7
	refusedFor(t, w.core.Do(missed, nil, none), keeper.CheckAfter)
	if n := len(w.programs()); n > 0 {
		t.Errorf("%d programs were forked", n)
	}
}

// A field of a program is named as the profile has it.
func TestDoNamesTheField(t *testing.T) {
	w := newCommanded(t, workRuns)
	err := w.core.Do(w.doOrder("a", "elsewhere"), nil, nil)
	if want := `command "elsewhere": exec.workspace: this host opens no workspace "other"; it opens usr, data`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}

// A signal is sent once, and only to the recorded run.
func TestDoSignal(t *testing.T) {
	w := newCommanded(t, workFamily)
	var got answers
	for _, command := range []string{"poke", "poke-all"} {
		o := w.doOrder(command, command)
		if err := errors.Join(w.core.Do(o, nil, got.told), w.core.Do(o, nil, got.told)); err != nil {
			t.Fatal(err)
		}
		if r := got.last(); r.Result != state.Sent || r.Rail != state.RailSignal || r.Command != command {
			t.Errorf("told %+v", r)
		}
	}
	if n := count(w.main().signals, "SIGHUP"); n != 2 || len(got) != 4 {
		t.Errorf("%d signals, %d answers", n, len(got))
	}
}

// A command that is a line takes the console's turn, and what it expects is told.
func TestDoLine(t *testing.T) {
	w := newCommanded(t, workTalks)
	var got answers
	if err := w.core.Do(w.doOrder("a", "save"), nil, got.told); err != nil {
		t.Fatal(err)
	}
	refusedFor(t, w.core.Send(w.sendOrder("b", "hello"), nil, nil), keeper.CheckBusy)
	refusedFor(t, w.core.Do(w.doOrder("c", "save"), nil, nil), keeper.CheckBusy)
	// A program is no line: it has a turn of its own.
	if err := w.core.Do(w.doOrder("d", workDone), nil, got.told); err != nil || got.last().Result != state.Done {
		t.Errorf("a program beside a line: %v, %+v", err, got)
	}
	w.kernel.tell(w.core)
	if r := got.last(); r.Result != state.Done || r.Rail != spec.ConsoleStdin || r.Command != "save" {
		t.Errorf("told %+v", r)
	}
}

// At rest a program has the scope for itself: no run starts in it, nor in another of the same server, until it has ended.
func TestDoAtRest(t *testing.T) {
	for name, make := range hosts(workRuns) {
		t.Run(name, func(t *testing.T) {
			w := make(t)
			w.edit = commanded
			w.open()
			var got answers
			o := w.doOrder("a", workRuns)
			if err := w.core.Do(o, nil, got.told); err != nil { // a scope that never had a run
				t.Fatal(err)
			}
			start := state.StartOrder{Launch: w.launch(), UID: "u"}
			refusedFor(t, w.core.Start(start, nil), keeper.CheckBusy)
			other := start
			other.Launch.Scope.Profile = "other"
			refusedFor(t, w.core.Start(other, nil), keeper.CheckBusy)
			refusedFor(t, w.core.Archive(state.ScopeOrder{Scope: w.scope}, nil), keeper.CheckLive)
			w.kernel.signal(w.programs()[0], "SIGTERM")
			w.settle()
			if r := got.last(); r.Result != state.Done || r.RunID != "" || r.Run != 0 {
				t.Errorf("told %+v", r)
			}
			w.drive(true)
			w.drive(false)
			if err := w.core.Do(w.doOrder("b", "migrate"), nil, got.told); err != nil || got.last().Result != state.Done {
				t.Errorf("after a run: %v, %+v", err, got.last())
			}
			w.gone()
			if err := w.core.Archive(state.ScopeOrder{Scope: w.scope}, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// EN-6: the keeper dies at every point of a command. It was executed once or not at all; what is not known stays so, and nothing
// of it is left.
func TestDyingInACommand(t *testing.T) {
	for _, kind := range []string{workDone, workExits, workFamily, workBroken} {
		for _, rest := range []bool{false, true} {
			for name, make := range hosts(workRuns) {
				t.Run(kind+" on "+name, func(t *testing.T) {
					for n := 1; ; n++ {
						w := make(t)
						w.edit = commanded
						w.drive(true)
						if rest {
							w.drive(false)
						}
						if !dieInACommand(t, w, n, kind) {
							return
						}
					}
				})
			}
		}
	}
}

// dieInACommand reports whether the keeper died at the n-th point.
func dieInACommand(t *testing.T, w *world, n int, kind string) bool {
	w.kernel.crashAt = w.kernel.points + n
	var got answers
	o := w.doOrder("a", kind)
	err := w.alive(func() error { return w.core.Do(o, nil, got.told) })
	if w.crashes == 0 && err != nil {
		t.Fatal(err)
	}
	for range 5 {
		w.kernel.clock += 61 * time.Second // a family ends when its time is over
		w.settle()
	}
	w.kernel.crashAt = 0
	died := w.crashes > 0
	executed := func() (times int) {
		for _, p := range w.programs() {
			times += p.executed
		}
		return times
	}
	before := executed()
	o.Recall = true
	if err := w.core.Do(o, nil, got.told); err != nil {
		t.Fatal(err)
	}
	r := got.last()
	switch {
	case before > 1:
		t.Fatalf("dead at point %d: executed %d times", n, before)
	case r.Result == "":
		t.Fatalf("dead at point %d: nobody is told: %+v", n, got)
	case before == 1 && r.Result == state.Undeliverable:
		t.Fatalf("dead at point %d: executed and told %+v", n, r)
	case before == 0 && (r.Result == state.Done || r.Result == state.Failed):
		t.Fatalf("dead at point %d: not executed and told %+v", n, r)
	case kind == workExits && r.Result == state.Done, kind == workDone && r.Result == state.Failed:
		t.Fatalf("dead at point %d: told %+v", n, r)
	}
	// Asked for again, what is on record is not done again.
	o.Recall = false
	if d := w.facts().Deliveries; len(d) == 1 {
		if err := w.core.Do(o, nil, got.told); err != nil {
			t.Fatal(err)
		}
		if after := executed(); after != before {
			t.Fatalf("dead at point %d: executed %d times, then %d", n, before, after)
		}
	}
	for name := range w.kernel.cgroups {
		if strings.Contains(name, "/cmd-") {
			t.Fatalf("EC-7: dead at point %d: %s is left", n, name)
		}
	}
	if runs := len(w.kernel.folders); runs > 1 {
		t.Fatalf("EC-7: dead at point %d: %d folders are left", n, runs)
	}
	w.drive(false)
	w.gone()
	return died
}

// EC-7: every call of a command fails once; nothing is left, and somebody is told.
func TestFailingInACommand(t *testing.T) {
	for _, kind := range []string{workDone, workFamily, workBroken} {
		for name, make := range hosts(workRuns) {
			t.Run(kind+" on "+name, func(t *testing.T) {
				for n := 1; ; n++ {
					w := make(t)
					w.edit = commanded
					w.drive(true)
					w.kernel.failAt = w.kernel.calls + n
					var got answers
					err := w.core.Do(w.doOrder("a", kind), nil, got.told)
					for range 5 {
						w.kernel.clock += 61 * time.Second
						w.settle()
					}
					if err == nil && len(got) != 1 {
						t.Fatalf("failing in %s: told %+v", tail(w.kernel.names), got)
					}
					failed := w.kernel.calls >= w.kernel.failAt
					w.drive(false)
					w.gone()
					if !failed {
						return
					}
				}
			})
		}
	}
}

// EC-7: what could not be taken away of a program is taken away later, though the keeper dies, again and again, and other commands
// have come since.
func TestWhatIsLeftOfAProgram(t *testing.T) {
	for name, make := range hosts(workRuns) {
		t.Run(name, func(t *testing.T) {
			w := make(t)
			w.edit = commanded
			w.drive(true)
			w.kernel.failing = "Remove"
			for _, id := range []string{"a", "b"} {
				if err := w.core.Do(w.doOrder(id, workDone), nil, (&answers{}).told); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.core.Do(w.doOrder("c", workRuns), nil, (&answers{}).told); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				w.kernel.die()
				w.open()
			}
			w.kernel.failing = ""
			w.settle()
			w.onlyProgram("c")
			w.kernel.signal(w.programs()[2], "SIGTERM")
			w.settle()
			w.drive(false)
			w.gone()
		})
	}
}

// onlyProgram checks that nothing but the run and a program has a folder or a cgroup.
func (w *world) onlyProgram(id string) {
	w.t.Helper()
	var open *state.Program
	for _, d := range w.facts().Deliveries {
		if d.ID == id {
			open = d.Program
		}
	}
	for cgroup := range w.kernel.cgroups {
		if strings.Contains(cgroup, "/cmd-") && cgroup != open.Cgroup {
			w.t.Errorf("the cgroup %s is left", cgroup)
		}
	}
	for folder := range w.kernel.folders {
		if folder != open.ID && folder != w.facts().Run.ID {
			w.t.Errorf("the folder %s is left", folder)
		}
	}
}

// What does not die keeps the command open, and the run's end waits for it (I6, EC-9).
func TestStuckProgramIsNotOver(t *testing.T) {
	for name, make := range hosts(workRuns) {
		t.Run(name, func(t *testing.T) {
			w := make(t)
			w.edit = commanded
			w.drive(true)
			var got answers
			if err := w.core.Do(w.doOrder("a", workStuck), nil, got.told); err != nil {
				t.Fatal(err)
			}
			w.kernel.clock += time.Hour
			w.settle()
			if d := w.facts().Deliveries[0]; len(got) > 0 || d.Result != "" || !d.Program.TimedOut {
				t.Fatalf("told %+v, on record %+v", got, d)
			}
			w.kernel.signal(w.main(), "SIGTERM")
			w.settle()
			if f := w.facts(); f.Run.Over() {
				t.Fatal("I6: the run is over and its program lives")
			}
			stuck := w.programs()[0]
			w.kernel.end(stuck, 9)
			w.settle()
			w.settle()
			if r := got.last(); !w.facts().Run.Over() || r.Reason != "TimedOut" {
				t.Errorf("over %v, told %+v", w.facts().Run.Over(), r)
			}
			w.gone()
		})
	}
}

// The time of a program goes on through a crash, and is what wakes the keeper.
func TestProgramsTimeOutlivesTheKeeper(t *testing.T) {
	w := newCommanded(t, workRuns)
	if err := w.core.Do(w.doOrder("a", workRuns), nil, (&answers{}).told); err != nil {
		t.Fatal(err)
	}
	at := w.kernel.wakes[w.scope]
	if left := at - w.kernel.clock; left < 59*time.Second || left > 60*time.Second {
		t.Errorf("it is looked at in %s", left)
	}
	clear(w.kernel.wakes)
	w.kernel.die()
	w.open()
	if got := w.kernel.wakes[w.scope]; got != at {
		t.Errorf("the new keeper looks at it at %s, not at %s", got, at)
	}
	w.kernel.clock = at
	w.settle()
	w.settle()
	if d := w.facts().Deliveries[0]; d.Result != state.Failed || d.Reason != state.ReasonTimedOut {
		t.Errorf("on record %+v", d)
	}
}

// Each of several programs is looked at when its own time is over.
func TestEveryProgramHasItsTime(t *testing.T) {
	w := newWorld(t, workLadder)
	w.edit = func(l spec.Launch) spec.Launch {
		l = commanded(l)
		l.Stop = slices.Insert(l.Stop, 0, spec.StopStep{Exec: l.Command(workRuns).Exec, WaitFor: spec.WaitForDone, WaitSeconds: 10})
		return l
	}
	w.drive(true)
	if err := w.core.Do(w.doOrder("a", workRuns), nil, (&answers{}).told); err != nil {
		t.Fatal(err)
	}
	last := w.kernel.wakes[w.scope]
	if err := errors.Join(w.stop(spec.ReasonStopRequested), w.step(0)); err != nil {
		t.Fatal(err)
	}
	w.kernel.clock = w.kernel.wakes[w.scope]
	delete(w.kernel.wakes, w.scope) // it is told
	w.settle()
	w.settle()
	if e := w.facts().Run.Stop.Steps[0]; e.Result != state.Failed || e.Reason != state.ReasonTimedOut {
		t.Errorf("the step came to %+v", e)
	}
	if got := w.kernel.wakes[w.scope]; got != last || w.facts().Deliveries[0].Result != "" {
		t.Errorf("the command is looked at at %s, not at %s: %+v", got, last, w.facts().Deliveries[0])
	}
}

// A program of another boot cannot live, and nobody knows how it ended.
func TestProgramBeforeAReboot(t *testing.T) {
	w := newCommanded(t, workRuns)
	if err := w.core.Do(w.doOrder("a", workRuns), nil, (&answers{}).told); err != nil {
		t.Fatal(err)
	}
	w.kernel.die()
	w.kernel.reboot()
	w.open()
	w.settle()
	if d := w.facts().Deliveries[0]; d.Result != state.Indeterminate || d.Reason != string(spec.ReasonHostRebooted) {
		t.Errorf("on record %+v", d)
	}
	w.gone()
}

// What is asked about and is on no record was not done, or long ago: nobody can tell, and nothing is done.
func TestRecall(t *testing.T) {
	w := newWorld(t, workRuns)
	w.edit = commanded
	w.open()
	var got answers
	o := w.doOrder("a", workDone)
	o.Recall = true
	if err := w.core.Do(o, nil, got.told); err != nil || got.last().Result != state.Indeterminate || w.facts() != nil {
		t.Errorf("told %+v, %v; facts %+v", got, err, w.facts())
	}
}

// Old deliveries go, those on their way stay.
func TestOpenDeliveriesAreKept(t *testing.T) {
	w := newCommanded(t, workTalks)
	if err := w.core.Do(w.doOrder("long", workRuns), nil, (&answers{}).told); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * state.DeliveryLimit {
		if err := w.core.Send(w.sendOrder("line-"+string(rune('a'+i)), "hello"), nil, (&receipts{}).told); err != nil {
			t.Fatal(err)
		}
		w.kernel.tell(w.core)
	}
	d := w.facts().Deliveries
	if len(d) != state.DeliveryLimit || d[0].ID != "long" || d[0].Result != "" {
		t.Errorf("%d deliveries, the first is %+v", len(d), d[0])
	}
}
