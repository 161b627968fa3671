package sim

import (
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// checkAll compares everything that is claimed with everything that is true.
func (w *world) checkAll() {
	lives := map[spec.Scope]string{}
	for _, pid := range slices.Sorted(maps.Keys(w.kernel.procs)) {
		p := w.kernel.procs[pid]
		if p.dead || !p.released || p.run == "" || p.isHelper() {
			continue
		}
		if other, ok := lives[p.scope]; ok && other != p.run {
			w.failf("I1", "two runs of %s live", p.scope)
		}
		lives[p.scope] = p.run
	}
	for _, scope := range w.scopes() {
		w.checkRecord(w.record(scope))
	}
	w.checkPorts(lives)
	w.checkStatus()
	w.checkJobs()
}

// checkPorts checks that no two runs that live claim one port.
func (w *world) checkPorts(lives map[spec.Scope]string) {
	holders := map[int]spec.Scope{}
	for _, scope := range w.scopes() {
		if lives[scope] == "" {
			continue
		}
		r := w.record(scope)
		if r.Run == nil || r.Run.ID != lives[scope] {
			continue
		}
		for _, e := range r.Run.Launch.Endpoints {
			if other, taken := holders[e.Port]; taken {
				w.failf("EC-11", "the runs of %s and %s both claim port %d", other, scope, e.Port)
			}
			holders[e.Port] = scope
		}
	}
}

// checkRecord checks every end that a record tells against the truth.
func (w *world) checkRecord(r *state.Record) {
	w.checkDeliveries(r)
	w.checkPrograms(r)
	w.checkFirstReady(r)
	seen := map[string]bool{}
	for _, e := range r.History {
		if seen[e.RunID] {
			w.failf("I4", "the end of run %d of %s is recorded twice", e.Number, r.Scope)
		}
		seen[e.RunID] = true
		w.checkExit(r.Scope, e)
		if w.kernel.populated(e.RunID) > 0 {
			w.failf("I6", "run %d of %s is recorded as over while its tree lives", e.Number, r.Scope)
		}
	}
}

func (w *world) checkExit(scope spec.Scope, e state.Exit) {
	life := w.truth[e.RunID]
	if life == nil {
		if e.ExitCode != nil || e.Signal != "" {
			w.failf("I4", "run %d of %s never ran and is told to have ended with %v %s", e.Number, scope, e.ExitCode, e.Signal)
		}
		return
	}
	if life.ended == nil {
		w.failf("I4", "run %d of %s is told to have ended and lives", e.Number, scope)
	}
	code, signal := told(life.ended.status)
	if e.ExitCode != nil && (signal != "" || *e.ExitCode != code) || e.Signal != "" && e.Signal != signal {
		w.failf("I4", "run %d of %s ended with %d %s and is told to have ended with %v %s", e.Number, scope, code, signal, e.ExitCode, e.Signal)
	}
	// A power cut may turn the last second's ends into HostRebooted (DESIGN 2, Ending).
	if want := reasonOf(life.ended, e); e.Reason != spec.ReasonHostRebooted && (e.Class == spec.Expected) != (want != "") || want != "" && want != e.Reason && e.Reason != spec.ReasonHostRebooted {
		w.failf("I5", "run %d of %s: asked for %v, by its rules %s, told to be %s, %s", e.Number, scope, life.ended.asked, life.ended.means, e.Class, e.Reason)
	}
	if a := life.ended.ailing; a != "" && e.Reason != a && e.Reason != spec.ReasonHostRebooted {
		w.failf("I5", "run %d of %s was ended for %s, and is told to have ended by %s", e.Number, scope, a, e.Reason)
	}
	if probed := e.Reason == spec.ReasonLivenessFailed || e.Reason == spec.ReasonStartDeadlineExceeded; probed && life.ended.ailing != e.Reason {
		w.failf("I5", "run %d of %s is told to have ended by %s, for which nobody ended it", e.Number, scope, e.Reason)
	}
	if e.Class != spec.Expected && e.Class != spec.Unexpected {
		w.failf("I5", "run %d of %s has the class %q", e.Number, scope, e.Class)
	}
}

// reasonOf is the reason for which an end is Expected; "" = it is not.
func reasonOf(truth *end, e state.Exit) spec.ExitReason {
	known := e.ExitCode != nil || e.Signal != ""
	switch {
	case truth.ailing != "":
		return ""
	case truth.asked:
		return spec.ReasonStopRequested
	case known && truth.means == spec.ExitComplete:
		return spec.ReasonCompleted
	case known && truth.means == spec.ExitRestart:
		return spec.ReasonDeclaredRestart
	}
	return ""
}

// meaning reads exit rules: a second reading of the manual, beside the shipped one. code counts without a signal.
func meaning(p *spec.RestartPolicy, code int, signal string) spec.ExitAction {
	for _, rule := range p.Exits {
		for _, c := range rule.Codes {
			if signal == "" && int(c) == code {
				return rule.Action
			}
		}
		for _, name := range rule.Signals {
			if name == signal || signal == "" && code == 128+int(unix.SignalNum(name)) {
				return rule.Action
			}
		}
	}
	zero := signal == "" && code == 0
	return map[string]map[bool]spec.ExitAction{
		spec.RestartAlways:    {true: spec.ExitBackoff, false: spec.ExitBackoff},
		spec.RestartOnFailure: {true: spec.ExitComplete, false: spec.ExitBackoff},
		spec.RestartNever:     {true: spec.ExitComplete, false: spec.ExitFail},
	}[p.Policy][zero]
}

// lasts reports whether an end is one after which nothing may start by itself, as long as the server's generation is the same.
func lasts(p *spec.RestartPolicy, e *state.Exit, generation int64) bool {
	if e.Reason == spec.ReasonLivenessFailed || e.Reason == spec.ReasonStartDeadlineExceeded {
		return false // the rules do not speak of what we ended
	}
	if e.Generation != generation || e.Reason == spec.ReasonStopRequested || e.ExitCode == nil && e.Signal == "" {
		return false
	}
	code := 0
	if e.ExitCode != nil {
		code = *e.ExitCode
	}
	action := meaning(p, code, e.Signal)
	return action == spec.ExitComplete || action == spec.ExitFail
}

func told(status uint32) (code int, signal string) {
	if s := status & 0x7f; s != 0 {
		return 0, unix.SignalName(syscall.Signal(s))
	}
	return int(status >> 8), ""
}

// checkStatus checks that what is shown as stopped has no process (I6).
func (w *world) checkStatus() {
	if w.loop == nil || w.core == nil {
		return
	}
	for _, v := range w.loop.Snapshot().Servers {
		if v.Status.State != spec.StateStopped {
			continue
		}
		for _, p := range w.kernel.procs {
			atRest := p.isHelper() && p.owner == ""
			if p.run != "" && p.released && !p.dead && !atRest && p.scope.ServerKey() == v.Key && !w.newsOf(p.scope) {
				w.failf("I6", "server %s is shown as Stopped while its tree lives", v.Key)
			}
		}
	}
}

// newsOf reports whether the reconciler has yet to hear of a scope, or has an order about it under way.
func (w *world) newsOf(scope spec.Scope) bool {
	for _, f := range w.flying {
		if f.order.Scope == scope {
			return true
		}
	}
	facts := w.core.FactsOf(scope)
	return !w.known || facts != nil && (w.facts[scope] == nil || w.facts[scope].Rev != facts.Rev)
}

// checkOrder checks that an order has a cause (I7, I8).
func (w *world) checkOrder(o reconcile.Order) {
	if !w.known && o.Save == nil {
		w.failf("BP-6", "%s before the keeper was heard", tellOrder(o))
	}
	if o.Save != nil {
		for key, m := range o.Save.Memories {
			if m == nil {
				delete(w.uids, key) // it is gone: should it come back, it is another one
			}
		}
	}
	if o.Start != nil {
		w.checkStart(o.Start)
		w.checkAwaited(o.Start)
	}
	if o.Check != nil {
		w.askedOf(o.Check)
	}
	if o.Ready != nil {
		w.checkReady(o.Ready)
	}
	if o.Do != nil {
		w.checkJobCommand(o)
	}
	if o.Stop == nil {
		return
	}
	name := o.Stop.Scope.Server
	set := w.wish.published
	if o.Stop.Why == reconcile.WhyRestart {
		w.checkJobStop(o.Stop)
	}
	switch o.Stop.Why {
	case reconcile.WhyLiveness, reconcile.WhyDeadline:
		w.checkAiling(o.Stop)
	case reconcile.WhyRemoved:
		if set == nil || !set.Known {
			w.failf("I7", "%s while the source has not been read whole", tellOrder(o))
		}
		if set.Servers[o.Stop.Scope.ServerKey()] != nil {
			w.failf("I7", "%s while the server is in the set", tellOrder(o))
		}
	case reconcile.WhySecretChanged:
		w.checkRotated(o.Stop)
	case reconcile.WhySpecChanged:
		w.checkAnnounced(o.Stop)
		life := w.truth[o.Stop.RunID]
		if a := set.Servers[o.Stop.Scope.ServerKey()]; life != nil && a != nil && a.Object.Spec.Profile == o.Stop.Scope.Profile {
			if v := a.Object.Spec.Parameters["v"]; v.Text() == life.spec {
				w.failf("I8", "%s although %s runs with what is wished", tellOrder(o), name)
			}
		}
	}
}

// checkStart checks that nothing starts by itself after an end that was declared the last.
func (w *world) checkStart(o *state.StartOrder) {
	f := w.facts[o.Launch.Scope]
	if f == nil || len(f.Exits) == 0 {
		return
	}
	e := &f.Exits[len(f.Exits)-1]
	m := w.table.All()[o.Launch.Scope.Namespace+"/"+o.Launch.Scope.Server]
	asked := m.Fresh != nil && m.Fresh.Profile == o.Launch.Scope.Profile && m.Fresh.Number >= e.Number
	if !asked && lasts(&o.Launch.Restart, e, o.Generation) {
		w.failf("I8", "%s is started, %s, although its end, %s, says to leave it so", o.Launch.Scope, o.Cause, e.Reason)
	}
}

// checkUID checks that a server is itself as long as it is wanted: the UID under which it ran survives crashes and power
// cuts.
func (w *world) checkUID(r *state.Record) {
	key := r.Scope.ServerKey()
	if before, ok := w.uids[key]; ok && before != r.UID {
		w.failf("UID", "server %s ran as %s and now runs as %s", key, before, r.UID)
	}
	w.uids[key] = r.UID
}

// everything is what no stale order may change: the runs, as the records tell them.
func (w *world) everything() map[string]string {
	all := map[string]string{}
	for name, f := range w.disk.files {
		if strings.HasPrefix(name, path.Join(keeperDir, "records")) {
			all[name] = string(f.data)
		}
	}
	return all
}

// checkStale checks that an order about a run that is over or replaced changed nothing (I9).
func (w *world) checkStale(o reconcile.Order, before map[string]string) {
	if o.Archive != nil {
		return
	}
	name := path.Join(keeperDir, "records", o.Scope.ID()+".json")
	if after, _ := w.disk.text(name); after != before[name] {
		w.failf("I9", "a stale order changed the record of %s: %s", o.Scope, tellOrder(o))
	}
}

func runOf(o reconcile.Order) string {
	switch {
	case o.Stop != nil:
		return o.Stop.RunID
	case o.Step != nil:
		return o.Step.RunID
	case o.Live != nil:
		return o.Live.RunID
	case o.Ready != nil:
		return o.Ready.RunID
	}
	return ""
}
