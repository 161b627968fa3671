package reconcile

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// JobView is one job as it stands. Everything but Spec is public as it is; Spec has values of parameters.
type JobView struct {
	Key       spec.Key
	Rev       uint64    // grows with every change of this view
	Object    *spec.Job // nil when no source has it
	UID       string    // "" until it is accepted
	CreatedAt time.Time
	Spec      spec.JobSpec // that was accepted, with attempt and cancel as they are
	Status    spec.JobStatus
	Faults    []spec.Fault // why what its manifest asks for is not what is done
}

// Job finds a job by its key; nil when there is none.
func (s *Snapshot) Job(key spec.Key) *JobView {
	i, ok := slices.BinarySearchFunc(s.Jobs, key, func(v *JobView, k spec.Key) int { return compareKeys(v.Key, k) })
	if !ok {
		return nil
	}
	return s.Jobs[i]
}

// showJob makes a job's view anew, if what it shows changed.
func (l *Loop) showJob(j *job, now state.Moment) {
	if j.mem == nil {
		return
	}
	next := &JobView{Key: j.key, UID: j.mem.UID, CreatedAt: j.mem.CreatedAt, Spec: j.mem.Spec, Faults: j.faults}
	if j.object != nil {
		next.Object = j.object.Object
	}
	attempt := j.mem.Attempt
	next.Spec.Attempt, next.Spec.Cancel = &attempt, j.mem.Cancel != nil
	next.Status = j.status(now)
	if j.view != nil {
		carryJob(j.view.Status.Conditions, next.Status.Conditions)
		next.Rev = j.view.Rev
		if reflect.DeepEqual(next, j.view) {
			return
		}
	}
	next.Rev = l.rev + 1
	j.view = next
	l.jobs.changed, l.changed = true, true
}

// status is what a job's memory and the last decision say of it.
func (j *job) status(now state.Moment) spec.JobStatus {
	m := j.mem
	st := spec.JobStatus{
		Phase: m.Phase, Reason: m.Reason, Check: m.Check, Message: m.Message, Attempt: m.Attempt, By: m.By,
		AcceptedAt: timeOrNil(m.Accepted.Wall), StartedAt: timeOrNil(m.StartedAt), FinishedAt: timeOrNil(m.FinishedAt),
	}
	if m.Phase == spec.JobPending {
		st.Reason, st.Message = j.last.why, j.last.text
	}
	if !m.Phase.Over() {
		st.Deadline = timeOrNil(m.Accepted.Wall.Add(m.Spec.Deadline()))
	}
	if m.On != nil {
		st.Profile, st.Run = m.On.Profile, m.On.Number
	}
	switch {
	case j.object != nil:
		from := j.object.Source
		st.Source = &spec.SourceStatus{File: from.File, Document: from.Document, Revision: from.Revision}
	case m.Source != nil:
		st.Source = &spec.SourceStatus{File: m.Source.File, Document: m.Source.Document, Revision: m.Source.Revision}
	}
	for i := range m.Steps {
		if s := &m.Steps[i]; s.Result != "" || i == m.next() && j.sent.id == m.stepID(i) {
			st.Steps = append(st.Steps, s.status())
		}
	}
	st.Conditions = j.conditions(&st, now)
	return st
}

func (s *JobStep) status() spec.JobStepStatus {
	return spec.JobStepStatus{
		Command: s.Command, Result: string(s.Result), Reason: s.Reason, ExitCode: s.ExitCode, Signal: s.Signal,
		StartedAt: timeOrNil(s.StartedAt), FinishedAt: timeOrNil(s.FinishedAt), Output: s.Output,
	}
}

// conditions are written so that kstatus reads them right.
func (j *job) conditions(st *spec.JobStatus, now state.Moment) []spec.Condition {
	accepted := verdict{conditionTrue, "Accepted", ""}
	if len(j.faults) > 0 {
		accepted = verdict{conditionFalse, "Immutable", faultText(j.faults)}
	}
	reason := st.Reason
	if reason == "" {
		reason = string(st.Phase)
	}
	succeeded := verdict{conditionUnknown, reason, st.Message}
	moving, stalled := verdict{conditionTrue, reason, st.Message}, verdict{conditionFalse, reason, ""}
	switch {
	case st.Phase == spec.JobSucceeded:
		succeeded.status, moving = conditionTrue, verdict{conditionFalse, reason, ""}
	case st.Phase.Over():
		succeeded.status, moving, stalled = conditionFalse, verdict{conditionFalse, reason, ""}, verdict{conditionTrue, reason, st.Message}
	}
	since := now.Wall
	if st.FinishedAt != nil {
		since = *st.FinishedAt
	}
	var out []spec.Condition
	for _, c := range []struct {
		kind string
		verdict
	}{{spec.ConditionAccepted, accepted}, {spec.ConditionSucceeded, succeeded}, {spec.ConditionReconciling, moving}, {spec.ConditionStalled, stalled}} {
		at := since
		if c.kind == spec.ConditionAccepted && c.status == conditionTrue || !st.Phase.Over() {
			at = *st.AcceptedAt
		}
		out = append(out, spec.Condition{Type: c.kind, Status: c.status, Reason: c.reason, Message: c.message, LastTransitionTime: at})
	}
	return out
}

// carryJob keeps the transition time of a condition whose status is the same.
func carryJob(old, next []spec.Condition) {
	for i := range next {
		if i < len(old) && old[i].Type == next[i].Type && old[i].Status == next[i].Status {
			next[i].LastTransitionTime = old[i].LastTransitionTime
		}
	}
}

// jobViews is the list of the last snapshot, or a new one when anything of it changed.
func (l *Loop) jobViews(old *Snapshot) []*JobView {
	if !l.jobs.changed {
		return old.Jobs
	}
	l.jobs.changed = false
	var list []*JobView
	for _, key := range slices.SortedFunc(maps.Keys(l.jobs.all), compareKeys) {
		if v := l.jobs.all[key].view; v != nil {
			list = append(list, v)
		}
	}
	return list
}

// tellJob notes what has become of a job, among the events of its server.
func (l *Loop) tellJob(j *job, was *JobMemory, now time.Time) {
	s, m := l.servers[j.server], j.mem
	if s == nil || m == nil || was != nil && was.Phase == m.Phase && was.Attempt == m.Attempt {
		return
	}
	what := "job " + j.key.Name + " (" + string(m.Spec.Kind())
	if m.Spec.Command != "" {
		what += " " + m.Spec.Command
	}
	what += "): " + string(m.Phase)
	if m.Reason != "" && m.Reason != string(m.Phase) {
		what += ", " + m.Reason
	}
	kind := EventNormal
	if m.Phase == spec.JobFailed || m.Phase == spec.JobRefused {
		kind = EventWarning
	}
	s.happened(kind, "Job", what, now)
	l.touch(s)
}
