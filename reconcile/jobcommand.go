package reconcile

import (
	"slices"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// command is the steps of a Command that is to begin now, or the check that says no to it.
func (d *jobDecision) command(j *jobStanding) (steps []JobStep, check, text string) {
	s, name := j.s, j.mem.Spec.Command
	commands := observe.CommandsOf(s.good.launch)
	if c := commandOf(commands, name); j.d.sit == up && s.selected(j.d.lane) && (c == nil || c.Requires != spec.RequiresStopped) {
		if j.d.need == needLive || j.d.need == needReload {
			d.wait(JobReasonSettling, "the run is about to be governed by the newest manifest")
			return nil, "", ""
		}
		commands = runOf(j.d).Commands // a run is governed whole by the spec it was started with (API.md rule 7)
	}
	main := commandOf(commands, name)
	if main == nil {
		return nil, CheckJobCommand, "profile " + s.good.launch.Scope.Profile + " declares no command " + name
	}
	for _, part := range []struct {
		stage Stage
		names []string
	}{{StageBefore, main.Before}, {StageMain, []string{name}}, {StageAfter, main.After}} {
		for _, name := range part.names {
			c := commandOf(commands, name)
			if c == nil {
				return nil, CheckJobCommand, "profile " + s.good.launch.Scope.Profile + " declares no command " + name
			}
			steps = append(steps, JobStep{Command: name, Stage: part.stage, Requires: c.Requires, Program: c.Program})
		}
	}
	if c := s.good.launch.Command(name); c != nil {
		if _, faults := c.Fill(j.mem.Spec.Parameters, s.good.launch.Console); len(faults) > 0 {
			return nil, CheckJobParameters, faultText(faults)
		}
	}
	check, text = d.room(j, &steps[0])
	return steps, check, text
}

func commandOf(commands []observe.Command, name string) *observe.Command {
	i := slices.IndexFunc(commands, func(c observe.Command) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &commands[i]
}

// room says whether the first step could be carried out, may be after a wait.
func (d *jobDecision) room(j *jobStanding, first *JobStep) (check, text string) {
	switch {
	case first.Requires == spec.RequiresStopped:
	case first.needsRun() && (j.d.wish.intent != intentRun || j.d.gate == gateComplete || j.d.gate == gateFailed):
		return CheckJobRun, "command " + first.Command + " is for a server that runs, and this one is not to: start it first"
	case j.d.sit == up && j.s.selected(j.d.lane):
	case first.needsRun():
		d.wait(JobReasonNoRun, "the server does not run yet")
	case j.d.sit != vacant:
		d.wait(JobReasonSettling, "the server is on its way to another state")
	}
	return "", ""
}

// commanding goes on with the steps of a Command, one after the other. What is withdrawn, late or has failed goes on with the
// steps that follow in any case.
func (d *jobDecision) commanding(j *jobStanding, now state.Moment) {
	m := j.mem
	i := m.next()
	if i == len(m.Steps) {
		d.next = j.conclude(now)
		return
	}
	step, given := &m.Steps[i], j.delivered(i)
	if given != nil || j.sent.id == m.stepID(i) && (j.sent.flying || j.sent.receipt != nil || j.sent.err != nil) {
		d.pause = pausing(m)
		d.await(j, i, given, now)
		return
	}
	withdrawn := j.withdrawn(now)
	failed := slices.ContainsFunc(m.Steps[:i], func(s JobStep) bool { return s.Stage != StageAfter && !s.well() })
	switch {
	case j.forgotten(now):
		d.ask(j, i, now)
	case step.Stage != StageAfter && (withdrawn || failed):
		d.next = m.withStep(i, *step, now) // passed over
	case step.Stage == StageAfter && !m.begun():
		d.next = m.withStep(i, *step, now) // nothing is to be tidied up
	default:
		d.carryOut(j, i, withdrawn, now)
	}
}

// withdrawn reports whether nothing of a job is to begin any more but what follows in any case.
func (j *jobStanding) withdrawn(now state.Moment) bool {
	return j.mem.Cancel != nil || j.mem.left(now) <= 0 || j.d.wish.intent == intentGone
}

// gone is how a job ends whose server is no more. What was ordered of it and is not known to be over may have been done: the
// record that would tell went with the server.
func (m *JobMemory) gone(now state.Moment) *JobMemory {
	const text = "the server that it acts on was removed"
	i := m.next()
	if m.Ordered == nil || i == len(m.Steps) {
		return m.end(spec.JobFailed, JobReasonGone, text, now.Wall)
	}
	s := m.Steps[i]
	s.Result, s.Reason, s.StartedAt, s.FinishedAt = state.Indeterminate, JobReasonGone, m.Ordered.Wall, now.Wall
	return m.withStep(i, s, now).end(spec.JobFailed, JobReasonIndeterminate, text+" while command "+s.Command+" was under way", now.Wall)
}

// pausing reports whether the step that is next is for a server without a run.
func pausing(m *JobMemory) bool {
	i := m.next()
	return m.Phase == spec.JobRunning && i < len(m.Steps) && m.Steps[i].Requires == spec.RequiresStopped
}

// delivered is what the keeper has on record of a step.
func (j *jobStanding) delivered(step int) *state.Delivery {
	id := j.mem.stepID(step)
	for _, l := range j.s.lanes {
		for i := range l.facts.Deliveries {
			if l.facts.Deliveries[i].ID == id {
				return &l.facts.Deliveries[i]
			}
		}
	}
	return nil
}

// carryOut orders a step as soon as the server is as it requires.
func (d *jobDecision) carryOut(j *jobStanding, i int, withdrawn bool, now state.Moment) {
	m, step := j.mem, &j.mem.Steps[i]
	run := runOf(j.d)
	live := j.d.sit == up && run.ID == m.On.Run && j.d.lane.facts.Scope.Profile == m.On.Profile
	d.pause = step.Requires == spec.RequiresStopped
	switch {
	case step.Requires == spec.RequiresStopped:
		if j.d.sit == vacant && j.d.wish.intent != intentRun {
			d.give(j, i, nil, now)
		}
	case live:
		d.give(j, i, run, now)
	case j.restoring(i) && j.s.mem.Pause != nil:
		// The wish does not count yet.
	case j.restoring(i):
		// The job itself has ended the run: the next one, which the wish brings, is the one that is acted on from here.
		switch {
		case j.d.sit == up && j.d.ready.ok() && j.s.selected(j.d.lane) && j.d.lane.facts.Scope.Profile == m.On.Profile:
			n := *m
			n.On = target(j.s, j.d)
			d.next = &n
		case j.d.wish.intent != intentRun, j.d.gate == gateComplete, j.d.gate == gateFailed:
			d.skipRun(j, i, now)
		case withdrawn && passedSince(m.Since, now) >= tidyPatience:
			d.skipRun(j, i, now)
		default:
			d.lookIn(tidyPatience-passedSince(m.Since, now), now)
		}
	case step.needsRun():
		d.missed(j, i, JobReasonRunGone, now)
	case j.d.sit == vacant:
		d.give(j, i, nil, now)
	case j.d.sit == up, withdrawn:
		d.missed(j, i, JobReasonRunGone, now)
	}
}

// tidyPatience is how long what follows in any case waits at least for the run that it is for.
const tidyPatience = 5 * time.Minute

// restoring reports whether the run that a step would be for was ended by the job itself: the wish brings another.
func (j *jobStanding) restoring(i int) bool {
	on := j.mem.On
	if run := runOf(j.d); !on.Live || !run.Over() && run.ID == on.Run {
		return false
	}
	for _, l := range j.s.lanes {
		if slices.ContainsFunc(l.facts.Exits, func(e state.Exit) bool { return e.RunID == on.Run && e.Why == WhyJob }) {
			return true
		}
	}
	return slices.ContainsFunc(j.mem.Steps[:i], func(s JobStep) bool { return s.Requires == spec.RequiresStopped && s.Result != "" })
}

// skipRun is for a step that would be for the next run, of which there will be none.
func (d *jobDecision) skipRun(j *jobStanding, i int, now state.Moment) {
	if step := &j.mem.Steps[i]; step.needsRun() || j.d.sit != vacant {
		d.missed(j, i, "NotRunning", now)
		return
	}
	d.give(j, i, nil, now)
}

// missed ends a step that has nobody to go to.
func (d *jobDecision) missed(j *jobStanding, i int, reason string, now state.Moment) {
	s := j.mem.Steps[i]
	s.Result, s.Reason, s.StartedAt, s.FinishedAt = state.Undeliverable, reason, now.Wall, now.Wall
	d.next = j.mem.withStep(i, s, now)
}

// give is the order for a step: for a run, or for a scope without one. That it is about to be given is recorded first.
func (d *jobDecision) give(j *jobStanding, i int, run *observe.RunFacts, now state.Moment) {
	m, step := j.mem, &j.mem.Steps[i]
	o := state.DoOrder{Scope: j.scope(), ID: m.stepID(i), Command: step.Command, By: m.By}
	switch {
	case j.closing:
		return
	case run == nil && j.s.good.launch.Scope != o.Scope:
		d.missed(j, i, JobReasonRunGone, now)
		return
	case m.Ordered == nil:
		n := *m
		n.Ordered = &now
		d.next = &n
		return
	case j.sent.id == o.ID && now.Uptime < j.sent.until:
		d.lookAt(j.sent.until)
		return
	}
	if step.Stage == StageMain {
		o.Parameters = m.Spec.Parameters
	}
	if run != nil {
		o.RunID = run.ID
	} else {
		o.Launch = j.s.good.launch
		if own := j.s.own(); own != nil && own.facts.Run != nil {
			o.After = own.facts.Run.Number
		}
	}
	within := time.Duration(orderTimeout)
	if step.Stage != StageAfter {
		within = min(within, m.left(now))
	}
	d.order = &Order{Scope: o.Scope, Do: &CommandOrder{DoOrder: o, Within: within}}
}

// ask is the question what became of a step that may have been carried out: nothing is done.
func (d *jobDecision) ask(j *jobStanding, i int, now state.Moment) {
	m := j.mem
	if j.sent.id == m.stepID(i) && now.Uptime < j.sent.until {
		d.lookAt(j.sent.until)
		return
	}
	o := state.DoOrder{Scope: j.scope(), ID: m.stepID(i), Command: m.Steps[i].Command, By: m.By, Recall: true}
	d.order = &Order{Scope: o.Scope, Do: &CommandOrder{DoOrder: o, Within: orderTimeout}}
}

// scope is the scope that the job acts in.
func (j *jobStanding) scope() spec.Scope {
	return spec.Scope{Namespace: j.s.key.Namespace, Server: j.s.key.Name, Profile: j.mem.On.Profile}
}

// forgotten reports whether the step that is next may have been carried out although its scope has nothing of it on record: its
// journal has lost what was so old, or the host was reset, which may cost what was written last (EN-6).
func (j *jobStanding) forgotten(now state.Moment) bool {
	ordered := j.mem.Ordered
	if ordered == nil {
		return false
	}
	if ordered.BootID != now.BootID {
		return true
	}
	scope := j.scope()
	for _, l := range j.s.lanes {
		if f := l.facts; f.Scope == scope && len(f.Deliveries) >= state.DeliveryLimit && f.Deliveries[0].At.After(ordered.Wall) {
			return true
		}
	}
	return false
}

// await looks at what became of a step that was ordered.
func (d *jobDecision) await(j *jobStanding, i int, given *state.Delivery, now state.Moment) {
	m, sent := j.mem, &j.sent
	mine := sent.id == m.stepID(i)
	switch {
	case mine && sent.flying:
	case mine && sent.tells(given):
		d.next = m.withStep(i, m.Steps[i].after(sent.receipt, now.Wall), now)
	case given == nil:
		d.failed(j, i, now)
	case given.Result == "":
		// It is under way; when it has ended, the facts tell.
	case j.d.wish.intent == intentGone: // its record is about to go
		d.next = m.withStep(i, m.Steps[i].after(&state.Receipt{Delivery: *given}, now.Wall), now)
	default:
		d.ask(j, i, now)
	}
}

// tells reports whether a receipt is the last word on a delivery. One that says only that the wait was over is not, while the
// keeper's record says more.
func (s *sent) tells(given *state.Delivery) bool {
	return s.receipt != nil && s.receipt.Result != "" && (given == nil || s.receipt.Result == given.Result || s.receipt.Result != state.Indeterminate)
}

// failed looks at why a step was not carried out, or is not known to have been.
func (d *jobDecision) failed(j *jobStanding, i int, now state.Moment) {
	m := j.mem
	check, text, refused := refusalOf(j.sent.err)
	switch {
	case refused && !passing(check):
		s := m.Steps[i]
		s.Result, s.Reason, s.Check, s.Message = state.Undeliverable, "Refused", check, text
		s.StartedAt, s.FinishedAt = now.Wall, now.Wall
		d.next = m.withStep(i, s, now)
	case refused && m.Steps[i].Stage != StageAfter && j.withdrawn(now):
		d.next = m.withStep(i, m.Steps[i], now) // nothing was done
	case refused:
		d.carryOut(j, i, j.withdrawn(now), now)
	case m.Steps[i].Stage != StageAfter && j.withdrawn(now), j.forgotten(now):
		d.ask(j, i, now) // it is not begun any more, and may have been
	default:
		d.carryOut(j, i, false, now) // the keeper knows its id, and does it once
	}
}

// after is a step with its receipt.
func (s JobStep) after(r *state.Receipt, now time.Time) JobStep {
	s.Result, s.Reason, s.Message = r.Result, r.Reason, r.Detail
	s.StartedAt, s.FinishedAt = r.At, now
	if r.At.IsZero() {
		s.StartedAt = now
	}
	s.Output = r.Reply[:min(len(r.Reply), spec.MaxJobOutput)]
	if p := r.Program; p != nil {
		if !p.StartedAt.IsZero() {
			s.StartedAt = p.StartedAt
		}
		if p.Exit != nil {
			s.FinishedAt = p.Exit.At
			s.ExitCode, s.Signal = exitOf(p.Exit)
		}
	}
	return s
}

// exitOf reads a wait status word as Linux writes it (wait(2)); neither = the kernel did not tell.
func exitOf(e *state.MainExit) (code *int, signal string) {
	if e.Status == nil {
		return nil, ""
	}
	if s := int(*e.Status & 0x7f); s != 0 {
		return nil, spec.SignalName(s)
	}
	c := int(*e.Status>>8) & 0xff
	return &c, ""
}

// conclude is how a Command ends whose steps are over.
func (j *jobStanding) conclude(now state.Moment) *JobMemory {
	m := j.mem
	bad := slices.IndexFunc(m.Steps, func(s JobStep) bool { return s.Stage != StageAfter && s.Result != "" && !s.well() })
	untidy := slices.IndexFunc(m.Steps, func(s JobStep) bool { return s.Stage == StageAfter && s.Result != "" && !s.well() })
	passed := slices.ContainsFunc(m.Steps, func(s JobStep) bool { return s.Stage != StageAfter && s.Result == "" })
	switch {
	case bad >= 0:
		return m.failedStep(bad, now.Wall)
	case passed && m.Cancel == nil && m.left(now) > 0:
		return m.end(spec.JobFailed, JobReasonGone, "the server that it acts on is being removed", now.Wall)
	case passed && m.Cancel != nil && m.begun():
		return m.cancelled("it had begun; what follows in any case was done", now.Wall)
	case passed && m.Cancel != nil:
		return m.cancelled("it was withdrawn before anything of it was done", now.Wall)
	case passed && m.begun():
		return m.end(spec.JobFailed, JobReasonLate, "its deadline was over before all of it was done; what follows in any case was done", now.Wall)
	case passed:
		return m.end(spec.JobCancelled, JobReasonLate, "its deadline was over before anything of it was done", now.Wall)
	case untidy >= 0:
		n := m.failedStep(untidy, now.Wall)
		n.Reason = JobReasonAfter
		return n
	}
	return m.end(spec.JobSucceeded, "", "", now.Wall)
}

// failedStep is how a Command ends that failed in a step. One that was refused in its first step is Refused: nothing of it was done.
func (m *JobMemory) failedStep(i int, now time.Time) *JobMemory {
	s := &m.Steps[i]
	what := "command " + s.Command + ": " + resultText(string(s.Result), s.Reason)
	if s.Message != "" {
		what = "command " + s.Command + ": " + s.Message
	}
	switch {
	case i == 0 && s.Check != "":
		return m.refuse(s.Check, what, now)
	case s.Result == state.Indeterminate:
		return m.end(spec.JobFailed, JobReasonIndeterminate, what, now)
	}
	return m.end(spec.JobFailed, JobReasonCommand, what, now)
}
