package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

const jobFile = reconcilerDir + "/jobs.journal"

// jobText is what a job's file says.
type jobText struct {
	server, kind, profile string
	deadline, attempt     int
	cancel                bool
}

func (j jobText) text(name string) string {
	profile := ""
	if j.profile != "" {
		profile = ", profile: " + j.profile
	}
	return fmt.Sprintf(`apiVersion: reconciler.dev/v1alpha1
kind: Job
metadata: {name: %s}
spec: {server: %s, %s%s, deadlineSeconds: %d, attempt: %d, cancel: %v}
`, name, j.server, j.kind, profile, j.deadline, j.attempt, j.cancel)
}

var jobKinds = []string{
	"type: Restart", "type: Restart", "command: nonesuch", "command: backup", "command: poke", "command: migrate", "command: round",
	"command: move", "command: move",
}

// jobNames are those of files; those that are asked for directly are numbered.
var jobNames = []string{"j", "k"}

// ended is how an attempt of a job came to its end.
type ended struct {
	phase  spec.JobPhase
	reason string
}

// deeds is what was done for jobs, by the attempt: the truth beside what they say of themselves.
type deeds struct {
	ends      map[string]ended
	taken     map[string]bool   // by a server's memory
	last      map[string]string // LastJob of each server, as the disk had it
	restarted map[string]string // attempt -> the run that was stopped for it
	direct    int               // jobs that were asked for directly
	occasions map[string]string // server, schedule and time -> the job that was made for it
}

func newDeeds() deeds {
	return deeds{ends: map[string]ended{}, taken: map[string]bool{}, last: map[string]string{}, restarted: map[string]string{}, occasions: map[string]string{}}
}

// job is a file of a job that changes, or somebody who asks for one, or withdraws one.
func (w *world) job() {
	name := jobNames[w.choose(len(jobNames))]
	j, there := w.wish.jobs[name]
	switch n := w.choose(8); {
	case n < 3 && !there:
		w.wish.jobs[name] = jobText{
			server: serverNames[w.choose(len(serverNames))], kind: jobKinds[w.choose(len(jobKinds))],
			profile: []string{"", "", "p"}[w.choose(3)], deadline: []int{3, 20, 60}[w.choose(3)], attempt: 1,
		}
		w.tell("people add job %s: %+v", name, w.wish.jobs[name])
	case n < 2:
		j.attempt++
		w.wish.jobs[name] = j
		w.tell("people raise job %s to attempt %d", name, j.attempt)
	case n == 2:
		if w.choose(4) == 0 {
			j.cancel = true
			w.wish.jobs[name] = j
			w.tell("people withdraw job %s in its file", name)
			return
		}
		delete(w.wish.jobs, name)
		w.tell("people remove job %s", name)
	case w.loop == nil:
	case n == 3 && len(w.jobs.All()) > 0:
		names := slices.Sorted(maps.Keys(w.jobs.All()))
		_, name, _ := strings.Cut(names[w.choose(len(names))], "/")
		w.tell("a person withdraws job %s", name)
		w.loop.SubmitJob(reconcile.JobAsk{Key: spec.Key{Namespace: spec.DefaultNamespace, Name: name}, By: "somebody"}, true)
	default:
		w.deeds.direct++
		seconds := int64([]int{3, 20, 60}[w.choose(3)])
		ask := reconcile.JobAsk{Key: spec.Key{Namespace: spec.DefaultNamespace, Name: fmt.Sprint("d", w.deeds.direct)}, By: "somebody"}
		ask.Spec = spec.JobSpec{
			Server: serverNames[w.choose(len(serverNames))], DeadlineSeconds: &seconds,
			Type: []spec.JobType{spec.JobStart, spec.JobStop, spec.JobRestart}[w.choose(3)],
		}
		w.tell("a person asks for job %s: %s %s", ask.Key.Name, ask.Spec.Type, ask.Spec.Server)
		w.loop.SubmitJob(ask, false)
	}
}

// publishJobs puts the jobs of the files into a Set.
func (s *wish) publishJobs(set *spec.Set, known bool, keep func() bool) {
	set.Jobs = map[spec.Key]*spec.Accepted[spec.Job]{}
	for _, name := range slices.Sorted(maps.Keys(s.jobs)) {
		if known || keep() {
			text := s.jobs[name].text(name)
			a := s.acceptedJobs[text]
			if a == nil {
				a = &spec.Accepted[spec.Job]{Object: s.decode(text).Documents[0].Job}
				s.acceptedJobs[text] = a
			}
			set.Jobs[spec.Key{Namespace: spec.DefaultNamespace, Name: name}] = a
		}
	}
}

