package keeper_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/keeper/faultd"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// trail reads the numbers that a workload and its children left.
func trail(t *testing.T, path string) []int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var pids []int
	for f := range strings.FieldsSeq(string(b)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, n)
	}
	return pids
}

// EC-9, EC-10, I6: a main process that leaves a family behind: its end is seen, the run is not over until the family is
// gone, and the kill at the ladder's end reaches all of it.
func TestFamilies(t *testing.T) {
	workloads := map[string][]string{
		"a daemon":                     {"daemonise", "-ignore", "TERM,HUP"},
		"a daemon without environment": {"daemonise", "-clearenv", "-ignore", "TERM"},
		"children in their sessions":   {"spawn", "-n", "2", "-group", "session", "-exit-after", "50ms"},
		"children in the same group":   {"spawn", "-n", "2", "-exit-after", "50ms"},
		"as many as it can fork":       {"forkbomb", "-k", "12", "-ignore", "TERM"},
	}
	for _, flags := range [][]string{nil, {"-no-cgroups"}} {
		r := newRigWithoutKeeper(t)
		r.startKeeper(flags...)
		r.connect()
		n := 0
		for name, args := range workloads {
			n++
			l := r.launch(fmt.Sprintf("f%d", n), args...)
			l.Readiness = nil
			path := filepath.Join(t.TempDir(), "pids")
			l.Args = append(l.Args, "-pids", path)
			t.Run(name+fmt.Sprint(flags), func(t *testing.T) { r.in(t).family(l, path) })
		}
	}
}

// in is the rig for a subtest.
func (r *rig) in(t testing.TB) *rig {
	sub := *r
	sub.t = t
	return &sub
}

func (r *rig) family(l spec.Launch, path string) {
	t := r.t.(*testing.T)
	t.Cleanup(func() {
		for _, pid := range trail(t, path) {
			if alive(pid) {
				unix.Kill(pid, unix.SIGKILL)
			}
		}
	})
	r.start(l)
	if l.Args[1] == "forkbomb" {
		eventually(t, "all are forked", func() bool { return len(trail(t, path)) >= 12 })
		signalTo(t, r.pid(l.Scope), unix.SIGKILL)
	}
	f := r.await(l.Scope, "without its main process", func(f *observe.Facts) bool {
		return f.Run.MainExit != nil && f.Run.Tree.State == observe.TreePopulated
	})
	if f.Run.Over() || f.Run.Alive != observe.Dead || f.Run.Tree.Count == 0 {
		t.Errorf("facts %+v", f.Run)
	}
	id := f.Run.ID
	if err := r.client.Stop(t.Context(), state.StopOrder{Scope: l.Scope, RunID: id, Reason: spec.ReasonMainExited, Why: "MainExited"}); err != nil {
		t.Fatal(err)
	}
	if err := r.client.Step(t.Context(), state.StepOrder{Scope: l.Scope, RunID: id, Index: 1}); err != nil {
		t.Fatal(err)
	}
	e := r.awaitOver(l.Scope)
	if e.Reason != spec.ReasonMainExited || !e.Killed || e.Class != spec.Unexpected {
		t.Errorf("the end is %+v", e)
	}
	for _, pid := range trail(t, path) {
		if alive(pid) {
			t.Errorf("process %d of the family lives", pid)
		}
	}
	want := observe.TreeEmpty
	if r.record(l.Scope).Run.Cgroup == "" {
		want = observe.TreeUnknown
	}
	if got := r.facts(l.Scope).Run.Tree.State; got != want {
		t.Errorf("the tree is %s, not %s", got, want)
	}
}

