package spec

import (
	"fmt"
	"time"
	_ "time/tzdata" // a bare host may have no time zones

	"github.com/robfig/cron/v3"
)

// LaunchWindow is a time that comes again and again.
type LaunchWindow struct {
	Schedule        string `json:"schedule"`           // when it opens: cron, five fields (crontab(5)), without names of its own such as @daily
	TimeZone        string `json:"timeZone,omitempty"` // an IANA name; "" = UTC
	DurationSeconds int64  `json:"durationSeconds"`    // 60-604800
}

// Opens reports whether the window is open at a time, and else when it opens next. It answers false and the zero time for a schedule
// that cannot be read or does not come in the next five years; validation refuses both.
func (w *LaunchWindow) Opens(now time.Time) (open bool, next time.Time) {
	schedule, err := cronSchedule(w.Schedule, w.TimeZone)
	if err != nil {
		return false, time.Time{}
	}
	next = schedule(now.Add(-time.Duration(w.DurationSeconds) * time.Second))
	return !next.IsZero() && !next.After(now), next
}

var cronFields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// cronSchedule is what says when a schedule comes next after a time, in a time zone; the zero time = not in the next five years.
func cronSchedule(schedule, zone string) (next func(time.Time) time.Time, err error) {
	in, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("no such time zone: %q", zone)
	}
	s, err := cronFields.Parse(schedule)
	if err != nil {
		return nil, err
	}
	return func(after time.Time) time.Time { return s.Next(after.In(in)) }, nil
}
