package keeper

import (
	"fmt"
	"slices"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// sendLimit is how long the delivery of a person's line may take. A ladder's step has its own wait.
const sendLimit = 10 * time.Second

// Delivery is a line on its way to a run, over the rail of its console, or a request to an endpoint of it. It is on record
// before it is handed to the kernel, and handed to it once.
type Delivery struct {
	Ref    DeliveryRef
	Launch *spec.Launch // the run's; its console is never nil for a line. It is not changed
	Host   *Host
	Line   string
	Expect string           // "" = nothing is awaited
	HTTP   *spec.HTTPAction // a request instead of a line; nil = a line
	Within time.Duration    // the kernel gives up after it
	// Patient waits for nearly all of Within until earlier input is read, instead of a moment.
	Patient bool
}

// DeliveryRef says which entry of a record's journals a delivery is. It is the key under which its end is told.
type DeliveryRef struct {
	RunID string
	Step  int    // of the ladder, when ID is empty
	ID    string // of a [state.Delivery]
}

// Outcome is what became of a delivery.
type Outcome struct {
	Result state.DeliveryResult
	Reason string // a word for why it did not come to what was asked for, "" = it did. It is public
	Detail string // more about Reason, in words. It is public: no line, no path
	Reply  string // the beginning of what the server answered, on a rail that carries answers, or the end of what a program wrote
	Cut    bool   // the program wrote more
	Mute   bool   // the run's terminal did not show the line: it was asked for a password
}

// arrived is an outcome that is not on record yet.
type arrived struct {
	ref     DeliveryRef
	outcome Outcome
}

// HandleDelivered takes what became of a delivery that this core handed to its kernel. Like every event it may come while
// somebody else has the scope.
func (c *Core) HandleDelivered(name spec.Scope, ref DeliveryRef, o Outcome) {
	s := c.lookup(name)
	if s == nil {
		return
	}
	s.news.Lock()
	s.arrived = append(s.arrived, arrived{ref, o})
	s.news.Unlock()
	c.poke(s)
}

// Send journals a line and hands it to the run. told is called once, under the scope's lock, when what became of it is on
// record; it may be called before Send returns, must not block, and is never called after an error. A delivery of this id that
// is on record already is not made again: told hears what became of it.
func (c *Core) Send(o state.SendOrder, g Guard, told func(state.Delivery, Outcome)) error {
	s := c.find(o.Scope)
	if s == nil {
		return refuse(CheckRun, "%s has no run", o.Scope)
	}
	defer c.release(s)
	if err := s.check(o.RunID, g); err != nil {
		return err
	}
	c.settle(s)
	if known := s.rec.Delivery(o.ID); known != nil {
		c.await(s, *known, told)
		return nil
	}
	if err := s.checkSend(o); err != nil {
		return err
	}
	run := s.rec.Run
	d := state.Delivery{ID: o.ID, RunID: run.ID, Run: run.Number, Rail: run.Launch.Console.Input, By: o.By, At: c.kernel.Now().Wall}
	if err := c.journal(s, d, c.lineBefore(s, d, o.Line)...); err != nil {
		return refuse(CheckRecord, "the line was not handed over: it has to be put on record first, and that cannot be done: %s", state.Cause(err))
	}
	c.await(s, d, told)
	c.handOver(s, Delivery{Ref: DeliveryRef{RunID: run.ID, ID: o.ID}, Line: o.Line, Within: sendLimit, Patient: o.Patient})
	c.publish(s)
	return nil
}

// checkSend refuses what must not be handed over (EN-3, EN-6). Nothing was changed by then.
func (s *scope) checkSend(o state.SendOrder) error {
	if o.ID == "" {
		return refuse(CheckMessage, "a delivery without an id")
	}
	if detail := spec.CheckTyped(o.Line); detail != "" {
		return refuse(CheckLine, "the line %s", detail)
	}
	run := s.live()
	switch {
	case run == nil:
		return refuse(CheckRun, "%s does not run: a line starts nothing", s.name)
	case run.Launch.Console == nil:
		return refuse(CheckConsole, "%s has no console: declare `spec.console.input` in its profile", s.name)
	}
	if err := s.checkAddressee(); err != nil {
		return err
	}
	return s.checkTurn(run)
}

// checkAddressee refuses what is meant for a run that does not take it: one that is being started or stopped, or whose main process
// has ended.
func (s *scope) checkAddressee() error {
	run := s.rec.Run
	switch {
	case run.Stop != nil:
		return refuse(CheckRun, "%s is being stopped", s.name)
	case run.Phase != state.Started:
		return refuse(CheckRun, "%s is being started", s.name)
	case s.proc == nil || s.dead:
		return refuse(CheckRun, "the main process of %s has ended", s.name)
	}
	return nil
}

// checkTurn refuses a second delivery at the same time.
func (s *scope) checkTurn(run *state.Run) error {
	if slices.ContainsFunc(s.rec.Deliveries, func(d state.Delivery) bool {
		return d.RunID == run.ID && d.Result == "" && d.Program == nil && d.Keys == nil
	}) {
		return refuse(CheckBusy, "another line is on its way to %s: wait for its receipt", s.name)
	}
	return nil
}

// handOver gives a journaled line or request to the kernel. The caller holds the scope.
func (c *Core) handOver(s *scope, d Delivery) {
	s.fly(d.Ref)
	launch := s.rec.Run.Launch
	d.Launch, d.Host = &launch, c.Host()
	if d.Ref.ID != "" && d.HTTP == nil && onTerminal(s.rec.Run) {
		s.unsaid[d.Ref] = d.Line
	}
	c.kernel.Deliver(s.place(), d)
}

// fly notes that a delivery is on its way.
func (s *scope) fly(ref DeliveryRef) {
	if s.flying == nil {
		s.flying, s.unsaid = map[DeliveryRef]bool{}, map[DeliveryRef]string{}
	}
	s.flying[ref] = true
}

// await has somebody told what became of a delivery.
func (c *Core) await(s *scope, d state.Delivery, told func(state.Delivery, Outcome)) {
	if d.Result != "" {
		told(d, s.outcomeOf(d))
		return
	}
	if s.askers == nil {
		s.askers = map[string][]func(state.Delivery, Outcome){}
	}
	s.askers[d.ID] = append(s.askers[d.ID], told)
}

// settleDeliveries writes what became of the lines that were handed over. What is journaled and not on its way was handed
// over, or not, by a predecessor of ours: nobody will ever know, and it is not repeated (EN-6).
func (c *Core) settleDeliveries(s *scope) {
	s.news.Lock()
	news := s.arrived
	s.arrived = nil
	s.news.Unlock()
	for i, a := range news {
		if !s.flying[a.ref] {
			continue // told before
		}
		if err := c.settleDelivery(s, a.ref, a.outcome); err != nil {
			s.news.Lock()
			s.arrived = append(news[i:len(news):len(news)], s.arrived...)
			s.news.Unlock()
			s.again = true
			return
		}
		delete(s.flying, a.ref)
		delete(s.unsaid, a.ref)
	}
	for _, ref := range s.unknown() {
		if err := c.settleDelivery(s, ref, Outcome{Result: state.Indeterminate}); err != nil {
			s.again = true
			return
		}
	}
}

// unknown are the deliveries that are open on record and not on their way.
func (s *scope) unknown() (refs []DeliveryRef) {
	if s.rec == nil {
		return nil
	}
	for i := range s.rec.Deliveries {
		d := &s.rec.Deliveries[i]
		if ref := (DeliveryRef{RunID: d.RunID, ID: d.ID}); d.Result == "" && d.Program == nil && !s.flying[ref] {
			refs = append(refs, ref)
		}
	}
	if s.rec.Run == nil || s.rec.Run.Stop == nil {
		return refs
	}
	stop := s.rec.Run.Stop
	for _, e := range stop.Steps {
		if e.Result == "" && isDelivered(&stop.Ladder[e.Index]) && !s.flying[DeliveryRef{RunID: s.rec.Run.ID, Step: e.Index}] {
			refs = append(refs, DeliveryRef{RunID: s.rec.Run.ID, Step: e.Index})
		}
	}
	return refs
}

// settleDelivery puts one outcome on record.
func (c *Core) settleDelivery(s *scope, ref DeliveryRef, o Outcome) error {
	if ref.ID == "" {
		return c.settleStep(s, ref, o)
	}
	known := s.rec.Delivery(ref.ID)
	if known == nil || known.Result != "" {
		return nil
	}
	ended := *known
	ended.Result, ended.Reason = o.Result, o.Reason
	err := c.edit(s, func(r *state.Record) {
		r.Deliveries = slices.Clone(r.Deliveries)
		*r.Delivery(ref.ID) = ended
		r.Wrote(c.lineAfter(s, &ended, o)...)
	})
	if err != nil {
		return fmt.Errorf("cannot record a delivery to %s: %w", s.name, err)
	}
	s.tell(ended, o)
	return nil
}

// tell tells those who asked for a delivery what became of it.
func (s *scope) tell(d state.Delivery, o Outcome) {
	for _, told := range s.askers[d.ID] {
		told(d, o)
	}
	delete(s.askers, d.ID)
}

// settleStep puts the outcome of a ladder's step on record, also when the run is over by then.
func (c *Core) settleStep(s *scope, ref DeliveryRef, o Outcome) error {
	run := s.rec.Run
	if run == nil || run.ID != ref.RunID || run.Stop == nil {
		return nil
	}
	i := slices.IndexFunc(run.Stop.Steps, func(e state.StepEntry) bool { return e.Index == ref.Step })
	if i < 0 || run.Stop.Steps[i].Result != "" {
		return nil
	}
	return c.edit(s, func(r *state.Record) { setStepResult(r.Run.Stop, i, o.Result, o.Reason) })
}

// setStepResult writes what became of a journaled step; i is its place in the journal.
func setStepResult(stop *state.Stop, i int, result state.DeliveryResult, reason string) {
	steps := slices.Clone(stop.Steps)
	steps[i].Result, steps[i].Reason = result, reason
	stop.Steps = steps
}
