package keeper_test

import (
	"slices"
	"testing"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// wantChanged checks the changed secrets of the live run, after a look at them.
func (w *world) wantChanged(what string, refs ...string) {
	w.t.Helper()
	w.core.CheckSecrets()
	var got []string
	if c := w.facts().Run.Changed; c != nil {
		got = c.Refs
		if c.At.IsZero() {
			w.t.Errorf("%s: since when?", what)
		}
	}
	if !slices.Equal(got, refs) {
		w.t.Errorf("%s: %q have changed, not %q", what, got, refs)
	}
}

// API.md rule 5: a changed secret is told in the facts of the run that was executed with the old one, for as long as a new run
// would get another, whichever keeper looks.
func TestChangedSecretsAreTold(t *testing.T) {
	w := newWorld(t, workRuns)
	w.open()
	l := w.launch()
	l.Env = []spec.LaunchEnv{{Name: "A", Value: spec.MarkSecret("town/a")}, {Name: "B", Value: "x" + spec.MarkSecret("town/b") + spec.MarkSecret("town/a")}}
	start := func() error { return w.core.Start(state.StartOrder{Launch: l, UID: "u", After: w.lastNumber()}, nil) }

	refusedFor(t, start(), keeper.CheckSecret)
	if w.facts() != nil || len(w.store.records) > 0 || w.core.Entrusted() {
		t.Error("a refused start has done something")
	}
	w.kernel.secrets["town/a"], w.kernel.secrets["town/b"] = "canary-1", "canary-2"
	if err := start(); err != nil {
		t.Fatal(err)
	}
	if env := w.store.record(w.scope).Run.Launch.Env; !slices.Equal(env, l.Env) || !w.core.Entrusted() {
		t.Errorf("the environment on record is %+v", env)
	}
	rev := w.core.Rev()
	w.wantChanged("nothing is done")
	if w.core.Rev() != rev {
		t.Error("a look that found nothing is news")
	}
	w.kernel.secrets["town/b"] = "canary-3"
	w.wantChanged("one is replaced", "town/b")
	rev, since := w.core.Rev(), w.facts().Run.Changed.At
	w.kernel.secrets["town/b"] = "canary-4"
	w.wantChanged("and again", "town/b")
	if w.core.Rev() != rev || w.facts().Run.Changed.At != since {
		t.Error("it is told once more")
	}
	w.kernel.secrets["town/a"] = "canary-5"
	w.wantChanged("the other too", "town/a", "town/b")
	w.open() // another keeper
	w.wantChanged("another keeper looks", "town/a", "town/b")
	delete(w.kernel.secrets, "town/b")
	w.wantChanged("no new run could be started") // what runs is left alone
	w.kernel.secrets["town/a"], w.kernel.secrets["town/b"] = "canary-1", "canary-2"
	w.wantChanged("all is as it was")
	w.kernel.secrets["town/a"] = "canary-6"
	w.wantChanged("one is replaced at last", "town/a")

	w.kernel.signal(w.main(), "SIGKILL")
	w.core.Settle(w.scope)
	if w.core.Entrusted() {
		t.Error("a run that is over has secrets")
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	w.wantChanged("the next run has the new one")
}

// A stop for a change is refused when what shall run next could not be started: what runs is not ended for what cannot run. A stop
// that somebody asks for does not ask.
func TestStopForWhatCannotRun(t *testing.T) {
	w := newWorld(t, workRuns)
	w.open()
	if err := w.core.Start(state.StartOrder{Launch: w.launch(), UID: "u"}, nil); err != nil {
		t.Fatal(err)
	}
	o := state.StopOrder{Scope: w.scope, RunID: w.facts().Run.ID, Reason: spec.ReasonStopRequested, Why: "SpecChanged"}
	for want, spoil := range map[keeper.Check]func(*spec.Launch){
		keeper.CheckSecret:     func(l *spec.Launch) { l.Env = []spec.LaunchEnv{{Name: "A", Value: spec.MarkSecret("town/none")}} },
		keeper.CheckExecutable: func(l *spec.Launch) { l.Args = []string{workMissing} },
		keeper.CheckWorkspace:  func(l *spec.Launch) { l.Workspace = "closed" },
		keeper.CheckLaunch:     func(l *spec.Launch) { l.Executable = "../sh" },
	} {
		next := w.launch()
		spoil(&next)
		o.Next = &next
		refusedFor(t, w.core.Stop(o, nil), want)
		if w.facts().Run.Stop != nil || w.kernel.images > 0 {
			t.Errorf("%s: a refused stop has done something: %d images are held", want, w.kernel.images)
		}
	}
	next := w.launch()
	next.Args = append(next.Args, "new")
	o.Next = &next
	if err := w.core.Stop(o, nil); err != nil || w.facts().Run.Stop == nil || w.kernel.images > 0 {
		t.Errorf("a stop for what can run: %v, %+v, %d images", err, w.facts().Run.Stop, w.kernel.images)
	}
	next.Args = []string{workMissing}
	if err := w.core.Stop(o, nil); err != nil {
		t.Errorf("a stop that is on record: %v", err)
	}
}

func (w *world) lastNumber() int64 {
	if f := w.facts(); f != nil && f.Run != nil {
		return f.Run.Number
	}
	return 0
}
