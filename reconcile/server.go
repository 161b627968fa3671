package reconcile

import (
	"slices"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// server is all that the loop knows of one server. The loop's goroutine alone touches it.
type server struct {
	standing
	outlook

	profile  *spec.Accepted[spec.Profile] // that res was made with
	dirty    bool                         // something of it changed since it was looked at
	waiting  bool                         // for its turn in a roll-out
	due      time.Duration                // look again by then, on the uptime clock; 0 = when something changes
	at       int                          // in the heap of those that are due; -1 = not there
	last     decision
	group    spec.Key // the profile in whose roll-out it is; zero = none
	view     *ServerView
	row      int // in the last snapshot
	events   []Event
	untold   []Event // of events, those that nobody was told of yet
	told     bool    // events were told since the keeper was heard
	toldStop string  // the run whose stop was told
	toldKill string
	// toldSteps is how many steps of the run's stop were told of.
	toldSteps int
	sent      orderKey // of the order in flight
	// ordered are the endpoints of the launch that was last ordered to be started, or applied to a run.
	ordered []spec.LaunchEndpoint
	dubious bool              // nobody knows what the store has of it
	asks    []*ask            // that wait for their turn to be recorded
	pause   *Pause            // that its jobs need; nil = none does
	depends []spec.Dependency // that it is listed with among the dependents
	posture posture
	// timetable is what is to be remembered of its schedules, and rescheduled that something else is.
	timetable   []Scheduled
	rescheduled bool
	tried       string     // the job of an announcement that this reconciler has asked for last
	recalled    *Countdown // the one that was on record when we began
	tangled     *resolved  // its newest spec, refused as it would have it wait for itself; nil = it is not
}

// observe takes the newest facts of one of its scopes.
func (s *server) observe(f *observe.Facts, adopted bool, now state.Moment) {
	i := slices.IndexFunc(s.lanes, func(l *lane) bool { return l.facts.Scope == f.Scope })
	if f.Gone {
		if i >= 0 {
			s.lanes = slices.Delete(slices.Clone(s.lanes), i, i+1)
		}
		return
	}
	var l *lane
	if i < 0 {
		l = &lane{}
		s.lanes = append(s.lanes, l)
	} else {
		l = s.lanes[i]
	}
	l.facts = f
	if n := len(f.Exits); n > 0 && (l.end.At.BootID == "" || l.end.Number != f.Exits[n-1].Number) {
		l.end = sighting{Number: f.Exits[n-1].Number, At: now}
	}
	run := f.Run
	if run.Over() || run.Phase != state.Started {
		return
	}
	if l.up.At.BootID == "" || l.up.Number != run.Number {
		l.up = sighting{Number: run.Number, At: now}
	}
	s.probing.follow(run, s.unreadyRun(), adopted, now)
	s.listening.follow(run, s.unreadyRun(), now)
	s.reloading.follow(run, &s.probing, &s.listening, now)
}

// forget drops the scopes that are not in facts any more.
func (s *server) forget(there func(spec.Scope) bool) (changed bool) {
	kept := slices.DeleteFunc(slices.Clone(s.lanes), func(l *lane) bool { return !there(l.facts.Scope) })
	changed = len(kept) != len(s.lanes)
	s.lanes = kept
	return changed
}

// remember takes a memory that is durable.
func (s *server) remember(m *Memory) {
	if m == nil {
		s.mem, s.good = nil, nil
		return
	}
	if s.mem == nil || s.mem.Launch != m.Launch {
		s.good = goodOf(m.Launch)
	}
	s.share()
	if s.res.good == nil {
		s.source = m.Source
	}
	s.mem = m
}

// share lets go of a second copy of the same launch.
func (s *server) share() {
	if s.good.same(s.res.good) {
		s.res.good = s.good
	}
}

// accept is the memory that the newest manifest asks for; nil when what is remembered is it already. A server that is
// new gets a UID, unless a record of it shows that it had one: then our memory was lost, not the server.
func (s *server) accept(newUID func() string, now time.Time) *Memory {
	if s.object == nil {
		return nil
	}
	state := s.object.Object.Wish()
	switch {
	case s.mem == nil && s.res.good == nil:
		return nil
	case s.mem == nil:
		uid, generation := s.adopted()
		if uid == "" {
			uid, generation = newUID(), 1
		}
		return &Memory{UID: uid, CreatedAt: now, Generation: generation, ChangedAt: now, State: state, Launch: s.res.launch, Source: s.source}
	}
	if !s.behind() {
		return nil
	}
	m := *s.mem
	m.State = state
	if !s.sameSpec() {
		m.Launch, m.Source = s.res.launch, s.source
	}
	if m.Launch != nil {
		m.Generation, m.ChangedAt = m.Generation+1, now
	}
	return &m
}

// behind reports whether the newest manifest asks for something else than what is remembered.
func (s *server) behind() bool {
	return s.object != nil && s.mem != nil && (s.mem.State != s.object.Object.Wish() || !s.sameSpec())
}

// sameSpec reports whether the newest manifest asks for the spec that is remembered, or for none that can be had.
func (s *server) sameSpec() bool { return s.res.good == nil || s.good.same(s.res.good) }

// adopted is the UID and the generation that a record of the server tells.
func (s *server) adopted() (uid string, generation int64) {
	for _, l := range s.lanes {
		f := l.facts
		if f.UID == "" || f.Run == nil {
			continue
		}
		if f.Run.Generation >= generation {
			uid, generation = f.UID, f.Run.Generation
			if f.Run.SpecHash != s.res.specHash || f.Run.LiveHash != s.res.liveHash || f.Run.FilesHash != s.res.filesHash {
				generation++
			}
		}
	}
	return uid, generation
}

// member is the server as its profile's roll-out sees it.
func (s *server) member() member {
	d := &s.last
	run := runOf(d)
	m := member{
		key: s.key, limit: s.good.launch.Disruption.MaxUnavailable, changedAt: s.mem.ChangedAt,
		outdated: d.pending != "" && d.gate == "", granted: s.granted, ready: d.ready.ok(), announced: s.mem.Countdown != nil,
	}
	m.moving = run != nil && (run.Stop != nil && changes(run.Stop.Why) || changes(run.Cause) && run.ReadyAt.IsZero() ||
		run.Reload != nil && run.Reload.ProvenAt.IsZero())
	if at := s.secretChangedAt(run); at.After(m.changedAt) {
		m.changedAt = at
	}
	return m
}

// secretChangedAt is when a secret of the server was changed last, as far as its record tells: when that was seen of a run
// that is to be replaced, else when one was replaced for it. It is no change of the spec, but a roll-out all the same.
func (s *server) secretChangedAt(run *observe.RunFacts) (at time.Time) {
	if run != nil && run.Changed != nil && s.last.pending == WhySecretChanged {
		return run.Changed.At
	}
	own := s.own()
	if own == nil {
		return at
	}
	for i := len(own.facts.Exits) - 1; i >= 0; i-- {
		if e := &own.facts.Exits[i]; e.Why == WhySecretChanged {
			return e.FinishedAt
		}
	}
	return at
}
