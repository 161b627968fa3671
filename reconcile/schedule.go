package reconcile

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"reconciler.dev/reconciler/spec"
)

// Scheduled is what the loop must not forget of one schedule of a server: by it no time of the schedule gets a second job, and each that
// gets none is counted.
type Scheduled struct {
	Name string `json:"name"`
	// Schedule and TimeZone are when it came as After was set. Another calendar counts anew, from when it was accepted on.
	Schedule string    `json:"schedule"`
	TimeZone string    `json:"timeZone"`
	After    time.Time `json:"after"`         // every time up to and with it is settled
	Due      *Occasion `json:"due,omitempty"` // whose job is to be made, and may be there; nil = none is
	Last     *Occasion `json:"last,omitempty"`
	Missed   int64     `json:"missed,omitempty"` // times without a job of their own
}

// Occasion is a time of a schedule, and the name of the job that is its own.
type Occasion struct {
	At  time.Time `json:"at"`
	Job string    `json:"job"`
}

// Origin says what a job is of that nobody asked for: a time of a schedule, or a countdown.
type Origin struct {
	Schedule string `json:"schedule,omitempty"`
	// Announces is the id of the run whose end is announced.
	Announces string    `json:"announces,omitempty"`
	At        time.Time `json:"at"` // the time of the schedule, or when the countdown began
}

func (o *Origin) same(other *Origin) bool {
	return o != nil && o.Schedule == other.Schedule && o.Announces == other.Announces && o.At.Equal(other.At)
}

// ofSchedule reports whether a job is of a schedule of a name.
func (o *Origin) ofSchedule(name string) bool {
	return o != nil && o.Announces == "" && o.Schedule == name
}

// missedMost bounds how many missed times are counted at once.
const missedMost = 100

// errand is how a job stands that is to be made.
type errand int

const (
	errandAbsent errand = iota // there is none of its name
	errandAsked                // it is about to be on record
	errandMade                 // it is on record
	errandTaken                // another job has its name
)

// timetable is what deciding about schedules takes beside what is remembered of them.
type timetable struct {
	server string
	stands func(schedule string, at *Occasion) errand
	open   func(schedule string) bool // a job of it has not ended
	next   func(*spec.LaunchSchedule, time.Time) time.Time
	now    time.Time
	wake   time.Time // look again by then; zero = when something changes
}

// settle is what is to be remembered of all schedules of a launch now. It changes nothing of what was.
func (t *timetable) settle(launch *spec.Launch, was []Scheduled) []Scheduled {
	var list []Scheduled
	for i := range launch.Schedules {
		s := &launch.Schedules[i]
		next := Scheduled{Name: s.Name, Schedule: s.Schedule, TimeZone: s.TimeZone, After: t.now}
		if at := slices.IndexFunc(was, func(m Scheduled) bool { return m.Name == s.Name }); at >= 0 {
			if m := was[at]; m.Schedule == s.Schedule && m.TimeZone == s.TimeZone {
				next = m
			} else {
				next.Last, next.Missed = m.Last, m.Missed
			}
		}
		t.one(s, &next)
		list = append(list, next)
	}
	return list
}

// one settles what has come of one schedule. Of the times that are not later than its starting deadline the last gets a job, once no job of it
// is open; all others are missed.
func (t *timetable) one(s *spec.LaunchSchedule, m *Scheduled) {
	if m.Due != nil && !t.made(s, m) {
		return
	}
	first := t.next(s, m.After)
	if first.IsZero() || first.After(t.now) {
		t.lookAt(first)
		return
	}
	if late := t.now.Add(-s.StartingDeadline()); first.Before(late) {
		last, times := s.Latest(m.After, late.Add(-1), missedMost)
		if times == missedMost {
			last = late.Add(-1) // who counts them all?
		}
		m.Missed, m.After = m.Missed+int64(times), last
		if first = t.next(s, m.After); first.IsZero() || first.After(t.now) {
			t.lookAt(first)
			return
		}
	}
	if t.open(s.Name) {
		t.lookAt(first.Add(s.StartingDeadline() + 1))
		return
	}
	latest, times := s.Latest(m.After, t.now, int(s.StartingDeadlineSeconds)/60+2)
	m.Missed, m.After = m.Missed+int64(times-1), latest
	m.Due = &Occasion{At: latest, Job: occasionName(t.server, s.Name, latest)}
}

// made looks what has become of the job that was to be made, and reports whether the schedule may go on.
func (t *timetable) made(s *spec.LaunchSchedule, m *Scheduled) bool {
	late := m.Due.At.Add(s.StartingDeadline())
	switch how := t.stands(s.Name, m.Due); {
	case how == errandMade:
		m.Last, m.Due = m.Due, nil
	case how == errandTaken, how == errandAbsent && t.now.After(late):
		m.Missed, m.Due = m.Missed+1, nil
	default:
		t.lookAt(late.Add(1))
		return false
	}
	return true
}

func (t *timetable) lookAt(at time.Time) {
	if !at.IsZero() && (t.wake.IsZero() || at.Before(t.wake)) {
		t.wake = at
	}
}

// nameMost is how long the name of an object may be.
const nameMost = 63

// occasionName is the name of the job for a time of a schedule: server, schedule and the minutes since 1970, as Kubernetes names those of a
// CronJob. Where the two names could be read in another way, or are too long, a part of their hash is in it.
func occasionName(server, schedule string, at time.Time) string {
	return madeName(server, schedule, strconv.FormatInt(at.Unix()/60, 10))
}

// madeName is the name of a job that nobody asked for: of which server, what it is for, and which one.
func madeName(server, what, which string) string {
	name, tail := server+"-"+what, "-"+which
	if strings.Count(name, "-") == 1 && len(name)+len(tail) <= nameMost {
		return name + tail
	}
	sum := sha256.Sum256([]byte(server + "/" + what))
	tail = "-" + hex.EncodeToString(sum[:4]) + tail
	return strings.TrimRight(name[:min(len(name), nameMost-len(tail))], "-") + tail
}
