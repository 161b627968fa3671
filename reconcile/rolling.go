package reconcile

import (
	"slices"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// group is the roll-out of one profile.
type group struct {
	members map[*server]struct{}
	waiting int           // members that wait to be replaced
	touched bool          // something of a member changed
	wait    string        // the copies that keep them waiting
	since   time.Duration // that wait says this, on the uptime clock
	stale   bool          // some of those who wait still say something else
}

// waitRests is how long the list of copies that others wait for must be the same before all of them show it anew: in a
// roll-out that goes on, it is another every moment.
const waitRests = time.Second

// disturb has a roll-out looked at in this turn.
func (l *Loop) disturb(g *group) {
	if !g.touched {
		g.touched = true
		l.rolling = append(l.rolling, g)
	}
}

// leave takes a server out of its roll-out.
func (l *Loop) leave(s *server) (none spec.Key) {
	g := l.groups[s.group]
	if g == nil {
		return none
	}
	delete(g.members, s)
	l.disturb(g)
	if s.waiting {
		s.waiting = false
		g.waiting--
	}
	if len(g.members) == 0 {
		delete(l.groups, s.group)
	}
	return none
}

// join puts a server into the roll-out of its profile, if it shall run. One that has done its work halts no roll-out, and one
// that has no run because of another server does not either: it is not broken, and it will not be Ready.
func (l *Loop) join(s *server) {
	var key spec.Key
	d := &s.last
	rests := d.gate == gateComplete || (d.gate == gatePort || d.gate == gateDepend) && d.sit == vacant
	if d.wish.intent == intentRun && !rests {
		key = spec.Key{Namespace: s.key.Namespace, Name: s.good.launch.Scope.Profile}
	}
	if key != s.group {
		s.group = l.leave(s)
	}
	if key == (spec.Key{}) {
		return
	}
	g := l.groups[key]
	if g == nil {
		g = &group{members: map[*server]struct{}{}}
		l.groups[key] = g
	}
	s.group = key
	g.members[s] = struct{}{}
	l.disturb(g)
	if waits := d.pending != "" && !s.granted && d.gate == ""; waits != s.waiting {
		s.waiting, s.waitsFor = waits, ""
		if waits {
			g.waiting++
		} else {
			g.waiting--
		}
	}
}

// rollAll lets the roll-outs go on in which something changed.
func (l *Loop) rollAll(orders []Order, now state.Moment) []Order {
	rolling := l.rolling
	l.rolling = nil
	for _, g := range rolling {
		if g.waiting == 0 {
			g.touched = false
			continue
		}
		members := make([]member, 0, len(g.members))
		for s := range g.members {
			members = append(members, s.member())
		}
		r := roll(members)
		for _, key := range r.grant {
			s := l.servers[key]
			s.granted = true
			orders = l.visit(s, orders, now)
		}
		if wait := keyList(append(r.wait, r.grant...)); wait != g.wait {
			g.wait, g.since = wait, now.Uptime
			if !g.stale {
				g.stale = true
				l.stale = append(l.stale, g)
			}
		}
		for s := range g.members {
			if s.waiting && s.waitsFor == "" {
				s.waitsFor = g.wait
				l.show(s, now)
			}
		}
		g.touched = false // what its own grants changed is considered
	}
	return orders
}

// tellWaiting shows those who wait in a roll-out for whom, once that rests.
func (l *Loop) tellWaiting(now state.Moment) {
	l.stale = slices.DeleteFunc(l.stale, func(g *group) bool {
		if at := g.since + waitRests; now.Uptime < at && g.waiting > 0 {
			l.soonest(at)
			return false
		}
		for s := range g.members {
			if s.waiting && s.waitsFor != g.wait {
				s.waitsFor = g.wait
				l.show(s, now)
			}
		}
		g.stale = false
		return true
	})
}
