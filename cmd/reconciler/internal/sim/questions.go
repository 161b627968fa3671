package sim

import (
	"slices"
	"strings"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/probe"
	"reconciler.dev/reconciler/spec"
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
	k.needAskable(p.Scope, p.RunID)
	if slices.ContainsFunc(k.questions, func(x *question) bool { return x.place.RunID == p.RunID && x.For == q.For }) {
		told(observe.NotRun("it is being asked"))
		return
	}
	k.questions = append(k.questions, &question{p, q, told})
	k.w.point("probed")
}

// needAskable checks that only the recorded run is asked, and not while it ends (EC-11).
func (k *kernel) needAskable(scope spec.Scope, run string) {
	r := k.w.record(scope)
	switch {
	case r == nil || r.Run == nil || r.Run.ID != run:
		k.w.failf("I9", "a run of %s is asked that is not the recorded one", scope)
	case r.Run.Stop != nil || r.Run.MainExit != nil:
		k.w.failf("EC-11", "the run of %s is asked while it ends", scope)
	}
}

// ownerOf is the run beside which the program of a probe runs.
func (k *kernel) ownerOf(p keeper.Place) string {
	return strings.TrimSuffix(p.RunID, "-"+strings.ToLower(string(p.Probe)))
}

// holdProbe checks that the program of a probe is one of its kind, in a cgroup that nobody has killed.
func (k *kernel) holdProbe(r keeper.HoldRequest) (keeper.Held, error) {
	owner := k.ownerOf(r.Place)
	k.needAskable(r.Place.Scope, owner)
	if n := k.populated(r.Place.RunID); n > 0 {
		k.w.failf("EC-7", "a probe of %s runs beside %d processes of the one before it", r.Place.Scope, n)
	}
	for name, killed := range k.cgroups {
		if killed && r.Place.Cgroup != "" && below(r.Place.Cgroup, name) {
			k.w.failf("I2", "the program of a probe was forked into a cgroup that had been killed")
		}
	}
	p := k.spawn(proc{scope: r.Place.Scope, run: r.Place.RunID, owner: owner, cgroup: r.Place.Cgroup, program: true, probe: r.Place.Probe, child: true, staged: true})
	k.w.point("held")
	return &process{k: k, p: p}, nil
}

// releaseProbe executes the program of a probe: it says at once what anybody would be told who asks the run now, or hangs, and may leave
// something behind.
func (k *kernel) releaseProbe(p *proc) {
	k.needAskable(p.scope, p.owner)
	p.released, p.staged, p.onTerm = true, false, "Ignore"
	k.w.tell("    a probe of %s runs for %s", p.scope, p.probe)
	hangs := !k.w.calm && k.w.choose(4) == 3
	if !k.w.calm && k.w.choose(4) == 3 {
		k.spawn(proc{scope: p.scope, run: p.run, owner: p.owner, aside: true, cgroup: p.cgroup, onTerm: "Ignore", released: true})
	}
	if !hangs {
		k.die(p, map[bool]uint32{true: 0, false: 1 << 8}[k.w.ask(p.scope) == nil])
	}
	k.w.point("released")
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
	for w.calm && len(w.kernel.questions) > 0 { // also what nobody waits for any more is answered in the end
		w.oneProbed()
	}
	switch {
	case f.done:
		return
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
