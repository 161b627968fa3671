package keeper_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/keeper/keepertest"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

func TestConformance(t *testing.T) {
	t.Run("the kernel of this host", func(t *testing.T) {
		keepertest.Run(t, func(t testing.TB) keepertest.Host { return newRealHost(t) })
	})
	t.Run("this host without cgroups", func(t *testing.T) {
		keepertest.Run(t, func(t testing.TB) keepertest.Host { return newRealHost(t, "-no-cgroups") })
	})
	for name, make := range hosts(workRuns) {
		t.Run("a fake one: "+name, func(t *testing.T) {
			keepertest.Run(t, func(t testing.TB) keepertest.Host {
				w := make(t)
				w.open()
				return &fakeConformance{w}
			})
		})
	}
}

// realHost is a keeper process on this host's kernel.
type realHost struct {
	r     *rig
	flags []string
}

func newRealHost(t testing.TB, flags ...string) *realHost {
	h := &realHost{r: newRigWithoutKeeper(t), flags: append(flags, "-secrets-every", "20ms")}
	h.r.startKeeper(h.flags...)
	h.r.connect()
	return h
}

func (h *realHost) Start(o state.StartOrder) error { return h.r.client.Start(h.r.t.Context(), o) }
func (h *realHost) Stop(o state.StopOrder) error   { return h.r.client.Stop(h.r.t.Context(), o) }
func (h *realHost) Step(o state.StepOrder) error   { return h.r.client.Step(h.r.t.Context(), o) }
func (h *realHost) Send(o state.SendOrder) (state.Delivery, error) {
	r, err := h.r.client.Send(h.r.t.Context(), o)
	return r.Delivery, err
}
func (h *realHost) Do(o state.DoOrder) <-chan keepertest.Answer {
	answer, client := make(chan keepertest.Answer, 1), h.r.client
	go func() { // it ends with the client, at the latest
		r, err := client.Do(context.WithoutCancel(h.r.t.Context()), o)
		answer <- keepertest.Answer{Receipt: r, Err: err}
	}()
	return answer
}
func (h *realHost) ApplyLive(o state.LiveOrder) error {
	return h.r.client.ApplyLive(h.r.t.Context(), o)
}
func (h *realHost) MarkReady(o state.ReadyOrder) error {
	return h.r.client.MarkReady(h.r.t.Context(), o)
}
func (h *realHost) Archive(o state.ScopeOrder) error {
	return h.r.client.Archive(h.r.t.Context(), o)
}

func (h *realHost) Facts(s spec.Scope) *observe.Facts { return h.r.facts(s) }

func (h *realHost) Turn() {
	select {
	case <-h.r.client.Changed():
	case <-time.After(50 * time.Millisecond): // what is waited for may be there already
	}
}

func (h *realHost) Settle(s spec.Scope) {
	h.r.await(s, "ready", func(f *observe.Facts) bool { return f.Run.Readiness == nil || !f.Run.LogSeenAt.IsZero() })
}

func (h *realHost) Crash() {
	h.r.killKeeper()
	h.r.startKeeper(h.flags...)
	eventually(h.r.t, "the client is back", func() bool { _, known := h.r.client.Facts(); return known })
}

