package sim

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// errand is what really became of a command, or of a step that runs a program.
type errand struct {
	run    string // for which it was asked; "" = for none
	times  int    // it was executed, or sent
	ended  bool
	status uint32
}

// journal is a program on record and the errand that it is.
type journal struct {
	*state.Program
	key    string // of the errand
	run    string // beside which it runs, "" = none
	result state.DeliveryResult
}

// programs are all that a record tells of.
func programs(r *state.Record) (all []journal) {
	if r == nil {
		return nil
	}
	for _, d := range r.Deliveries {
		if d.Program != nil {
			all = append(all, journal{d.Program, d.ID, d.RunID, d.Result})
		}
	}
	if r.Run == nil || r.Run.Stop == nil {
		return all
	}
	for _, e := range r.Run.Stop.Steps {
		if e.Program != nil {
			all = append(all, journal{e.Program, fmt.Sprintf("%s/%d", r.Run.ID, e.Index), r.Run.ID, e.Result})
		}
	}
	return all
}

// programOf finds a program in a record by its id; nil = it is not there.
func programOf(r *state.Record, id string) *journal {
	for _, j := range programs(r) {
		if j.ID == id {
			return &j
		}
	}
	return nil
}

// errand is the truth about a program; a step's begins with its journal entry.
func (w *world) errand(j *journal) *errand {
	if w.errands[j.key] == nil {
		w.errands[j.key] = &errand{run: j.run}
	}
	return w.errands[j.key]
}

// needProgram checks that a program is on record, open, before anything of it exists (EN-6).
func (k *kernel) needProgram(what string, p keeper.Place) *journal {
	j := programOf(k.w.record(p.Scope), p.RunID)
	if j == nil || j.result != "" {
		k.w.failf("EN-6", "%s for a program of %s that is not on record", what, p.Scope)
	}
	return j
}

func (k *kernel) holdProgram(r keeper.HoldRequest) (keeper.Held, error) {
	j := k.needProgram("a stage was forked", r.Place)
	for name, killed := range k.cgroups {
		if killed && r.Place.Cgroup != "" && below(r.Place.Cgroup, name) {
			k.w.failf("I2", "a program was forked into a cgroup that had been killed")
		}
	}
	p := k.spawn(proc{scope: r.Place.Scope, run: r.Place.RunID, owner: j.run, cgroup: r.Place.Cgroup, program: true, child: true, staged: true})
	k.w.point("held")
	return &process{k: k, p: p}, nil
}

// releaseProgram checks that a program is executed once, after its identity is on record, and beside the very run that it was
// asked for, or beside none.
func (k *kernel) releaseProgram(h *process) {
	p, r := h.p, k.w.record(h.p.scope)
	j := k.needProgram("a program was executed", keeper.Place{Scope: p.scope, RunID: p.run})
	if j.Identity == nil || *j.Identity != h.Identity() {
		k.w.failf("I2", "a program of %s was executed before its identity was on record", p.scope)
	}
	truth := k.w.errand(j)
	if truth.times++; truth.times > 1 {
		k.w.failf("EN-6", "%s was carried out twice in %s", j.key, p.scope)
	}
	if truth.run != j.run || j.run != "" && (r.Run == nil || r.Run.ID != j.run || r.Run.Phase == state.Exited) {
		k.w.failf("I9", "%s was asked for run %q of %s, and is carried out beside another", j.key, truth.run, p.scope)
	}
	for _, q := range k.procs {
		if j.run == "" && q != p && q.run != "" && q.scope.ServerKey() == p.scope.ServerKey() && q.released && !q.dead {
			k.w.failf("I1", "%s needs %s at rest, and %s runs", j.key, p.scope, q.scope)
		}
	}
	p.released, p.staged = true, false
	p.onTerm = []string{"Exit0", "Die", "Ignore"}[k.w.choose(3)]
	k.w.tell("    %s runs beside %s", j.key, p.scope)
	if k.w.choose(2) == 1 {
		k.die(p, []uint32{0, 3 << 8}[k.w.choose(2)])
	}
	k.w.point("released")
}

// programEnded keeps the truth about the end of a program.
func (w *world) programEnded(p *proc) {
	j := programOf(w.record(p.scope), p.run)
	if j == nil {
		return // its record is gone with the power
	}
	truth := w.errand(j)
	truth.ended, truth.status = true, p.status
	w.tell("    %s ends beside %s, status %#x", j.key, p.scope, p.status)
}

// needProgramsEnd checks that a program is killed only when its time is over, its run is, it has ended itself, or it never ran.
func (k *kernel) needProgramsEnd(p keeper.Place) {
	r := k.w.record(p.Scope)
	j := programOf(r, p.RunID)
	if j == nil {
		k.w.failf("I3", "a program of %s was killed that is not on record", p.Scope)
		return
	}
	for _, q := range k.procs {
		if q.run != p.RunID || !q.program || q.dead || !q.released {
			continue
		}
		over := j.TimedOut && k.uptime >= j.At.Uptime+time.Duration(j.WithinSeconds)*time.Second
		if !over && !k.runEnds(r, j.run) {
			k.w.failf("I3", "%s was killed in %s before its time was over", j.key, p.Scope)
		}
	}
}

// runEnds reports whether a run's main process is dead, or its kill on record.
func (k *kernel) runEnds(r *state.Record, run string) bool {
	if run == "" {
		return false
	}
	if r.Run != nil && r.Run.ID == run && (r.Run.MainExit != nil || r.Run.Stop != nil && r.Run.Stop.Killed != nil) {
		return true
	}
	for _, q := range k.procs {
		if q.main && q.run == run {
			return q.dead
		}
	}
	return true
}

func (k *kernel) Collect(p keeper.Place, _ *spec.Launch) error {
	k.w.point("collect")
	return nil
}

