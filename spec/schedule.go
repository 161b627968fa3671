package spec

import (
	"maps"
	"slices"
	"time"
)

const defaultStartingDeadline = 300

// LaunchSchedule is a job that comes back.
type LaunchSchedule struct {
	Name string `json:"name"`
	// Schedule is when it comes: cron, five fields, in TimeZone. A time of day that the zone leaves out does not come on that day, one that
	// it has twice comes twice.
	Schedule                string       `json:"schedule"`
	TimeZone                string       `json:"timeZone"`                // an IANA name
	StartingDeadlineSeconds int64        `json:"startingDeadlineSeconds"` // 1-86400: how late its job may be made
	Job                     ScheduledJob `json:"job"`                     // with its type
}

// Next is the first time after another at which the schedule comes; the zero time = not in the next five years, or it cannot be read, which
// validation refuses.
func (s *LaunchSchedule) Next(after time.Time) time.Time {
	next, err := cronSchedule(s.Schedule, s.TimeZone)
	if err != nil {
		return time.Time{}
	}
	return next(after).UTC()
}

// Latest is the last time after another at which the schedule has come by now, and how many times it has come meanwhile, at most most of them;
// the zero time and 0 = it has not.
func (s *LaunchSchedule) Latest(after, now time.Time, most int) (latest time.Time, times int) {
	next, err := cronSchedule(s.Schedule, s.TimeZone)
	if err != nil {
		return time.Time{}, 0
	}
	for at := next(after); !at.IsZero() && !at.After(now) && times < most; at = next(at) {
		latest, times = at.UTC(), times+1
	}
	return latest, times
}

// StartingDeadline is how late a job of the schedule may be made.
func (s *LaunchSchedule) StartingDeadline() time.Duration {
	return time.Duration(s.StartingDeadlineSeconds) * time.Second
}

// schedules resolves what comes back.
func (r *resolver) schedules() []LaunchSchedule {
	var list []LaunchSchedule
	for _, s := range r.profile.Schedules {
		job := s.Job
		job.Type = or(job.Type, string(JobCommand))
		list = append(list, LaunchSchedule{
			Name: s.Name, Schedule: s.Schedule, TimeZone: or(s.TimeZone, "UTC"),
			StartingDeadlineSeconds: valueOr(s.StartingDeadlineSeconds, defaultStartingDeadline), Job: job,
		})
	}
	return list
}

// schedules judges what comes back, as far as one launch can tell.
func (c *launchCheck) schedules(l *Launch) {
	const list = "spec.schedules"
	c.count(list, len(l.Schedules))
	seen := map[string]bool{}
	for i := range l.Schedules {
		s := &l.Schedules[i]
		c.row(list+"[].name", index(list, i, "name"), s.Name)
		c.distinct(index(list, i, "name"), s.Name, mustBeUnique, seen)
		c.row(list+"[].schedule", index(list, i, "schedule"), s.Schedule)
		c.row(list+"[].timeZone", index(list, i, "timeZone"), s.TimeZone)
		c.number(list+"[].startingDeadlineSeconds", index(list, i, "startingDeadlineSeconds"), s.StartingDeadlineSeconds)
		at := index(list, i, "job")
		c.row(list+"[].job.type", at+".type", s.Job.Type)
		c.rules().jobCommand(s.Job.Type, s.Job.Command, len(s.Job.Parameters), (*path)(nil).field("spec").field("schedules").item(i).field("job"))
		if s.Job.Command != "" {
			c.call(l, s.Job.Command, s.Job.Parameters, list+"[].job.command", at)
		}
	}
}

// call judges that a command is called as it is declared. row is that of its name, at the object that names it.
func (c *launchCheck) call(l *Launch, name string, given map[string]IntOrString, row, at string) {
	c.row(row, at+".command", name)
	command := l.Command(name)
	if command == nil {
		c.fault(at+".command", FaultNotFound, name, noSuchCommand)
		return
	}
	_, faults := command.Fill(given, l.Console)
	for _, f := range faults {
		c.fault(at+"."+f.Field, f.Kind, f.Value, f.Detail)
	}
}

// schedule is over all of one that comes back.
func (h *hasher) schedule(s *LaunchSchedule) {
	h.always("schedule", s.Name)
	h.always("schedule.schedule", s.Schedule)
	h.text("schedule.timeZone", s.TimeZone, "UTC")
	h.number("schedule.startingDeadlineSeconds", s.StartingDeadlineSeconds, defaultStartingDeadline)
	h.text("schedule.type", s.Job.Type, string(JobCommand))
	h.call(s.Job.Command, s.Job.Parameters)
}

// call is over a command with the values of its parameters.
func (h *hasher) call(command string, given map[string]IntOrString) {
	h.text("call", command, "")
	for _, name := range slices.Sorted(maps.Keys(given)) {
		h.always("call.parameter", name)
		h.always("call.value", given[name].Text())
	}
}
