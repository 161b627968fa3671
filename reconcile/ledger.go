package reconcile

import (
	"slices"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// ledger is who claims which port, over all servers of the host: the endpoints of runs that live, and those of servers that
// shall run. Nothing is started for an endpoint that another has a better claim to (EC-11): its run would not get the port, or get it at
// the other's next restart.
type ledger struct {
	claims map[portKey][]claim
	of     map[*server][]claim
}

// portKey is a port of one transport, whatever the address.
type portKey struct {
	protocol string
	port     int
}

// claim is one server's to an endpoint.
type claim struct {
	server   *server
	endpoint spec.LaunchEndpoint
	live     bool // a run has it, or is about to
	// had is when the last run began that had it; zero = none did.
	had time.Time
}

func (c *claim) key() portKey { return portKey{c.endpoint.Protocol, c.endpoint.Port} }

// contest is a better claim of another server.
type contest struct {
	endpoint string
	with     spec.Key
	live     bool
}

func (c *contest) message() string {
	if c.live {
		return "endpoint " + c.endpoint + ": " + c.with.String() + " has its port and goes on: declare another port, or end that"
	}
	return "endpoint " + c.endpoint + ": " + c.with.String() + " is to have its port, as it had it last or declared it first: declare another one"
}

// claimsOf is what a server claims now.
func (s *server) claimsOf(now state.Moment) (claims []claim) {
	add := func(endpoints []spec.LaunchEndpoint, live bool) {
		for _, e := range endpoints {
			c := claim{s, e, live, s.had(e)}
			if !slices.Contains(claims, c) {
				claims = append(claims, c)
			}
		}
	}
	for _, l := range s.lanes {
		if run := l.facts.Run; !run.Over() {
			add(run.Endpoints, true)
		}
	}
	if s.asksToStart() || s.asksToApply() {
		add(s.ordered, true)
	}
	if s.good == nil {
		return claims
	}
	if wishOf(&s.standing, now).intent == intentRun && s.last.gate != gateComplete && s.last.gate != gateFailed {
		add(s.good.launch.Endpoints, false)
	}
	return claims
}

// asksToApply reports whether live-class fields were ordered that the facts do not show yet.
func (s *server) asksToApply() bool {
	if s.busy {
		return s.sent.kind == "ApplyLive" && !s.sent.partly
	}
	a := &s.attempt
	if a.tries == 0 || a.key.kind != "ApplyLive" || a.key.partly || a.err != nil {
		return false
	}
	return slices.ContainsFunc(s.lanes, func(l *lane) bool {
		return !l.facts.Run.Over() && l.facts.Run.ID == a.key.run && l.facts.Run.Generation < a.key.version
	})
}

// claim brings the ledger up to date, and has everybody looked at again whom that may concern.
func (l *Loop) claim(s *server, now state.Moment) {
	k := &l.ledger
	before, after := k.of[s], s.claimsOf(now)
	if slices.Equal(before, after) {
		return
	}
	l.disclaim(s)
	for _, c := range after {
		k.claims[c.key()] = append(k.claims[c.key()], c)
	}
	if len(after) > 0 {
		k.of[s] = after
	}
	l.concern(s, after)
}

// disclaim takes a server out of the ledger.
func (l *Loop) disclaim(s *server) {
	k := &l.ledger
	before := k.of[s]
	delete(k.of, s)
	for _, c := range before {
		rest := slices.DeleteFunc(k.claims[c.key()], func(d claim) bool { return d.server == s })
		if k.claims[c.key()] = rest; len(rest) == 0 {
			delete(k.claims, c.key())
		}
	}
	l.concern(s, before)
}

func (l *Loop) concern(s *server, claims []claim) {
	for _, c := range claims {
		for _, other := range l.ledger.claims[c.key()] {
			if other.server != s {
				l.touch(other.server)
			}
		}
	}
}

// contested is the best claim that is better than a server's own to what its newest spec declares; nil = there is none. A run that has a
// port keeps it; among those that only want it, whose run had it last: nobody loses a port by a crash or a restart. Then who was accepted
// first.
func (l *Loop) contested(s *server) *contest {
	if s.good == nil {
		return nil
	}
	var best *claim
	endpoint := ""
	for _, e := range s.good.launch.Endpoints {
		if s.hasPort(e) {
			continue
		}
		own := claim{server: s, endpoint: e, had: s.had(e)}
		for _, c := range l.ledger.claims[portKey{e.Protocol, e.Port}] {
			if c.server != s && e.Overlaps(&c.endpoint) && c.beats(&own) && (best == nil || c.beats(best)) {
				best = &c
				endpoint = e.Name
			}
		}
	}
	if best == nil {
		return nil
	}
	return &contest{endpoint, best.server.key, best.live}
}

// beats reports whether a claim is better than another.
func (c *claim) beats(o *claim) bool {
	switch {
	case c.live != o.live:
		return c.live
	case !c.had.Equal(o.had):
		return c.had.After(o.had)
	}
	return c.server.before(o.server)
}

// had is when the last run of the server began that had an endpoint's port; zero = none is known.
func (s *server) had(e spec.LaunchEndpoint) (last time.Time) {
	for _, l := range s.lanes {
		if run := l.facts.Run; run != nil && run.StartedAt.After(last) && slices.ContainsFunc(run.Endpoints, func(o spec.LaunchEndpoint) bool { return o.Overlaps(&e) }) {
			last = run.StartedAt
		}
	}
	return last
}

// hasPort reports whether a living run of the server claims an endpoint's port already.
func (s *server) hasPort(e spec.LaunchEndpoint) bool {
	return slices.ContainsFunc(s.lanes, func(l *lane) bool {
		return !l.facts.Run.Over() && slices.ContainsFunc(l.facts.Run.Endpoints, func(o spec.LaunchEndpoint) bool { return o.Overlaps(&e) })
	})
}

// before reports whether a server was accepted before another.
func (s *server) before(other *server) bool {
	created := func(s *server) time.Time {
		if s.mem == nil {
			return time.Time{}
		}
		return s.mem.CreatedAt
	}
	a, b := created(s), created(other)
	if !a.Equal(b) {
		return a.Before(b)
	}
	return compareKeys(s.key, other.key) < 0
}
