package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/keeper/pump"
	"reconciler.dev/reconciler/keeper/stage"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/logs"
	"reconciler.dev/reconciler/observe/proc"
	"reconciler.dev/reconciler/observe/proc/proctest"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// rig is a state directory, a keeper process over it, and a client.
type rig struct {
	t      testing.TB
	layout state.Layout
	binary string   // this test binary, in a workspace of its own
	under  []string // a program and its arguments that become the keeper, nil for none
	keeper *exec.Cmd
	client *keeper.Client
	leave  func() // ends client
}

// newRig starts a keeper and connects to it. At the end every run is killed.
func newRig(t testing.TB) *rig {
	t.Helper()
	r := newRigWithoutKeeper(t)
	r.startKeeper()
	r.connect()
	return r
}

func newRigWithoutKeeper(t testing.TB) *rig {
	t.Helper()
	dir := proctest.Place(t) // t.TempDir is too long a path for a socket, and may be closed to other users
	r := &rig{t: t, layout: state.Layout{State: dir + "/s", Runtime: dir + "/r"}, binary: proctest.Program(t)}
	t.Cleanup(r.killRuns)
	t.Cleanup(r.removeFolders)
	t.Cleanup(r.endTerminals)
	return r
}

func (r *rig) startKeeper(flags ...string) {
	r.t.Helper()
	args := append([]string{"keeper", "-state", r.layout.State, "-runtime", r.layout.Runtime}, flags...)
	args = slices.Concat(r.under, []string{r.binary}, args)
	r.keeper = exec.Command(args[0], args[1:]...)
	r.keeper.Stderr = testOutput{r.t}
	if err := r.keeper.Start(); err != nil {
		r.t.Fatal(err)
	}
	cmd := r.keeper
	r.t.Cleanup(func() { cmd.Process.Signal(unix.SIGTERM); cmd.Process.Signal(unix.SIGCONT); cmd.Wait() })
	eventually(r.t, "the keeper listens", func() bool {
		st, err := keeper.Ask(r.t.Context(), r.layout, "test")
		return err == nil && st.Protocol == keeper.Protocol
	})
}

// testOutput shows what a keeper logs.
type testOutput struct{ t testing.TB }

