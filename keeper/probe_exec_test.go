package keeper_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// examiner is a probe by a program that may take so many seconds.
func (r *rig) examiner(seconds int64, args ...string) *spec.LaunchProbe {
	return &spec.LaunchProbe{
		Exec:          &spec.LaunchExec{Workspace: "test", Executable: filepath.Base(r.binary), Args: append([]string{"faultd"}, args...)},
		PeriodSeconds: 10, TimeoutSeconds: seconds, FailureThreshold: 3, SuccessThreshold: 1,
	}
}

// examined is what comes of a probe that was executed in its time: a machine that stands still for that long leaves it open.
func (r *rig) examined(l spec.Launch, run *observe.RunFacts) (got observe.Probed) {
	r.t.Helper()
	eventually(r.t, "the probe is executed", func() bool {
		got = r.asked(l, run, spec.ForLiveness)
		return got.Result != observe.ProbeNotRun || got.Detail != "its program could not be executed"
	})
	return got
}

// A probe whose program does what programs should not: it ends when its time is over at the latest, what it came to is told, and all of
// its family and all else of it is gone. The run beside it goes on.
func TestAwkwardProbes(t *testing.T) {
	const deaf = "SIGTERM,SIGINT,SIGHUP"
	const late = "the program of the probe took longer than 1 s, and was killed"
	for name, flags := range newHosts {
		t.Run(name, func(t *testing.T) {
			r := newRigWithoutKeeper(t)
			r.startKeeper(flags...)
			r.connect()
			r.writeSecret("town/password", canary, 0o600)
			l := r.launch("town", "run")
			pids := filepath.Join(r.layout.State, "pids")
			broken := r.examiner(60)
			r.breakable(&l)
			broken.Exec.Workspace, broken.Exec.Executable = l.Workspace, l.Executable
			l.Workspace, l.Executable = "test", filepath.Base(r.binary)
			missing := r.examiner(60)
			missing.Exec.Executable = "nobody"
			run := r.ready(l).Run
			var told []string
			for _, c := range []struct {
				what  string
				probe *spec.LaunchProbe
				want  observe.Probed
			}{
				{"succeeds", r.examiner(60, "exit"), observe.Probed{Result: observe.ProbePassed}},
				{"fails", r.examiner(60, "exit", "-code", "77", "-stderr", "why it failed"), observe.Probed{Result: observe.ProbeFailed, Detail: "the program of the probe ended with exit code 77", Output: "why it failed"}},
				{"tells a secret", r.examiner(60, "exit", "-code", "1", "-stderr", spec.MarkSecret("town/password")), observe.Probed{Result: observe.ProbeFailed, Detail: "the program of the probe ended with exit code 1", Output: "[secret]"}},
				{"forks and leaves", r.examiner(60, "spawn", "-n", "3", "-group", "session", "-exit-after", "1ms"), observe.Probed{Result: observe.ProbePassed}},
				{"changes its session", r.examiner(60, "daemonise", "-clearenv", "-ignore", deaf), observe.Probed{Result: observe.ProbePassed}},
				{"forks and stays", r.examiner(1, "spawn", "-n", "2", "-group", "own"), observe.Probed{Result: observe.ProbeFailed, Detail: late}},
				{"ignores signals", r.examiner(1, "ignore-term"), observe.Probed{Result: observe.ProbeFailed, Detail: late}},
				{"freezes", r.examiner(1, "freeze", "-after", "0"), observe.Probed{Result: observe.ProbeFailed, Detail: late}},
				{"multiplies", r.examiner(1, "forkbomb", "-k", "32", "-ignore", deaf), observe.Probed{Result: observe.ProbeFailed, Detail: late}},
				{"dies", r.examiner(60, "crash", "-after", "0"), observe.Probed{Result: observe.ProbeFailed, Detail: "the program of the probe was ended by SIGSEGV"}},
				{"cannot be executed", broken, observe.Probed{Result: observe.ProbeNotRun, Detail: "cannot execute the program: exec format error"}},
				{"is missing", missing, observe.Probed{Result: observe.ProbeNotRun, Detail: "spec.livenessProbe.exec.executable: test:nobody cannot be opened: no such file or directory"}},
			} {
				if c.probe != broken && c.probe != missing {
					c.probe.Exec.Args = append(c.probe.Exec.Args, "-pids", pids)
				}
				l = r.probing(l, run, nil, c.probe, nil)
				got := r.examined(l, run)
				told = append(told, got.Detail, got.Output)
				if c.want.Output == "" {
					got.Output = "" // what it says of itself
				}
				if got != c.want {
					t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
				}
				r.nothingLeft(l.Scope, c.what, pids)
			}
			if f := r.facts(l.Scope); f.Run.ID != run.ID || f.Run.Alive != observe.Alive || f.Run.Stop != nil {
				t.Errorf("the run beside it is another, or not well: %+v", f.Run)
			}
			r.noCanary(told...)
			r.stop(l.Scope)
		})
	}
}

