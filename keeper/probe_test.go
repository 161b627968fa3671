package keeper_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// get is a probe that makes a request.
func get(path string) *spec.LaunchProbe {
	return &spec.LaunchProbe{
		HTTP:          &spec.HTTPAction{Endpoint: "door", Scheme: spec.SchemeHTTP, Method: "GET", Path: path},
		PeriodSeconds: 10, TimeoutSeconds: 30, FailureThreshold: 3, SuccessThreshold: 1,
	}
}

// private asks what only admin is answered.
func private(code int) *spec.LaunchProbe {
	p := get(fmt.Sprint("/private?code=", code))
	p.HTTP.BasicAuth = &spec.HTTPBasicAuth{Username: "admin", Password: spec.MarkSecret("town/password")}
	return p
}

// probed is a running server with a livenessProbe that makes a request.
func probed(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, workTalks)
	w.drive(true)
	l := w.launch()
	asks(&l)
	l.Liveness = get("/status")
	l.Liveness.HTTP.Endpoint = "rest"
	if err := w.core.ApplyLive(state.LiveOrder{RunID: w.facts().Run.ID, Launch: l, Generation: 2}, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) ask(why spec.Purpose, told func(observe.Probed)) error {
	return w.core.Probe(state.ProbeOrder{Scope: w.scope, RunID: w.facts().Run.ID, For: why, At: "::1"}, nil, told)
}

// The kernel is asked what the record says, and answers whoever asked.
func TestProbe(t *testing.T) {
	w := probed(t)
	var got []observe.Probed
	if err := w.ask(spec.ForLiveness, func(p observe.Probed) { got = append(got, p) }); err != nil {
		t.Fatal(err)
	}
	q := w.kernel.asked[w.facts().Run.ID+"/Liveness"]
	if q == nil || q.HTTP.Path != "/status" || q.At != "::1" || q.Within != 30*time.Second || q.Launch.Endpoint("rest") == nil || q.Field != "" || q.Host == nil {
		t.Fatalf("the kernel is asked %+v", q)
	}
	q.told(observe.Probed{Result: observe.ProbePassed})
	if len(got) != 1 || got[0].Result != observe.ProbePassed {
		t.Errorf("it is told %+v", got)
	}
}

// EN-3, I9: nothing is asked of another run, of none, of one that ends, nor for what is not declared.
func TestProbeRefusals(t *testing.T) {
	never := func(observe.Probed) { t.Error("an answer to what was refused") }
	w := probed(t)
	refused := func(what string, check keeper.Check, err error) {
		t.Helper()
		if got, ok := keeper.IsRefused(err); !ok || got != check {
			t.Errorf("%s: %v, not a refusal for %s", what, err, check)
		}
	}
	refused("another run", keeper.CheckRun, w.core.Probe(state.ProbeOrder{Scope: w.scope, RunID: "another", For: spec.ForLiveness}, nil, never))
	refused("another scope", keeper.CheckRun, w.core.Probe(state.ProbeOrder{Scope: scopeOf("nobody"), For: spec.ForLiveness}, nil, never))
	refused("readiness by the log", keeper.CheckCommand, w.ask(spec.ForReadiness, never))
	refused("players that nobody counts", keeper.CheckCommand, w.ask(spec.ForPlayers, never))
	refused("nothing", keeper.CheckCommand, w.ask("", never))
	if err := w.stop(spec.ReasonStopRequested); err != nil {
		t.Fatal(err)
	}
	refused("a run that ends", keeper.CheckRun, w.ask(spec.ForLiveness, never))
	if len(w.kernel.asked) > 0 {
		t.Errorf("the kernel is asked %v", w.kernel.asked)
	}
}

// A stop, and the end of the main process, end what is being asked: it counts neither way.
func TestProbesEndWithTheirRun(t *testing.T) {
	for what, end := range map[string]func(*world) error{
		"a stop":  func(w *world) error { return w.stop(spec.ReasonStopRequested) },
		"its end": func(w *world) error { w.kernel.signal(w.main(), "SIGKILL"); w.settle(); return nil },
		"its end with a": func(w *world) error {
			w.kernel.fork(w.placeOf(), "child")
			w.kernel.signal(w.main(), "SIGKILL")
			w.settle()
			return nil
		},
	} {
		w := probed(t)
		var got []observe.Probed
		if err := w.ask(spec.ForLiveness, func(p observe.Probed) { got = append(got, p) }); err != nil {
			t.Fatal(err)
		}
		if err := end(w); err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0].Result != observe.ProbeNotRun {
			t.Errorf("%s: it is told %+v", what, got)
		}
	}
}

