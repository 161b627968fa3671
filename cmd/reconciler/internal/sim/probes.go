package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/probe"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// probes are what a profile may say of them. The period is put in.
var probes = []string{
	"",
	"  livenessProbe: {socket: {endpoint: rest}, periodSeconds: %[1]d, failureThreshold: 1}\n",
	"  livenessProbe: {socket: {endpoint: rest}, periodSeconds: %[1]d, failureThreshold: 2}\n",
	"  readinessProbe: {socket: {endpoint: rest}, periodSeconds: %[1]d}\n  startDeadlineSeconds: 3\n",
	"  readinessProbe: {socket: {endpoint: rest}, periodSeconds: %[1]d}\n  livenessProbe: {socket: {endpoint: rest}, periodSeconds: %[1]d, failureThreshold: 2}\n  startDeadlineSeconds: 3\n",
	"  readinessProbe: {http: {endpoint: rest}, periodSeconds: %[1]d}\n  livenessProbe: {http: {endpoint: rest}, periodSeconds: %[1]d, failureThreshold: 2}\n  startDeadlineSeconds: 3\n",
	"  livenessProbe: {http: {endpoint: rest}, periodSeconds: %[1]d, failureThreshold: 1}\n",
	"  readinessProbe: {exec: {args: [ready]}, periodSeconds: %[1]d}\n  livenessProbe: {exec: {args: [alive]}, periodSeconds: %[1]d, timeoutSeconds: 2, failureThreshold: 2}\n  startDeadlineSeconds: 3\n",
}

// The periods of probes: short, and at the end so long that the world comes to rest between two questions.
const (
	shortPeriod = 1
	longPeriod  = 3600
)

// asking is what the model knows of questions to runs.
type asking struct {
	deaf   map[string]bool // runs that do not answer
	closed map[string]bool // runs that do not listen
	mute   bool            // this host cannot ask anybody, nor see who listens

	// What the living reconciler has been told of a run's liveness, by run id; it dies with the reconciler.
	denials map[string]*denials
	// And who listened on a run's endpoints when it was told last.
	heard map[string]observe.Listener
	// Runs of which any reconciler was told that they listen, or that this cannot be seen.
	listened map[string]bool
}

// denials are the failures in a row of one liveness probe of one run.
type denials struct {
	asked *reconcile.CheckOrder // the last question
	inRow int64
	need  int64 // how many count, by that question
}

func newAsking() asking {
	return asking{deaf: map[string]bool{}, closed: map[string]bool{}, denials: map[string]*denials{}, heard: map[string]observe.Listener{}, listened: map[string]bool{}}
}

var (
	errDeaf  = errors.New("it does not answer")
	errNoAsk = probe.Checker{}.Check(context.Background(), spec.LaunchEndpoint{}, &spec.LaunchProbe{Socket: &spec.SocketProbe{}})
)

// hearing lets a run become deaf, or hear again, or lets the host lose and find what it takes to ask.
func (w *world) hearing() {
	switch scopes := w.scopes(); {
	case len(scopes) == 0:
	case w.choose(4) == 0:
		w.asking.mute = !w.asking.mute
		w.tell("the host cannot ask anybody: %v", w.asking.mute)
	case w.choose(3) == 0:
		scope := scopes[w.choose(len(scopes))]
		if r := w.record(scope); r.Run != nil {
			w.asking.closed[r.Run.ID] = !w.asking.closed[r.Run.ID]
			w.tell("the run of %s does not listen: %v", scope, w.asking.closed[r.Run.ID])
		}
	default:
		scope := scopes[w.choose(len(scopes))]
		if r := w.record(scope); r.Run != nil {
			w.asking.deaf[r.Run.ID] = !w.asking.deaf[r.Run.ID]
			w.tell("the run of %s is deaf: %v", scope, w.asking.deaf[r.Run.ID])
		}
	}
}

// oneAnswer lets time go by until the next question may be due, and each that is on its way be answered.
func (w *world) oneAnswer() {
	if w.loop == nil {
		return
	}
	w.kernel.uptime += shortPeriod * time.Second
	w.kernel.wall = w.kernel.wall.Add(shortPeriod * time.Second)
	w.oneTurn()
	for _, f := range slices.Clone(w.flying) {
		if w.loop != nil && (f.order.Check != nil || f.order.Look != nil) {
			w.carryOut(f)
			for !f.done {
				w.oneProbed()
				w.carryOut(f)
			}
			w.answer(f)
		}
	}
}

// askedOf notes a question that the reconciler asks.
func (w *world) askedOf(c *reconcile.CheckOrder) {
	if c.For != "Liveness" {
		return
	}
	d := w.asking.denials[c.RunID]
	if d == nil {
		d = &denials{}
		w.asking.denials[c.RunID] = d
	}
	d.asked, d.need = c, c.Probe.FailureThreshold
	w.checkAsked(c)
}