func (h *realHost) Launch(s spec.Scope, b keepertest.Behaviour) spec.Launch {
	workloads := map[keepertest.Behaviour]struct {
		line string
		args []string
	}{
		keepertest.Runs:     {"ready", []string{"run"}},
		keepertest.Ignores:  {"ignoring", []string{"ignore-term"}},
		keepertest.Exits:    {"", []string{"exit", "-code", "3"}},
		keepertest.Family:   {"spawned", []string{"spawn", "-n", "1", "-group", "session"}},
		keepertest.Broken:   {"", []string{"run"}},
		keepertest.Talks:    {"console ready", []string{"console", "-stop", "exit"}},
		keepertest.Asks:     {"rest listening", nil},
		keepertest.Missing:  {"", []string{"run"}},
		keepertest.Programs: {"ready", []string{"run"}},
	}
	w := workloads[b]
	l := h.r.launch(s.Server, w.args...)
	if b == keepertest.Asks {
		l = h.r.remote(s.Server, "rest", "-stop", "exit")
	}
	l.Scope = s
	l.Readiness.Log = []string{w.line}
	if w.line == "" {
		l.Readiness = nil
	}
	l.Stop = append(l.Stop, spec.StopStep{Signal: &spec.SignalAction{Name: "SIGINT", To: spec.ToTree}, WaitFor: spec.WaitForExit, WaitSeconds: 30})
	program := func(args ...string) spec.LaunchAction {
		return spec.LaunchAction{Exec: &spec.LaunchExec{Workspace: l.Workspace, Executable: l.Executable, Args: append([]string{"faultd"}, args...)}}
	}
	l.Commands = keepertestCommands(map[string]spec.LaunchAction{
		keepertest.Done: program("exit", "-stderr", "said"), keepertest.Fails: program("exit", "-code", "3"),
		keepertest.Lives: program("ignore-term"), keepertest.Leaves: program("daemonise"),
		keepertest.Nowhere: {Exec: &spec.LaunchExec{Workspace: "usr", Executable: "no/such/file"}},
	})
	switch b {
	case keepertest.Programs:
		l.Stop = slices.Concat(ladderOf(&l), l.Stop)
	case keepertest.Talks:
		l.Console = &spec.LaunchConsole{Input: spec.ConsoleStdin}
		l.Stop = append([]spec.StopStep{
			{Console: &spec.ConsoleAction{Line: "save", Expect: `unknown command "save"`}, WaitFor: spec.WaitForDone, WaitSeconds: 30},
			{Console: &spec.ConsoleAction{Line: "exit"}, WaitFor: spec.WaitForExit, WaitSeconds: 30},
		}, l.Stop...)
	case keepertest.Asks:
		l.Stop = append([]spec.StopStep{
			{HTTP: request("save"), WaitFor: spec.WaitForDone, WaitSeconds: 30},
			{HTTP: request("exit"), WaitFor: spec.WaitForExit, WaitSeconds: 30},
		}, l.Stop...)
	case keepertest.Missing:
		l.Executable = "no/such/file"
	case keepertest.Broken:
		h.r.breakable(&l)
	}
	return l
}

// breakable makes a launch of a file that is executable and no program.
func (r *rig) breakable(l *spec.Launch) {
	dir := r.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "broken"), []byte("\x7fELF and nothing more"), 0o755); err != nil {
		r.t.Fatal(err)
	}
	host := r.host()
	host.Workspaces = append(host.Workspaces, spec.Workspace{Name: "broken", Path: dir})
	if err := r.client.SetHost(r.t.Context(), host); err != nil {
		r.t.Fatal(err)
	}
	l.Workspace, l.Executable = "broken", "broken"
}

func (h *realHost) Kill(s spec.Scope) { signalTo(h.r.t, h.r.pid(s), unix.SIGKILL) }

func (h *realHost) Secret(ref, value string) {
	if value != "" {
		h.r.writeSecret(ref, value+"\n", 0o600)
		return
	}
	if err := os.Remove(filepath.Join(h.r.layout.Secrets(), ref)); err != nil {
		h.r.t.Fatal(err)
	}
}

func (h *realHost) Processes(spec.Scope) []int { return h.r.workloads() }

// fakeConformance is a core on the fake kernel.
type fakeConformance struct{ w *world }

func (h *fakeConformance) Start(o state.StartOrder) error { return h.w.core.Start(o, nil) }
func (h *fakeConformance) Stop(o state.StopOrder) error   { return h.w.core.Stop(o, nil) }
func (h *fakeConformance) Step(o state.StepOrder) error   { return h.w.core.Step(o, nil) }
func (h *fakeConformance) Send(o state.SendOrder) (got state.Delivery, err error) {
	err = h.w.core.Send(o, nil, func(d state.Delivery, _ keeper.Outcome) { got = d })
	h.w.kernel.tell(h.w.core)
	return got, err
}
func (h *fakeConformance) Do(o state.DoOrder) <-chan keepertest.Answer {
	answer := make(chan keepertest.Answer, 1)
	err := h.w.core.Do(o, nil, func(d state.Delivery, out keeper.Outcome) {
		answer <- keepertest.Answer{Receipt: state.Receipt{Delivery: d, Detail: out.Detail, Reply: out.Reply, Cut: out.Cut}}
	})
	if err != nil {
		answer <- keepertest.Answer{Err: err}
	}
	return answer
}
func (h *fakeConformance) ApplyLive(o state.LiveOrder) error  { return h.w.core.ApplyLive(o, nil) }
func (h *fakeConformance) MarkReady(o state.ReadyOrder) error { return h.w.core.MarkReady(o, nil) }
func (h *fakeConformance) Archive(o state.ScopeOrder) error   { return h.w.core.Archive(o, nil) }

