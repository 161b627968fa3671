package keeper_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// checkWith gives a launch a check by a program of the host's.
func checkWith(l spec.Launch, executable string, args ...string) spec.Launch {
	l.Check = &spec.LaunchCheck{Exec: spec.LaunchExec{Workspace: "usr", Executable: executable, Args: args}, TimeoutSeconds: 600}
	return l
}

// check runs the check of a launch, beside a run unless that is "".
func (r *rig) check(id, runID string, l spec.Launch) (state.Receipt, error) {
	return r.client.Do(r.t.Context(), state.DoOrder{Scope: l.Scope, RunID: runID, ID: id, Check: true, Launch: &l})
}

// shadows are the names of shadows in a server's directory.
func (r *rig) shadows(server string) (names []string) {
	r.t.Helper()
	entries, err := os.ReadDir(filepath.Join(r.layout.Data(), server))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".reconciler-") {
			names = append(names, e.Name())
		}
	}
	return names
}

func (r *rig) noShadows(server string) {
	r.t.Helper()
	eventually(r.t, "its shadows are gone", func() bool { return len(r.shadows(server)) == 0 })
}

// A check finds the new files in their places and all else as it is, and changes nothing of either; what it writes shows no secret
// and no path of the host.
func TestCheckInAShadow(t *testing.T) {
	r := newRig(t)
	r.writeSecret("town/rcon", canary, 0o600)
	l := r.launch("town", "run")
	l.Files = []spec.LaunchFile{file("conf/d/a.cfg", "old a\n"), file("b.cfg", "old b\n"), {Path: "made.cfg", Content: "ours\n", Write: spec.WriteIfMissing, OnChange: spec.ChangeApply}}
	run := r.ready(l).Run
	dir := filepath.Join(r.layout.Data(), "town")
	for path, content := range map[string]string{"conf/d/kept": "kept d\n", "conf/kept": "kept conf\n", "world/kept": "kept world\n", "made.cfg": "theirs\n", ".reconciler-check-of-before-a-reset/x": ""} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	next := l
	next.Files = []spec.LaunchFile{file("conf/d/a.cfg", "new a "+spec.MarkSecret("town/rcon")+"\n"), file("b.cfg", "new b\n"), l.Files[2], file("new/c.cfg", "new c\n"),
		{Path: "elsewhere.cfg", Workspace: "data", Content: "not tried\n", Write: spec.WriteEachStart, OnChange: spec.ChangeApply}}
	for i, c := range []struct {
		executable string
		args       []string
		result     state.DeliveryResult
		says       string // with it as a part
	}{
		{"bin/cat", []string{"conf/d/a.cfg", "b.cfg", "new/c.cfg", "conf/d/kept", "conf/kept", "world/kept", "made.cfg"}, state.Done,
			"new a [secret]\nnew b\nnew c\nkept d\nkept conf\nkept world\ntheirs\n"},
		{"bin/cat", []string{"none.cfg", dir + "/none.cfg"}, state.Failed, "bin/cat: none.cfg: No such file or directory\nbin/cat: none.cfg: No such file or directory\n"},
		{"bin/pwd", nil, state.Done, ".\n"},
		{"bin/env", nil, state.Done, "HOME=.\n"},
		{"bin/touch", []string{"b.cfg", "left"}, state.Done, ""},
	} {
		got, err := r.check("check-"+string(rune('a'+i)), run.ID, checkWith(next, c.executable, c.args...))
		if err != nil || got.Result != c.result || !strings.Contains(got.Reply, c.says) || strings.Contains(got.Reply, r.layout.State) {
			t.Errorf("%s %q comes to %s %s: %q (%v), not %s: %q", c.executable, c.args, got.Result, got.Detail, got.Reply, err, c.result, c.says)
		}
		r.noShadows("town")
	}
	holds(t, filepath.Join(dir, "conf/d/a.cfg"), "old a\n", 0o640)
	holds(t, filepath.Join(dir, "b.cfg"), "old b\n", 0o640)
	for _, path := range []string{"new", "left", "../elsewhere.cfg"} {
		if _, err := os.Lstat(filepath.Join(dir, path)); err == nil {
			t.Errorf("%s was left", path)
		}
	}
	if f := r.facts(l.Scope).Run; f.ID != run.ID || f.Alive != observe.Alive || f.SpecHash != run.SpecHash || f.FilesHash != run.FilesHash {
		t.Errorf("the run was changed: %+v", f)
	}
}

// A check needs no run, makes none, and comes before what needs the server's directory.
func TestCheckAtRest(t *testing.T) {
	r := newRig(t)
	l := r.launch("town", "run")
	l.Files = []spec.LaunchFile{file("a.cfg", "a\n")}
	if got, err := r.check("check-1", "", checkWith(l, "bin/cat", "a.cfg")); err != nil || got.Result != state.Done || got.Reply != "a\n" {
		t.Errorf("it comes to %+v (%v)", got, err)
	}
	r.noShadows("town")
	if _, err := os.Lstat(filepath.Join(r.layout.Data(), "town", "a.cfg")); err == nil {
		t.Error("the file is where nothing was started")
	}
	if f := r.facts(l.Scope); f.Run != nil {
		t.Errorf("there is a run: %+v", f.Run)
	}
	for name, c := range map[string]struct {
		o     state.DoOrder
		check keeper.Check
	}{
		"without a spec":          {state.DoOrder{Scope: l.Scope}, keeper.CheckMessage},
		"of another scope":        {state.DoOrder{Scope: scopeOf("hall"), Launch: &l}, keeper.CheckMessage},
		"that is not declared":    {state.DoOrder{Scope: l.Scope, Launch: &l}, keeper.CheckCommand},
		"beside a run of another": {state.DoOrder{Scope: l.Scope, RunID: "another", Launch: ptr(checkWith(l, "bin/true"))}, keeper.CheckRun},
		"by what is not there":    {state.DoOrder{Scope: l.Scope, Launch: ptr(checkWith(l, "bin/no-such-program"))}, keeper.CheckExecutable},
	} {
		c.o.ID, c.o.Check = "check-"+string(c.check), true
		_, err := r.client.Do(t.Context(), c.o)
		if check, ok := keeper.IsRefused(err); !ok || check != c.check {
			t.Errorf("a check %s: %v, not refused for its %s", name, err, c.check)
		}
	}
	r.ready(l)
	if _, err := r.check("check-2", "", checkWith(l, "bin/true")); err == nil {
		t.Error("a check for a scope at rest was run beside a run")
	}
}

func ptr[T any](v T) *T { return &v }

// A shadow is removed with its program, whoever has made it.
func TestShadowAcrossKeepers(t *testing.T) {
	r := newRig(t)
	l := r.launch("town", "run")
	l.Files = []spec.LaunchFile{file("a.cfg", "a\n")}
	run := r.ready(l).Run
	go func() { _, _ = r.check("check-1", run.ID, checkWith(l, "bin/sleep", "600")) }() // its answer goes with its keeper
	r.await(l.Scope, "being checked", func(f *observe.Facts) bool { return len(f.Programs()) > 0 && len(r.shadows("town")) > 0 })
	r.killKeeper()
	r.startKeeper()
	eventually(t, "the client has found the new keeper", func() bool { return r.client.Problem() == nil })
	if len(r.shadows("town")) != 1 {
		t.Errorf("the program lost its directory: %v", r.shadows("town"))
	}
	r.stop(l.Scope)
	r.awaitOver(l.Scope)
	r.noShadows("town")
}
