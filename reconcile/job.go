package reconcile

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// JobStore keeps a [JobMemory] for every job; [state.Table] of JobMemory is one. It is as [Store] is.
type JobStore interface {
	All() map[string]JobMemory
	Set(key string, m JobMemory) error
	Delete(key string) error
	Flush(context.Context) error
}

// noJobs remembers none.
type noJobs struct{}

func (noJobs) All() map[string]JobMemory   { return nil }
func (noJobs) Set(string, JobMemory) error { return nil }
func (noJobs) Delete(string) error         { return nil }
func (noJobs) Flush(context.Context) error { return nil }

// JobLimit is how many jobs that have ended are kept of a server, beside those whose manifests are there.
const JobLimit = 100

// job is all that the loop knows of one job. The loop's goroutine alone touches it.
type job struct {
	key    spec.Key
	server spec.Key
	object *spec.Accepted[spec.Job] // nil = no source has it
	faults []spec.Fault             // why what its manifest asks for is not what is done
	mem    *JobMemory               // durable; nil = not accepted yet
	born   *jobAsk                  // who asks for it directly, until it is durable
	cancel []*jobAsk                // who withdraw it, until that is durable

	want    *JobMemory // to be recorded; nil = to be forgotten
	wanting bool
	saving  bool
	dubious bool // nobody knows what the store has of it

	sent   sent
	act    *ask // that its server's memory is to take
	denied error
	last   jobDecision
	view   *JobView
	stood  spec.JobPhase // that those who depend on it were told of last
}

// jobGroup is the jobs of one server.
type jobGroup struct {
	jobs []*job // by key
	due  time.Duration
}

// jobs are the loop's jobs and what is to be looked at of them.
type jobs struct {
	all     map[spec.Key]*job
	groups  map[spec.Key]*jobGroup // by server
	dirty   map[spec.Key]struct{}  // servers whose jobs are to be looked at in this turn
	due     map[*jobGroup]spec.Key // that are to be looked at at a time
	unsaved map[*job]struct{}
	changed bool // a view of one is another
	inbox   []*jobAsk
}

func newJobs() jobs {
	return jobs{
		all: map[spec.Key]*job{}, groups: map[spec.Key]*jobGroup{}, dirty: map[spec.Key]struct{}{},
		due: map[*jobGroup]spec.Key{}, unsaved: map[*job]struct{}{},
	}
}

// add makes a job known.
func (js *jobs) add(key, server spec.Key) *job {
	j := &job{key: key, server: server}
	js.all[key] = j
	g := js.groups[server]
	if g == nil {
		g = &jobGroup{}
		js.groups[server] = g
	}
	g.jobs = append(g.jobs, j)
	slices.SortFunc(g.jobs, func(a, b *job) int { return compareKeys(a.key, b.key) })
	js.touch(server)
	return j
}

// void is the attempt whose restart of a server is not to begin any more: it was withdrawn, or is late.
func (js *jobs) void(s *server, now state.Moment) string {
	if s.mem == nil || s.mem.Restart == nil || s.mem.Restart.Job == "" || js.groups[s.key] == nil {
		return ""
	}
	for _, j := range js.groups[s.key].jobs {
		if m := j.mem; m != nil && m.id() == s.mem.Restart.Job && (m.Cancel != nil || m.left(now) <= 0) {
			return m.id()
		}
	}
	return ""
}

// remove forgets a job.
func (js *jobs) remove(j *job) {
	delete(js.all, j.key)
	delete(js.unsaved, j)
	g := js.groups[j.server]
	g.jobs = slices.DeleteFunc(g.jobs, func(o *job) bool { return o == j })
	if len(g.jobs) == 0 {
		delete(js.groups, j.server)
		delete(js.due, g)
	}
	js.changed = true
}

// touch has the jobs of a server looked at in this turn, or the next.
func (js *jobs) touch(server spec.Key) {
	if js.groups[server] != nil {
		js.dirty[server] = struct{}{}
	}
}