// jobTable is the loop's store of jobs: the shipped table on the model's disk.
type jobTable struct{ w *world }

func (t jobTable) All() map[string]reconcile.JobMemory         { return t.w.jobs.All() }
func (t jobTable) Set(key string, m reconcile.JobMemory) error { return t.w.jobs.Set(key, m) }
func (t jobTable) Delete(key string) error                     { return t.w.jobs.Delete(key) }
func (t jobTable) Flush(context.Context) error                 { return t.w.jobs.FlushNow() }

// saveJobs makes jobs durable.
func (w *world) saveJobs(batch map[spec.Key]*reconcile.JobMemory) error {
	for _, key := range slices.SortedFunc(maps.Keys(batch), func(a, b spec.Key) int { return strings.Compare(a.String(), b.String()) }) {
		name := key.Namespace + "/" + key.Name
		var err error
		if m := batch[key]; m != nil {
			err = w.jobs.Set(name, *m)
		} else {
			err = w.jobs.Delete(name)
		}
		if err != nil {
			return err
		}
	}
	return w.jobs.FlushNow()
}

// attemptOf names an attempt of a job.
func attemptOf(m *reconcile.JobMemory) string { return fmt.Sprintf("%s-%d", m.UID, m.Attempt) }

// jobOf is the job of which an attempt is, as the reconciler has it on disk; nil = none.
func (w *world) jobOf(attempt string) *reconcile.JobMemory {
	for _, m := range w.jobs.All() {
		if attemptOf(&m) == attempt {
			return &m
		}
	}
	return nil
}

// checkJobs checks what the jobs on disk say of themselves.
func (w *world) checkJobs() {
	if w.loop == nil {
		return
	}
	open := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(w.jobs.All())) {
		m, _ := w.jobs.Get(name)
		w.checkScheduled(name, &m, open)
		id := attemptOf(&m)
		end, over := w.deeds.ends[id]
		switch {
		case over && (end != ended{m.Phase, m.Reason}):
			w.failf("BP-12", "job %s had ended as %s and is %s", name, end.phase, m.Phase)
		case m.Phase.Over() && !over:
			w.checkSteps(&m)
			w.deeds.ends[id] = ended{m.Phase, m.Reason}
			w.tell("    job %s is %s (%s %s)", name, m.Phase, m.Reason, m.Check)
			if run := w.deeds.restarted[id]; run != "" && (m.Phase == spec.JobRefused || m.Phase == spec.JobCancelled && m.On == nil) {
				w.failf("BP-11", "job %s is %s, and run %s was stopped for it", name, m.Phase, run)
			}
		}
	}
	for _, server := range slices.Sorted(maps.Keys(w.table.All())) {
		m, _ := w.table.Get(server)
		if m.LastJob == "" || w.deeds.last[server] == m.LastJob {
			continue
		}
		if w.deeds.taken[m.LastJob] {
			w.failf("BP-12", "attempt %s of a job was carried out on %s twice", m.LastJob, server)
		}
		w.deeds.last[server], w.deeds.taken[m.LastJob] = m.LastJob, true
	}
}

// checkJobStop checks that a stop for a job's restart is of the run that the job was bound to, and that it was not withdrawn.
func (w *world) checkJobStop(o *state.StopOrder) {
	m := w.table.All()[o.Scope.Namespace+"/"+o.Scope.Server]
	if m.Restart == nil || m.Restart.Job == "" {
		return
	}
	j := w.jobOf(m.Restart.Job)
	if j == nil {
		return // its result is forgotten, what it asked for stays
	}
	switch {
	case j.On == nil || j.On.Run != o.RunID || j.On.Profile != o.Scope.Profile || j.On.UID != m.UID:
		w.failf("BP-12", "%s stops run %s for a job that acts on %+v", o.Scope, o.RunID, j.On)
	case j.Phase == spec.JobRunning && (j.Cancel != nil || left(j, w.kernel.Now()) <= 0):
		w.failf("BP-11", "%s is restarted for a job that was withdrawn, or is late", o.Scope)
	}
	if run := w.deeds.restarted[m.Restart.Job]; run != "" && run != o.RunID {
		w.failf("BP-12", "attempt %s of a job restarts %s, after %s", m.Restart.Job, o.RunID, run)
	}
	w.deeds.restarted[m.Restart.Job] = o.RunID
}

