package reconcile

import (
	"cmp"
	"slices"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/state"
)

// looking is when it is looked who listens: one look for all runs that are due, as it costs one pass over the kernel's tables
// whomever it is for. One is in flight at a time.
type looking struct {
	servers  map[*server]struct{} // whose live run has endpoints
	earliest time.Duration        // when the first of them is due; 0 = that is to be found out
	inFlight bool
	sentAt   time.Duration
	rest     time.Duration // no look before this uptime
}

// LookOrder asks who listens on the endpoints of runs.
type LookOrder struct {
	Runs  []observe.RunName      // sorted by scope
	Found []observe.RunListening // the answer, when there was no error
}

// lookTimeout is how long a look may take, and lookShare how many times as long as it took nobody looks again, up to
// lookSeldom: a look at a thousand runs on a busy host takes no more of it than that.
const (
	lookTimeout = 10 * time.Second
	lookShare   = 20
)

// watch has a server's endpoints looked at, or not any more.
func (l *Loop) watch(s *server) {
	run := runOf(&s.last)
	if s.last.sit != up || len(run.Endpoints) == 0 || s.listening.runID != run.ID {
		delete(l.looking.servers, s)
		return
	}
	l.looking.servers[s] = struct{}{}
	l.looking.earliest = min(l.looking.earliest, s.listening.next)
}

// look is the order for all who are due.
func (l *Loop) look(orders []Order, now state.Moment) []Order {
	k := &l.looking
	if !l.heard || k.inFlight || len(k.servers) == 0 {
		return orders
	}
	if k.earliest == 0 {
		k.earliest = forever
		for s := range k.servers {
			k.earliest = min(k.earliest, s.listening.next)
		}
	}
	if at := max(k.earliest, k.rest); now.Uptime < at {
		l.soonest(at)
		return orders
	}
	order := &LookOrder{}
	for s := range k.servers {
		if s.listening.next <= now.Uptime {
			order.Runs = append(order.Runs, observe.RunName{Scope: s.last.lane.facts.Scope, ID: s.listening.runID})
		}
	}
	k.earliest = 0
	if len(order.Runs) == 0 {
		l.soonest(now.Uptime) // who was due went
		return orders
	}
	slices.SortFunc(order.Runs, func(a, b observe.RunName) int {
		return cmp.Or(compareKeys(a.Scope.ServerKey(), b.Scope.ServerKey()), cmp.Compare(a.Scope.Profile, b.Scope.Profile))
	})
	k.inFlight, k.sentAt = true, now.Uptime
	return append(orders, Order{Look: order})
}

const forever = time.Duration(1<<63 - 1)

// looked takes the answer to a look.
func (l *Loop) looked(o *LookOrder, err error, now state.Moment) {
	k := &l.looking
	k.inFlight, k.earliest = false, 0
	k.rest = now.Uptime + min(lookShare*(now.Uptime-k.sentAt), lookSeldom)
	if err != nil {
		l.opts.Log.Debug("it could not be looked who listens", "error", err)
	}
	found := make(map[observe.RunName][]observe.Listening, len(o.Found))
	for _, r := range o.Found {
		found[r.RunName] = r.Endpoints
	}
	for _, run := range o.Runs {
		s := l.servers[run.Scope.ServerKey()]
		if s == nil || s.listening.runID != run.ID {
			continue
		}
		endpoints, there := found[run]
		if err != nil || !there { // nobody knows, or it has ended: that is told by its facts
			s.listening.again(lookAgain, now)
			continue
		}
		if s.listening.note(endpoints, k.sentAt, now) {
			l.touch(s)
		}
	}
}