func (h *fakeConformance) Facts(s spec.Scope) *observe.Facts { return h.w.core.FactsOf(s) }
func (h *fakeConformance) Settle(spec.Scope)                 {}
func (h *fakeConformance) Crash()                            { h.w.kernel.die(); h.w.open() }

func (h *fakeConformance) Turn() {
	facts, _, _ := h.w.core.Facts(0)
	h.w.kernel.tell(h.w.core)
	h.w.kernel.clock += 100 * time.Millisecond
	for _, f := range facts {
		h.w.core.Settle(f.Scope)
	}
	if h.w.core.Entrusted() {
		h.w.core.CheckSecrets()
	}
}

func (h *fakeConformance) Secret(ref, value string) {
	h.w.kernel.secrets[ref] = value
	if value == "" {
		delete(h.w.kernel.secrets, ref)
	}
}

func (h *fakeConformance) Launch(s spec.Scope, b keepertest.Behaviour) spec.Launch {
	h.w.scope = s
	kinds := map[keepertest.Behaviour]string{
		keepertest.Runs: workRuns, keepertest.Ignores: workIgnores, keepertest.Exits: workExits,
		keepertest.Family: workFamily, keepertest.Broken: workBroken, keepertest.Missing: workMissing, keepertest.Talks: workTalks,
		keepertest.Programs: workRuns, keepertest.Asks: workTalks,
	}
	h.w.kind = kinds[b]
	l := h.w.launch()
	if b == keepertest.Asks {
		asks(&l)
	}
	program := func(kind string) spec.LaunchAction {
		return spec.LaunchAction{Exec: &spec.LaunchExec{Workspace: "usr", Executable: "bin/y", Args: []string{kind}}}
	}
	l.Commands = keepertestCommands(map[string]spec.LaunchAction{
		keepertest.Done: program(workDone), keepertest.Fails: program(workExits), keepertest.Lives: program(workIgnores),
		keepertest.Leaves: program(workLeaves), keepertest.Nowhere: program(workMissing),
	})
	if b == keepertest.Programs {
		l.Stop = slices.Concat(ladderOf(&l), l.Stop)
	}
	return l
}

// keepertestCommands are the commands of the suite. That which is limited does what lives does.
func keepertestCommands(actions map[string]spec.LaunchAction) (all []spec.LaunchCommand) {
	actions[keepertest.Limited] = actions[keepertest.Lives]
	for _, name := range slices.Sorted(maps.Keys(actions)) {
		c := spec.LaunchCommand{Name: name, LaunchAction: actions[name], Requires: spec.RequiresAny, TimeoutSeconds: 60}
		if name == keepertest.Limited {
			c.TimeoutSeconds = 1
		}
		all = append(all, c)
	}
	return all
}

// ladderOf is the ladder with which Programs begins.
func ladderOf(l *spec.Launch) (steps []spec.StopStep) {
	for _, name := range []string{keepertest.Nowhere, keepertest.Done, keepertest.Fails} {
		steps = append(steps, spec.StopStep{Exec: l.Command(name).Exec, WaitFor: spec.WaitForDone, WaitSeconds: 30})
	}
	return steps
}

func (h *fakeConformance) Kill(spec.Scope) { h.w.kernel.signal(h.w.main(), "SIGKILL") }

func (h *fakeConformance) Processes(s spec.Scope) []int {
	var pids []int
	for pid, p := range h.w.kernel.processes {
		if p.scope == s && p.status == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}
