package keeper_test

import (
	"path/filepath"
	"testing"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// reloadBy gives a launch a reload.
func reloadBy(l spec.Launch, a spec.LaunchAction, files ...spec.LaunchFile) spec.Launch {
	l.Reload = &spec.LaunchReload{LaunchAction: a, TimeoutSeconds: 30}
	l.Files = files
	return l
}

func (r *rig) reload(id, runID string, l spec.Launch) error {
	return r.client.Reload(r.t.Context(), state.ReloadOrder{RunID: runID, ID: id, Launch: l, Generation: 7, By: "me"})
}

// A reload writes the files, says so on record, and acts once; the run goes on, governed by the new spec.
func TestReload(t *testing.T) {
	r := newRig(t)
	winch := spec.LaunchAction{Signal: &spec.SignalAction{Name: "SIGWINCH", To: spec.ToMain}}
	l := reloadBy(r.launch("town", "run"), winch, file("a.cfg", "old\n"))
	run := r.ready(l).Run
	pid, path := r.pid(l.Scope), filepath.Join(r.layout.Data(), "town", "a.cfg")

	next := reloadBy(l, winch, file("a.cfg", "new\n"))
	if err := r.reload("reload-1", run.ID, next); err != nil {
		t.Fatal(err)
	}
	f := r.await(l.Scope, "reloaded", func(f *observe.Facts) bool { return f.Run.Reload != nil })
	d := f.Deliveries[len(f.Deliveries)-1]
	if d.ID != "reload-1" || d.Result != state.Sent || d.Command != state.ReloadCommand || f.Run.Reload.ID != d.ID || f.Run.Reload.WithinSeconds != 30 || f.Run.Generation != 7 {
		t.Errorf("the reload is %+v, delivered %+v", f.Run.Reload, d)
	}
	if f.Run.FilesHash != next.FilesHash() || len(state.ChangedFiles(f.Run.Files, &next)) > 0 || f.Run.SpecHash != run.SpecHash {
		t.Errorf("the run has %+v", f.Run.Files)
	}
	holds(t, path, "new\n", 0o640)

	// Once.
	if err := r.reload("reload-1", run.ID, reloadBy(l, winch, file("a.cfg", "newest\n"))); err != nil {
		t.Error(err)
	}
	holds(t, path, "new\n", 0o640)
	if err := r.client.MarkReady(t.Context(), state.ReadyOrder{Scope: l.Scope, RunID: run.ID, Reload: "reload-1"}); err != nil {
		t.Error(err)
	}
	r.await(l.Scope, "proven", func(f *observe.Facts) bool { return !f.Run.Reload.ProvenAt.IsZero() })

	// A program may do it; what it comes to is told as that of a command.
	for id, executable := range map[string]string{"reload-2": "bin/true", "reload-3": "bin/false"} {
		exec := spec.LaunchAction{Exec: &spec.LaunchExec{Workspace: "usr", Executable: executable}}
		if err := r.reload(id, run.ID, reloadBy(l, exec, file("a.cfg", id))); err != nil {
			t.Fatal(err)
		}
		want := map[string]state.DeliveryResult{"bin/true": state.Done, "bin/false": state.Failed}[executable]
		r.await(l.Scope, "reloaded by "+executable, func(f *observe.Facts) bool {
			return f.Run.Reload.ID == id && f.Deliveries[len(f.Deliveries)-1].Result == want
		})
		holds(t, path, id, 0o640)
	}
	if r.pid(l.Scope) != pid || r.facts(l.Scope).Run.Alive != observe.Alive {
		t.Error("the run was replaced")
	}
}

// What a reload cannot bring, or not to this run, is refused, and nothing is written.
func TestReloadIsRefused(t *testing.T) {
	r := newRig(t)
	winch := spec.LaunchAction{Signal: &spec.SignalAction{Name: "SIGWINCH", To: spec.ToMain}}
	l := reloadBy(r.launch("town", "run"), winch, file("a.cfg", "old\n"))
	run := r.ready(l).Run
	other := reloadBy(l, winch, file("a.cfg", "new\n"), file("b.cfg", "new\n"))
	none := l
	none.Reload = nil
	broken := reloadBy(l, spec.LaunchAction{Exec: &spec.LaunchExec{Workspace: "usr", Executable: "bin/no-such-program"}}, file("a.cfg", "new\n"))
	for name, c := range map[string]struct {
		id, run string
		l       spec.Launch
		check   keeper.Check
	}{
		"of another spec":      {"reload-1", run.ID, other, keeper.CheckSpecHash},
		"without an action":    {"reload-1", run.ID, none, keeper.CheckCommand},
		"of another run":       {"reload-1", "another", l, keeper.CheckRun},
		"without an id":        {"", run.ID, l, keeper.CheckMessage},
		"by what is not there": {"reload-1", run.ID, broken, keeper.CheckExecutable},
	} {
		err := r.reload(c.id, c.run, c.l)
		if check, ok := keeper.IsRefused(err); !ok || check != c.check {
			t.Errorf("a reload %s: %v, not refused for its %s", name, err, c.check)
		}
	}
	holds(t, filepath.Join(r.layout.Data(), "town", "a.cfg"), "old\n", 0o640)
	if f := r.facts(l.Scope); f.Run.Reload != nil || len(f.Deliveries) > 0 {
		t.Errorf("there was a reload: %+v", f.Run.Reload)
	}
}
