package sim

import (
	"fmt"
	"slices"
	"strings"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// delivered is a line that was handed over, or was not, and whose end nobody has told yet.
type delivered struct {
	place   keeper.Place
	ref     keeper.DeliveryRef
	outcome keeper.Outcome
}

// Deliver judges a line or a request by what is on the disk at this moment, hands it over or does not, and keeps the news for
// later. A request is a line that is always answered somehow.
func (k *kernel) Deliver(p keeper.Place, d keeper.Delivery) {
	k.w.point("deliver")
	k.needJournaledLine(p, d)
	line, answered := d.Line, d.Expect != ""
	if d.HTTP != nil {
		line, answered = strings.TrimPrefix(d.HTTP.Path, "/"), true
	}
	o := keeper.Outcome{Result: state.Undeliverable, Reason: "Unread"}
	main := k.mainOf(p)
	if main != nil && k.w.choose(4) > 0 {
		o = keeper.Outcome{Result: state.Sent}
		if answered {
			o.Result = []state.DeliveryResult{state.Done, state.Failed, state.Indeterminate}[k.w.choose(3)]
		}
		k.w.tell("    the main process of %s reads %q", p.Scope, line)
		if line == "exit" && main.onTerm != "Ignore" {
			k.die(main, 0)
		}
	}
	k.news = append(k.news, delivered{p, d.Ref, o})
	k.w.point("delivered")
}

// mainOf is the living main process of a run, nil without one.
func (k *kernel) mainOf(p keeper.Place) *proc {
	if p.Main == nil {
		return nil
	}
	q := k.procs[p.Main.PID]
	if q == nil || q.inode != p.Main.PidfdInode || q.dead || !q.released {
		return nil
	}
	return q
}

// needJournaledLine checks that a line is handed over once, and not before it is on record, open (EN-6).
func (k *kernel) needJournaledLine(p keeper.Place, d keeper.Delivery) {
	key := fmt.Sprintf("%s/%d/%s", d.Ref.RunID, d.Ref.Step, d.Ref.ID)
	if d.Ref.ID == "" {
		key = fmt.Sprintf("%s/%d", d.Ref.RunID, d.Ref.Step) // that of a signal's step
	}
	if k.w.sent[key] {
		k.w.failf("EN-6", "a line for %s was handed over twice", p.Scope)
	}
	k.w.sent[key] = true
	r := k.w.record(p.Scope)
	if r == nil || r.Run == nil || r.Run.ID != p.RunID || d.Ref.RunID != p.RunID {
		k.w.failf("EN-6", "a line was handed to a run of %s that is not the recorded one", p.Scope)
		return
	}
	if d.Ref.ID != "" {
		if known := r.Delivery(d.Ref.ID); known == nil || known.Result != "" {
			k.w.failf("EN-6", "a line for %s was handed over and is not on record", p.Scope)
		}
		return
	}
	stop := r.Run.Stop
	if stop == nil || !slices.ContainsFunc(stop.Steps, func(e state.StepEntry) bool { return e.Index == d.Ref.Step && e.Result == "" }) {
		k.w.failf("EN-6", "a step's line was handed to %s before it was journaled", p.Scope)
		return
	}
	step := stop.Ladder[d.Ref.Step]
	line := step.Console != nil && d.HTTP == nil && step.Console.Line == d.Line && step.Console.Expect == d.Expect
	request := step.HTTP != nil && d.HTTP != nil && d.Line == "" && step.HTTP.Path == d.HTTP.Path
	if !line && !request {
		k.w.failf("EN-6", "a line was handed to %s which is not that of the journaled step", p.Scope)
	}
}

// oneNews tells the keeper what became of a line, of any of them, in any order.
func (w *world) oneNews() {
	if w.core == nil || len(w.kernel.news) == 0 {
		return
	}
	i := w.choose(len(w.kernel.news))
	d := w.kernel.news[i]
	w.kernel.news = slices.Delete(w.kernel.news, i, i+1)
	writes := w.disk.fail == 0
	w.mayDie()
	if w.as("keeper", func() { w.core.HandleDelivered(d.place.Scope, d.ref, d.outcome) }) && writes {
		w.checkTold(d)
	}
}

// checkTold checks that what became of a line is on record as it was told, and not made up.
func (w *world) checkTold(d delivered) {
	r := w.record(d.place.Scope)
	if r == nil {
		return
	}
	if d.ref.ID != "" {
		if known := r.Delivery(d.ref.ID); known != nil && known.Result != d.outcome.Result {
			w.failf("EN-6", "a line to %s came to %s and is recorded as %q", d.place.Scope, d.outcome.Result, known.Result)
		}
		return
	}
	if r.Run == nil || r.Run.ID != d.ref.RunID || r.Run.Stop == nil {
		return
	}
	for _, e := range r.Run.Stop.Steps {
		if e.Index == d.ref.Step && e.Result != d.outcome.Result {
			w.failf("EN-6", "step %d of %s came to %s and is recorded as %q", e.Index, d.place.Scope, d.outcome.Result, e.Result)
		}
	}
}

// checkUnknown checks that a line whose news died with a keeper is not told to have come to anything.
func (w *world) checkUnknown(lost []delivered) {
	for _, d := range lost {
		w.lost[fmt.Sprintf("%s/%d/%s", d.ref.RunID, d.ref.Step, d.ref.ID)] = true
	}
}

// checkDeliveries checks what a record says of lines whose end nobody can know.
func (w *world) checkDeliveries(r *state.Record) {
	told := func(key string, result state.DeliveryResult) {
		if w.lost[key] && result != "" && result != state.Indeterminate {
			w.failf("EN-6", "nobody knows what became of a line to %s, and it is recorded as %s", r.Scope, result)
		}
	}
	for _, d := range r.Deliveries {
		told(fmt.Sprintf("%s/0/%s", d.RunID, d.ID), d.Result)
	}
	if r.Run == nil || r.Run.Stop == nil {
		return
	}
	for _, e := range r.Run.Stop.Steps {
		told(fmt.Sprintf("%s/%d/", r.Run.ID, e.Index), e.Result)
	}
}

// linesOpen reports whether a record has a line of which it does not tell what became: when the disk was full for a moment, that is
// written as soon as somebody comes by.
func linesOpen(r *state.Record) bool {
	return slices.ContainsFunc(r.Deliveries, func(d state.Delivery) bool { return d.Result == "" })
}

// send is a person who sends a line to a server, by what is known of its run, or of one that is over.
func (w *world) send() {
	scopes := w.scopes()
	if w.core == nil || len(scopes) == 0 {
		return
	}
	scope := scopes[w.choose(len(scopes))]
	r := w.record(scope)
	if r == nil || r.Run == nil {
		return
	}
	w.lines++
	id := fmt.Sprint("line-", w.lines)
	if n := len(r.Deliveries); n > 0 && w.choose(4) == 3 {
		id = r.Deliveries[n-1].ID
	}
	o := state.SendOrder{Scope: scope, RunID: r.Run.ID, ID: id, Line: "hello", By: "somebody"}
	if w.choose(4) == 3 {
		o.Line = "exit"
	}
	may := r.Run.Phase == state.Started && r.Run.Stop == nil && r.Run.MainExit == nil && r.Run.Launch.Console != nil
	w.mayDie()
	var err error
	if w.as("keeper", func() { err = w.core.Send(o, nil, func(state.Delivery, keeper.Outcome) {}) }) {
		w.tell("a person sends %q to %s: %v", o.Line, scope, err)
		if err == nil && !may && r.Delivery(id) == nil {
			w.failf("EN-3", "a line was taken for a run of %s that cannot have it", scope)
		}
	}
}

// Type and Resize are never called: no server here has a terminal.
func (k *kernel) Type(p keeper.Place, _ []byte) (int, error) {
	k.w.failf("EN-3", "keys are typed to %s, which has no terminal", p.Scope)
	return 0, nil
}

// Echoes is as Type.
func (k *kernel) Echoes(p keeper.Place) bool {
	k.w.failf("EN-3", "%s has no terminal to look at", p.Scope)
	return false
}

// Resize is as Type.
func (k *kernel) Resize(p keeper.Place, _ spec.LaunchTTY, _ bool) error {
	k.w.failf("EN-3", "%s has no terminal whose size could change", p.Scope)
	return nil
}