// checkAsked checks that nobody is asked whether he lives before he was Ready, or while his run ends.
func (w *world) checkAsked(c *reconcile.CheckOrder) {
	for _, f := range w.facts {
		if f.Run == nil || f.Run.ID != c.RunID {
			continue
		}
		if f.Run.ReadyAt.IsZero() {
			w.failf("EC-11", "the run of %s is asked whether it lives before it was Ready", f.Scope)
		}
		if f.Run.Stop != nil {
			w.failf("EC-11", "the run of %s is asked whether it lives while it ends", f.Scope)
		}
	}
}

// ask is who answers at a run's endpoint now: whatever run of the server has it, not always the one that is meant.
func (w *world) ask(scope spec.Scope) error {
	if w.asking.mute {
		return errNoAsk
	}
	if !w.calm && w.choose(4) == 3 {
		return errDeaf // an answer that is lost
	}
	r := w.record(scope)
	if r == nil || r.Run == nil || !w.kernel.executed(r.Run.ID) || w.asking.deaf[r.Run.ID] || w.asking.closed[r.Run.ID] {
		return errDeaf
	}
	return nil
}

var errLook = errors.New("the tables of sockets cannot be read")

// listening is who listens on the endpoints of runs now.
func (w *world) listening(runs []observe.RunName) (found []observe.RunListening, err error) {
	if !w.calm && w.choose(8) == 7 {
		return nil, errLook
	}
	for _, run := range runs {
		f := w.core.FactsOf(run.Scope)
		if f == nil || f.Run == nil || f.Run.ID != run.ID || f.Run.Over() {
			continue
		}
		by := observe.ListenerNobody
		switch {
		case w.asking.mute:
			by = observe.ListenerUnseen
		case w.kernel.executed(run.ID) && !w.asking.closed[run.ID]:
			by = observe.ListenerOwn
		}
		one := observe.RunListening{RunName: run}
		for _, e := range f.Run.Endpoints {
			one.Endpoints = append(one.Endpoints, observe.Listening{Endpoint: e.Name, By: by})
		}
		found = append(found, one)
	}
	return found, nil
}

// toldOf notes what the reconciler is told of who listens.
func (w *world) toldOf(o *reconcile.LookOrder) {
	for _, run := range o.Found {
		for _, l := range run.Endpoints {
			w.asking.heard[run.ID] = l.By
			if l.By == observe.ListenerOwn || l.By == observe.ListenerUnseen {
				w.asking.listened[run.ID] = true
			}
		}
	}
}

// checkReady checks that a run becomes Ready only when its own processes were found to listen, or that could not be seen.
func (w *world) checkReady(o *state.ReadyOrder) {
	if by := w.asking.heard[o.RunID]; by != observe.ListenerOwn && by != observe.ListenerUnseen {
		w.failf("EC-11", "the run of %s is Ready, and who listens on its endpoints is %q", o.Scope, by)
	}
}

// checkFirstReady checks that no run is on record as Ready that nobody has seen to listen.
func (w *world) checkFirstReady(r *state.Record) {
	if run := r.Run; run != nil && !run.ReadyAt.IsZero() && len(run.Launch.Endpoints) > 0 && !w.asking.listened[run.ID] {
		w.failf("EC-11", "the run of %s is Ready, and was never seen to listen", r.Scope)
	}
}

// answeredOf notes an answer that reaches the reconciler.
func (w *world) answeredOf(c *reconcile.CheckOrder, err error) {
	d := w.asking.denials[c.RunID]
	if d == nil || d.asked != c || probe.NotRun(err) {
		return
	}
	d.asked = nil
	if err == nil {
		d.inRow = 0
		return
	}
	d.inRow++
}

// checkAiling checks that a run is ended for its probes alone when they deny it, it, and often enough in a row.
func (w *world) checkAiling(o *state.StopOrder) {
	f := w.facts[o.Scope]
	if f == nil || f.Run == nil || f.Run.ID != o.RunID || f.Run.Stop != nil {
		w.failf("EC-11", "a run of %s is ended, %s, that is not the living one", o.Scope, o.Why)
		return
	}
	switch o.Why {
	case reconcile.WhyLiveness:
		d := w.asking.denials[o.RunID]
		if d == nil || d.inRow < max(d.need, 1) || f.Run.ReadyAt.IsZero() {
			w.failf("EC-11", "the run of %s is ended for its livenessProbe, which denies it %+v", o.Scope, d)
		}
	case reconcile.WhyDeadline:
		life := w.truth[o.RunID]
		lasted := w.kernel.uptime - life.since
		if !f.Run.ReadyAt.IsZero() || !w.clockSet && lasted < time.Duration(f.Run.StartDeadlineSeconds)*time.Second {
			w.failf("EC-11", "the run of %s is ended after %s for its deadline of %d s", o.Scope, lasted, f.Run.StartDeadlineSeconds)
		}
	}
}