func (w *world) placeOf() keeper.Place {
	m := w.main()
	return keeper.Place{Scope: w.scope, RunID: m.run, Cgroup: m.cgroup}
}

// EC-11: a run that shall say that it lives is silent once it has not for a whole period, in which this keeper has listened. What an
// earlier run has said is none of it.
func TestWatchdog(t *testing.T) {
	w := newWorld(t, workTalks)
	w.drive(true)
	l := w.launch()
	l.Liveness = &spec.LaunchProbe{Notify: true, PeriodSeconds: 10, TimeoutSeconds: 1, FailureThreshold: 3, SuccessThreshold: 1}
	if err := w.core.ApplyLive(state.LiveOrder{RunID: w.facts().Run.ID, Launch: l, Generation: 2}, nil); err != nil {
		t.Fatal(err)
	}
	want := func(when string, result observe.ProbeResult, detail string) {
		t.Helper()
		var got []observe.Probed
		if err := w.ask(spec.ForLiveness, func(p observe.Probed) { got = append(got, p) }); err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0].Result != result || detail != "" && got[0].Detail != detail {
			t.Errorf("%s: it is told %+v, want %s", when, got, result)
		}
	}
	number := w.facts().Run.Number
	want("before anything was said", observe.ProbeNotRun, "")
	w.kernel.clock += 9 * time.Second
	want("within the first period", observe.ProbeNotRun, "")
	w.core.HandleWatchdog(w.scope, number)
	want("once it was said", observe.ProbePassed, "")
	w.kernel.clock += 9 * time.Second
	want("within a period", observe.ProbePassed, "")
	w.kernel.clock += 2 * time.Second
	want("after a period", observe.ProbeFailed, "it has not said WATCHDOG=1 for 10 s")
	w.core.HandleWatchdog(w.scope, number-1)
	want("by another run", observe.ProbeFailed, "")
	w.core.HandleWatchdog(w.scope, number)
	want("said again", observe.ProbePassed, "")

	w.kernel.die()
	w.open()
	want("to the next keeper, nothing yet", observe.ProbeNotRun, "")
	w.kernel.clock += 11 * time.Second
	want("to the next keeper, nothing for a period", observe.ProbeFailed, "")
}

