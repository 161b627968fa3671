package reconcile

import (
	"reflect"
	"slices"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/probe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// question is what the live run is asked again and again.
type question struct {
	probe    *spec.LaunchProbe   // of readiness and liveness; nil = nothing is asked
	live     string              // the run's live hash, where the probe has a program: its arguments are not told
	players  *spec.LaunchPlayers // of players
	tally    probe.Tally
	next     time.Duration // when it is due, on the uptime clock
	inFlight bool
	stale    bool   // what is in flight was asked before a reload
	renewed  bool   // one that was asked after it has passed
	unrun    bool   // the last one could not be carried out
	hindered string // why, where that is known and may be shown
	failure  string // why the last one failed, where that may be shown; "" = it did not, or it may not be
}

// unrunAgain is how long after a question that could not be carried out it is asked again at the latest, whatever its period.
const unrunAgain = 10 * time.Second

// endpoint is the name of who is asked; "" = nobody is.
func (q *question) endpoint() string {
	if q.players != nil {
		return q.players.Endpoint()
	}
	return q.probe.Endpoint()
}

// silent reports whether nobody is asked: what a server says once, or prints, is told by its facts.
func (q *question) silent(why spec.Purpose) bool {
	switch {
	case q.endpoint() != "":
		return false
	case q.probe == nil:
		return true
	}
	return q.probe.Exec == nil && (why != spec.ForLiveness || !q.probe.Notify)
}

// programOf is what tells the programs of two probes apart; "" = it has none.
func programOf(run *observe.RunFacts, p *spec.LaunchProbe) string {
	if p == nil || p.Exec == nil {
		return ""
	}
	return run.LiveHash
}

func (q *question) period() time.Duration {
	if q.players != nil {
		return time.Duration(q.players.PeriodSeconds) * time.Second
	}
	return time.Duration(q.probe.PeriodSeconds) * time.Second
}

// probing is what the loop knows by asking the live run. It is forgotten with us, but for whether a run that had been Ready is
// so no longer ([Memory.Unready]): after our restart a run goes on as Ready, or not, as it was, until enough results say
// otherwise. Liveness is taken for granted until enough results in a row deny it.
type probing struct {
	runID     string
	readiness question
	liveness  question
	players   question
	crowd     crowd
}

// crowd is how many play.
type crowd struct {
	count int
	known bool
	since time.Time // when that was seen first, by the wall clock; zero = it was not asked yet
}

// of is the question for a purpose.
func (p *probing) of(why spec.Purpose) *question {
	switch why {
	case spec.ForLiveness:
		return &p.liveness
	case spec.ForPlayers:
		return &p.players
	}
	return &p.readiness
}

// follow begins to ask a run, and asks anew what it is to be asked from now on. A run that was there before us waits a part of each
// period, so that a thousand of them are not all asked in the moment of our start. unready is the run that is known not to be
// Ready any more.
func (p *probing) follow(run *observe.RunFacts, unready string, adopted bool, now state.Moment) {
	if p.runID != run.ID {
		*p = probing{runID: run.ID}
		p.readiness.tally.Passing = !run.ReadyAt.IsZero() && unready != run.ID
	} else {
		adopted = false // what changes in our time is asked at once
	}
	p.readiness.become(question{probe: run.Readiness, live: programOf(run, run.Readiness), tally: probe.Tally{Passing: p.readiness.tally.Passing}}, run, adopted, now)
	p.liveness.become(question{probe: run.Liveness, live: programOf(run, run.Liveness), tally: probe.Tally{Passing: true}}, run, adopted, now)
	if p.players.become(question{players: run.Players}, run, adopted, now) {
		p.crowd = crowd{}
	}
}

// become asks something else, if it is another question. What is in flight is of the old one and does not count.
func (q *question) become(next question, run *observe.RunFacts, adopted bool, now state.Moment) bool {
	if q.live == next.live && reflect.DeepEqual(q.probe, next.probe) && reflect.DeepEqual(q.players, next.players) {
		return false
	}
	next.next = now.Uptime
	if adopted && (next.probe != nil || next.players != nil) {
		next.next += time.Duration(float64(next.period()) * (spread(run.ID) + 1) / 2)
	}
	*q = next
	return true
}

// note takes the answer to a question, if it is still asked. It reports whether the program of a probe fails, or cannot be run, for
// another reason than the last time.
func (p *probing) note(c *CheckOrder, err error, now state.Moment) (news bool) {
	q := p.of(c.For)
	if p.runID != c.RunID || q.probe != c.Probe || q.players != c.Players || !q.inFlight {
		return false
	}
	failed, hindered := q.failure, q.hindered
	q.inFlight = false
	switch {
	case c.For == spec.ForPlayers:
		p.crowd.note(c.Count, err == nil, now.Wall)
	case probe.NotRun(err):
		q.unrun, q.hindered = true, c.Hindered
		q.next = min(q.next, now.Uptime+unrunAgain)
	default:
		q.unrun, q.failure, q.hindered = false, "", ""
		if err != nil && c.ThroughKeeper() {
			q.failure = err.Error()
		}
		q.tally.Note(err == nil, q.probe)
		q.renewed = q.renewed || err == nil && !q.stale
	}
	return q.probe != nil && q.probe.Exec != nil && err != nil && (q.failure != failed || q.hindered != hindered)
}

// note takes a count, or that there is none: then nobody knows.
func (c *crowd) note(count int, known bool, at time.Time) {
	if !known {
		count = 0
	}
	if c.since.IsZero() || c.count != count || c.known != known {
		*c = crowd{count: count, known: known, since: at}
	}
}

// status is what is shown of them.
func (c crowd) status() *spec.PlayersStatus {
	if c.since.IsZero() {
		return nil
	}
	p := &spec.PlayersStatus{At: c.since}
	if c.known {
		n := c.count
		p.Count = &n
	}
	return p
}

// ask asks a living run what is due. Nothing is asked while a run ends, and before it was Ready nothing else than whether it is.
func (d *decision) ask(s *standing, run *observe.RunFacts, now state.Moment) {
	if !s.heard || d.sit != up || s.probing.runID != run.ID {
		return
	}
	for _, why := range []spec.Purpose{spec.ForReadiness, spec.ForLiveness, spec.ForPlayers} {
		if why != spec.ForReadiness && run.ReadyAt.IsZero() {
			continue
		}
		q := s.probing.of(why)
		if q.silent(why) || q.inFlight {
			continue
		}
		if now.Uptime < q.next {
			d.lookAt(q.next)
			continue
		}
		check := &CheckOrder{For: why, RunID: run.ID, Probe: q.probe, Players: q.players}
		if i := slices.IndexFunc(run.Endpoints, func(e spec.LaunchEndpoint) bool { return e.Name == q.endpoint() }); i >= 0 {
			check.Endpoint = s.listening.address(run.Endpoints[i])
		} else if q.endpoint() != "" {
			continue
		}
		d.checks = append(d.checks, Order{Scope: d.lane.facts.Scope, Check: check})
	}
}

// asked notes that a question is on its way.
func (p *probing) asked(c *CheckOrder, now state.Moment) {
	q := p.of(c.For)
	q.stale = false
	q.inFlight, q.next = true, now.Uptime+q.period()
}

// unreadyRun is the run that the memory says is not Ready any more; "" = none.
func (s *standing) unreadyRun() string {
	if s.mem == nil {
		return ""
	}
	return s.mem.Unready
}

// unready is the run that the memory shall say that of.
func (s *server) unready() string {
	if s.last.sit != up || s.last.ready.ok() {
		return ""
	}
	run := runOf(&s.last)
	if run.Over() || run.ReadyAt.IsZero() {
		return ""
	}
	return run.ID
}

// turned reports whether what the memory says of that is not so any more. As long as the keeper is not heard nobody knows.
func (s *server) turned() bool {
	return s.mem != nil && s.heard && s.mem.Unready != s.unready()
}