func (o testOutput) Write(b []byte) (int, error) {
	o.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func (r *rig) killKeeper() {
	r.t.Helper()
	if err := r.keeper.Process.Kill(); err != nil {
		r.t.Fatal(err)
	}
	r.keeper.Wait()
	if r.client != nil {
		eventually(r.t, "the client notices", func() bool { return r.client.Problem() != nil })
	}
}

// nextKeeper kills the keeper and starts another, which the client finds.
func (r *rig) nextKeeper() {
	r.t.Helper()
	r.killKeeper()
	r.startKeeper()
	eventually(r.t, "the client is back", func() bool { _, known := r.client.Facts(); return known })
}

func (r *rig) host() *keeper.Host {
	return &keeper.Host{InheritAny: true, SecretsDirectory: r.layout.Secrets(), Workspaces: []spec.Workspace{
		{Name: "test", Path: filepath.Dir(r.binary)},
		{Name: "usr", Path: "/usr"},
		{Name: "data", Path: r.layout.Data(), Writable: true, Executables: []string{}},
	}}
}

// connect makes the client of a reconciler. That of the one before it has ended by then: two would take over from each other, as each
// connects anew when the keeper is another.
func (r *rig) connect() {
	r.t.Helper()
	if r.leave != nil {
		r.leave()
	}
	r.client, r.leave = r.clientToLeave()
	eventually(r.t, "the client knows all facts", func() bool { _, known := r.client.Facts(); return known })
}

// newClient makes the client of another reconciler beside the one that is connected.
func (r *rig) newClient() *keeper.Client {
	c, _ := r.clientToLeave()
	return c
}

func (r *rig) clientToLeave() (c *keeper.Client, leave func()) {
	c = keeper.NewClient(keeper.ClientConfig{Layout: r.layout, Version: "test", Host: r.host()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	leave = sync.OnceFunc(func() { cancel(); <-done })
	r.t.Cleanup(leave)
	return c, leave
}

// killRuns kills what the records say that lives, and what else is this rig's.
func (r *rig) killRuns() {
	for _, pid := range r.workloads() {
		signalTo(r.t, pid, unix.SIGKILL)
	}
	cgroups, err := findCgroups(r.t)
	if err != nil {
		return // then no run has one
	}
	defer cgroups.Close()
	records, _ := filepath.Glob(filepath.Join(r.layout.Keeper(), "records", "*.json"))
	for _, path := range records {
		rec, err := state.ReadRecord(path)
		if err != nil || rec.Run == nil || rec.Run.Cgroup == "" {
			continue
		}
		g, err := cgroups.Cgroup(rec.Run.Cgroup)
		if err != nil {
			r.t.Error(err)
			continue
		}
		eventually(r.t, "a run's cgroup is gone", func() bool { return errors.Join(g.Kill(), g.Remove()) == nil })
	}
}

// findCgroups opens the place where keepers of this host make cgroups for runs.
func findCgroups(t testing.TB) (*proc.Cgroups, error) {
	t.Helper()
	k, err := proc.Probe()
	if err != nil {
		t.Fatal(err)
	}
	return k.FindCgroups()
}

// removeFolders takes away what the keeper has in memory for this state directory.
func (r *rig) removeFolders() {
	if dir := r.memory(); dir != "" {
		os.RemoveAll(dir)
		os.Remove(dir + ".of")
	}
	for _, dir := range pump.PoolDirs(r.layout.Runtime, r.layout.State) {
		if strings.HasPrefix(dir, "/dev/shm/") {
			os.RemoveAll(dir)
			os.Remove(dir + ".of")
		}
	}
}

// memory is where root's keeper has the folders of runs.
func (r *rig) memory() string {
	var st unix.Stat_t
	if unix.Stat(r.layout.Keeper(), &st) != nil {
		return ""
	}
	return fmt.Sprintf("/dev/shm/reconciler-runs-%x-%x", st.Dev, st.Ino)
}

func scopeOf(name string) spec.Scope {
	return spec.Scope{Namespace: spec.DefaultNamespace, Server: name, Profile: "p"}
}

// launch is a launch of faultd.
func (r *rig) launch(name string, args ...string) spec.Launch {
	return spec.Launch{
		Scope: scopeOf(name), Workspace: "test", Executable: filepath.Base(r.binary), Args: append([]string{"faultd"}, args...),
		Directory: spec.LaunchFolder{Workspace: "data", Path: name},
		Stop: []spec.StopStep{
			{Signal: &spec.SignalAction{Name: "SIGTERM", To: spec.ToMain}, WaitFor: spec.WaitForExit, WaitSeconds: 30},
		},
		Readiness:  &spec.LaunchProbe{Log: []string{"ready"}, PeriodSeconds: 10, TimeoutSeconds: 1, FailureThreshold: 3, SuccessThreshold: 1},
		Restart:    spec.RestartPolicy{Policy: spec.RestartAlways, InitialSeconds: 1, MaxSeconds: 300, ResetSeconds: 600},
		Disruption: spec.LaunchDisruption{MaxUnavailable: 1},
	}
}

func (r *rig) order(l spec.Launch) state.StartOrder {
	o := state.StartOrder{Launch: l, UID: "uid-" + l.Scope.Server, Generation: 1, Cause: "Wanted"}
	if f := r.facts(l.Scope); f != nil && f.Run != nil {
		o.After = f.Run.Number
	}
	return o
}

// ready starts a run and waits until it has said that it is ready, so that it takes signals.
func (r *rig) ready(l spec.Launch) *observe.Facts {
	r.t.Helper()
	r.start(l)
	return r.await(l.Scope, "ready", func(f *observe.Facts) bool { return !f.Run.LogSeenAt.IsZero() })
}

// start starts a run and returns its facts.
func (r *rig) start(l spec.Launch) *observe.Facts {
	r.t.Helper()
	if err := r.client.Start(r.t.Context(), r.order(l)); err != nil {
		r.t.Fatalf("cannot start %s: %v", l.Scope, err)
	}
	return r.await(l.Scope, "runs", func(f *observe.Facts) bool { return f.Run != nil && f.Run.Phase == state.Started })
}

func (r *rig) facts(s spec.Scope) *observe.Facts {
	all, _ := r.client.Facts()
	i := slices.IndexFunc(all, func(f *observe.Facts) bool { return f.Scope == s })
	if i < 0 {
		return nil
	}
	return all[i]
}

// await waits until a scope's facts are as they shall be.
func (r *rig) await(s spec.Scope, what string, is func(*observe.Facts) bool) *observe.Facts {
	r.t.Helper()
	deadline := time.After(patience)
	for {
		f := r.facts(s)
		if _, known := r.client.Facts(); known && f != nil && is(f) {
			return f
		}
		select {
		case <-r.client.Changed():
		case <-deadline:
			r.t.Fatalf("%s: not %s; facts %+v", s, what, f)
		}
	}
}

func (r *rig) awaitOver(s spec.Scope) state.Exit {
	r.t.Helper()
	f := r.await(s, "over", func(f *observe.Facts) bool { return f.Run != nil && f.Run.Over() })
	return f.Exits[len(f.Exits)-1]
}

// record is the private record of a scope.
func (r *rig) record(s spec.Scope) *state.Record {
	r.t.Helper()
	rec, err := state.ReadRecord(filepath.Join(r.layout.Keeper(), "records", s.ID()+".json"))
	if err != nil {
		r.t.Fatal(err)
	}
	return rec
}

func (r *rig) pid(s spec.Scope) int { r.t.Helper(); return r.record(s).Run.Identity.PID }

// stop stops a run by its whole ladder's first step.
func (r *rig) stop(s spec.Scope) {
	r.t.Helper()
	id := r.facts(s).Run.ID
	if err := r.client.Stop(r.t.Context(), state.StopOrder{Scope: s, RunID: id, Reason: spec.ReasonStopRequested, Why: "Hold"}); err != nil {
		r.t.Fatal(err)
	}
	if err := r.client.Step(r.t.Context(), state.StepOrder{Scope: s, RunID: id, Index: 0}); err != nil {
		r.t.Fatal(err)
	}
}

// patience is how long tests wait for what is certain to come: far longer than it takes.
const patience = 2 * time.Minute

// eventually waits for something of the outside that nobody tells us about.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("it never happened that %s", what)
		}
		time.Sleep(2 * time.Millisecond) // polling: there is no event to await
	}
}