// asked is what comes of a question to a run.
func (r *rig) asked(l spec.Launch, run *observe.RunFacts, why spec.Purpose) observe.Probed {
	r.t.Helper()
	p, err := r.client.Probe(r.t.Context(), state.ProbeOrder{Scope: l.Scope, RunID: run.ID, For: why})
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// probing makes these the probes of a run.
func (r *rig) probing(l spec.Launch, run *observe.RunFacts, readiness, liveness *spec.LaunchProbe, players *spec.LaunchPlayers) spec.Launch {
	r.t.Helper()
	if readiness != nil {
		l.Readiness = readiness
	}
	l.Liveness, l.Players = liveness, players
	if err := r.client.ApplyLive(r.t.Context(), state.LiveOrder{RunID: run.ID, Launch: l, Generation: 2}); err != nil {
		r.t.Fatal(err)
	}
	return l
}

// EC-11: a request that is answered with 200 to 399 passes, a redirect is not followed, and what is asked with a secret tells it to
// nobody else.
func TestHTTPProbe(t *testing.T) {
	r := newRig(t)
	l := r.remote("town", "rest")
	run := r.ready(l).Run
	players := func(field string) *spec.LaunchPlayers {
		return &spec.LaunchPlayers{HTTP: get("/status").HTTP, Field: field, PeriodSeconds: 15}
	}
	var told []string
	for _, c := range []struct {
		what    string
		probe   *spec.LaunchProbe
		players *spec.LaunchPlayers
		want    observe.Probed
	}{
		{what: "200", probe: get("/status"), want: observe.Probed{Result: observe.ProbePassed}},
		{what: "302", probe: get("/status?code=302"), want: observe.Probed{Result: observe.ProbePassed}},
		{what: "400", probe: get("/status?code=400"), want: observe.Probed{Result: observe.ProbeFailed, Detail: "endpoint door: the server answers with status 400; 200 to 399 is success"}},
		{what: "a secret", probe: private(200), want: observe.Probed{Result: observe.ProbePassed}},
		{what: "a secret and 503", probe: private(503), want: observe.Probed{Result: observe.ProbeFailed, Detail: "endpoint door: the server answers with status 503; 200 to 399 is success"}},
		{what: "players", players: players("server.players"), want: observe.Probed{Result: observe.ProbePassed, Count: 7}},
		{what: "no number", players: players("server.name"), want: observe.Probed{Result: observe.ProbeFailed, Detail: "endpoint door: field server.name of the answer is no number"}},
	} {
		l = r.probing(l, run, nil, c.probe, c.players)
		why := spec.ForLiveness
		if c.players != nil {
			why = spec.ForPlayers
		}
		got := r.asked(l, run, why)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
		told = append(told, got.Detail)
	}
	r.writeSecret("town/password", canary, 0o644) // for everybody to read
	l = r.probing(l, run, nil, private(200), nil)
	if got := r.asked(l, run, spec.ForLiveness); got.Result != observe.ProbeNotRun || !strings.Contains(got.Detail, "town/password") {
		t.Errorf("a secret that is none: %+v", got)
	}
	r.noCanary(append(told, r.log(l.Scope))...)
}

// A question that hangs is one of its kind and holds nobody up, neither the run's other questions nor its stop.
func TestHungHTTPProbe(t *testing.T) {
	r := newRig(t)
	l := r.remote("town", "rest")
	run := r.ready(l).Run
	hangs := get("/hang")
	hangs.TimeoutSeconds = 300
	l = r.probing(l, run, get("/status"), hangs, nil)
	hung := make(chan observe.Probed, 1)
	go func() {
		p, err := r.client.Probe(t.Context(), state.ProbeOrder{Scope: l.Scope, RunID: run.ID, For: spec.ForLiveness})
		if err != nil {
			t.Error(err)
		}
		hung <- p
	}()
	r.awaitLog(l.Scope, "rest hangs")
	if got := r.asked(l, run, spec.ForLiveness); got.Result != observe.ProbeNotRun {
		t.Errorf("the same, asked meanwhile: %+v", got)
	}
	if got := r.asked(l, run, spec.ForReadiness); got.Result != observe.ProbePassed {
		t.Errorf("another, asked meanwhile: %+v", got)
	}
	r.stop(l.Scope)
	if got := <-hung; got.Result != observe.ProbeNotRun {
		t.Errorf("once it is stopped: %+v", got)
	}
}

// What takes longer than it may has failed. Nobody on the port, and a stranger there, are failures as well.
func TestHTTPProbeFailures(t *testing.T) {
	r := newRig(t)
	l := r.remote("town", "rest")
	run := r.ready(l).Run
	hangs := get("/hang")
	hangs.TimeoutSeconds = 1
	l = r.probing(l, run, nil, hangs, nil)
	if got := r.asked(l, run, spec.ForLiveness); got.Result != observe.ProbeFailed {
		t.Errorf("what hangs: %+v", got)
	}

	l = r.remote("lost", "rest")
	l.Args = []string{"faultd", "run"} // it has lost its port, or never opened it
	l.Readiness.Log = []string{"ready"}
	l.Liveness = get("/status")
	run = r.ready(l).Run
	if got := r.asked(l, run, spec.ForLiveness); got.Result != observe.ProbeFailed {
		t.Errorf("nobody: %+v", got)
	}
	read := eavesdrop(t, spec.ProtocolTCP, l.Endpoints[0].Port)
	if got := r.asked(l, run, spec.ForLiveness); got.Result != observe.ProbeFailed || !strings.Contains(got.Detail, "another process") {
		t.Errorf("a stranger: %+v", got)
	}
	if b := read(); b != "" {
		t.Errorf("the stranger was sent %q", b)
	}
}

// A reconciler that dies leaves a question behind: the next one's is not carried out beside it, which counts neither way, and the
// keeper's own death is none of the server's failures.
func TestProbesAcrossProcesses(t *testing.T) {
	r := newRig(t)
	l := r.remote("town", "rest")
	run := r.ready(l).Run
	hangs := get("/hang")
	hangs.TimeoutSeconds = 300
	l = r.probing(l, run, nil, hangs, nil)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := r.client.Probe(ctx, state.ProbeOrder{Scope: l.Scope, RunID: run.ID, For: spec.ForLiveness})
		left <- err
	}()
	r.awaitLog(l.Scope, "rest hangs")
	cancel()
	if err := <-left; err == nil {
		t.Error("who waits no more was answered")
	}
	r.connect()
	if got := r.asked(l, run, spec.ForLiveness); got.Result != observe.ProbeNotRun {
		t.Errorf("beside it: %+v", got)
	}
	r.nextKeeper()
	r.awaitLog(l.Scope, "rest was left")
	l = r.probing(l, run, nil, get("/status"), nil)
	if got := r.asked(l, run, spec.ForLiveness); got.Result != observe.ProbePassed {
		t.Errorf("with the next keeper: %+v", got)
	}
}
