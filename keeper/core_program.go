package keeper

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// program is a process that is run beside a run, or beside none, as long as the record does not say what became of it. It is
// started like a run: on record, forked to a stage, its identity on record, released; and it is over when its tree is gone.
type program struct {
	place  Place
	launch *spec.Launch
	proc   Process         // nil before it is forked, and when nothing can be learned of it
	exit   *state.MainExit // how it ended, as long as that is not on record
	never  string          // why nothing of it ran; "" = it may have
	lost   bool            // its end cannot be known
	reboot bool            // it was of another boot: nothing of it can live
	orphan bool            // it was ended because its run was
	detail string          // why nothing of it ran, in words
	output *state.Output   // what was collected of it, once
}

// entry is a program that is open on record, and whose journal entry it is.
type entry struct {
	ref DeliveryRef
	*state.Program
}

// openPrograms are the programs on record whose end is not.
func (s *scope) openPrograms() (open []entry) {
	if s.rec == nil {
		return nil
	}
	for i := range s.rec.Deliveries {
		if d := &s.rec.Deliveries[i]; d.Program != nil && d.Result == "" {
			open = append(open, entry{DeliveryRef{RunID: d.RunID, ID: d.ID}, d.Program})
		}
	}
	if s.rec.Run == nil || s.rec.Run.Stop == nil {
		return open
	}
	for i := range s.rec.Run.Stop.Steps {
		if e := &s.rec.Run.Stop.Steps[i]; e.Program != nil && e.Result == "" {
			open = append(open, entry{DeliveryRef{RunID: s.rec.Run.ID, Step: e.Index}, e.Program})
		}
	}
	return open
}

// endedPrograms are the places of programs that are over and have a folder all the same: a predecessor has died before it had taken them
// away, which may have failed for a while, so that others came since. The folder is made first and goes last.
func (s *scope) endedPrograms(folders map[string]bool) (all []remains) {
	add := func(p *state.Program, result state.DeliveryResult) {
		if p != nil && result != "" && folders[p.ID] {
			all = append(all, remains{place: s.programPlace(p)})
		}
	}
	for i := range s.rec.Deliveries {
		d := &s.rec.Deliveries[i]
		add(d.Program, d.Result)
	}
	if s.rec.Run == nil || s.rec.Run.Stop == nil {
		return all
	}
	for i := range s.rec.Run.Stop.Steps {
		e := &s.rec.Run.Stop.Steps[i]
		add(e.Program, e.Result)
	}
	return all
}

// command reports whether the program is that of a command, and not a step of the ladder.
func (e entry) command() bool { return e.ref.ID != "" }

// newProgram is the journal entry of a program that is about to be forked.
func (c *Core) newProgram(s *scope, runID string, within int64) *state.Program {
	p := &state.Program{ID: c.kernel.NewRunID(), At: c.kernel.Now(), WithinSeconds: within}
	if runID == "" {
		p.Number, p.Cgroup = 1, c.kernel.CgroupName(p.ID)
		return p
	}
	p.Number = s.rec.Run.Programs + 1
	p.Cgroup = leafOf(s.rec.Run.Cgroup, p.Number)
	return p
}

func (s *scope) programPlace(p *state.Program) Place {
	return Place{Scope: s.name, RunID: p.ID, Cgroup: p.Cgroup, Main: p.Identity, Program: true, Shadow: p.Shadow}
}

// addProgram keeps a program until its end is on record.
func (s *scope) addProgram(journal *state.Program, launch *spec.Launch) *program {
	if s.programs == nil {
		s.programs = map[string]*program{}
	}
	p := &program{place: s.programPlace(journal), launch: launch}
	s.programs[journal.ID] = p
	return p
}

// vetProgram looks whether a program can be run on this host, for a field of the manifest.
func (c *Core) vetProgram(launch *spec.Launch, host *Host, field string) (Image, error) {
	if err := host.Permit(launch); err != nil {
		return nil, refusedAt(err, field)
	}
	image, err := c.kernel.Vet(launch, host)
	return image, refusedAt(err, field)
}