// recallJobs takes what the store has.
func (l *Loop) recallJobs() {
	for name, m := range l.opts.Jobs.All() {
		key, ok := parseStoreKey(name)
		if !ok {
			l.opts.Log.Error("the store has an entry that is no job's; it is left alone", "entry", name)
			continue
		}
		l.jobs.add(key, m.Spec.ServerKey(key.Namespace)).mem = &m
	}
}

// takeJobs takes the jobs of a new Set.
func (l *Loop) takeJobs(set *spec.Set) {
	js := &l.jobs
	for key, object := range set.Jobs {
		j := js.all[key]
		if j == nil {
			j = js.add(key, object.Object.Spec.ServerKey(key.Namespace))
		}
		if j.object != object {
			j.object = object
			js.touch(j.server)
		}
	}
	for key, j := range js.all {
		if j.object != nil && set.Jobs[key] == nil {
			j.object = nil
		}
		if j.mem == nil || !j.mem.Phase.Over() || j.object == nil {
			js.touch(j.server)
		}
	}
}

// visitJobs looks at the jobs of every server of which something changed.
func (l *Loop) visitJobs(orders []Order, now state.Moment) []Order {
	js := &l.jobs
	for g, server := range js.due {
		if g.due <= now.Uptime {
			js.touch(server)
		}
	}
	dirty := slices.SortedFunc(maps.Keys(js.dirty), compareKeys)
	clear(js.dirty)
	for _, server := range dirty {
		orders = l.visitGroup(server, orders, now)
	}
	for g := range js.due {
		l.soonest(g.due)
	}
	return orders
}

// visitGroup looks at the jobs of one server, in the order in which they may act.
func (l *Loop) visitGroup(server spec.Key, orders []Order, now state.Moment) []Order {
	g := l.jobs.groups[server]
	if g == nil {
		return orders
	}
	s := l.servers[server]
	g.due = 0
	before, command, pause := "", "", (*job)(nil)
	for _, j := range g.inOrder() {
		wait := before
		if j.announces() {
			wait = command // a restart of a schedule waits for what is announced of it
		}
		orders = l.visitJob(j, s, wait, orders, now)
		if j.last.pause {
			pause = j
		}
		if at := j.last.wake; at > 0 && (g.due == 0 || at < g.due) {
			g.due = at
		}
		if before == "" && j.open() {
			before = j.key.Name
		}
		if command == "" && j.open() && (j.mem == nil || j.mem.Spec.Kind() != spec.JobRestart) {
			command = j.key.Name
		}
	}
	delete(l.jobs.due, g)
	if g.due > 0 {
		l.jobs.due[g] = server
	}
	l.forgetJobs(g)
	l.pauseServer(s, pause)
	return orders
}

// announces reports whether a job is an announcement.
func (j *job) announces() bool {
	return j.mem != nil && j.mem.Origin != nil && j.mem.Origin.Announces != ""
}

// open reports whether a job has not ended, or is about to begin.
func (j *job) open() bool {
	m := j.mem
	if j.wanting && j.want != nil {
		m = j.want
	}
	return m != nil && !m.Phase.Over()
}

// inOrder is the jobs in the order in which they may act: the one that does, then by their acceptance.
func (g *jobGroup) inOrder() []*job {
	list := slices.Clone(g.jobs)
	rank := func(j *job) int {
		switch {
		case j.mem == nil:
			return 2
		case j.mem.Phase == spec.JobRunning:
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b *job) int {
		if c := cmp.Compare(rank(a), rank(b)); c != 0 || a.mem == nil {
			return c
		}
		return a.mem.Accepted.Wall.Compare(b.mem.Accepted.Wall)
	})
	return list
}

