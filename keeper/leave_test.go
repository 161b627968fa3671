package keeper_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/keeper/stage"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// traces are what a keeper has of runs: descriptors, children, folders, cgroups, data directories.
type traces struct {
	fds, children, folders, cgroups, data int
}

func (r *rig) traces() traces {
	r.t.Helper()
	pid := strconv.Itoa(r.keeper.Process.Pid)
	list := func(patterns ...string) int {
		n := 0
		for _, p := range patterns {
			names, err := filepath.Glob(p)
			if err != nil {
				r.t.Fatal(err)
			}
			n += len(names)
		}
		return n
	}
	children := 0
	tasks, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		children += len(strings.Fields(string(b)))
	}
	return traces{
		fds: list("/proc/" + pid + "/fd/*"), children: children, data: list(r.layout.Data() + "/*"),
		folders: list(r.layout.Runs()+"/*", r.memory()+"/*"), cgroups: r.cgroups(),
	}
}

// cgroups counts the cgroups of runs that have a log folder of this rig: their names are in no record any more.
func (r *rig) cgroups() int {
	r.t.Helper()
	all, err := findCgroups(r.t)
	if err != nil {
		return 0 // then there are none
	}
	defer all.Close()
	runs, err := all.Runs()
	if err != nil {
		r.t.Fatal(err)
	}
	n := 0
	for _, f := range first(r.client.Facts()) {
		if f.Run == nil {
			continue
		}
		if slices.Contains(runs, f.Run.ID) {
			n++
		}
	}
	return n
}

// EC-7: every step of forking a stage fails; nothing is left, and the end is on record.
func TestStageStepsFail(t *testing.T) {
	for _, step := range stage.Steps() {
		if step == stage.StepLimits || step == stage.StepMove || step == stage.StepWatch {
			continue // no limits are set yet; here stages are born in their cgroup and executed at once
		}
		t.Run(string(step), func(t *testing.T) {
			r := newRigWithoutKeeper(t)
			r.startKeeper("-fail", string(step))
			r.connect()
			before := r.calmTraces()
			l := r.launch("town", "hold")
			err := r.client.Start(t.Context(), r.order(l))
			if step == stage.StepAwait {
				// Nobody knows what came of it, and it is looked after until that is known.
				if err == nil {
					t.Error("a start that nobody saw succeed is a success")
				}
				r.await(l.Scope, "seen to run", func(f *observe.Facts) bool { return f.Run.StartedAt.IsZero() == false })
				return
			}
			var failed *keeper.StartFailedError
			if !errors.As(err, &failed) {
				t.Fatalf("the answer is %v", err)
			}
			if e := r.awaitOver(l.Scope); e.Reason != spec.ReasonStartFailed || e.StartedAt != nil {
				t.Errorf("the end is %+v", e)
			}
			r.checkTraces(before)
			if got := r.workloads(); len(got) > 0 {
				t.Errorf("processes %v are left", got)
			}
		})
	}
}

// calmTraces are the traces when nothing is under way: a flush of the store opens files for a moment.
func (r *rig) calmTraces() traces {
	r.t.Helper()
	last, same := r.traces(), 0
	eventually(r.t, "the keeper is calm", func() bool {
		now := r.traces()
		if now != last || !r.asleep() {
			last, same = now, 0
		}
		same++
		return same > 20
	})
	return last
}

// asleep reports whether every thread of the keeper waits for something. On a busy host one may be in the middle of its work
// and not run for long.
func (r *rig) asleep() bool {
	r.t.Helper()
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(r.keeper.Process.Pid) + "/task/*/stat")
	if err != nil {
		r.t.Fatal(err)
	}
	return !slices.ContainsFunc(threads, func(path string) bool {
		b, err := os.ReadFile(path)
		return err == nil && !strings.Contains(string(b), ") S ")
	})
}

// checkTraces waits until nothing is left but what was there before.
func (r *rig) checkTraces(before traces) {
	r.t.Helper()
	var after traces
	defer func() {
		if r.t.Failed() {
			r.t.Logf("before %+v, after %+v", before, after)
		}
	}()
	eventually(r.t, "nothing is left of a failed start", func() bool { after = r.traces(); return after == before })
}

// EC-7: the keeper runs out of descriptors at every place of a start where it takes one.
func TestOutOfDescriptors(t *testing.T) {
	r := newRig(t)
	warm := r.launch("warm", "exit")
	warm.Readiness = nil
	if err := r.client.Start(t.Context(), r.order(warm)); err != nil { // what is opened once for all is open
		t.Fatal(err)
	}
	r.awaitOver(warm.Scope)
	if failures := r.starve(func() spec.Launch { return r.launch("town", "hold") }); failures < 5 {
		t.Errorf("only %d starts failed", failures)
	}
}

