package sim

import (
	"slices"
	"time"

	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

var serverNames = []string{"a", "b", "c"}

// step does one thing that can happen now.
func (w *world) step() {
	w.steps++
	if w.core == nil && w.choose(3) > 0 {
		w.startKeeper()
		return
	}
	if w.loop == nil && w.choose(3) > 0 {
		w.startReconciler()
		return
	}
	switch n := w.choose(35); {
	case n < 7:
		w.oneTurn()
	case n < 11:
		w.oneOrder()
	case n < 14:
		w.oneEvent()
	case n < 16:
		w.pass()
	case n < 18:
		w.edit()
	case n < 20:
		w.workload()
	case n == 20:
		w.person()
	case n == 21:
		w.fault()
	case n == 22:
		w.stale()
	case n == 23 || n == 24:
		w.oneNews()
	case n == 25:
		w.send()
	case n == 32:
		w.hearing()
	case n == 33:
		w.oneAnswer()
	case n == 34:
		w.oneProbed()
	case n == 27 || n == 28:
		w.command()
	case n == 26:
		w.secret()
	case n == 29 || n == 30:
		w.job()
	default:
		w.publish()
	}
}

// publish lets the source look at the files: whole, or only a part of them when it has just begun.
func (w *world) publish() {
	whole := w.wish.published != nil || w.choose(2) == 1
	w.wish.publish(whole, func() bool { return w.choose(2) == 1 })
	w.tell("the source publishes, whole %v", whole)
}

func (w *world) oneTurn() {
	if w.loop == nil {
		return
	}
	if w.choose(4) > 0 {
		w.hear()
	}
	w.turn()
}

func (w *world) oneOrder() {
	if w.loop == nil || len(w.flying) == 0 {
		return
	}
	f := w.flying[w.choose(len(w.flying))]
	if !f.done {
		w.carryOut(f)
		return
	}
	w.answer(f)
}

// oneEvent tells the keeper that something of a scope may have changed, with or without cause.
func (w *world) oneEvent() {
	if w.core == nil {
		return
	}
	scopes := w.scopes()
	if len(scopes) == 0 {
		return
	}
	scope := scopes[w.choose(len(scopes))]
	w.mayDie()
	w.as("keeper", func() {
		switch w.choose(3) {
		case 0:
			w.core.HandleExit(scope)
		case 1:
			w.core.HandleTree(scope)
		case 2:
			w.logSeen(scope)
		}
	})
}

func (w *world) logSeen(scope spec.Scope) {
	r := w.record(scope)
	if r == nil || r.Run == nil {
		return
	}
	if l := w.kernel.logs[r.Run.ID]; l != nil && !l.printed.IsZero() && w.kernel.heeded[r.Run.ID] {
		w.core.HandleLogSeen(scope, r.Run.Number)
	}
}

// scopes is every scope that a process or a record was ever made for.
func (w *world) scopes() []spec.Scope {
	var all []spec.Scope
	for _, server := range serverNames {
		for _, profile := range []string{"p", "q"} {
			scope := spec.Scope{Namespace: spec.DefaultNamespace, Server: server, Profile: profile}
			if w.record(scope) != nil {
				all = append(all, scope)
			}
		}
	}
	return all
}

// pass lets time go by: to the loop's next deadline, a little, or a lot; now and then the wall clock is set.
func (w *world) pass() {
	d := []time.Duration{time.Millisecond, 300 * time.Millisecond, 2 * time.Second, time.Minute}[w.choose(4)]
	if left := w.wakeAt - w.kernel.uptime; left > 0 && w.choose(2) == 1 {
		d = left
	}
	w.kernel.uptime += d
	w.kernel.wall = w.kernel.wall.Add(d)
	if w.choose(16) == 15 {
		day := 24 * time.Hour
		if w.choose(2) == 1 {
			day = -day
		}
		w.kernel.wall, w.clockSet = w.kernel.wall.Add(day), true
		w.tell("the wall clock is set by %s", day)
	}
	if w.core != nil && w.choose(4) == 3 {
		w.mayDie()
		w.as("keeper", w.core.Compare)
	}
}

// edit changes a file.
func (w *world) edit() {
	name := serverNames[w.choose(len(serverNames))]
	v, there := w.wish.servers[name]
	if !there {
		w.wish.servers[name] = serverText{profile: []string{"p", "q"}[w.choose(2)], v: w.choose(3), port: slices.Index(serverNames, name)}
		w.tell("people add %s: %s", name, w.wish.servers[name])
		return
	}
	switch w.choose(9) {
	case 0:
		v.v = w.choose(3)
	case 8:
		if v.after = []string{"", "", "a", "b", "c"}[w.choose(5)]; v.after == name {
			v.after = ""
		}
	case 7:
		v.port = w.choose(3)
	case 1:
		v.stopped = !v.stopped
	case 2:
		v.profile = []string{"p", "q"}[w.choose(2)]
	case 3:
		if v.broken {
			break
		}
		good := v
		v.broken, v.good = true, &good
	case 4:
		delete(w.wish.servers, name)
		w.tell("people remove %s", name)
		return
	case 5:
		p := w.wish.profiles["p"]
		p.ladder, p.initial, p.most = w.choose(len(ladders)), w.choose(3), w.choose(3)
		p.policy = []string{"Always", "Always", "OnFailure"}[w.choose(3)]
		p.exits = w.choose(len(exitRules))
		p.probes = w.choose(len(probes))
		w.wish.profiles["p"] = p
		w.wish.schedule("p", w.choose(len(schedules)))
		w.tell("people edit profile p: %+v", w.wish.profiles["p"])
		return
	default:
		v.broken, v.good = false, nil
	}
	w.wish.servers[name] = v
	w.tell("people edit %s: %s", name, v)
}

// workload lets a process do something by itself.
func (w *world) workload() {
	var all []*proc
	for _, scope := range w.scopes() {
		r := w.record(scope)
		if r.Run != nil {
			all = append(all, w.kernel.family(r.Run.ID)...)
		}
		for _, j := range programs(r) {
			if j.run == "" {
				all = append(all, w.kernel.family(j.ID)...)
			}
		}
	}
	all = slices.DeleteFunc(all, func(p *proc) bool { return !p.released && (p.main || p.program) })
	if len(all) == 0 {
		return
	}
	p := all[w.choose(len(all))]
	if p.isHelper() {
		w.helper(p)
		return
	}
	switch w.choose(6) {
	case 0:
		w.kernel.die(p, []uint32{0, 3 << 8, 11, 143 << 8}[w.choose(4)])
	case 1:
		if p.main && w.kernel.populated(p.run) < 3 {
			w.kernel.spawn(proc{scope: p.scope, run: p.run, cgroup: p.cgroup, child: false, onTerm: []string{"Die", "Ignore"}[w.choose(2)], released: true})
			w.tell("    the run of %s has another process", p.scope)
		}
	default:
		if l := w.kernel.logs[p.run]; l != nil && l.printed.IsZero() {
			l.printed = w.kernel.wall
		}
	}
}

// person acts through a hold.
func (w *world) person() {
	if w.loop == nil {
		return
	}
	ask := reconcile.Ask{Server: spec.Key{Namespace: spec.DefaultNamespace, Name: serverNames[w.choose(len(serverNames))]}, By: "somebody"}
	action := []reconcile.Action{reconcile.ActionStop, reconcile.ActionStart, reconcile.ActionRestart, reconcile.ActionRelease}[w.choose(4)]
	w.tell("a person says %s %s", action, ask.Server)
	w.loop.Submit(action, ask)
}

// fault breaks something.
func (w *world) fault() {
	switch w.choose(8) {
	case 0:
		w.tell("the keeper is killed")
		w.kill("keeper")
	case 1:
		w.tell("the reconciler is killed")
		w.kill("reconciler")
	case 2:
		w.tell("both are killed")
		w.kill("keeper")
		w.kill("reconciler")
	case 3:
		w.disk.fail = 1 + w.choose(4)
		w.tell("the disk is full for %d calls", w.disk.fail)
	case 4:
		w.kernel.execFails = true
		w.tell("the next workload cannot be executed")
	case 5:
		w.kernel.refuses = true
		w.tell("the next executable is missing")
	case 6:
		w.reboot()
	case 7:
		if w.store != nil {
			w.as("keeper", func() {
				if err := w.store.FlushNow(); err != nil {
					w.tell("a flush fails: %v", err)
				}
			})
		}
	}
}

// reboot is a power cut, or a shutdown that syncs.
func (w *world) reboot() {
	clean := w.choose(2) == 1
	w.tell("the host reboots, clean %v", clean)
	w.boots++
	w.kernel.reboot(w.boots)
	w.kill("keeper")
	w.kill("reconciler")
	if !clean {
		w.disk.powerCut()
		w.afterPowerCut()
		return
	}
	for name, f := range w.disk.files {
		f.synced, f.clean = slices.Clone(f.data), true
		w.disk.names[name] = f
	}
}

// stale gives an order of a dead reconciler again, as one does that was stopped and goes on.
func (w *world) stale() {
	if w.core == nil || len(w.past) == 0 {
		return
	}
	o := w.past[w.choose(len(w.past))]
	if o.Start != nil || o.Do != nil || o.Live != nil {
		return // a start, or a change of what a run claims, of an older session is refused by the session itself, before the core
	}
	r := w.record(o.Scope)
	about := r != nil && r.Run != nil && r.Run.ID == runOf(o) && r.Run.Phase != state.Exited
	if r == nil || r.Run == nil || about && o.Step == nil {
		return // it is about the run that is there: it may still act
	}
	busy := w.disk.fail > 0 // what could not be written before may be written now
	before := w.everything()
	w.mayDie()
	var err error
	if w.as("keeper", func() { err = w.give(o) }) {
		w.tell("a stale order: %s: %v", tellOrder(o), err)
		// A step of a run that lives may be sent, once; that is for the kernel to judge. The end of a line or program is true whoever comes by.
		if !about && !busy && !programsOpen(r) && !linesOpen(r) {
			w.checkStale(o, before)
		}
	}
}