// refusedAt says of a program what was said of the launch that it makes.
func refusedAt(err error, field string) error {
	refused := new(Refused)
	if !errors.As(err, &refused) {
		return err
	}
	return &Refused{Check: refused.Check, Detail: strings.ReplaceAll(refused.Detail, "spec.actions.start.", field+".")}
}

// begin brings a journaled program to life. Whatever fails, what was made before is taken back, and the record says that nothing
// ran. The image stays the caller's.
func (c *Core) begin(s *scope, ref DeliveryRef, journal *state.Program, launch *spec.Launch, host *Host, image Image, g Guard) {
	p := s.addProgram(journal, launch)
	held, err := c.holdProgram(p, host, image)
	if err != nil {
		c.neverRan(p, nil, err)
		return
	}
	identity := held.Identity()
	p.place.Main = &identity
	if err := c.editProgram(s, ref, func(j *state.Program) { j.Identity = &identity }); err != nil {
		c.neverRan(p, held, err)
		return
	}
	if err := g.ask(); err != nil {
		c.neverRan(p, held, fmt.Errorf("%w: %w", ErrCancelled, err))
		return
	}
	if err := held.Release(); err != nil {
		if exec := new(ExecError); errors.As(err, &exec) {
			c.neverRan(p, held, err)
			return
		}
		p.proc, s.again = held, true // it is looked at again
		return
	}
	p.proc = held
	c.kernel.WakeAt(s.name, deadline(journal))
	now := c.kernel.Now().Wall
	if err := c.editProgram(s, ref, func(j *state.Program) { j.StartedAt = now }); err != nil {
		s.again = true
	}
}

func deadline(p *state.Program) time.Duration {
	return p.At.Uptime + time.Duration(p.WithinSeconds)*time.Second
}

// holdProgram makes what a program needs and forks its stage.
func (c *Core) holdProgram(p *program, host *Host, image Image) (Held, error) {
	if err := c.kernel.MakeFolder(p.place, image); err != nil {
		return nil, err
	}
	if p.place.Cgroup != "" {
		if err := c.kernel.MakeCgroup(p.place); err != nil {
			return nil, err
		}
	}
	if err := c.kernel.Collect(p.place, p.launch); err != nil {
		return nil, err
	}
	if p.place.Shadow {
		if err := c.kernel.MakeShadow(p.place, p.launch, host, image); err != nil {
			return nil, err
		}
	}
	return c.kernel.Hold(HoldRequest{Place: p.place, Launch: p.launch, Host: host, Image: image})
}

// neverRan takes back what was made of a program that did not come to run.
func (c *Core) neverRan(p *program, held Held, cause error) {
	p.never, p.detail = string(spec.ReasonStartFailed), publicMessage(cause)
	if errors.Is(cause, ErrCancelled) {
		p.never, p.detail = string(spec.ReasonCancelled), ""
	}
	if held != nil {
		_ = held.Abandon() // what is left shows in the tree, and is killed
	}
}

// settlePrograms looks at every open program and does what follows.
func (c *Core) settlePrograms(s *scope) {
	for _, e := range s.openPrograms() {
		p := s.programs[e.ID]
		if p == nil {
			if p = c.adoptProgram(s, e); p == nil {
				continue
			}
		}
		if err := c.settleProgram(s, e, p); err != nil {
			s.again = true
		}
	}
	s.litter = c.cleanUp(s, s.litter)
}

// adoptProgram finds the process of a predecessor's program again, or finds out that it is gone; nil = that cannot be told yet.
func (c *Core) adoptProgram(s *scope, e entry) *program {
	p := s.addProgram(e.Program, s.launchOf(e))
	switch {
	case e.At.BootID != c.kernel.Now().BootID:
		p.reboot, p.lost = true, true
		if e.Identity == nil {
			p.never = string(spec.ReasonStartAborted)
		}
	case e.Identity == nil: // its stage had no byte, and ends or is killed with what is in its cgroup
		p.never = string(spec.ReasonStartAborted)
	default:
		_ = c.kernel.Collect(p.place, p.launch) // without what it writes it is looked after all the same
		proc, err := c.kernel.Open(p.place)
		switch {
		case err == nil:
			p.proc = proc
		case errors.Is(err, ErrGone):
			p.lost = true
		default:
			s.again = true
			delete(s.programs, e.ID)
			return nil
		}
	}
	return p
}