// starve starts what launch makes with no descriptor to spare, with one, and so on, until it runs, and returns how many starts have
// failed. None of them has left anything.
func (r *rig) starve(launch func() spec.Launch) (failures int) {
	r.t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(r.keeper.Process.Pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		r.t.Fatal(err)
	}
	before := r.calmTraces()
	for ; failures <= 64; failures++ {
		limit := unix.Rlimit{Cur: uint64(r.limitFor(failures)), Max: old.Max}
		if err := unix.Prlimit(r.keeper.Process.Pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
			r.t.Fatal(err)
		}
		l := launch()
		l.Readiness = nil
		err := r.client.Start(r.t.Context(), r.order(l))
		if err := unix.Prlimit(r.keeper.Process.Pid, unix.RLIMIT_NOFILE, &old, nil); err != nil {
			r.t.Fatal(err)
		}
		if err == nil {
			return failures
		}
		eventually(r.t, "the failed start is over", func() bool { f := r.facts(l.Scope); return f == nil || f.Run.Over() })
		r.checkTraces(before)
	}
	r.t.Fatal("it needs more than 64 descriptors")
	return failures
}

// limitFor is the limit under which the keeper can open this many descriptors more.
func (r *rig) limitFor(spare int) int {
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(r.keeper.Process.Pid) + "/fd")
	if err != nil {
		r.t.Fatal(err)
	}
	open := map[int]bool{}
	for _, e := range entries {
		n, _ := strconv.Atoi(e.Name())
		open[n] = true
	}
	limit := 0
	for free := 0; free < spare || open[limit]; limit++ {
		if !open[limit] {
			free++
		}
	}
	return limit
}

// A launch that the host does not allow, or that leads to nothing, is refused before any record, and nothing is made.
func TestVetRefuses(t *testing.T) {
	r := newRig(t)
	data := r.layout.Data()
	files := map[string]os.FileMode{"plain": 0o644, "script": 0o755}
	for name, mode := range files {
		if err := os.WriteFile(filepath.Join(data, name), []byte("#!/bin/cat\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{"escape": "/etc/passwd", "loop": "loop", "proc": "/proc/self/exe", "up": "../../../../bin/true"}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(data, name)); err != nil {
			t.Fatal(err)
		}
	}
	host := r.host()
	host.Workspaces[2].Executables = nil // data
	if err := r.client.SetHost(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	before := r.calmTraces()
	for _, name := range []string{"missing", "plain", "escape", "loop", "proc", "."} {
		l := r.launch("town")
		l.Workspace, l.Executable = "data", name
		err := r.client.Start(t.Context(), r.order(l))
		if check, ok := keeper.IsRefused(err); !ok || check != keeper.CheckExecutable && check != keeper.CheckLaunch {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), data) || strings.Contains(err.Error(), "/etc/")) {
			t.Errorf("%s: the refusal shows a path of the host: %v", name, err)
		}
	}
	r.checkTraces(before)
	if r.facts(scopeOf("town")) != nil {
		t.Error("a refused start is on record")
	}

	// Data is not executed from where the host says that nothing may be.
	host = r.host()
	if err := r.client.SetHost(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	l := r.launch("town")
	l.Workspace, l.Executable = "data", "script"
	if check, _ := keeper.IsRefused(r.client.Start(t.Context(), r.order(l))); check != keeper.CheckExecutable {
		t.Errorf("a script in a workspace without executables is started: %s", check)
	}
	// A link from elsewhere to it is no way around.
	other := t.TempDir()
	if err := os.Symlink(filepath.Join(data, "script"), filepath.Join(other, "link")); err != nil {
		t.Fatal(err)
	}
	host.Workspaces = append(host.Workspaces, spec.Workspace{Name: "other", Path: other})
	if err := r.client.SetHost(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	l.Workspace, l.Executable = "other", "link"
	if check, _ := keeper.IsRefused(r.client.Start(t.Context(), r.order(l))); check != keeper.CheckExecutable {
		t.Errorf("a link to a script that may not be executed is: %s", check)
	}
}

// BP-1: symlinks may lead from one opened workspace to another; what is executed is what they lead to.
func TestExecutablesBehindLinks(t *testing.T) {
	r := newRig(t)
	away := t.TempDir() // stands for /etc/alternatives: no workspace
	if err := os.Symlink("/usr/bin/env", filepath.Join(away, "alternative")); err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(filepath.Join(away, "alternative"), filepath.Join(bin, "program")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "script"), []byte("#!/bin/cat\nhello from the script\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	host := r.host()
	host.Workspaces = append(host.Workspaces, spec.Workspace{Name: "bin", Path: bin, Executables: []string{"**"}})
	if err := r.client.SetHost(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	for executable, want := range map[string]string{"program": "HOME=", "script": "hello from the script"} {
		l := r.launch(executable)
		l.Workspace, l.Executable, l.Args, l.Readiness = "bin", executable, nil, nil
		if err := r.client.Start(t.Context(), r.order(l)); err != nil {
			t.Errorf("%s: %v", executable, err)
			continue
		}
		if e := r.awaitOver(l.Scope); e.ExitCode == nil || *e.ExitCode != 0 {
			t.Errorf("%s: the end is %+v", executable, e)
		}
		if got := r.log(l.Scope); !strings.Contains(got, want) {
			t.Errorf("%s printed %q", executable, got)
		}
	}
}
