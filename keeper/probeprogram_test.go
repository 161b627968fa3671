package keeper_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// examined gives the launches of a world probes by programs of the fake's kinds; "" = none.
func examined(readiness, liveness string) func(spec.Launch) spec.Launch {
	probe := func(kind string) *spec.LaunchProbe {
		if kind == "" {
			return nil
		}
		exec := &spec.LaunchExec{Workspace: "usr", Executable: "bin/y", Args: []string{kind}}
		if kind == "elsewhere" {
			exec.Workspace = kind
		}
		return &spec.LaunchProbe{Exec: exec, PeriodSeconds: 10, TimeoutSeconds: 30, FailureThreshold: 3, SuccessThreshold: 1}
	}
	return func(l spec.Launch) spec.Launch {
		l.Readiness, l.Liveness = probe(readiness), probe(liveness)
		return l
	}
}

// verdicts collects what probes come to.
type verdicts []observe.Probed

func (v *verdicts) told(p observe.Probed) { *v = append(*v, p) }

// checkProbe is I2, EC-11: the program of a probe is that of the recorded run, which lives and is not being ended, and one of its kind.
func (w *world) checkProbe(rec *state.Record, p *fakeProcess) {
	w.t.Helper()
	if rec == nil || rec.Run == nil || p.run != rec.Run.ID+"-"+strings.ToLower(string(p.probe)) || rec.Run.Phase != state.Started || rec.Run.Stop != nil || rec.Run.MainExit != nil {
		w.t.Fatalf("EC-11: a probe of %s runs, and the record has %+v", p.run, rec)
	}
	for _, q := range w.kernel.processes {
		if q != p && q.run == p.run && q.status == nil {
			w.t.Fatalf("a second probe for %s runs", p.probe)
		}
	}
}

// onlyRun checks that the live run is all there is.
func (w *world) onlyRun() {
	w.t.Helper()
	m := w.main()
	for folder := range w.kernel.folders {
		if folder != m.run {
			w.t.Errorf("EC-7: the folder %s is left", folder)
		}
	}
	for cgroup := range w.kernel.cgroups {
		if cgroup != m.cgroup {
			w.t.Errorf("EC-7: the cgroup %s is left", cgroup)
		}
	}
	for _, p := range w.kernel.processes {
		if p.probe != "" && (p.status == nil || p.ours && !p.reaped && p.kind != "child") {
			w.t.Errorf("EC-7: process %d of a probe is left", p.id.PID)
		}
	}
	if len(w.kernel.collected) > 0 || w.kernel.images > 0 {
		w.t.Errorf("EC-7: output of %v is read, %d images are held", w.kernel.collected, w.kernel.images)
	}
}

// What a probe's program comes to is told once, by how it ended. Nothing of it is left, and no record tells of it.
func TestProbeProgram(t *testing.T) {
	const ends = "the run ends"
	for _, c := range []struct {
		what, kind string
		act        func(*world, *fakeProcess) // while it runs
		result     observe.ProbeResult
		detail     string
	}{
		{"exit code 0", workDone, nil, observe.ProbePassed, ""},
		{"another", workExits, nil, observe.ProbeFailed, "the program of the probe ended with exit code 3"},
		{"exit code 0 later", workRuns, func(w *world, p *fakeProcess) { w.kernel.signal(p, "SIGTERM") }, observe.ProbePassed, ""},
		{"a signal", workRuns, func(w *world, p *fakeProcess) { w.kernel.signal(p, "SIGKILL") }, observe.ProbeFailed, "the program of the probe was ended by SIGKILL"},
		{"its time is over", workRuns, func(w *world, _ *fakeProcess) { w.kernel.clock += 31 * time.Second }, observe.ProbeFailed, "the program of the probe took longer than 30 s, and was killed"},
		{"its children", workFamily, func(w *world, p *fakeProcess) { w.kernel.signal(p, "SIGTERM") }, observe.ProbePassed, ""},
		{"what it leaves", workLeaves, nil, observe.ProbePassed, ""},
		{"one that hangs with its children", workFamily, func(w *world, _ *fakeProcess) { w.kernel.clock += time.Hour }, observe.ProbeFailed, "the program of the probe took longer than 30 s, and was killed"},
		{"what cannot be executed", workBroken, nil, observe.ProbeNotRun, "cannot execute the program: no such file or directory"},
		{"what is missing", workMissing, nil, observe.ProbeNotRun, "missing"},
		{"another workspace", "elsewhere", nil, observe.ProbeNotRun, `spec.livenessProbe.exec.workspace: this host opens no workspace "elsewhere"; it opens usr, data`},
		{"the end of its run", workRuns, func(w *world, _ *fakeProcess) { w.kernel.signal(w.main(), "SIGKILL") }, observe.ProbeNotRun, ends},
		{"the end of its run with a child of it", workRuns, func(w *world, _ *fakeProcess) {
			w.kernel.fork(w.placeOf(), "child")
			w.kernel.signal(w.main(), "SIGKILL")
		}, observe.ProbeNotRun, ends},
		{"a stop", workRuns, func(w *world, _ *fakeProcess) {
			if err := w.stop(spec.ReasonStopRequested); err != nil {
				w.t.Error(err)
			}
		}, observe.ProbeNotRun, ends},
	} {
		for name, make := range hosts(workIgnores) {
			t.Run(c.what+" on "+name, func(t *testing.T) {
				w := make(t)
				w.edit = examined("", c.kind)
				w.drive(true)
				before := slices.Clone(w.store.records[w.scope])
				var got verdicts
				if err := w.ask(spec.ForLiveness, got.told); err != nil {
					t.Fatal(err)
				}
				if c.act != nil {
					if len(got) > 0 {
						t.Fatalf("told too early: %+v", got)
					}
					var again verdicts
					if err := w.ask(spec.ForLiveness, again.told); err != nil || len(again) != 1 || again[0].Result != observe.ProbeNotRun {
						t.Errorf("asked meanwhile: %v, %+v", err, again)
					}
					c.act(w, w.programs()[0])
					w.settle()
					w.settle()
				}
				if len(got) != 1 || got[0].Result != c.result || got[0].Detail != c.detail || (got[0].Output != "") != (c.result == observe.ProbeFailed) {
					t.Errorf("told %+v", got)
				}
				if c.detail != ends {
					w.onlyRun()
					if string(before) != string(w.store.records[w.scope]) {
						t.Errorf("it is on record: %s", w.store.records[w.scope])
					}
				}
				w.drive(false)
				w.gone()
			})
		}
	}
}