// EC-4, EC-5: a workload gets its arguments as they are, the base environment and what was declared, and nothing else.
func TestWhatAWorkloadIsGiven(t *testing.T) {
	t.Setenv("KEEPER_TEST_INHERITED", "from the host")
	t.Setenv("KEEPER_TEST_SECRET", "of the host")
	r := newRig(t)
	l := r.launch("town", "inspect")
	l.Readiness = nil
	l.Directory.Path = "deep/er/town"
	odd := []string{"-ignore", "HUP"}
	l.Args = append(l.Args, odd...)
	l.Env = []spec.LaunchEnv{
		{Name: "LANG", Value: "de_DE"}, {Name: "ODD", Value: "a b;`c` $(d) \"e\""}, {Name: "EMPTY"},
		{Name: "KEEPER_TEST_INHERITED", Inherit: true}, {Name: "KEEPER_TEST_ABSENT", Inherit: true},
	}
	if err := r.client.Start(t.Context(), r.order(l)); err != nil {
		t.Fatal(err)
	}
	r.awaitOver(l.Scope)
	var got faultd.Inspection
	if err := json.Unmarshal([]byte(r.log(l.Scope)), &got); err != nil {
		t.Fatalf("%v: %s", err, r.log(l.Scope))
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(r.layout.Data(), "deep/er/town")
	want := []string{
		"EMPTY=", "HOME=" + home, "KEEPER_TEST_INHERITED=from the host", "LANG=de_DE", "LOGNAME=" + me.Username, "NOTIFY_SOCKET=" + r.layout.NotifySocket(),
		"ODD=a b;`c` $(d) \"e\"", "PATH=/usr/local/bin:/usr/bin:/bin", "USER=" + me.Username,
	}
	if !slices.Equal(got.Env, want) {
		t.Errorf("environment %q, not %q", got.Env, want)
	}
	if argv := append([]string{r.binary}, l.Args...); !slices.Equal(got.Argv, argv) {
		t.Errorf("arguments %q, not %q", got.Argv, argv)
	}
	if got.Cwd != home || got.Umask != "0027" || got.SID != got.PID {
		t.Errorf("directory %s, umask %s, session %d of %d", got.Cwd, got.Umask, got.SID, got.PID)
	}
	if len(got.FDs) != 3 {
		t.Errorf("descriptors %v", got.FDs)
	}
	for _, dir := range []string{"deep", "deep/er", "deep/er/town"} {
		info, err := os.Stat(filepath.Join(r.layout.Data(), dir))
		if err != nil || info.Mode().Perm() != 0o750 {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
}

// A run as another user: its directory, its FIFOs and its identity are that user's.
func TestAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run servers as another user")
	}
	r := newRig(t)
	host := r.host()
	host.Users = []string{"nobody"}
	if err := r.client.SetHost(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	l := r.launch("town")
	l.Workspace, l.Executable, l.Args, l.Readiness = "usr", "bin/id", nil, nil
	l.User = "nobody"
	if err := r.client.Start(t.Context(), r.order(l)); err != nil {
		t.Fatal(err)
	}
	if e := r.awaitOver(l.Scope); e.ExitCode == nil || *e.ExitCode != 0 {
		t.Errorf("the end is %+v", e)
	}
	if got := r.log(l.Scope); !strings.Contains(got, "(nobody)") || strings.Contains(got, "root") {
		t.Errorf("it ran as %s", got)
	}
	info, err := os.Stat(filepath.Join(r.layout.Data(), "town"))
	if err != nil {
		t.Fatal(err)
	}
	if nobody := 65534; int(info.Sys().(*syscall.Stat_t).Uid) != nobody {
		t.Errorf("its directory is not its own: %+v", info.Sys())
	}
	l = r.launch("games")
	l.User = "games"
	if check, _ := keeper.IsRefused(r.client.Start(t.Context(), r.order(l))); check != keeper.CheckUser {
		t.Errorf("a user that the host does not name: %s", check)
	}
}

// What the runs use is told of each, also where one look has to find the families of all.
func TestUsage(t *testing.T) {
	for _, flags := range [][]string{nil, {"-no-cgroups"}} {
		r := newRigWithoutKeeper(t)
		r.startKeeper(flags...)
		r.connect()
		for _, name := range []string{"one", "two"} {
			r.ready(r.launch(name+"-of-many", "run"))
		}
		all, err := r.client.Usage(t.Context())
		if err != nil || len(all) != 2 || all[0].Scope == all[1].Scope {
			t.Fatalf("%v: %+v, %v", flags, all, err)
		}
		for _, u := range all {
			if u.ResidentBytes < 1<<20 || u.OpenFDs < 3 {
				t.Errorf("%v: %+v", flags, u)
			}
		}
	}
}

// BP-13: logs come over a connection of their own, complete; and following goes on while the run writes.
func TestLogs(t *testing.T) {
	r := newRig(t)
	l := r.launch("town", "run", "-tick", "5ms")
	r.ready(l)
	r.awaitLog(l.Scope, "3")
	if got := r.log(l.Scope); !strings.HasPrefix(got, "ready") && !strings.Contains(got, "ready") {
		t.Errorf("the log is %q", got)
	}
	st, err := r.client.Status(t.Context())
	if err != nil || st.Live != 1 || len(st.Guarantees) == 0 || st.Version != "test" {
		t.Errorf("status %+v, %v", st, err)
	}
	usage, err := r.client.Usage(t.Context())
	if err != nil || len(usage) != 1 || usage[0].Scope != l.Scope || usage[0].ResidentBytes == 0 || usage[0].OpenFDs < 3 || usage[0].LogBytes == 0 {
		t.Errorf("usage %+v, %v", usage, err)
	}
	if err := r.client.Logs(t.Context(), keeper.LogQuery{Scope: scopeOf("nobody"), Tail: -1}, nil); err != keeper.ErrNoLog {
		t.Errorf("the log of nobody: %v", err)
	}
}