// launchOf is what an adopted program may have been executed with, as far as its secrets go: what it was called with is not kept.
func (s *scope) launchOf(e entry) *spec.Launch {
	run := s.rec.Run
	switch {
	case run == nil || run.ID != e.ref.RunID:
	case !e.command():
		return run.Launch.Beside(run.Stop.Ladder[e.ref.Step].Exec)
	default:
		c := run.Launch.Command(s.rec.Delivery(e.ref.ID).Command)
		secret := func(p spec.Parameter) bool { return p.Type == spec.ParameterSecret }
		if c != nil && c.Exec != nil && !slices.ContainsFunc(c.Parameters, secret) {
			return run.Launch.Beside(c.Exec)
		}
	}
	return unknownLaunch
}

// unknownLaunch stands for one that may have secrets.
var unknownLaunch = &spec.Launch{Args: []string{spec.MarkSecret("unknown/unknown")}}

// settleProgram notes that a program runs, ends it when its time is over, and records its end when all of it is gone.
func (c *Core) settleProgram(s *scope, e entry, p *program) error {
	if p.proc != nil && p.exit == nil && p.never == "" {
		ended, err := c.lookAt(s, e, p)
		if err != nil || !ended {
			return err
		}
	}
	if gone, err := c.programGone(s, p); err != nil || !gone {
		return err
	}
	if p.output == nil {
		text, cut := c.kernel.Collected(p.place)
		p.output = &state.Output{Program: e.ID, Text: legible(text), Cut: cut}
	}
	if err := c.recordProgram(s, e, p); err != nil {
		return err
	}
	s.litter = append(s.litter, remains{p.proc, p.place})
	delete(s.programs, e.ID)
	return nil
}

// lookAt reports whether the main process of a program has ended, and does what is due as long as it has not.
func (c *Core) lookAt(s *scope, e entry, p *program) (ended bool, err error) {
	end, ended, err := p.proc.Peek()
	if err != nil {
		return false, err
	}
	if e.StartedAt.IsZero() {
		staged, err := p.proc.Staged()
		switch {
		case err == nil && staged && ended:
			p.never = string(spec.ReasonStartFailed)
			return true, nil
		case err == nil && !staged:
			now := c.kernel.Now().Wall
			if err := c.editProgram(s, e.ref, func(j *state.Program) { j.StartedAt = now }); err != nil {
				return false, err
			}
		default:
			s.again = true
		}
	}
	if ended {
		p.exit = &end
		return true, nil
	}
	return false, c.limit(s, e, p)
}

// limit ends a program whose time is over, or whose run is: what is run beside a run does not outlive it. A step of the ladder may
// be what ends the run, and has its own time.
func (c *Core) limit(s *scope, e entry, p *program) error {
	over := c.kernel.Now().Uptime >= deadline(e.Program)
	if over && !e.TimedOut {
		if err := c.editProgram(s, e.ref, func(j *state.Program) { j.TimedOut = true }); err != nil {
			return err
		}
	}
	if s.ends(e) {
		p.orphan = true
	}
	if !over {
		c.kernel.WakeAt(s.name, deadline(e.Program)) // the scope's earliest may have been another's
	}
	if !over && !p.orphan {
		return nil
	}
	s.again = true // until it is gone
	return c.kernel.KillTree(p.place)
}

// ends reports whether a program has to end with its run.
func (s *scope) ends(e entry) bool {
	run := s.rec.Run
	switch {
	case e.ref.RunID == "":
		return false
	case run.Stop != nil && run.Stop.Killed != nil:
		return true
	}
	return e.command() && (s.dead || run.MainExit != nil || run.Phase == state.Exited)
}

