package reconcile

import (
	"cmp"
	"slices"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Turn compares wish and facts once and returns the orders to carry out and when, on the clock of Moment.Uptime, to turn
// again at the latest (0 = when something changes). Each order must be answered by [Loop.Done], in any order, once; the
// next Turn may come before that. Run does all this; a simulation may instead, from one goroutine, and may lose the
// loop at any point: what a new one recalls from the store is all that counts.
//
// A turn looks at the servers of which something changed and at those that are due, and at no other.
func (l *Loop) Turn(now state.Moment) (orders []Order, wake time.Duration) {
	began := time.Now()
	l.wakeAt = 0
	l.watchClock(now)
	l.takeFacts(now)
	l.takeSet()
	l.takeClosers()
	l.takeAsks()
	l.takeJobAsks()
	for s := l.due.take(now.Uptime); s != nil; s = l.due.take(now.Uptime) {
		l.touch(s)
	}
	visited := len(l.dirty)
	orders = l.visitAll(orders, now)
	if l.heard {
		orders = l.rollAll(orders, now)
		l.tellWaiting(now)
	}
	orders = l.withinBudget(orders, now)
	orders = l.visitJobs(orders, now)
	orders = l.look(orders, now)
	if o := l.save(now); o != nil {
		orders = append(orders, *o)
	}
	sortOrders(orders)
	l.soonest(l.due.first())
	if len(l.dirty) > 0 {
		l.soonest(now.Uptime) // whom a claim concerns that came or went in this turn
	}
	if l.retie {
		l.soonest(now.Uptime) // a job that servers waited for is not what it was
	}
	if len(l.jobs.dirty) > 0 {
		l.soonest(now.Uptime) // they were answered in this turn
	}
	l.publish(now)
	l.answerClosers(now.Uptime) // who is told that all is stopped sees it, too
	if l.opts.Meter != nil {
		l.opts.Meter.Turn(time.Since(began), visited)
	}
	return orders, l.wakeAt
}

// soonest asks for another turn at an uptime; the earliest counts.
func (l *Loop) soonest(at time.Duration) {
	if at > 0 && (l.wakeAt == 0 || at < l.wakeAt) {
		l.wakeAt = at
	}
}

// watchClock looks at every server again when the wall clock has jumped: what was due by it is due at another time now.
func (l *Loop) watchClock(now state.Moment) {
	origin := now.Wall.Add(-now.Uptime)
	if jump := origin.Sub(l.origin).Abs(); jump < time.Second {
		return
	}
	l.origin = origin
	for _, s := range l.servers {
		l.touch(s)
	}
}

// takeFacts takes what changed since the last turn.
func (l *Loop) takeFacts(now state.Moment) {
	facts, known := l.opts.Executor.Facts()
	if known != l.heard {
		l.heard, l.changed = known, true
		for _, s := range l.servers {
			s.attempt = attempt{} // another keeper, another chance
			s.heard, s.keeper = known, s.keeper || known
			l.touch(s)
		}
	}
	if !known {
		return
	}
	there, last := 0, l.facts // both are by scope: one that is new moves the others up, and changes none
	for _, f := range facts {
		if !f.Gone {
			there++
		}
		if len(last) > 0 && last[0] == f {
			last = last[1:]
			continue
		}
		if len(last) > 0 && last[0].Scope == f.Scope {
			last = last[1:]
		}
		l.observe(f, now)
	}
	l.facts, l.adopted = facts, true
	if there != l.lanes {
		l.forget(facts)
	}
}

// observe takes the facts of one scope, if they are new.
func (l *Loop) observe(f *observe.Facts, now state.Moment) {
	key := f.Scope.ServerKey()
	s := l.servers[key]
	if s == nil {
		if f.Gone {
			return
		}
		s = l.server(key)
	}
	for _, lane := range s.lanes {
		if lane.facts == f {
			return
		}
	}
	l.lanes -= len(s.lanes)
	s.observe(f, !l.adopted, now)
	l.lanes += len(s.lanes)
	l.touch(s)
}

// forget drops the scopes that have no record any more.
func (l *Loop) forget(facts []*observe.Facts) {
	there := make(map[spec.Scope]bool, len(facts))
	for _, f := range facts {
		if !f.Gone {
			there[f.Scope] = true
		}
	}
	l.lanes = 0
	for _, s := range l.servers {
		if s.forget(func(name spec.Scope) bool { return there[name] }) {
			l.touch(s)
		}
		l.lanes += len(s.lanes)
	}
}

// takeSet takes the newest Set, if it is another.
func (l *Loop) takeSet() {
	set, host := l.opts.Source.Latest(), l.opts.Host()
	if set == nil || set == l.set && host == l.host {
		if l.retie {
			l.untangle(set)
		}
		return
	}
	known := l.set != nil && l.set.Known
	anew := host != l.host
	l.set, l.host, l.changed = set, host, true
	for key, object := range set.Servers {
		s := l.server(key)
		profile := set.Profiles[object.Object.ProfileKey()]
		if object == s.object && profile == s.profile && !anew {
			continue
		}
		s.declare(object, profile, host)
		l.touch(s)
	}
	for key, s := range l.servers {
		if s.object != nil && set.Servers[key] == nil {
			s.undeclare()
			l.touch(s)
		}
		if set.Known != known {
			s.known = set.Known
			l.touch(s)
		}
	}
	l.takeJobs(set)
	l.untangle(set)
}

// declare takes the newest manifest of a server.
func (s *server) declare(object *spec.Accepted[spec.Server], profile *spec.Accepted[spec.Profile], host *spec.HostView) {
	s.object, s.profile, s.present, s.absent = object, profile, true, object.Absent
	var p *spec.Profile
	if profile != nil {
		p = profile.Object
	}
	s.adopt(resolve(object.Object, p, *host))
	s.newestState = object.Object.Wish()
}

// adopt takes what the newest manifest comes to.
func (s *server) adopt(r resolved) {
	s.res, s.tangled = r, nil
	if r.good != nil {
		from := &s.object.Source
		s.source = state.Source{File: from.File, Document: from.Document, Revision: from.Revision}
	}
	s.share()
	s.newest = s.res.good
}

// undeclare notes that no source has the server any more.
func (s *server) undeclare() {
	s.object, s.profile, s.present, s.absent, s.res, s.tangled = nil, nil, false, false, resolved{}, nil
	s.newest, s.newestState = nil, ""
}

// takeAsks hands the requests of people to their servers.
func (l *Loop) takeAsks() {
	l.mu.Lock()
	inbox := l.inbox
	l.inbox = nil
	l.mu.Unlock()
	for _, q := range inbox {
		s := l.servers[q.Server]
		switch {
		case l.closing:
			q.answer <- ErrClosing
		case s == nil:
			q.answer <- ErrNoServer
		default:
			s.asks = append(s.asks, q)
			l.touch(s)
		}
	}
}

// visitAll decides about every server of which something changed.
func (l *Loop) visitAll(orders []Order, now state.Moment) []Order {
	for i := 0; i < len(l.dirty); i++ { // who it concerns is looked at too
		l.claim(l.dirty[i], now)
		l.depend(l.dirty[i])
	}
	dirty := l.dirty
	l.dirty = nil
	for _, s := range dirty {
		s.dirty = false
		orders = l.visit(s, orders, now)
	}
	return orders
}

// visit decides about one server.
func (l *Loop) visit(s *server, orders []Order, now state.Moment) []Order {
	s.void = l.jobs.void(s, now)
	s.contest = l.contested(s)
	s.recording = s.behind() && l.batch.failed == 0
	s.awaits, s.first = l.awaits(s, now), l.firstLeaving(s, now)
	l.lookAnnounced(s)
	d := decide(&s.standing, now)
	l.schedule(s, &d, now)
	l.makeAnnouncement(s, &d)
	if d.pending == "" || d.gate != "" {
		s.granted = false
	}
	if d.order == nil || d.order.Start == nil {
		s.limited = ""
	}
	if d.order != nil && d.order.Reload != nil {
		d.order.Reload.ID = "reload-" + l.opts.NewUID()
	}
	orders = s.send(&d, orders, now)
	if d.proof != nil {
		d.proof.Prove.ID = "check-" + l.opts.NewUID()
		s.proving.flying = true
		orders = append(orders, *d.proof)
	}
	l.due.set(s, d.wake)
	s.last = d
	l.claim(s, now)
	l.poise(s, now)
	l.watch(s)
	l.jobs.touch(s.key)
	l.join(s)
	s.recorded = s.res.good == nil || s.good.same(s.res.good)
	if s.wantsSave(now.Wall) {
		l.unsaved[s] = struct{}{}
	}
	if s.vanished() {
		l.drop(s)
		return orders
	}
	l.show(s, now)
	return orders
}

// send lets the decision's orders go.
func (s *server) send(d *decision, orders []Order, now state.Moment) []Order {
	if o := d.order; o != nil {
		s.busy, s.sent = true, o.key()
		switch {
		case o.Start != nil:
			s.ordered = o.Start.Launch.Endpoints
		case o.Live != nil && !o.Live.RestartOnly:
			s.ordered = o.Live.Launch.Endpoints
		case o.Reload != nil:
			s.ordered = o.Reload.Launch.Endpoints
		}
		orders = append(orders, *o)
	}
	for _, o := range d.checks {
		s.probing.asked(o.Check, now)
	}
	return append(orders, d.checks...)
}

// vanished reports whether nothing is left that a server stands for.
func (s *server) vanished() bool {
	return s.object == nil && s.mem == nil && len(s.lanes) == 0 && !s.busy && !s.dubious && len(s.asks) == 0
}

func (l *Loop) drop(s *server) {
	l.announce(s)
	delete(l.servers, s.key)
	delete(l.unsaved, s)
	delete(l.looking.servers, s)
	l.disclaim(s)
	s.good = nil
	l.depend(s)
	l.concernDependents(dependency{spec.KindServer, s.key})
	l.due.set(s, 0)
	s.group = l.leave(s)
	l.regroup, l.changed = true, true
}

// sortOrders makes a turn's orders depend on nothing but what they are about: the loop's maps have no order.
func sortOrders(orders []Order) {
	slices.SortFunc(orders, func(a, b Order) int {
		return cmp.Or(
			cmp.Compare(a.Scope.Namespace, b.Scope.Namespace), cmp.Compare(a.Scope.Server, b.Scope.Server),
			cmp.Compare(a.Scope.Profile, b.Scope.Profile), cmp.Compare(a.Kind(), b.Kind()), cmp.Compare(a.detail(), b.detail()))
	})
}
