package reconcile

import (
	"fmt"
	"slices"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// coming is when a schedule comes next after a time.
type coming struct {
	schedule, zone string
	after, next    time.Time
}

// comes is the next time of a schedule, as it was found last if nothing has changed: most looks at a server have nothing to do with it.
func (s *server) comes(of *spec.LaunchSchedule, after time.Time) time.Time {
	c := coming{schedule: of.Schedule, zone: of.TimeZone, after: after}
	if last, ok := s.coming[of.Name]; ok && last.schedule == c.schedule && last.zone == c.zone && last.after.Equal(after) {
		return last.next
	}
	c.next = of.Next(after)
	if s.coming == nil {
		s.coming = map[string]coming{}
	}
	s.coming[of.Name] = c
	return c.next
}

// timetable is that of a server at a moment.
func (l *Loop) timetable(s *server, now time.Time) *timetable {
	return &timetable{
		server: s.key.Name, now: now, next: s.comes,
		stands: func(schedule string, at *Occasion) errand { return l.jobs.occasion(s.key, schedule, at) },
		open:   func(schedule string) bool { return l.jobs.openOf(s.key, schedule) != nil },
	}
}

// schedules reports whether the schedules of what is remembered count: as long as it governs, and nothing is being ended.
func (s *standing) schedules() bool {
	return s.mem != nil && s.mem.Launch != nil && s.present && !s.closing
}

// schedule looks what has come of the schedules of a server, and makes the jobs of those whose time is on record.
func (l *Loop) schedule(s *server, d *decision, now state.Moment) {
	s.timetable, s.rescheduled = nil, false
	if !s.schedules() || s.behind() || len(s.mem.Launch.Schedules)+len(s.mem.Schedules) == 0 {
		return
	}
	t := l.timetable(s, now.Wall)
	s.timetable = t.settle(s.mem.Launch, s.mem.Schedules)
	s.rescheduled = !sameScheduled(s.timetable, s.mem.Schedules)
	if !t.wake.IsZero() {
		d.lookIn(t.wake.Sub(now.Wall), now)
	}
	for i := range s.mem.Schedules { // what is on record, and still is to be done
		m := &s.mem.Schedules[i]
		still := slices.ContainsFunc(s.timetable, func(n Scheduled) bool { return n.Name == m.Name && n.Due != nil && m.Due != nil && *n.Due == *m.Due })
		if still && l.jobs.occasion(s.key, m.Name, m.Due) == errandAbsent && l.jobs.openOf(s.key, m.Name) == nil {
			l.jobs.makeScheduled(s, m)
		}
	}
}

// reschedule is a memory with what is to be remembered of its schedules now; m itself when that is so already.
func (l *Loop) reschedule(s *server, m *Memory, now time.Time) *Memory {
	if !s.schedules() || m.Launch == nil {
		return m
	}
	next := l.timetable(s, now).settle(m.Launch, m.Schedules)
	if sameScheduled(next, m.Schedules) {
		return m
	}
	n := *m
	n.Schedules = next
	return &n
}

func sameScheduled(a, b []Scheduled) bool {
	return slices.EqualFunc(a, b, func(a, b Scheduled) bool {
		return a.Name == b.Name && a.Schedule == b.Schedule && a.TimeZone == b.TimeZone && a.After.Equal(b.After) &&
			a.Missed == b.Missed && a.Due.same(b.Due) && a.Last.same(b.Last)
	})
}

func (o *Occasion) same(other *Occasion) bool {
	if o == nil || other == nil {
		return o == other
	}
	return o.Job == other.Job && o.At.Equal(other.At)
}

// occasion is how the job of an occasion stands.
func (js *jobs) occasion(server spec.Key, schedule string, at *Occasion) errand {
	return js.errand(server, at.Job, &Origin{Schedule: schedule, At: at.At})
}

// errand is how a job stands that is to be made.
func (js *jobs) errand(server spec.Key, name string, of *Origin) errand {
	switch j := js.all[spec.Key{Namespace: server.Namespace, Name: name}]; {
	case j == nil:
		return errandAbsent
	case j.mem != nil && j.mem.Origin.same(of) && j.server == server:
		return errandMade
	case j.mem == nil && j.born != nil && j.born.origin.same(of):
		return errandAsked
	case j.mem == nil && j.object == nil:
		return errandAsked // nobody knows what the store has of it
	}
	return errandTaken
}

// openOf is a job of a schedule that has not ended; nil = there is none.
func (js *jobs) openOf(server spec.Key, schedule string) *job {
	g := js.groups[server]
	if g == nil {
		return nil
	}
	i := slices.IndexFunc(g.jobs, func(j *job) bool {
		switch {
		case j.mem != nil:
			return j.mem.Origin.ofSchedule(schedule) && !j.mem.Phase.Over()
		case j.born != nil:
			return j.born.origin.ofSchedule(schedule)
		}
		return false
	})
	if i < 0 {
		return nil
	}
	return g.jobs[i]
}

// makeScheduled asks for the job of an occasion that is on record.
func (js *jobs) makeScheduled(s *server, m *Scheduled) {
	launch := s.mem.Launch
	i := slices.IndexFunc(launch.Schedules, func(of spec.LaunchSchedule) bool { return of.Name == m.Name })
	does := &launch.Schedules[i].Job
	js.make(s.key, m.Due.Job, "schedule/"+m.Name, &Origin{Schedule: m.Name, At: m.Due.At}, spec.JobSpec{
		Server: s.key.Name, Type: spec.JobType(does.Type), Command: does.Command, Parameters: does.Parameters, Profile: launch.Scope.Profile,
	})
}

// make asks for a job that nobody asks for in person. Nobody waits for the answer: the next look sees what became of it.
func (js *jobs) make(server spec.Key, name, by string, origin *Origin, what spec.JobSpec) {
	key := spec.Key{Namespace: server.Namespace, Name: name}
	js.add(key, server).born = &jobAsk{JobAsk: JobAsk{Key: key, By: by, Spec: what}, origin: origin, answer: make(chan error, 1)}
}

// tellMissed tells of times of schedules that got no job of their own, once that is on record.
func (l *Loop) tellMissed(s *server, was []Scheduled, now time.Time) {
	if s.mem == nil {
		return
	}
	warning := func(reason, message string) { s.happened(EventWarning, reason, message, now) }
	for i := range s.mem.Schedules {
		m := &s.mem.Schedules[i]
		before := slices.IndexFunc(was, func(w Scheduled) bool { return w.Name == m.Name })
		if before < 0 || m.Missed <= was[before].Missed {
			continue
		}
		times := m.Missed - was[before].Missed
		var text string
		switch open := l.jobs.openOf(s.key, m.Name); {
		case was[before].Due != nil && m.Due == nil && m.Last.same(was[before].Last):
			text = "the job of a time was not made: " + was[before].Due.Job
		case open != nil:
			text = "a time was missed as job " + open.key.Name + " had not ended by its starting deadline"
		case m.Due != nil:
			text = fmt.Sprintf("times that came and were missed: %d; job %s stands for them", times, m.Due.Job)
		case times >= missedMost:
			text = fmt.Sprintf("times that came and were missed: %d or more", times)
		default:
			text = fmt.Sprintf("times that came and were missed: %d, the last at %s", times, m.After.UTC().Format(time.RFC3339))
		}
		warning("MissSchedule", "schedule "+m.Name+": "+text)
	}
}

// scheduleStatuses is what is shown of a server's schedules.
func scheduleStatuses(s *standing, o *outlook) []spec.ScheduleStatus {
	if s.mem == nil || s.mem.Launch == nil {
		return nil
	}
	var list []spec.ScheduleStatus
	for _, m := range s.mem.Schedules {
		st := spec.ScheduleStatus{Name: m.Name, Missed: m.Missed}
		if m.Last != nil {
			st.LastAt, st.LastJob = timeOrNil(m.Last.At), m.Last.Job
		}
		switch c := o.coming[m.Name]; {
		case m.Due != nil:
			st.NextAt = timeOrNil(m.Due.At)
		case c.after.Equal(m.After) && s.schedules():
			st.NextAt = timeOrNil(c.next)
		}
		list = append(list, st)
	}
	return list
}