func (k *kernel) Collected(keeper.Place) ([]byte, bool) {
	k.w.point("collected")
	return []byte("said"), false
}

func (k *kernel) WakeAt(scope spec.Scope, at time.Duration) {
	if old, ok := k.wakes[scope]; !ok || at < old {
		k.wakes[scope] = at
	}
}

// needJournaled checks that a signal to a run is on record before it is sent, and is sent once: a step of its ladder, or a
// command.
func (k *kernel) needJournaled(scope spec.Scope, runID, signal string) {
	r := k.w.record(scope)
	if r != nil && signal == pokeSignal {
		for _, d := range r.Deliveries {
			if d.Rail != state.RailSignal || d.Result != "" {
				continue
			}
			truth := k.w.errands[d.ID]
			if truth == nil || truth.run != runID || d.RunID != runID {
				k.w.failf("I9", "the signal of %s was asked for another run of %s", d.ID, scope)
			}
			if truth.times++; truth.times > 1 {
				k.w.failf("EN-6", "the signal of %s was sent twice", d.ID)
			}
			return
		}
	}
	k.needJournaledStop(scope, runID, signal)
}

// pokeSignal is that of the command poke; no ladder has it.
const pokeSignal = "SIGHUP"

// command is a person, or a job, that asks for a command by what is known of the server.
func (w *world) command() {
	scopes := w.scopes()
	if w.core == nil || len(scopes) == 0 {
		return
	}
	scope := scopes[w.choose(len(scopes))]
	r := w.record(scope)
	w.lines++
	o := state.DoOrder{Scope: scope, ID: fmt.Sprint("command-", w.lines), Command: []string{"backup", "poke", "migrate", "nothing"}[w.choose(4)], By: "somebody"}
	if r.Run != nil && w.choose(3) > 0 {
		o.RunID = r.Run.ID
	} else if w.loop != nil && r.Run != nil {
		launch := r.Run.Launch
		o.Launch, o.After = &launch, r.Run.Number
	}
	if n := len(w.asked); n > 0 && w.choose(4) == 3 {
		o = w.asked[w.choose(n)] // by somebody who has not heard what became of it
		o.Recall = w.choose(2) == 1
	} else if w.asked = append(w.asked, o); len(w.asked) > 16 {
		w.asked = w.asked[1:]
	}
	if w.errands[o.ID] == nil {
		w.errands[o.ID] = &errand{run: o.RunID}
	}
	truth := *w.errands[o.ID]
	w.mayDie()
	var err error
	if !w.as("keeper", func() { err = w.core.Do(o, nil, func(d state.Delivery, out keeper.Outcome) { w.checkReceipt(d, out) }) }) {
		return
	}
	w.tell("somebody asks for %s in %s, recall %v: %v", o.Command, o.Scope, o.Recall, err)
	now := w.errands[o.ID]
	if _, refused := keeper.IsRefused(err); (refused || o.Recall) && now.times != truth.times {
		w.failf("EN-3", "%s was refused, or only asked about, and was done", o.ID)
	}
}

// checkReceipt compares what somebody is told with what is true.
func (w *world) checkReceipt(d state.Delivery, o keeper.Outcome) {
	if d.Result == "" || d.Result != o.Result {
		w.failf("EN-6", "somebody is told that %s came to %q and to %q", d.ID, d.Result, o.Result)
	}
	w.checkResult(d.ID, d.Result)
}

// checkResult compares what is told of an errand with what became of it.
func (w *world) checkResult(key string, result state.DeliveryResult) {
	truth := w.errands[key]
	if truth == nil {
		return // of a time before the power was cut
	}
	switch {
	case result == state.Done && (!truth.ended || truth.status != 0):
		w.failf("EN-6", "%s is told to be done, and is not: %+v", key, *truth)
	case result == state.Failed && (!truth.ended || truth.status == 0):
		w.failf("EN-6", "%s is told to have failed, and has not: %+v", key, *truth)
	case result == state.Sent && truth.times != 1:
		w.failf("EN-6", "%s is told to be sent, and is not", key)
	case result == state.Undeliverable && truth.times > 0:
		w.failf("EN-6", "%s is told not to have been carried out, and was", key)
	}
}

// checkPrograms checks what a record says of programs: the truth, and that nothing is left of what is told to be over.
func (w *world) checkPrograms(r *state.Record) {
	for _, j := range programs(r) {
		w.checkResult(j.key, j.result)
		if j.result != "" && w.kernel.populated(j.ID) > 0 {
			w.failf("I6", "%s is told to be over, and lives", j.key)
		}
	}
}

// programsOpen reports whether a record has a program that is not over.
func programsOpen(r *state.Record) bool {
	for _, j := range programs(r) {
		if j.result == "" {
			return true
		}
	}
	return false
}

// programsRun reports whether a program is not over.
func (w *world) programsRun() bool {
	return slices.ContainsFunc(w.scopes(), func(s spec.Scope) bool { return programsOpen(w.record(s)) })
}

// isHelper reports whether a process is that of a program, or forked by one.
func (p *proc) isHelper() bool { return p.program || p.aside }

// helper lets a program, or what one has forked, do something by itself.
func (w *world) helper(p *proc) {
	switch w.choose(4) {
	case 0:
		w.kernel.die(p, []uint32{0, 3 << 8, uint32(syscall.SIGSEGV)}[w.choose(3)])
	case 1:
		if p.program && w.kernel.populated(p.run) < 3 {
			w.kernel.spawn(proc{scope: p.scope, run: p.run, owner: p.owner, aside: true, cgroup: p.cgroup, onTerm: []string{"Die", "Ignore"}[w.choose(2)], released: true})
			w.tell("    a program beside %s has another process", p.scope)
		}
	}
}
