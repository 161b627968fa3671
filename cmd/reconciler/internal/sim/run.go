package sim

import (
	"slices"
	"strings"
	"time"

	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Run lives through one stream of choices, then stops the faults and expects that everything comes to what is wished. It
// returns how many steps it took, and the invariant that broke, if one did.
func Run(stream []byte) (steps int, failure *Failure) {
	w := newWorld(stream)
	w.live()
	if w.failure != nil {
		w.failure.Story, w.failure.Stream = w.story, slices.Clone(stream)
	}
	return w.steps, w.failure
}

// live is the whole run, up to the first broken invariant.
func (w *world) live() {
	defer func() {
		if r := recover(); r != nil && r != any(broken{}) {
			panic(r)
		}
	}()
	for !w.spent() {
		w.step()
		w.checkAll()
	}
	w.converge()
}

// converge stops the faults and lets everything run its course.
func (w *world) converge() {
	w.calm = true
	w.tell("the faults stop")
	w.disk.fail, w.kernel.execFails, w.kernel.refuses = 0, false, false
	w.kernel.vault.missing = false
	w.asking.mute = false
	clear(w.asking.deaf)
	clear(w.asking.closed)
	for name, p := range w.wish.profiles {
		p.slow = true
		w.wish.profiles[name] = p
	}
	w.wish.unschedule()
	for name, v := range w.wish.servers {
		if v.broken && v.good == nil {
			delete(w.wish.servers, name)
		}
	}
	w.wish.published = nil // it is read once more
	w.settle()
	w.checkConverged()
	w.checkJobsEnded()

	// Our restart is a plan with zero steps (I8).
	w.tell("both are killed and start again")
	w.kill("reconciler")
	w.kill("keeper")
	w.startKeeper()
	w.startReconciler()
	w.idle = true
	w.settle()
	w.checkConverged()
}

// restful is how long nothing but looks and questions may be ordered until nothing else is to come: longer than any delay of ours.
const restful = 10 * time.Minute

// settle does everything that is due until nothing is for a while.
func (w *world) settle() {
	quiet, since := 0, w.kernel.uptime
	for round := 0; quiet < 3 && w.kernel.uptime-since < restful; round++ {
		if round > 3000 {
			w.failf("DC-1", "it does not come to rest")
		}
		w.steps++
		if w.core == nil {
			w.startKeeper()
		}
		if w.loop == nil {
			w.startReconciler()
		}
		if w.wish.published == nil {
			w.wish.publish(true, nil)
		}
		w.events()
		w.hear()
		w.turn()
		busy := slices.ContainsFunc(w.flying, func(f *flight) bool { return f.order.Check == nil && f.order.Look == nil })
		answered := len(w.flying) > 0
		for len(w.flying) > 0 {
			f := w.flying[0]
			w.carryOut(f)
			f.done = true // whoever has not heard by now waits no more
			w.answer(f)
		}
		w.checkAll()
		if busy {
			quiet, since = 0, w.kernel.uptime
			continue
		}
		if answered {
			continue // what it was told may lead on at once
		}
		quiet++
		d := 500 * time.Millisecond
		if left := w.wakeAt - w.kernel.uptime; left > 0 && left < restful {
			d, quiet = left, 0
		}
		if w.programsRun() {
			quiet, since = 0, w.kernel.uptime
		}
		w.kernel.uptime += d
		w.kernel.wall = w.kernel.wall.Add(d)
	}
}

// events delivers what the kernel has to tell, and lets the workloads get ready.
func (w *world) events() {
	for len(w.kernel.news) > 0 {
		w.oneNews()
	}
	w.endPrograms()
	for _, scope := range w.scopes() {
		r := w.record(scope)
		if programsOpen(r) {
			w.as("keeper", func() { w.core.HandleExit(scope) })
		}
		if r.Run == nil || r.Run.Phase == state.Exited {
			continue
		}
		if l := w.kernel.logs[r.Run.ID]; l != nil && l.printed.IsZero() && w.kernel.executed(r.Run.ID) {
			l.printed = w.kernel.wall
		}
		w.as("keeper", func() {
			w.core.HandleExit(scope)
			w.core.HandleTree(scope)
			w.logSeen(scope)
		})
	}
	w.as("keeper", w.core.Compare)
	w.as("keeper", w.core.CheckSecrets)
}

// checkConverged checks that what runs is what is wished (DC-1).
func (w *world) checkConverged() {
	for _, name := range serverNames {
		key := spec.Key{Namespace: spec.DefaultNamespace, Name: name}
		want, there := w.wish.of(name)
		running := there && !want.stopped
		v := w.loop.Snapshot().Server(key)
		if there && v == nil {
			w.failf("DC-1", "server %s is wished and not in the snapshot", name)
		}
		if v != nil && v.Status.Hold != nil && there {
			running = v.Status.Hold.State == spec.WishRunning
		}
		mayRest, waits := running && w.mayRest(v, want), running && (w.waitsForPort(v, want) || w.waitsForOther(v, name, want))
		var lives []*proc
		for _, p := range w.kernel.procs {
			if p.scope.ServerKey() == key && p.released && !p.dead {
				lives = append(lives, p)
			}
		}
		switch {
		case !running && len(lives) > 0:
			w.failf("DC-1", "server %s shall not run and does", name)
		case running && len(lives) == 0 && !mayRest && !waits:
			w.failf("DC-1", "server %s shall run and does not: %s", name, v.Status.State)
		case running && len(lives) > 0:
			p := lives[0] // all are of one run
			if got := w.truth[p.run].spec; !waits && (p.scope.Profile != want.profile || got != w.wishedSpec(want)) {
				w.failf("DC-1", "server %s runs as %s with %q: wished is %s with %q", name, p.scope.Profile, got, want.profile, w.wishedSpec(want))
			}
			if !waits {
				w.checkSecret(p)
				w.checkPort(p, want)
			}
			if v.Status.State != spec.StateRunning {
				w.failf("DC-1", "server %s runs and is shown as %s", name, v.Status.State)
			}
		}
		if !there && w.recorded(name) {
			w.failf("EN-5", "server %s was removed and its record is not archived", name)
		}
	}
}

// waitsForPort reports whether a server may rightly be as it is, as another has the port that it shall have: a living run, or a server
// that was declared before and waits for a third.
func (w *world) waitsForPort(v *reconcile.ServerView, want serverText) bool {
	says := conditionIs(v, spec.ConditionStalled, "True", "PortConflict")
	for _, p := range w.kernel.procs {
		if p.dead || !p.released || p.run == "" || p.scope.ServerKey() == v.Key {
			continue
		}
		r := w.record(p.scope)
		if r == nil || r.Run == nil || r.Run.ID != p.run || r.Run.Launch.Endpoints[0].Port != firstPort+want.port {
			continue
		}
		if !says && !w.mayRest(v, want) {
			w.failf("EC-11", "server %s waits for the port of %s and does not say so", v.Key, p.scope)
		}
		return says
	}
	return says && slices.ContainsFunc(serverNames, func(name string) bool {
		other, there := w.wish.of(name)
		o := w.loop.Snapshot().Server(spec.Key{Namespace: spec.DefaultNamespace, Name: name})
		return there && o != nil && o.Key != v.Key && other.port == want.port && w.waitsForOther(o, name, other)
	})
}

func conditionIs(v *reconcile.ServerView, kind, status, reason string) bool {
	return slices.ContainsFunc(v.Status.Conditions, func(c spec.Condition) bool {
		return c.Type == kind && c.Status == status && strings.HasPrefix(c.Reason, reason)
	})
}

// waitsForOther reports whether a server may rightly be as it is, as another that it depends on is not Ready, or as it
// would wait for itself.
func (w *world) waitsForOther(v *reconcile.ServerView, name string, want serverText) bool {
	seen := map[string]bool{}
	for next, there := want, true; there && next.after != "" && !seen[next.after]; next, there = w.wish.of(next.after) {
		if seen[next.after] = true; next.after == name {
			return true // it is refused: see spec.Order
		}
	}
	if want.after == "" || w.ready(want.after) {
		return false
	}
	return conditionIs(v, spec.ConditionReady, "False", "Dependency") || conditionIs(v, spec.ConditionRestartPending, "True", "Dependency")
}

// ready reports whether the snapshot shows a server as Ready.
func (w *world) ready(name string) bool {
	v := w.loop.Snapshot().Server(spec.Key{Namespace: spec.DefaultNamespace, Name: name})
	return v != nil && conditionIs(v, spec.ConditionReady, "True", "")
}

// checkAwaited checks that a run begins after those that its server depends on are Ready.
func (w *world) checkAwaited(o *state.StartOrder) {
	for _, d := range o.Launch.DependsOn {
		if !w.ready(d.Name) {
			w.failf("S24", "a run of %s is to begin, and %s that it depends on is not Ready", o.Launch.Scope, d.Name)
		}
	}
}

// checkPort checks that a run claims the port that is wished.
func (w *world) checkPort(p *proc, want serverText) {
	if r := w.record(p.scope); r.Run.Launch.Endpoints[0].Port != firstPort+want.port {
		w.failf("DC-1", "the run of %s claims port %d: wished is %d", p.scope, r.Run.Launch.Endpoints[0].Port, firstPort+want.port)
	}
}

func (w *world) wishedSpec(s serverText) string { return string(rune('0' + s.v)) }

func (w *world) recorded(server string) bool {
	return slices.ContainsFunc(w.scopes(), func(s spec.Scope) bool { return s.Server == server })
}

// mayRest reports whether a server that shall run may rightly be at rest: its rules say of its last end to leave it so.
func (w *world) mayRest(v *reconcile.ServerView, want serverText) bool {
	r := w.record(spec.Scope{Namespace: v.Key.Namespace, Server: v.Key.Name, Profile: want.profile})
	return r != nil && len(r.History) > 0 && lasts(w.wish.policy(want.profile), &r.History[len(r.History)-1], v.Generation)
}

// afterPowerCut forgets the truth that the disk could not keep: what a power cut may cost is said in DESIGN 2.
func (w *world) afterPowerCut() {
	w.past, w.asked, w.unmended = nil, nil, true
}

// remember keeps an order of a reconciler that dies, to be given again by one that was only asleep.
func (w *world) remember(o reconcile.Order) {
	w.past = append(w.past, o)
	if len(w.past) > 16 {
		w.past = w.past[1:]
	}
}