// EC-7: whatever fails, and wherever, nothing is left of a probe, it is told once, and the next one is carried out. The run goes on.
func TestProbeProgramFailingAtEveryCall(t *testing.T) {
	for _, kind := range []string{workDone, workLeaves, workRuns} {
		for name, make := range hosts(workIgnores) {
			t.Run(kind+" on "+name, func(t *testing.T) {
				for n := 1; ; n++ {
					w := make(t)
					w.edit = examined(kind, "")
					w.drive(true)
					run := w.facts().Run.ID
					w.kernel.failAt = w.kernel.calls + n
					got := w.examine()
					failed := w.kernel.calls >= w.kernel.failAt
					w.kernel.failAt = 0
					w.settle()
					w.settle()
					if len(got) != 1 || got[0].Result == observe.ProbeFailed && kind != workRuns {
						t.Fatalf("failing in %v: told %+v", tail(w.kernel.names), got)
					}
					w.onlyRun()
					if next := w.examine(); len(next) != 1 || next[0].Result == observe.ProbeNotRun {
						t.Fatalf("after failing in %v the next is told %+v", tail(w.kernel.names), next)
					}
					if f := w.facts(); f.Run.ID != run || f.Run.Alive != observe.Alive || f.Run.Stop != nil {
						t.Fatalf("failing in %v: the run is %+v", tail(w.kernel.names), f.Run)
					}
					w.drive(false)
					w.gone()
					if !failed {
						if n < 8 {
							t.Fatalf("only %d points", n)
						}
						return
					}
				}
			})
		}
	}
}

// examine asks whether the run is ready, and lets the time of the answer go by.
func (w *world) examine() (got verdicts) {
	w.t.Helper()
	err := w.alive(func() error { return w.ask(spec.ForReadiness, got.told) })
	if err != nil && err != errDied {
		w.t.Fatal(err)
	}
	w.settle()
	if len(got) == 0 {
		w.kernel.clock += 31 * time.Second
	}
	w.settle()
	w.settle()
	return got
}

// EC-7, EC-11: a keeper that dies in the middle of a probe leaves nothing of it to the next one, and none of its death is told of the
// run, which goes on.
func TestProbeProgramSurvivesCrashes(t *testing.T) {
	for _, kind := range []string{workDone, workLeaves, workFamily, workStuck} {
		for name, make := range hosts(workIgnores) {
			t.Run(kind+" on "+name, func(t *testing.T) {
				for n := 1; ; n++ {
					w := make(t)
					w.edit = examined(kind, "")
					w.drive(true)
					run := w.facts().Run.ID
					w.kernel.crashAt = w.kernel.points + n
					got := w.examine()
					died := w.crashes > 0
					w.kernel.crashAt = 0
					for _, p := range w.kernel.processes {
						if p.kind == workStuck && p.status == nil {
							w.kernel.end(p, 9)
						}
					}
					w.settle()
					w.settle()
					if late := kind == workFamily || kind == workStuck; len(got) > 1 || len(got) == 1 && got[0].Result == observe.ProbeFailed && !late {
						t.Fatalf("dying in %v: told %+v", tail(w.kernel.names), got)
					}
					w.onlyRun()
					if f := w.facts(); f.Run.ID != run || f.Run.Alive != observe.Alive || f.Run.Stop != nil {
						t.Fatalf("dying in %v: the run is %+v", tail(w.kernel.names), f.Run)
					}
					if kind != workStuck {
						if next := w.examine(); len(next) != 1 || next[0].Result == observe.ProbeNotRun {
							t.Fatalf("after dying in %v the next is told %+v", tail(w.kernel.names), next)
						}
					}
					w.drive(false)
					w.gone()
					if !died {
						if n < 8 {
							t.Fatalf("only %d points", n)
						}
						return
					}
				}
			})
		}
	}
}

