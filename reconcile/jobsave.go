package reconcile

import (
	"fmt"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// saveJobs is what is to be recorded of jobs now.
func (l *Loop) saveJobs() map[spec.Key]*JobMemory {
	batch := map[spec.Key]*JobMemory{}
	for j := range l.jobs.unsaved {
		if j.wanting {
			batch[j.key] = j.want
			j.saving = true
		}
	}
	clear(l.jobs.unsaved)
	return batch
}

// savedJobs takes the answer to a batch. What was recorded counts from now on; after an error nobody knows what the store has,
// and it is written again.
func (l *Loop) savedJobs(batch map[spec.Key]*JobMemory, err error, now state.Moment) {
	for key, m := range batch {
		j := l.jobs.all[key]
		if j == nil {
			continue
		}
		j.saving, j.wanting, j.dubious = false, false, err != nil
		l.jobs.touch(j.server)
		if err != nil {
			j.refuse(fmt.Errorf("%w: %w", ErrUnrecorded, err))
			continue
		}
		if m == nil && j.object == nil && j.born == nil {
			l.jobs.remove(j)
			l.concernJob(j.key)
			if s := l.servers[j.server]; s != nil {
				l.touch(s) // it may be asked for anew
			}
			l.changed = true
			continue
		}
		if m == nil { // it came back while it was forgotten: another job of its name
			j.mem, j.sent, j.act, j.denied = nil, sent{}, nil, nil
			continue
		}
		was := j.mem
		j.mem = m
		j.settle()
		l.tellJob(j, was, now.Wall)
	}
}

// settle answers those whose request is recorded.
func (j *job) settle() {
	if j.born != nil {
		j.born.answer <- nil
		j.born = nil
	}
	if j.mem.Cancel == nil && !j.mem.Phase.Over() {
		return
	}
	for _, q := range j.cancel {
		q.answer <- nil
	}
	j.cancel = nil
}

// refuse answers those whose request is not recorded, or not known to be.
func (j *job) refuse(err error) {
	if j.born != nil {
		j.born.answer <- err
		j.born = nil
	}
	for _, q := range j.cancel {
		q.answer <- err
	}
	j.cancel = nil
}
