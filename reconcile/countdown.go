package reconcile

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Countdown is the announcing of a disruption: one announcement after the other, each on record before its job is made. Between two of them,
// and between the last and the stop, passes what lies between their offsets, from when the job of the earlier one was made: whatever happens to
// us, nobody is given less time than was announced.
type Countdown struct {
	Run   string              `json:"run"`   // its id: of the run that is to be replaced
	Begun time.Time           `json:"begun"` // by it the jobs are named
	Steps []spec.Announcement `json:"steps"` // as they were declared then, the earliest first; never empty
	Step  int                 `json:"step"`  // the one whose turn it is
	Made  bool                `json:"made,omitempty"`
	Since state.Moment        `json:"since"` // when its turn began or, once it is there, when its job was made
}

// same reports whether nothing of two differs that counts.
func (c *Countdown) same(other *Countdown) bool {
	if c == nil || other == nil {
		return c == other
	}
	return c.Run == other.Run && c.Begun.Equal(other.Begun) && c.Step == other.Step && c.Made == other.Made && c.Since.Uptime == other.Since.Uptime
}

// gap is what passes from a step to the next, or to the stop.
func (c *Countdown) gap(step int) time.Duration {
	next := int64(0)
	if step+1 < len(c.Steps) {
		next = c.Steps[step+1].BeforeSeconds
	}
	return time.Duration(c.Steps[step].BeforeSeconds-next) * time.Second
}

// left is what passes until the stop, at the least.
func (c *Countdown) left(now state.Moment) time.Duration {
	after := time.Duration(c.Steps[c.Step].BeforeSeconds)*time.Second - c.gap(c.Step)
	return after + max(0, c.gap(c.Step)-passedSince(c.Since, now))
}

// ends is when the stop comes, by the wall clock, if nothing delays it.
func (c *Countdown) ends() time.Time {
	return c.Since.Wall.Add(time.Duration(c.Steps[c.Step].BeforeSeconds) * time.Second)
}

// job is the name of the job of the step.
func (c *Countdown) job(server string) string {
	return madeName(server, "announce", strconv.Itoa(c.Step)+"-"+strconv.FormatInt(c.Begun.Unix(), 10))
}

// announcing are the announcements that are to be made before a run is replaced, the earliest first. A run of another profile has other commands.
func (s *standing) announcing(l *lane) []spec.Announcement {
	if !s.selected(l) {
		return nil
	}
	steps := slices.Clone(s.good.launch.Disruption.Announce)
	slices.SortStableFunc(steps, func(a, b spec.Announcement) int { return cmp.Compare(b.BeforeSeconds, a.BeforeSeconds) })
	return steps
}

// counting is the countdown that is under way for a run; nil = none is.
func (s *standing) counting(run *observe.RunFacts) *Countdown {
	if s.mem == nil || s.mem.Countdown == nil || s.mem.Countdown.Run != run.ID {
		return nil
	}
	return s.mem.Countdown
}

// lead is how long before a stop that is permitted now the stop comes.
func (d *decision) lead(s *standing, run *observe.RunFacts, now state.Moment) time.Duration {
	if c := s.counting(run); c != nil {
		return c.left(now)
	}
	if steps := s.announcing(d.lane); len(steps) > 0 {
		return time.Duration(steps[0].BeforeSeconds) * time.Second
	}
	return 0
}

// announce goes on with what is to be announced before a run is replaced, and reports whether that is still to be waited for. A run that never was
// Ready has nobody to tell. A job that is not made, or fails, holds up nothing.
func (d *decision) announce(s *standing, run *observe.RunFacts, now state.Moment) (wait bool) {
	if run.ReadyAt.IsZero() {
		return false
	}
	have := s.counting(run)
	if have == nil {
		steps := s.announcing(d.lane)
		if len(steps) == 0 {
			return false
		}
		d.countdown = &Countdown{Run: run.ID, Begun: now.Wall, Steps: steps, Since: now}
		return true
	}
	d.countdown = have
	passed, next := passedSince(have.Since, now), *have
	switch {
	case !have.Made && s.announced == errandMade:
		next.Made, next.Since = true, now
	case !have.Made && s.announced == errandAbsent && s.inherited && passed > 0:
		next.Since = now // its turn begins with us
	case !have.Made && s.announced == errandAbsent, passed < have.gap(have.Step):
		d.speaks = !have.Made && s.announced == errandAbsent
		d.lookIn(have.gap(have.Step)-passed, now)
		return true
	case have.Step+1 == len(have.Steps):
		return false
	default:
		next.Step, next.Made, next.Since = have.Step+1, false, now
	}
	d.countdown = &next
	return true
}

// keepCountdown leaves a countdown as it is while nobody knows whether it is to go on: the keeper or the sources are not heard, or nobody knows
// whether people forbid it.
func (d *decision) keepCountdown(s *standing) {
	if d.countdown != nil || s.mem == nil || s.mem.Countdown == nil {
		return
	}
	unsure := !s.heard || !s.known
	if run := runOf(d); !run.Over() && s.counting(run) != nil {
		waits := d.gate == "" && (d.pending != "" || d.scheduled(s))
		unsure = unsure || waits || d.unproven || d.forbidden != nil && d.forbidden.unknown
	}
	if unsure {
		d.countdown = s.mem.Countdown
	}
}

// lookAnnounced sees how the job of the step stands whose turn it is, before that is decided on. One that this reconciler has asked for in vain is not
// absent any more: nothing is held up by it.
func (l *Loop) lookAnnounced(s *server) {
	s.announced, s.inherited = errandAbsent, s.mem != nil && s.mem.Countdown == s.recalled
	if s.mem == nil || s.mem.Countdown == nil {
		return
	}
	name := s.mem.Countdown.job(s.key.Name)
	if s.announced = l.jobs.errand(s.key, name, s.mem.Countdown.origin()); s.announced == errandAbsent && s.tried == name {
		s.announced = errandTaken
	}
}

func (c *Countdown) origin() *Origin { return &Origin{At: c.Begun, Announces: c.Run} }

// makeAnnouncement asks for the job of the step whose turn it is on record to be.
func (l *Loop) makeAnnouncement(s *server, d *decision) {
	if !d.speaks || !s.heard {
		return
	}
	c := s.mem.Countdown
	a, profile := &c.Steps[c.Step], s.profileName()
	s.tried = c.job(s.key.Name)
	l.jobs.make(s.key, s.tried, "disruption", c.origin(), spec.JobSpec{
		Server: s.key.Name, Type: spec.JobCommand, Command: a.Command, Parameters: a.Parameters, Profile: profile, DeadlineSeconds: &a.BeforeSeconds,
	})
}

// stillAnnounces reports whether the job of an announcement is still of use: its countdown goes on, and its run lives.
func (l *Loop) stillAnnounces(server spec.Key, o *Origin) bool {
	s := l.servers[server]
	if s == nil || s.mem == nil || s.mem.Countdown == nil || !s.mem.Countdown.Begun.Equal(o.At) || s.mem.Countdown.Run != o.Announces {
		return false
	}
	run := runOf(&s.last)
	return !s.heard || !run.Over() && run.ID == o.Announces
}

// recounts reports whether something else is to be remembered of a countdown.
func (s *server) recounts() bool { return s.mem != nil && !s.mem.Countdown.same(s.last.countdown) }