// visitJob looks at one job: what is asked for, then what is to be done. What is not durable yet is waited for.
func (l *Loop) visitJob(j *job, s *server, before string, orders []Order, now state.Moment) []Order {
	if j.saving {
		return orders
	}
	next := j.accept(l, now)
	pause := j.last.pause
	j.last = jobDecision{pause: pause}
	if next == j.mem && j.mem != nil {
		j.heed()
		j.last = decideJob(l.jobStanding(j, s, before), now)
		orders = l.doJob(j, s, orders, now)
		next = j.last.next
		if next == nil {
			next = j.mem
		}
	}
	j.wanting, j.want = next != j.mem || j.dubious, next
	if j.wanting {
		l.jobs.unsaved[j] = struct{}{}
	}
	l.showJob(j, now)
	l.poiseJob(j)
	return orders
}

// heed takes the answer of the server's memory.
func (j *job) heed() {
	if j.act == nil {
		return
	}
	select {
	case err := <-j.act.answer:
		j.act, j.denied = nil, err
	default:
	}
}

func (l *Loop) jobStanding(j *job, s *server, before string) *jobStanding {
	known := l.set != nil && l.set.Known
	js := &jobStanding{mem: j.mem, declared: j.object != nil, heard: l.heard, known: known, closing: l.closing, before: before, sent: j.sent, denied: j.denied}
	if s != nil {
		js.s, js.d = &s.standing, &s.last
	}
	return js
}

// doJob lets what was decided go.
func (l *Loop) doJob(j *job, s *server, orders []Order, now state.Moment) []Order {
	if j.last.act != "" && j.act == nil && s != nil {
		j.act = &ask{Ask: Ask{Server: s.key, By: j.mem.By, Reason: "job " + j.key.Name}, action: j.last.act, job: j.mem, answer: make(chan error, 1)}
		j.denied = nil
		s.asks = append(s.asks, j.act)
		l.unsaved[s] = struct{}{}
	}
	if o := j.last.order; o != nil {
		o.Do.Job = j.key
		if j.sent.id != o.Do.ID {
			j.sent = sent{id: o.Do.ID}
		}
		j.sent.flying, j.sent.receipt, j.sent.err = true, nil, nil
		orders = append(orders, *o)
	}
	return orders
}

// pauseServer lets a server have no run while a job needs it so.
func (l *Loop) pauseServer(s *server, by *job) {
	if s == nil {
		return
	}
	s.pause = nil
	if by != nil {
		s.pause = &Pause{Job: by.mem.id(), By: by.mem.By}
	}
	if s.wantsPause() {
		l.unsaved[s] = struct{}{}
	}
}

// wantsPause reports whether the server's memory is not as its jobs need it.
func (s *server) wantsPause() bool {
	if s.mem == nil {
		return false
	}
	if s.pause == nil || s.mem.Pause == nil {
		return s.pause != s.mem.Pause
	}
	return *s.pause != *s.mem.Pause
}

// forgetJobs forgets the oldest results that are more than are kept.
func (l *Loop) forgetJobs(g *jobGroup) {
	if len(g.jobs) <= JobLimit || l.set == nil || !l.set.Known {
		return
	}
	var over []*job
	for _, j := range g.jobs {
		if j.object == nil && j.mem != nil && j.mem.Phase.Over() && !j.saving {
			over = append(over, j)
		}
	}
	slices.SortStableFunc(over, func(a, b *job) int { return a.mem.FinishedAt.Compare(b.mem.FinishedAt) })
	for _, j := range over[:max(0, len(over)-JobLimit)] {
		j.want, j.wanting = nil, true
		l.jobs.unsaved[j] = struct{}{}
	}
}

// done takes the answer to a command.
func (l *Loop) jobDone(o *CommandOrder, err error, now state.Moment) {
	j := l.jobs.all[o.Job]
	if j == nil {
		return
	}
	l.jobs.touch(j.server)
	if j.sent.id != o.ID || !j.sent.flying {
		return // of another attempt or step: what it was about has changed
	}
	j.sent.flying, j.sent.err = false, err
	if err == nil {
		receipt := o.Receipt
		j.sent.receipt = &receipt
	}
	j.sent.tries++
	j.sent.until = now.Uptime + min(retryFirst<<min(j.sent.tries-1, 20), retryMost)
}
