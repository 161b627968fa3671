package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// What a job may be refused with, when it is asked for or withdrawn directly.
var (
	ErrJobExists = errors.New("there is a job of this name: another action is another name")
	ErrNoJob     = errors.New("there is no such job")
	ErrRunGone   = errors.New("another run has taken the place of the one that was meant")
)

// JobAsk asks for a job directly, or withdraws one.
type JobAsk struct {
	Key  spec.Key
	Spec spec.JobSpec // of one that is asked for
	By   string       // the actor, from the peer's credentials
}

// jobAsk is a request on its way to being recorded.
type jobAsk struct {
	JobAsk
	withdraw bool
	origin   *Origin    // of one that nobody asks for in person
	answer   chan error // one slot
}

// AddJob asks for a job. It returns when the job is durable; what becomes of it shows in the snapshot.
func (l *Loop) AddJob(ctx context.Context, a JobAsk) error { return l.askJob(ctx, a, false) }

// CancelJob withdraws a job. It returns when that is durable. A job that has ended stays as it is, which is a success.
func (l *Loop) CancelJob(ctx context.Context, a JobAsk) error { return l.askJob(ctx, a, true) }

func (l *Loop) askJob(ctx context.Context, a JobAsk, withdraw bool) error {
	select {
	case err := <-l.SubmitJob(a, withdraw):
		return err
	case <-ctx.Done():
		return fmt.Errorf("cannot wait until job %s is recorded: %w", a.Key, context.Cause(ctx))
	}
}

// SubmitJob is AddJob or CancelJob without waiting: the answer comes on the channel, once.
func (l *Loop) SubmitJob(a JobAsk, withdraw bool) <-chan error {
	q := &jobAsk{JobAsk: a, withdraw: withdraw, answer: make(chan error, 1)}
	l.mu.Lock()
	if l.ended {
		q.answer <- ErrClosing
	} else {
		l.jobInbox = append(l.jobInbox, q)
	}
	l.mu.Unlock()
	l.Wake()
	return q.answer
}

// takeJobAsks hands the requests to their jobs.
func (l *Loop) takeJobAsks() {
	l.mu.Lock()
	inbox := l.jobInbox
	l.jobInbox = nil
	l.mu.Unlock()
	for _, q := range inbox {
		j := l.jobs.all[q.Key]
		server := l.servers[q.Spec.ServerKey(q.Key.Namespace)]
		switch {
		case l.closing:
			q.answer <- ErrClosing
		case q.withdraw && (j == nil || j.mem == nil):
			q.answer <- ErrNoJob
		case q.withdraw && j.mem.Phase.Over():
			q.answer <- nil
		case q.withdraw:
			j.cancel = append(j.cancel, q)
			l.jobs.touch(j.server)
		case j != nil:
			q.answer <- ErrJobExists
		case server == nil || server.object == nil:
			q.answer <- ErrNoServer
		default:
			l.jobs.add(q.Key, server.key).born = q
		}
	}
}

// accept is the memory that is asked for: by the job's manifest, by whoever asked for it directly, and by those who withdraw it.
func (j *job) accept(l *Loop, now state.Moment) *JobMemory {
	m := j.mem
	j.faults = nil
	switch {
	case m == nil && j.born != nil:
		m = newJob(l.opts.NewUID(), j.born.By, nil, j.born.Spec, now)
		m.Origin = j.born.origin
		return m
	case m == nil && j.object == nil:
		return nil
	case m == nil:
		from := j.object.Source
		return newJob(l.opts.NewUID(), "job/"+j.key.Name, &state.Source{File: from.File, Document: from.Document, Revision: from.Revision}, j.object.Object.Spec, now)
	case j.object != nil:
		want := &j.object.Object.Spec
		if j.faults = changed(m, want); len(j.faults) > 0 {
			break
		}
		if want.Attempts() > m.Attempt && m.Phase.Over() {
			m = m.again(want.Attempts(), now)
		}
		if want.Cancel {
			m = m.withdrawn("job/"+j.key.Name, now)
		}
	case m.Origin != nil && m.Origin.Announces != "" && !l.stillAnnounces(j.server, m.Origin):
		m = m.withdrawn(systemActor, now)
	case m.Source != nil && l.set != nil && l.set.Known:
		m = m.withdrawn(removedActor, now)
	}
	if len(j.cancel) > 0 {
		m = m.withdrawn(j.cancel[0].By, now)
	}
	return m.inBoot(now)
}

// newJob is a job that nothing was done of.
func newJob(uid, by string, source *state.Source, s spec.JobSpec, now state.Moment) *JobMemory {
	m := &JobMemory{UID: uid, CreatedAt: now.Wall, By: by, Source: source, Attempt: s.Attempts(), Accepted: now, Phase: spec.JobPending}
	cancel := s.Cancel
	s.Attempt, s.Cancel = nil, false
	m.Spec = s
	if cancel {
		m = m.withdrawn(by, now)
	}
	return m
}

// withdrawn is the memory of a job that somebody withdrew; m itself when it has ended, or was withdrawn before.
func (m *JobMemory) withdrawn(by string, now state.Moment) *JobMemory {
	if m.Phase.Over() || m.Cancel != nil {
		return m
	}
	n := *m
	n.Cancel = &Cancellation{By: by, At: now.Wall}
	return &n
}

// changed are the faults of a manifest that asks for something else than was accepted under its name.
func changed(m *JobMemory, want *spec.JobSpec) []spec.Fault {
	const remedy = "a Job does not change but for `attempt` and `cancel`: another action is another name"
	var faults []spec.Fault
	add := func(field, kind, value, detail string) {
		faults = append(faults, spec.Fault{Field: "spec." + field, Kind: kind, Value: value, Detail: detail})
	}
	was := &m.Spec
	for _, f := range []struct {
		name string
		same bool
	}{
		{"server", was.Server == want.Server},
		{"type", was.Kind() == want.Kind()},
		{"command", was.Command == want.Command},
		{"parameters", maps.Equal(was.Parameters, want.Parameters)},
		{"profile", was.Profile == want.Profile},
		{"deadlineSeconds", was.Deadline() == want.Deadline()},
	} {
		if !f.same {
			add(f.name, spec.FaultForbidden, "", remedy)
		}
	}
	if want.Attempts() < m.Attempt {
		add("attempt", spec.FaultForbidden, "", fmt.Sprintf("it is only raised: attempt %d was accepted", m.Attempt))
	}
	return slices.Clip(faults)
}