// programGone reports whether nothing of a program is left. What its main process has left behind is killed.
func (c *Core) programGone(s *scope, p *program) (bool, error) {
	if p.reboot {
		return true, nil
	}
	tree, err := c.kernel.Tree(p.place)
	if err != nil || tree.State != observe.TreePopulated {
		return err == nil, err
	}
	if err := errors.Join(c.kernel.WatchTree(p.place), c.kernel.KillTree(p.place)); err != nil {
		return false, err
	}
	tree, err = c.kernel.Tree(p.place)
	if err == nil && tree.State == observe.TreePopulated {
		s.again = true
	}
	return err == nil && tree.State != observe.TreePopulated, err
}

// recordProgram writes what became of a program, and tells those who wait for it.
func (c *Core) recordProgram(s *scope, e entry, p *program) error {
	o := p.outcome(e)
	err := c.edit(s, func(r *state.Record) {
		editJournal(r, e.ref, func(j *state.Program, result *state.DeliveryResult, reason *string) {
			j.Exit, *result, *reason = p.exit, o.Result, o.Reason
		})
		if e.command() {
			r.Output = p.output
		}
	})
	if err != nil {
		return fmt.Errorf("cannot record the end of a program of %s: %w", s.name, err)
	}
	if e.command() {
		known := *s.rec.Delivery(e.ref.ID)
		o := s.outcomeOf(known)
		if p.detail != "" {
			o.Detail = p.detail
		}
		s.tell(known, o)
	}
	return nil
}

// outcome says what became of a program that is over.
func (p *program) outcome(e entry) Outcome {
	switch {
	case p.never != "":
		return Outcome{Result: state.Undeliverable, Reason: p.never}
	case p.reboot:
		return Outcome{Result: state.Indeterminate, Reason: string(spec.ReasonHostRebooted)}
	case p.exit == nil || p.exit.Status == nil:
		return Outcome{Result: state.Indeterminate, Reason: string(spec.ReasonUnknown)}
	}
	status := *p.exit.Status
	switch killed := status&0x7f == sigkill; {
	case status == 0:
		return Outcome{Result: state.Done}
	case killed && e.TimedOut:
		return Outcome{Result: state.Failed, Reason: state.ReasonTimedOut}
	case killed && p.orphan:
		return Outcome{Result: state.Failed, Reason: state.ReasonRunEnded}
	case status&0x7f != 0:
		return Outcome{Result: state.Failed, Reason: string(spec.ReasonSignaled)}
	}
	return Outcome{Result: state.Failed, Reason: string(spec.ReasonExited)}
}

// sigkill is SIGKILL in a wait status.
const sigkill = 9

// editProgram changes the journal entry of a program.
func (c *Core) editProgram(s *scope, ref DeliveryRef, change func(*state.Program)) error {
	return c.edit(s, func(r *state.Record) {
		editJournal(r, ref, func(j *state.Program, _ *state.DeliveryResult, _ *string) { change(j) })
	})
}

// editJournal changes copies of a program's entry and of what holds it.
func editJournal(r *state.Record, ref DeliveryRef, change func(j *state.Program, result *state.DeliveryResult, reason *string)) {
	if ref.ID != "" {
		r.Deliveries = slices.Clone(r.Deliveries)
		d := r.Delivery(ref.ID)
		j := *d.Program
		change(&j, &d.Result, &d.Reason)
		d.Program = &j
		return
	}
	steps := slices.Clone(r.Run.Stop.Steps)
	i := slices.IndexFunc(steps, func(e state.StepEntry) bool { return e.Index == ref.Step })
	j := *steps[i].Program
	change(&j, &steps[i].Result, &steps[i].Reason)
	steps[i].Program = &j
	r.Run.Stop.Steps = steps
}

// legible makes text of whatever a program has written: UTF-8, without control characters but tabs and line ends, and not longer.
func legible(b []byte) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, string(b))
	if over := len(text) - state.OutputLimit; over > 0 { // what is no UTF-8 was replaced by something longer
		text = strings.ToValidUTF8(text[over:], "")
	}
	return text
}