// What does not die is told in time, has no other beside it, and holds up the end of its run (I6, EC-9).
func TestStuckProbeProgram(t *testing.T) {
	for name, make := range hosts(workRuns) {
		t.Run(name, func(t *testing.T) {
			w := make(t)
			w.edit = examined(workStuck, workDone)
			w.drive(true)
			if got := w.examine(); len(got) != 1 || got[0].Result != observe.ProbeFailed {
				t.Fatalf("told %+v", got)
			}
			if got := w.examine(); len(got) != 1 || got[0].Result != observe.ProbeNotRun || len(w.programs()) != 1 {
				t.Errorf("the next is told %+v, and there were %d", got, len(w.programs()))
			}
			var other verdicts
			if err := w.ask(spec.ForLiveness, other.told); err != nil || len(other) != 1 || other[0].Result != observe.ProbePassed {
				t.Errorf("the other probe: %v, %+v", err, other)
			}
			w.kernel.signal(w.main(), "SIGTERM")
			w.settle()
			if w.facts().Run.Over() {
				t.Fatal("I6: the run is over and the program of its probe lives")
			}
			w.kernel.end(w.programs()[0], 9)
			w.settle()
			w.settle()
			if !w.facts().Run.Over() {
				t.Error("the run is not over")
			}
			w.gone()
		})
	}
}

// A keeper that is told to end leaves no probe behind, as nobody would end it in time, and the run is not touched.
func TestProbeProgramsEndWithTheKeeper(t *testing.T) {
	for name, make := range hosts(workIgnores) {
		t.Run(name, func(t *testing.T) {
			w := make(t)
			w.edit = examined(workFamily, workRuns)
			w.drive(true)
			var got verdicts
			for _, why := range []spec.Purpose{spec.ForReadiness, spec.ForLiveness} {
				if err := w.ask(why, got.told); err != nil {
					t.Fatal(err)
				}
			}
			if !w.core.EndProbes() && !w.core.EndProbes() {
				t.Error("something is left")
			}
			if len(got) != 2 || got[0].Result != observe.ProbeNotRun || got[1].Result != observe.ProbeNotRun {
				t.Errorf("told %+v", got)
			}
			w.onlyRun()
			if w.main().status != nil {
				t.Error("the run has ended")
			}
		})
	}
}

// I10: what a probe's program is called with is nobody's business.
func TestProbeArgumentsAreNotTold(t *testing.T) {
	w := newWorld(t, workRuns)
	w.edit = examined(workDone, workRuns)
	w.drive(true)
	for why, p := range map[spec.Purpose]*spec.LaunchProbe{spec.ForReadiness: w.facts().Run.Readiness, spec.ForLiveness: w.facts().Run.Liveness} {
		if p == nil || p.Exec == nil || p.Exec.Executable != "bin/y" || len(p.Exec.Args) > 0 {
			t.Errorf("of the probe for %s is told %+v", why, p)
		}
	}
	if got := w.examine(); len(got) != 1 || got[0].Result != observe.ProbePassed {
		t.Errorf("its program is called without them: %+v", got)
	}
}

// The folder of a probe is none of an unknown run.
func TestProbesAreOfKnownRuns(t *testing.T) {
	w := newWorld(t, workIgnores)
	w.edit = examined(workStuck, "")
	w.drive(true)
	var got verdicts
	if err := w.ask(spec.ForReadiness, got.told); err != nil {
		t.Fatal(err)
	}
	if unknown, err := w.core.UnknownRuns(); err != nil || len(unknown) > 0 || len(w.kernel.folders) != 2 {
		t.Errorf("unknown are %+v, %v, of the folders %v", unknown, err, slices.Collect(maps.Keys(w.kernel.folders)))
	}
	w.kernel.die()
	w.open()
	if unknown, err := w.core.UnknownRuns(); err != nil || len(unknown) > 0 {
		t.Errorf("to the next keeper: %+v, %v", unknown, err)
	}
	if _, refused := keeper.IsRefused(w.core.Archive(state.ScopeOrder{Scope: w.scope}, nil)); !refused {
		t.Error("it is archived while its run lives")
	}
}