// alive reports whether a process lives; a zombie does not.
func alive(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	rest := string(b[strings.LastIndexByte(string(b), ')')+2:])
	return rest[0] != 'Z' && rest[0] != 'X'
}

func signalTo(t testing.TB, pid int, sig unix.Signal) {
	t.Helper()
	if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		t.Fatal(err)
	}
}

// log is what a scope has printed.
func (r *rig) log(s spec.Scope) string {
	r.t.Helper()
	var b strings.Builder
	err := r.client.Logs(r.t.Context(), keeper.LogQuery{Scope: s, Tail: -1}, func(e logs.Entry) error {
		b.Write(e.Text)
		b.WriteByte('\n')
		return nil
	})
	if err != nil && !errors.Is(err, keeper.ErrNoLog) {
		r.t.Fatal(err)
	}
	return b.String()
}

func (r *rig) awaitLog(s spec.Scope, text string) {
	r.t.Helper()
	printed := ""
	defer func() {
		if r.t.Failed() {
			r.t.Logf("%s has printed:\n%s", s, printed)
		}
	}()
	eventually(r.t, fmt.Sprintf("%s prints %q", s, text), func() bool { printed = r.log(s); return strings.Contains(printed, text) })
}

// pause lets the keeper get somewhere, a little further each time.
func pause(t testing.TB, i int) {
	t.Helper()
	time.Sleep(time.Duration(i*i%17) * time.Millisecond) // any moment will do: there is nothing to await
}

// checkNothingUnrecorded compares all processes of this test with the records, while no keeper is there.
func (r *rig) checkNothingUnrecorded() {
	r.t.Helper()
	recorded := map[int]spec.Scope{}
	paths, err := filepath.Glob(filepath.Join(r.layout.Keeper(), "records", "*.json"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			r.t.Fatal(err)
		}
		rec, err := state.DecodeRecord(b)
		if err != nil {
			r.t.Fatalf("%s: %v", path, err)
		}
		if rec.Run != nil && rec.Run.Identity != nil {
			recorded[rec.Run.Identity.PID] = rec.Scope
		}
	}
	seen := map[spec.Scope]int{}
	for _, pid := range r.workloads() {
		scope, ok := recorded[pid]
		if !ok {
			// A stage that was just forked has not its name yet; it ends by itself. A workload does not.
			eventually(r.t, fmt.Sprintf("process %d, which no record knows, ends (I2)", pid), func() bool { return !alive(pid) })
			continue
		}
		if other, twice := seen[scope]; twice {
			r.t.Errorf("I1: %s has processes %d and %d", scope, other, pid)
		}
		seen[scope] = pid
	}
}

// workloads are the living processes whose home is in this rig's state directory, stages excepted: those end by themselves.
func (r *rig) workloads() []int {
	r.t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		r.t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !alive(pid) {
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil || !strings.Contains(string(env), "HOME="+r.layout.Data()+"/") {
			continue
		}
		comm, err := os.ReadFile("/proc/" + e.Name() + "/comm")
		if err == nil && strings.TrimSpace(string(comm)) != stage.Comm {
			pids = append(pids, pid)
		}
	}
	return pids
}
