package reconcile

import (
	"errors"
	"slices"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// jobStanding is everything that deciding about one job takes. Deciding changes nothing of it.
type jobStanding struct {
	mem      *JobMemory
	declared bool      // a source has it
	s        *standing // of its server; nil = nothing is known of one
	d        *decision // the newest about its server; nil with s
	heard    bool      // the keeper is heard
	known    bool      // every source has been read whole
	closing  bool      // a shutdown is under way
	before   string    // the job of its server that has to end first; "" = it is its turn
	sent     sent      // its last order
	denied   error     // why the server's memory did not take what it asks for
}

// sent is the last order of a job, and its answer.
type sent struct {
	id      string // of the step; "" = none was given
	flying  bool
	receipt *state.Receipt
	err     error
	tries   int
	until   time.Duration // not before this uptime again
}

// jobDecision is what comes of one look at a job.
type jobDecision struct {
	next  *JobMemory    // what is to be recorded; nil = nothing
	act   Action        // what is to be asked of its server; "" = nothing
	order *Order        // a command, at most one
	pause bool          // the server shall have no run now
	wake  time.Duration // look again by then, on the uptime clock; 0 = when something changes
	why   string        // of a Pending job: what it waits for
	text  string        // why, in words
}

// jobGrace is how long a job of a source waits before a check says no to it: what it refers to may be in a file that is read
// right after it.
const jobGrace = time.Second

// decideJob says what is to be done for a job now.
func decideJob(j *jobStanding, now state.Moment) jobDecision {
	var d jobDecision
	switch {
	case j.mem.Phase.Over():
	case j.mem.Phase == spec.JobPending:
		d.pending(j, now)
	default:
		d.running(j, now)
	}
	return d
}

// pending withdraws what is not to begin, refuses what does not fit, lets others go first, and begins.
func (d *jobDecision) pending(j *jobStanding, now state.Moment) {
	m := j.mem
	if m.Cancel != nil {
		d.next = m.cancelled("it was withdrawn before anything of it was done", now.Wall)
		return
	}
	left := m.left(now)
	if left <= 0 {
		d.next = m.end(spec.JobCancelled, JobReasonLate, "its deadline was over before anything of it was done", now.Wall)
		return
	}
	d.lookAt(now.Uptime + left)
	switch {
	case j.closing:
		d.wait(JobReasonClosing, "everything is being ended")
	case !j.heard:
		d.wait(JobReasonUnheard, "the keeper has not been heard")
	case !j.known:
		d.wait(JobReasonUnread, "not every source has been read")
	case j.s == nil || !j.s.present:
		d.wait(JobReasonNoServer, "no source has server "+m.Spec.Server)
	case j.s.mem == nil || j.s.good == nil || j.s.newest != nil && !j.s.newest.same(j.s.good):
		d.wait(JobReasonNotAccepted, "the manifest of server "+m.Spec.Server+" is not accepted")
	case j.before != "":
		d.wait(JobReasonQueued, "job "+j.before+" is before it")
	case j.s.mem.Pause != nil:
		d.wait(JobReasonSettling, "the server is on its way back from another job")
	default:
		d.begin(j, now)
	}
}

// begin binds a job whose turn it is to what it acts on, if every check allows it.
func (d *jobDecision) begin(j *jobStanding, now state.Moment) {
	m, s := j.mem, j.s
	selected := s.good.launch.Scope.Profile
	steps, check, text := []JobStep(nil), "", ""
	switch {
	case m.Spec.Profile != "" && m.Spec.Profile != selected:
		check, text = CheckJobProfile, "the job is for profile "+m.Spec.Profile+", the server has "+selected
	case j.d.sit == blocked || j.d.sit == unverified:
		check, text = CheckJobBlocked, "what runs there cannot be told; see reconciler doctor"
	case m.Spec.Kind() == spec.JobRestart && j.d.wish.state == spec.WishStopped:
		check, text = CheckJobState, "the server is to be stopped: start it instead"
	case m.Spec.Kind() == spec.JobReload || m.Spec.Kind() == spec.JobCheck:
		check, text = CheckJobType, string(m.Spec.Kind())+" is not available in this version"
	case m.Spec.Kind() == spec.JobCommand:
		steps, check, text = d.command(j)
	}
	if d.why != "" {
		return
	}
	if check != "" {
		d.refuse(j, check, text, now)
		return
	}
	n := *m
	n.Phase, n.Reason, n.Message = spec.JobRunning, "", ""
	n.StartedAt, n.Since, n.Steps = now.Wall, now, steps
	n.On = target(s, j.d)
	d.next = &n
}

// refuse ends a job that does not fit, unless what it refers to may still be on its way.
func (d *jobDecision) refuse(j *jobStanding, check, text string, now state.Moment) {
	if waited := j.mem.Spec.Deadline() - j.mem.left(now); j.declared && waited < jobGrace {
		d.wait(JobReasonSettling, text)
		d.lookAt(now.Uptime + jobGrace - waited)
		return
	}
	d.next = j.mem.refuse(check, text, now.Wall)
}

// target is what a job that begins now acts on.
func target(s *standing, d *decision) *Target {
	t := &Target{UID: s.mem.UID, Mark: Mark{Profile: s.good.launch.Scope.Profile}}
	l := d.lane
	if d.sit == vacant {
		l = s.own()
	}
	if l != nil && l.facts.Run != nil {
		t.Mark = Mark{Profile: l.facts.Scope.Profile, Number: l.facts.Run.Number, Run: l.facts.Run.ID}
		t.Live = !l.facts.Run.Over()
	}
	return t
}

// running goes on with a job that has begun.
func (d *jobDecision) running(j *jobStanding, now state.Moment) {
	m := j.mem
	d.lookIn(m.left(now), now)
	switch {
	case !j.heard:
		d.pause = pausing(m) // as it was
	case j.sent.flying && j.sent.id == m.stepID(m.next()):
		d.pause = pausing(m)
	case j.s == nil || j.s.mem == nil || j.s.mem.UID != m.On.UID:
		d.next = m.gone(now)
	case m.Spec.Kind() == spec.JobCommand:
		d.commanding(j, now)
	default:
		d.acting(j, now)
	}
}

// acting lets a Start, Stop or Restart change the server's memory, once, and waits for what comes of it.
func (d *jobDecision) acting(j *jobStanding, now state.Moment) {
	m := j.mem
	late := m.left(now) <= 0
	if j.s.mem.LastJob != m.id() {
		switch {
		case m.Cancel != nil:
			d.next = m.cancelled("it was withdrawn before anything of it was done", now.Wall)
		case late:
			d.next = m.end(spec.JobCancelled, JobReasonLate, "its deadline was over before anything of it was done", now.Wall)
		case errors.Is(j.denied, ErrStopped):
			d.next = m.refuse(CheckJobState, "the server is to be stopped: start it instead", now.Wall)
		case errors.Is(j.denied, ErrRunGone):
			d.next = m.refuse(CheckJobRun, "another run has taken the place of the one that it was to restart", now.Wall)
		default:
			d.act = Action(m.Spec.Kind())
		}
		return
	}
	reason, text, over := j.outcome(now)
	switch {
	case over && reason == "":
		d.next = m.end(spec.JobSucceeded, "", "", now.Wall)
	case over:
		d.next = m.end(spec.JobFailed, reason, text, now.Wall)
	case m.Cancel == nil && !late:
	case j.unbegun():
		d.act = actionWithdraw
	case m.Cancel != nil:
		d.next = m.cancelled("it had begun: what it asked for of the server stays", now.Wall)
	default:
		d.next = m.end(spec.JobFailed, JobReasonLate, "its deadline was over before it came to what it asked for; that stays asked for", now.Wall)
	}
}

// unbegun reports whether the restart that a job asks for has not begun.
func (j *jobStanding) unbegun() bool {
	r, run := j.s.mem.Restart, runOf(j.d)
	return j.mem.Spec.Kind() == spec.JobRestart && r != nil && r.Job == j.mem.id() && !run.Over() && run.ID == r.Run && run.Stop == nil
}

// outcome says what has become of a Start, Stop or Restart that the server's memory has taken: over, and "" when it came to what
// was asked for.
func (j *jobStanding) outcome(now state.Moment) (reason, text string, over bool) {
	if j.d.sit == blocked || j.d.sit == unverified {
		return JobReasonBlocked, "what runs there cannot be told; see reconciler doctor", true
	}
	hold := j.s.hold(now)
	if j.mem.Spec.Kind() == spec.JobStop {
		switch {
		case j.d.sit == vacant && (j.d.wish.intent == intentEnd || j.d.wish.intent == intentGone):
			return "", "", true
		case j.s.present && (hold == nil || hold.State != spec.WishStopped):
			return JobReasonSuperseded, "somebody let the server run again before it was stopped", true
		}
		return "", "", false
	}
	switch exit := j.ended(); {
	case hold != nil && hold.State == spec.WishStopped:
		return JobReasonSuperseded, "somebody stopped the server meanwhile", true
	case j.d.sit == up && j.d.ready.ok() && j.renewed():
		return "", "", true
	case exit != nil:
		return string(exit.Reason), "its process ended before the server was ready", true
	case j.d.gate == gateComplete, j.d.gate == gateFailed:
		return JobReasonServer, "the server is not started again by itself", true
	}
	return "", "", false
}

// renewed reports whether the run that lives is the one that a Start or Restart asks for.
func (j *jobStanding) renewed() bool {
	return j.mem.Spec.Kind() != spec.JobRestart || !j.mem.On.Live || runOf(j.d).ID != j.mem.On.Run
}

// ended is the first end, of a run that the job asks for, that leads to no Ready by itself (EC-12); nil = there is none.
func (j *jobStanding) ended() *state.Exit {
	own := j.s.own()
	if own == nil {
		return nil
	}
	on := j.mem.On
	i := slices.IndexFunc(own.facts.Exits, func(e state.Exit) bool {
		later := e.Number > on.Number || on.Live && e.Number == on.Number && j.mem.Spec.Kind() == spec.JobStart
		if own.facts.Scope.Profile != on.Profile {
			later = e.FinishedAt.After(j.mem.StartedAt)
		}
		return later && (e.Class != spec.Expected || e.Reason == spec.ReasonCompleted)
	})
	if i < 0 {
		return nil
	}
	return &own.facts.Exits[i]
}

// cancelled is the memory of a job that was withdrawn.
func (m *JobMemory) cancelled(text string, now time.Time) *JobMemory {
	reason := JobReasonRequested
	if m.Cancel.By == removedActor {
		reason = JobReasonRemoved
	}
	return m.end(spec.JobCancelled, reason, text, now)
}

// removedActor withdraws the jobs whose manifests are gone.
const removedActor = systemActor

func (d *jobDecision) wait(why, text string) { d.why, d.text = why, text }

func (d *jobDecision) lookAt(at time.Duration) {
	if at > 0 && (d.wake == 0 || at < d.wake) {
		d.wake = at
	}
}

// lookIn asks for another look when a time is over; one that is over asks for none.
func (d *jobDecision) lookIn(in time.Duration, now state.Moment) {
	if in > 0 {
		d.lookAt(now.Uptime + in)
	}
}