// hanging asks what does not end, and returns once its program and two more of its family live. answer has what came of it; an error is
// that of a keeper that went.
func (r *rig) hanging(l spec.Launch, run *observe.RunFacts, pids string) (answer <-chan observe.Probed) {
	r.t.Helper()
	told := make(chan observe.Probed, 1)
	go func() {
		p, err := r.client.Probe(r.t.Context(), state.ProbeOrder{Scope: l.Scope, RunID: run.ID, For: spec.ForLiveness})
		if err != nil {
			p = observe.NotRun(err.Error())
		}
		told <- p
	}()
	eventually(r.t, "the family of the probe lives", func() bool {
		listed, _ := os.ReadFile(pids)
		return len(strings.Fields(string(listed))) == 3
	})
	return told
}

// EC-7: what ends a probe before its time leaves nothing of it and is no failure of the run: a stop, its main process's end, and a keeper
// that is killed, or told to end.
func TestProbeProgramEndsEarly(t *testing.T) {
	for name, flags := range newHosts {
		for what, end := range map[string]func(r *rig, l spec.Launch){
			"a stop":  func(r *rig, l spec.Launch) { r.stop(l.Scope) },
			"its end": func(r *rig, l spec.Launch) { signalTo(r.t, r.pid(l.Scope), unix.SIGKILL) },
			"a crash": func(r *rig, _ spec.Launch) { r.killKeeper() },
			"a farewell": func(r *rig, _ spec.Launch) {
				signalTo(r.t, r.keeper.Process.Pid, unix.SIGTERM)
				r.keeper.Wait()
			},
		} {
			t.Run(what+" "+name, func(t *testing.T) {
				r := newRigWithoutKeeper(t)
				r.startKeeper(flags...)
				r.connect()
				pids := filepath.Join(r.layout.State, "pids")
				l := r.launch("town", "run")
				run := r.ready(l).Run
				l = r.probing(l, run, nil, r.examiner(300, "spawn", "-n", "2", "-group", "session", "-ignore", "SIGTERM", "-pids", pids), nil)
				told := r.hanging(l, run, pids)
				end(r, l)
				if got := <-told; got.Result != observe.ProbeNotRun {
					t.Errorf("it is told %+v", got)
				}
				if what != "a crash" {
					listed, _ := os.ReadFile(pids)
					for _, pid := range strings.Fields(string(listed)) {
						eventually(t, "process "+pid+" is gone", func() bool { return !alive(number(t, pid)) })
					}
				}
				if what == "a stop" || what == "its end" {
					if f := r.await(l.Scope, "it is over", func(f *observe.Facts) bool { return f.Run.Over() }); len(f.Exits) != 1 {
						t.Errorf("its ends are %+v", f.Exits)
					}
					return
				}
				r.startKeeper(flags...)
				eventually(t, "the client is back", func() bool { _, known := r.client.Facts(); return known })
				r.nothingLeft(l.Scope, "a probe", pids)
				l = r.probing(l, run, nil, r.examiner(60, "exit"), nil)
				if got := r.examined(l, run); got.Result != observe.ProbePassed {
					t.Errorf("with the next keeper: %+v", got)
				}
				if f := r.facts(l.Scope); f.Run.ID != run.ID || f.Run.Alive != observe.Alive || f.Run.Stop != nil || len(f.Exits) > 0 {
					t.Errorf("the run is %+v", f.Run)
				}
				r.nothingLeft(l.Scope, "the next probe", pids)
			})
		}
	}
}

// A run may be asked for two things at a time, and each once.
func TestTwoProbePrograms(t *testing.T) {
	r := newRig(t)
	pids := filepath.Join(r.layout.State, "pids")
	l := r.launch("town", "run")
	run := r.ready(l).Run
	l.Readiness = nil
	l = r.probing(l, run, r.examiner(60, "exit"), r.examiner(300, "spawn", "-n", "2", "-pids", pids), nil)
	told := r.hanging(l, run, pids)
	if got := r.asked(l, run, spec.ForLiveness); got.Result != observe.ProbeNotRun {
		t.Errorf("the same, asked meanwhile: %+v", got)
	}
	if got := r.asked(l, run, spec.ForReadiness); got.Result != observe.ProbePassed {
		t.Errorf("another, asked meanwhile: %+v", got)
	}
	if workloads := r.workloads(); !slices.Contains(workloads, r.pid(l.Scope)) {
		t.Errorf("the run is gone: %v", workloads)
	}
	r.stop(l.Scope)
	if got := <-told; got.Result != observe.ProbeNotRun {
		t.Errorf("once it is stopped: %+v", got)
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
