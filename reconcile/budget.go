package reconcile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// startingFor is how long a server that never gets Ready counts as Starting for Host startConcurrency: it must not keep
// all others waiting for ever (I12).
const startingFor = 10 * time.Minute

// restartWindow is the time over which Host restartsPerMinute counts.
const restartWindow = time.Minute

// budget is what the host allows of starts over all servers: a full host's boot, and a bad day.
type budget struct {
	waiting  map[*server]*turnedAway
	restarts []time.Duration // uptimes of the crash restarts in the window, oldest first
}

// turnedAway is a server whose start there was no room for.
type turnedAway struct {
	since time.Duration // uptime of the first time
	crash bool
}

// candidate is a server that wants to be started.
type candidate struct {
	*turnedAway
	server *server
	order  *Order // nil = it waits, and is not asked for in this turn
}

// withinBudget takes those starts back for which the host has no room now. Room goes to whoever waits longest; those of them that
// this turn has not looked at are looked at in the next one.
func (l *Loop) withinBudget(orders []Order, now state.Moment) []Order {
	l.budget.forget(l.servers, now.Uptime)
	candidates := l.candidates(orders, now.Uptime)
	if len(candidates) == 0 {
		return orders
	}
	room, back := l.room(candidates, now), map[*Order]bool{}
	for _, c := range candidates {
		why := room.refuse(c.crash)
		if why == "" {
			room.take(c.crash)
		}
		switch {
		case c.order == nil && why == "":
			l.touch(c.server)
			l.soonest(now.Uptime)
		case c.order == nil:
		case why == "":
			l.permit(c, now)
		default:
			back[c.order] = true
			c.server.takeBack(why)
			l.budget.waiting[c.server] = c.turnedAway
			l.show(c.server, now)
		}
	}
	l.awaitRoom(now.Uptime)
	kept := orders[:0:0]
	for i := range orders {
		if !back[&orders[i]] {
			kept = append(kept, orders[i])
		}
	}
	return kept
}

// candidates are those who want to be started: first who waits longest, then by name.
func (l *Loop) candidates(orders []Order, now time.Duration) []candidate {
	var all []candidate
	asked := map[*server]bool{}
	for i := range orders {
		o := &orders[i]
		if o.Start == nil {
			continue
		}
		c := candidate{server: l.servers[o.Scope.ServerKey()], order: o}
		if c.turnedAway = l.budget.waiting[c.server]; c.turnedAway == nil {
			c.turnedAway = &turnedAway{since: now}
		}
		c.crash = o.Start.Cause == CauseCrashed
		asked[c.server] = true
		all = append(all, c)
	}
	for s, w := range l.budget.waiting {
		if !asked[s] {
			all = append(all, candidate{server: s, turnedAway: w})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.since, b.since), compareKeys(a.server.key, b.server.key))
	})
	return all
}

// permit lets a start go.
func (l *Loop) permit(c candidate, now state.Moment) {
	if c.crash {
		l.budget.restarts = append(l.budget.restarts, now.Uptime)
	}
	delete(l.budget.waiting, c.server)
	if c.server.limited != "" {
		c.server.limited = ""
		l.show(c.server, now)
	}
}

// takeBack undoes the sending of a start.
func (s *server) takeBack(why string) {
	s.busy, s.limited = false, why
	s.last.order = nil
}

// room is what is left of the budget in a turn. A limit of 0 is none.
type room struct {
	concurrent, starting int64
	perMinute, restarts  int64
}

// room counts those that are Starting, without the candidates.
func (l *Loop) room(candidates []candidate, now state.Moment) room {
	r := room{concurrent: l.host.StartConcurrency, perMinute: l.host.RestartsPerMinute, restarts: int64(len(l.budget.restarts))}
	if r.concurrent == 0 {
		return r
	}
	asked := make(map[*server]bool, len(candidates))
	for _, c := range candidates {
		asked[c.server] = true
	}
	for _, s := range l.servers {
		if !asked[s] && s.starting(now) {
			r.starting++
		}
	}
	return r
}

// starting reports whether a start of the server is under way: a run that was never Ready is Starting (API.md rule 8).
func (s *server) starting(now state.Moment) bool {
	if s.asksToStart() {
		return true
	}
	for _, l := range s.lanes {
		switch situationOf(l.facts) {
		case launching:
			return true
		case up:
			return l.facts.Run.ReadyAt.IsZero() && now.Uptime-l.up.At.Uptime < startingFor
		}
	}
	return false
}

// asksToStart reports whether a start was ordered whose run is not seen yet: the answer may come before the facts.
func (s *server) asksToStart() bool {
	if s.busy {
		return s.sent.kind == "Start"
	}
	a := &s.attempt
	if a.tries == 0 || a.key.kind != "Start" || a.err != nil {
		return false
	}
	for _, l := range s.lanes {
		if run := l.facts.Run; l.facts.Scope.Profile == a.key.profile && run != nil && run.Number > a.key.number {
			return false
		}
	}
	return true
}

func (r *room) refuse(crash bool) string {
	switch {
	case r.concurrent > 0 && r.starting >= r.concurrent:
		return fmt.Sprintf("it waits to be started: the host allows %d to be Starting at once (startConcurrency)", r.concurrent)
	case crash && r.perMinute > 0 && r.restarts >= r.perMinute:
		return fmt.Sprintf("it waits to be started again: the host allows %d restarts a minute after crashes (restartsPerMinute)", r.perMinute)
	}
	return ""
}

func (r *room) take(crash bool) {
	r.starting++
	if crash {
		r.restarts++
	}
}

// awaitRoom asks for a turn when there may be room again without anything that wakes the loop.
func (l *Loop) awaitRoom(now time.Duration) {
	if len(l.budget.waiting) == 0 {
		return
	}
	if len(l.budget.restarts) > 0 {
		l.soonest(l.budget.restarts[0] + restartWindow)
	}
	if l.host.StartConcurrency > 0 {
		l.soonest(now + resync) // one that counts as Starting may count no more
	}
}

// forget drops what is of the past: restarts before the window, and who waits no more.
func (b *budget) forget(servers map[spec.Key]*server, now time.Duration) {
	b.restarts = slices.DeleteFunc(b.restarts, func(at time.Duration) bool { return now-at >= restartWindow })
	maps.DeleteFunc(b.waiting, func(s *server, _ *turnedAway) bool { return s.limited == "" || servers[s.key] != s })
}
