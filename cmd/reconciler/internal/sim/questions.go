package sim

import (
	"slices"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/probe"
)

// question is what a run is being asked through the keeper.
type question struct {
	place keeper.Place
	keeper.Probing
	told func(observe.Probed)
}

// Probe keeps a question until somebody answers or ends it.
func (k *kernel) Probe(p keeper.Place, q keeper.Probing, told func(observe.Probed)) {
	k.w.point("probe")
	k.needAskable(p)
	if slices.ContainsFunc(k.questions, func(x *question) bool { return x.place.RunID == p.RunID && x.For == q.For }) {
		told(observe.NotRun("it is being asked"))
		return
	}
	k.questions = append(k.questions, &question{p, q, told})
	k.w.point("probed")
}

// needAskable checks that only the recorded run is asked, and not while it ends (EC-11).
func (k *kernel) needAskable(p keeper.Place) {
	r := k.w.record(p.Scope)
	switch {
	case r == nil || r.Run == nil || r.Run.ID != p.RunID:
		k.w.failf("I9", "a run of %s is asked that is not the recorded one", p.Scope)
	case r.Run.Stop != nil || r.Run.MainExit != nil:
		k.w.failf("EC-11", "the run of %s is asked while it ends", p.Scope)
	}
}

// EndProbes ends what a run is asked.
func (k *kernel) EndProbes(p keeper.Place) {
	k.w.point("end probes")
	k.questions = slices.DeleteFunc(k.questions, func(q *question) bool {
		ends := q.place.RunID == p.RunID
		if ends {
			q.told(observe.NotRun("it ends"))
		}
		return ends
	})
	k.w.point("ended probes")
}

// oneProbed answers a question, any of them.
func (w *world) oneProbed() {
	if len(w.kernel.questions) == 0 {
		return
	}
	i := w.choose(len(w.kernel.questions))
	q := w.kernel.questions[i]
	w.kernel.questions = slices.Delete(w.kernel.questions, i, i+1)
	q.told(w.probed(q))
}

// probed is what comes of a question now.
func (w *world) probed(q *question) observe.Probed {
	switch err := w.ask(q.place.Scope); {
	case err == nil && w.record(q.place.Scope).Run.ID == q.place.RunID:
		return observe.Probed{Result: observe.ProbePassed}
	case probe.NotRun(err):
		return observe.NotRun("this host cannot")
	}
	return observe.Probed{Result: observe.ProbeFailed, Detail: "it does not answer"}
}

// carryOutProbe gives a question to the keeper, and looks again whether it has answered. Whoever waits may give up.
func (w *world) carryOutProbe(f *flight) {
	check := f.order.Check
	take := func(p observe.Probed, err error) { f.done, f.err = true, check.Take(p, err) }
	switch {
	case f.with != nil && f.with == w.core && w.choose(4) > 0:
		return // it is still under way
	case f.with != nil || w.core == nil:
		take(observe.Probed{}, errGone)
		return
	}
	f.with, f.err = w.core, check.Take(observe.Probed{}, errGone)
	w.mayDie()
	var err error
	alive := w.as("keeper", func() {
		err = w.core.Probe(check.Probing(f.order.Scope), nil, func(p observe.Probed) { take(p, nil) })
	})
	if !f.done && (!alive || err != nil) {
		take(observe.Probed{}, errGone)
	}
	for w.calm && !f.done && len(w.kernel.questions) > 0 {
		w.oneProbed()
	}
}