// left is how long an attempt has: a second reading of the manual.
func left(m *reconcile.JobMemory, now state.Moment) float64 {
	passed := now.Wall.Sub(m.Accepted.Wall).Seconds()
	if m.Accepted.BootID == now.BootID {
		passed = (now.Uptime - m.Accepted.Uptime).Seconds()
	}
	return m.Spec.Deadline().Seconds() - passed
}

// checkJobsEnded checks that every job has come to an end, and that none keeps a server from what is wished.
func (w *world) checkJobsEnded() {
	for name, m := range w.jobs.All() {
		if !m.Phase.Over() && (m.Origin == nil || left(&m, w.kernel.Now()) <= 0) {
			w.failf("DC-1", "job %s is still %s", name, m.Phase)
		}
	}
	for name := range w.wish.jobs {
		if _, ok := w.jobs.Get(spec.DefaultNamespace + "/" + name); !ok {
			w.failf("DC-1", "job %s is wished, and there is none", name)
		}
	}
	for server, m := range w.table.All() {
		if m.Pause != nil {
			w.failf("DC-1", "%s is kept from running by a job that has ended", server)
		}
	}
}

// carryOutCommand gives a command to the keeper, and looks again whether it has answered. Whoever waits may give up.
func (w *world) carryOutCommand(f *flight) {
	o := f.order.Do
	switch {
	case f.with != nil && f.with == w.core && w.choose(4) > 0:
		return // it is still under way
	case f.with != nil || w.core == nil:
		f.done, f.err = true, errGone
		return
	}
	if w.errands[o.ID] == nil {
		w.errands[o.ID] = &errand{run: o.RunID}
	}
	f.with, f.err = w.core, errGone
	w.mayDie()
	var err error
	alive := w.as("keeper", func() {
		err = w.core.Do(o.DoOrder, nil, func(d state.Delivery, out keeper.Outcome) {
			o.Receipt = state.Receipt{Delivery: d, Reply: out.Reply}
			f.done, f.err = true, nil
		})
	})
	if !alive && !f.done || alive && err != nil {
		f.done, f.err = true, errGone
		if alive {
			f.err = err
			w.tell("    %s: %v", o.ID, err)
		}
	}
}

// checkJobCommand checks that a command is ordered for a job that may go on, and for nothing but what the job acts on (BP-11, BP-12).
func (w *world) checkJobCommand(o reconcile.Order) {
	m, ok := w.jobs.Get(o.Do.Job.Namespace + "/" + o.Do.Job.Name)
	if !ok || m.Phase != spec.JobRunning || m.On == nil || !strings.HasPrefix(o.Do.ID, attemptOf(&m)+"-") {
		w.failf("BP-12", "%s for a job that does not run: %+v", tellOrder(o), m)
	}
	if o.Do.Recall {
		return
	}
	step := m.Steps[slices.IndexFunc(m.Steps, func(s reconcile.JobStep) bool { return !s.Over })]
	if step.Stage != reconcile.StageAfter && (m.Cancel != nil || left(&m, w.kernel.Now()) <= 0) {
		w.failf("BP-11", "%s for a job that was withdrawn, or is late", tellOrder(o))
	}
	server, _ := w.table.Get(o.Scope.Namespace + "/" + o.Scope.Server)
	if server.UID != m.On.UID || o.Scope.Profile != m.On.Profile || o.Do.RunID != "" && o.Do.RunID != m.On.Run {
		w.failf("BP-12", "%s for a job that acts on %+v", tellOrder(o), *m.On)
	}
}

// checkSteps compares what a job that has ended says of its commands with what became of them.
func (w *world) checkSteps(m *reconcile.JobMemory) {
	for i, s := range m.Steps {
		id := fmt.Sprintf("%s-%d", attemptOf(m), i)
		truth := w.errands[id]
		if s.Result == "" && truth != nil && truth.times > 0 {
			w.failf("EN-6", "command %s is told to be passed over, and was carried out: %s", s.Command, id)
		}
		w.checkResult(id, s.Result)
		if m.Phase == spec.JobRefused && truth != nil && truth.times > 0 {
			w.failf("BP-1", "a job is Refused, and its command %s was carried out", s.Command)
		}
	}
}

// endPrograms lets every other program come to what it is for; the rest take longer than they may.
func (w *world) endPrograms() {
	for _, pid := range slices.Sorted(maps.Keys(w.kernel.procs)) {
		if p := w.kernel.procs[pid]; p.program && p.released && !p.dead && p.inode%2 == 0 {
			w.kernel.die(p, 0)
		}
	}
}
