package reconcile

import (
	"slices"
	"strconv"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// JobMemory is what the loop must not forget of one job: it is durable before it is acted on, and before it is answered. It holds
// values of parameters and the output of commands, so it goes to the private state directory alone.
type JobMemory struct {
	UID       string    `json:"uid"`
	CreatedAt time.Time `json:"createdAt"` // when it was first accepted
	By        string    `json:"by"`        // who asked for it; of a job in a source: the job itself
	// Source is where it was read; nil = it was asked for directly.
	Source *state.Source `json:"source,omitempty"`
	// Origin is what it is of; nil = somebody asked for it.
	Origin *Origin `json:"origin,omitempty"`
	// Spec is what was accepted. It never changes; how often and whether it is to be done are the members below.
	Spec     spec.JobSpec `json:"spec"`
	Attempt  int64        `json:"attempt"`
	Accepted state.Moment `json:"accepted"` // of this attempt: its deadline counts from here
	// Cancel withdraws this attempt, whatever Spec said.
	Cancel *Cancellation `json:"cancel,omitempty"`

	Phase      spec.JobPhase `json:"phase"`
	Reason     string        `json:"reason,omitempty"`
	Check      string        `json:"check,omitempty"`
	Message    string        `json:"message,omitempty"`
	StartedAt  time.Time     `json:"startedAt,omitzero"`
	FinishedAt time.Time     `json:"finishedAt,omitzero"`

	// On is what it acts on, from phase Running on, and nothing else.
	On *Target `json:"on,omitempty"`
	// Steps are the commands of a Command, as they were declared when the job began.
	Steps []JobStep `json:"steps,omitempty"`
	// Since is when the job began, or when the last of its steps that are over was.
	Since state.Moment `json:"since,omitzero"`
	// Ordered is when the first step that is not over was about to be ordered; nil = it was not.
	Ordered *state.Moment `json:"ordered,omitempty"`
}

// Cancellation says who withdrew a job.
type Cancellation struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// Target is the one thing that a job may act on.
type Target struct {
	UID  string `json:"uid"` // of the server
	Mark        // its profile, and its last run when the job began
	Live bool   `json:"live,omitempty"` // that run was not over
}

// is reports whether a mark is of the run that the target was bound to.
func (t *Target) is(m Mark) bool { return t.Mark == m }

// JobStep is one command of a job.
type JobStep struct {
	Command  string        `json:"command"`
	Stage    Stage         `json:"stage"`
	Requires spec.Requires `json:"requires"`
	Program  bool          `json:"program,omitempty"` // it can be run without a run

	Over       bool                 `json:"over,omitempty"`   // what became of it is known, as far as it will be
	Result     state.DeliveryResult `json:"result,omitempty"` // "" = it was passed over
	Reason     string               `json:"reason,omitempty"`
	Check      string               `json:"check,omitempty"` // that refused it
	Message    string               `json:"message,omitempty"`
	ExitCode   *int                 `json:"exitCode,omitempty"`
	Signal     string               `json:"signal,omitempty"`
	StartedAt  time.Time            `json:"startedAt,omitzero"`
	FinishedAt time.Time            `json:"finishedAt,omitzero"`
	Output     string               `json:"output,omitempty"`
}

// Stage is where in a job a command stands.
type Stage string

// The stages, in their order.
const (
	StageBefore Stage = "Before"
	StageMain   Stage = "Main"
	StageAfter  Stage = "After" // whatever came of the others, once one of them may have begun
)

// well reports whether a step came to what was asked for.
func (s *JobStep) well() bool { return s.Result == state.Sent || s.Result == state.Done }

// needsRun reports whether a step is for a run that lives.
func (s *JobStep) needsRun() bool { return s.Requires == spec.RequiresRunning || !s.Program }

// id names an attempt of a job for good.
func (m *JobMemory) id() string { return m.UID + "-" + strconv.FormatInt(m.Attempt, 10) }

// stepID names a step of an attempt for good: by it the keeper knows whether it was carried out (EN-6).
func (m *JobMemory) stepID(step int) string { return m.id() + "-" + strconv.Itoa(step) }

// next is the first step of which it is not known what became of it; len(Steps) = there is none.
func (m *JobMemory) next() int {
	i := slices.IndexFunc(m.Steps, func(s JobStep) bool { return !s.Over })
	if i < 0 {
		return len(m.Steps)
	}
	return i
}

// begun reports whether anything of any step may have been done.
func (m *JobMemory) begun() bool {
	return slices.ContainsFunc(m.Steps, func(s JobStep) bool { return s.Result != "" && s.Result != state.Undeliverable })
}

// left is how long the attempt still has.
func (m *JobMemory) left(now state.Moment) time.Duration {
	return m.Spec.Deadline() - passedSince(m.Accepted, now)
}

// passedSince is the time since a moment: by the monotonic clock within one boot, else by the wall clock.
func passedSince(then, now state.Moment) time.Duration {
	if then.BootID == now.BootID {
		return now.Uptime - then.Uptime
	}
	return now.Wall.Sub(then.Wall)
}

// inBoot is the memory of a job that has not ended, in another boot than it was accepted in: what it has left is what the wall clock
// says, never more than the whole, and is counted by the monotonic clock from now on. m itself in the same boot.
func (m *JobMemory) inBoot(now state.Moment) *JobMemory {
	if m.Phase.Over() || m.Accepted.BootID == now.BootID {
		return m
	}
	n := *m
	passed := m.Spec.Deadline() - min(m.left(now), m.Spec.Deadline())
	n.Accepted = state.Moment{Wall: now.Wall.Add(-passed), BootID: now.BootID, Uptime: now.Uptime - passed}
	return &n
}

// end is the memory of a job that has ended.
func (m *JobMemory) end(phase spec.JobPhase, reason, message string, now time.Time) *JobMemory {
	n := *m
	n.Phase, n.Reason, n.Message, n.FinishedAt = phase, reason, message, now
	return &n
}

// refuse is the memory of a job that a check said no to. Nothing of it was done.
func (m *JobMemory) refuse(check, message string, now time.Time) *JobMemory {
	n := m.end(spec.JobRefused, "Refused", message, now)
	n.Check = check
	return n
}

// again is the memory of a job whose attempt was raised: another one, of the same spec.
func (m *JobMemory) again(attempt int64, now state.Moment) *JobMemory {
	return &JobMemory{
		UID: m.UID, CreatedAt: m.CreatedAt, By: m.By, Source: m.Source, Origin: m.Origin, Spec: m.Spec,
		Attempt: attempt, Accepted: now, Phase: spec.JobPending,
	}
}

// withStep is the memory after a step.
func (m *JobMemory) withStep(i int, s JobStep, now state.Moment) *JobMemory {
	n := *m
	n.Steps = slices.Clone(m.Steps)
	s.Over = true
	n.Steps[i], n.Ordered, n.Since = s, nil, now
	return &n
}

// The reasons why a job is in its phase, beside those of exits.
const (
	JobReasonQueued      = "Queued"            // Pending: another job of the server is before it
	JobReasonUnheard     = "KeeperNotHeard"    // Pending: what is true is not known yet
	JobReasonUnread      = "SourcesPending"    // Pending: what is wanted is not known yet
	JobReasonNoServer    = "ServerNotFound"    // Pending: no source has the server yet
	JobReasonNotAccepted = "ServerNotAccepted" // Pending: its manifest is not accepted, or about to be
	JobReasonNoRun       = "WaitsForRun"       // Pending: the server is on its way to a run
	JobReasonSettling    = "WaitsForServer"    // Pending: the server is on its way to another state
	JobReasonClosing     = "Shutdown"          // Pending: everything is being ended

	JobReasonRequested     = "CancelRequested"
	JobReasonRemoved       = "Removed" // its manifest was
	JobReasonLate          = "DeadlineExceeded"
	JobReasonGone          = "ServerRemoved"
	JobReasonRunGone       = "RunGone" // the run that it acts on is no more
	JobReasonSuperseded    = "Superseded"
	JobReasonBlocked       = "Blocked"
	JobReasonIndeterminate = "Indeterminate"
	JobReasonCommand       = "CommandFailed"
	JobReasonAfter         = "AfterFailed"
	JobReasonServer        = "ServerFailed"
)

// The checks that refuse a job before anything of it is done. Those of the keeper have its names.
const (
	CheckJobType       = "type"
	CheckJobProfile    = "profile"
	CheckJobCommand    = "command"
	CheckJobParameters = "parameters"
	CheckJobState      = "state"
	CheckJobRun        = "run"
	CheckJobBlocked    = "blocked"
)
