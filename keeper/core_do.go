package keeper

import (
	"fmt"
	"strconv"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Do journals a command and carries it out, once. told is called once, under the scope's lock, when what became of it is on
// record; it may be called before Do returns, must not block, and is never called after an error. An error is a refusal, and
// nothing was done; or the record could not be written. A delivery of this id that is on record already is not made again: told
// hears what became of it.
func (c *Core) Do(o state.DoOrder, g Guard, told func(state.Delivery, Outcome)) error {
	if !state.IsDeliveryID(o.ID) {
		return refuse(CheckMessage, "%q is no id of a delivery", o.ID)
	}
	if !isScope(o.Scope) {
		return refuse(CheckMessage, "%q is no scope", o.Scope.String())
	}
	s := c.findOrMake(o.Scope)
	defer c.release(s)
	err := c.do(s, o, g, told)
	if s.rec == nil && s.blocked == "" {
		c.forget(s) // made for this order, which came to nothing
	}
	return err
}

func (c *Core) do(s *scope, o state.DoOrder, g Guard, told func(state.Delivery, Outcome)) error {
	if s.blocked != "" {
		return s.refuseBlocked()
	}
	if err := g.ask(); err != nil {
		return err
	}
	c.settle(s)
	if known := s.delivery(o.ID); known != nil {
		c.await(s, *known, told)
		return nil
	}
	if o.Recall {
		d := state.Delivery{ID: o.ID, Command: o.Command, RunID: o.RunID, By: o.By, Result: state.Indeterminate}
		told(d, Outcome{Result: d.Result})
		return nil
	}
	if o.Check {
		return c.doCheck(s, o, g, told)
	}
	if o.RunID == "" {
		return c.doAtRest(s, o, g, told)
	}
	if err := s.check(o.RunID, nil); err != nil {
		return err
	}
	run := s.live()
	if run == nil {
		return refuse(CheckRun, "%s does not run: a command starts nothing", s.name)
	}
	command, action, err := s.checkCommand(&run.Launch, &o)
	if err != nil {
		return err
	}
	if err := s.checkAddressee(); err != nil {
		return err
	}
	d := state.Delivery{
		ID: o.ID, Command: o.Command, RunID: run.ID, Run: run.Number, Rail: command.Rail(run.Launch.Console), By: o.By, At: c.kernel.Now().Wall,
	}
	switch {
	case action.Exec != nil:
		return c.doProgram(s, d, run.Launch.Beside(action.Exec), programOf(command), g, told)
	case action.Signal != nil:
		return c.doSignal(s, d, action.Signal, told)
	}
	return c.doDelivery(s, d, action, command, told)
}

// delivery is one that is on record, nil if it is not.
func (s *scope) delivery(id string) *state.Delivery {
	if s.rec == nil {
		return nil
	}
	return s.rec.Delivery(id)
}

// doAtRest runs a program while nothing runs in the scope, and nothing starts in it.
func (c *Core) doAtRest(s *scope, o state.DoOrder, g Guard, told func(state.Delivery, Outcome)) error {
	switch last := s.lastNumber(); {
	case o.Launch == nil:
		return refuse(CheckMessage, "a command beside no run needs the spec that declares it")
	case o.Launch.Scope != o.Scope:
		return refuse(CheckMessage, "the spec is that of %s", o.Launch.Scope)
	case s.live() != nil:
		return refuse(CheckLive, "%s has a live run: stop it first", s.name)
	case o.After != last:
		return refuse(CheckAfter, "the last run of %s is number %d, not %d: look at the facts again", s.name, last, o.After)
	}
	if faults := o.Launch.Validate(); len(faults) > 0 {
		return refuseFaults(faults)
	}
	command, action, err := s.checkCommand(o.Launch, &o)
	if err != nil {
		return err
	}
	if action.Exec == nil {
		return refuse(CheckCommand, "command %q needs a server that runs, and %s does not", command.Name, s.name)
	}
	if err := c.claim(s.name); err != nil {
		return err
	}
	defer c.unclaim(s.name)
	d := state.Delivery{ID: o.ID, Command: o.Command, Rail: state.RailExec, By: o.By, At: c.kernel.Now().Wall}
	return c.doProgram(s, d, o.Launch.Beside(action.Exec), programOf(command), g, told)
}

// checkCommand finds what a command does, or refuses it.
func (s *scope) checkCommand(launch *spec.Launch, o *state.DoOrder) (*spec.LaunchCommand, spec.LaunchAction, error) {
	command := launch.Command(o.Command)
	if command == nil {
		return nil, spec.LaunchAction{}, refuse(CheckCommand, "%s", launch.NoSuchCommand(o.Command))
	}
	switch {
	case command.Requires == spec.RequiresStopped && o.RunID != "":
		return nil, spec.LaunchAction{}, refuse(CheckCommand, "command %q needs %s at rest: it has a live run", command.Name, s.name)
	case command.Requires == spec.RequiresRunning && o.RunID == "":
		return nil, spec.LaunchAction{}, refuse(CheckCommand, "command %q needs a server that runs, and %s does not", command.Name, s.name)
	}
	given := o.Parameters
	if o.Text != nil {
		given = command.TextParameters(o.Text)
	}
	action, faults := command.Fill(given, launch.Console)
	if len(faults) > 0 {
		return nil, spec.LaunchAction{}, refuseFaultsFor(CheckParameters, faults)
	}
	return command, action, nil
}

// doCheck runs the check of a launch that is not used yet. It changes nothing of the scope's run, and nothing has to be at rest for it.
func (c *Core) doCheck(s *scope, o state.DoOrder, g Guard, told func(state.Delivery, Outcome)) error {
	switch {
	case o.Launch == nil:
		return refuse(CheckMessage, "a check needs the spec that is to be checked")
	case o.Launch.Scope != o.Scope:
		return refuse(CheckMessage, "the spec is that of %s", o.Launch.Scope)
	case o.RunID == "" && s.live() != nil:
		return refuse(CheckLive, "%s has a live run: the check is run beside it", s.name)
	}
	if faults := o.Launch.Validate(); len(faults) > 0 {
		return refuseFaults(faults)
	}
	check := o.Launch.Check
	if check == nil {
		return refuse(CheckCommand, "the spec of %s declares no check", s.name)
	}
	d := state.Delivery{ID: o.ID, Command: state.CheckCommand, Rail: state.RailExec, By: o.By, At: c.kernel.Now().Wall}
	if o.RunID != "" {
		if err := s.check(o.RunID, nil); err != nil {
			return err
		}
		if s.live() == nil {
			return refuse(CheckRun, "the run of %s is over", s.name)
		}
		if err := s.checkAddressee(); err != nil {
			return err
		}
		d.RunID, d.Run = o.RunID, s.rec.Run.Number
	}
	return c.doProgram(s, d, o.Launch.Checking(), programSpec{field: "spec.actions.check.exec", within: check.TimeoutSeconds, shadow: true}, g, told)
}

// programSpec is how a program is run.
type programSpec struct {
	field  string // of the manifest, for refusals
	within int64  // seconds
	shadow bool   // in a shadow of the directory
}

func programOf(command *spec.LaunchCommand) programSpec {
	return programSpec{field: "command " + strconv.Quote(command.Name) + ": exec", within: command.TimeoutSeconds}
}

// doProgram journals a program and brings it to life.
func (c *Core) doProgram(s *scope, d state.Delivery, launch *spec.Launch, how programSpec, g Guard, told func(state.Delivery, Outcome)) error {
	for _, e := range s.openPrograms() {
		if e.command() {
			return refuse(CheckBusy, "command %q runs in %s: wait until it has ended", s.rec.Delivery(e.ref.ID).Command, s.name)
		}
	}
	host := c.Host()
	image, err := c.vetProgram(launch, host, how.field)
	if err != nil {
		return err
	}
	defer image.Close()
	if err := g.ask(); err != nil {
		image.Undo()
		return err
	}
	d.Program = c.newProgram(s, d.RunID, how.within)
	d.Program.Shadow = how.shadow
	if err := c.journal(s, d); err != nil {
		image.Undo()
		return err
	}
	c.await(s, d, told)
	c.begin(s, DeliveryRef{RunID: d.RunID, ID: d.ID}, d.Program, launch, host, image, g)
	c.settlePrograms(s)
	c.publish(s)
	return nil
}

// journal writes that a line is about to be handed over, with its text, or a command to be carried out. What the program before it has
// written goes.
func (c *Core) journal(s *scope, d state.Delivery, lines ...state.Written) error {
	old := s.rec
	if old == nil {
		s.rec = &state.Record{Version: state.RecordVersion, Scope: s.name}
	}
	err := c.edit(s, func(r *state.Record) {
		r.Journal(d)
		r.Wrote(lines...)
		if d.Program == nil {
			return
		}
		r.Output = nil
		if d.RunID != "" {
			r.Run.Programs = d.Program.Number
		}
	})
	if err != nil {
		s.rec = old
	}
	return err
}

// doSignal journals a signal and sends it. What it came to is known at once.
func (c *Core) doSignal(s *scope, d state.Delivery, signal *spec.SignalAction, told func(state.Delivery, Outcome)) error {
	if err := c.journal(s, d); err != nil {
		return err
	}
	c.await(s, d, told)
	o := Outcome{Result: state.Sent}
	if err := c.signal(s, signal); err != nil {
		o = Outcome{Result: state.Undeliverable, Reason: reasonGone, Detail: errNoAddressee.Error()}
	}
	err := c.settleDelivery(s, DeliveryRef{RunID: d.RunID, ID: d.ID}, o)
	if err != nil {
		s.again = true // as long as it is not on record nobody knows that it was sent
	}
	c.publish(s)
	return nil
}

// reasonGone is why a signal was not sent.
const reasonGone = "Gone"

// doDelivery journals a line or a request and hands it over.
func (c *Core) doDelivery(s *scope, d state.Delivery, action spec.LaunchAction, command *spec.LaunchCommand, told func(state.Delivery, Outcome)) error {
	if err := s.checkTurn(s.rec.Run); err != nil {
		return err
	}
	var text []state.Written
	if action.Console != nil {
		text = c.lineBefore(s, d, action.Console.Line)
	}
	if err := c.journal(s, d, text...); err != nil {
		return err
	}
	c.await(s, d, told)
	out := Delivery{Ref: DeliveryRef{RunID: d.RunID, ID: d.ID}, HTTP: action.HTTP, Within: time.Duration(command.TimeoutSeconds) * time.Second}
	if action.Console != nil {
		out.Line, out.Expect = action.Console.Line, action.Console.Expect
	}
	c.handOver(s, out)
	c.publish(s)
	return nil
}

// runStep brings the program of a journaled step to life, or says that it cannot be.
func (c *Core) runStep(s *scope, index int, journal *state.Program) {
	ref := DeliveryRef{RunID: s.rec.Run.ID, Step: index}
	launch, host := s.rec.Run.Launch.Beside(s.rec.Run.Stop.Ladder[index].Exec), c.Host()
	image, err := c.vetProgram(launch, host, "step "+strconv.Itoa(index)+": exec")
	if err != nil {
		c.neverRan(s.addProgram(journal, launch), nil, err)
	} else {
		c.begin(s, ref, journal, launch, host, image, nil)
		image.Close()
	}
	c.settlePrograms(s)
	c.publish(s)
}

// outcomeOf is what a record says of a delivery, in the words of a receipt.
func (s *scope) outcomeOf(d state.Delivery) Outcome {
	o := Outcome{Result: d.Result, Reason: d.Reason}
	if d.Program == nil {
		return o
	}
	o.Detail = programDetail(&d)
	if out := s.rec.Output; out != nil && out.Program == d.Program.ID {
		o.Reply, o.Cut = out.Text, out.Cut
	}
	return o
}

// endedBy says in words how a program ended.
func endedBy(status uint32) string {
	if sig := status & 0x7f; sig != 0 {
		return "was ended by " + spec.SignalName(int(sig))
	}
	return fmt.Sprintf("ended with exit code %d", status>>8&0xff)
}

// programDetail says in words why a program did not do what was asked for; "" = it did.
func programDetail(d *state.Delivery) string {
	switch d.Reason {
	case "":
		return ""
	case string(spec.ReasonExited), string(spec.ReasonSignaled):
		return "it " + endedBy(*d.Program.Exit.Status)
	case state.ReasonTimedOut:
		return fmt.Sprintf("it took longer than %d s, and was killed", d.Program.WithinSeconds)
	case state.ReasonRunEnded:
		return "it was killed because its run ended"
	case string(spec.ReasonStartAborted):
		return "the keeper ended before it was executed"
	case string(spec.ReasonStartFailed):
		return "it could not be executed"
	case string(spec.ReasonHostRebooted):
		return "the host was rebooted while it ran"
	case string(spec.ReasonCancelled):
		return "it was withdrawn before it was executed"
	}
	return "nobody was there to see how it ended"
}
