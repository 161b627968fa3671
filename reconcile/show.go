package reconcile

import (
	"reflect"
	"slices"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Snapshot is the newest view. It is never nil and never blocks.
func (l *Loop) Snapshot() *Snapshot { return l.snapshot.Load() }

// Watch returns a channel whose one slot is filled whenever Snapshot has changed since the last receive, and a function
// that ends the watch.
func (l *Loop) Watch() (changed <-chan struct{}, end func()) {
	c := make(chan struct{}, 1)
	l.mu.Lock()
	l.watchers[c] = struct{}{}
	l.mu.Unlock()
	return c, func() {
		l.mu.Lock()
		delete(l.watchers, c)
		l.mu.Unlock()
	}
}

// show makes the server's view anew, if what it shows changed.
func (l *Loop) show(s *server, now state.Moment) {
	if l.opts.Guarantees != nil {
		s.guarantees = l.opts.Guarantees()
	}
	next := &ServerView{
		Key: s.key, Profile: s.profileName(), Wish: s.last.wish.state,
		Removing: s.last.wish.intent == intentGone, Faults: s.res.faults, Facts: s.factsShown(),
		Status: statusOf(&s.standing, &s.outlook, &s.last, now),
	}
	if s.object != nil {
		next.Object = s.object.Object
		next.Profile = s.object.Object.Spec.Profile
	}
	if s.mem != nil {
		next.UID, next.CreatedAt, next.Generation = s.mem.UID, s.mem.CreatedAt, s.mem.Generation
	}
	var old []spec.Condition
	if s.view != nil {
		old = s.view.Status.Conditions
	}
	carry(old, next.Status.Conditions, &s.standing, &s.last, now.Wall)
	s.tell(s.view, next, now.Wall)
	l.announce(s)
	next.Events = s.events
	if s.view != nil {
		next.Rev = s.view.Rev
		if reflect.DeepEqual(next, s.view) {
			return
		}
	}
	next.Rev = l.rev + 1
	s.view = next
	l.changed = true
	l.reshown = append(l.reshown, s)
}

// factsShown are the facts of the server's scopes, the one that is decided on first.
func (s *server) factsShown() []*observe.Facts {
	if len(s.lanes) == 0 {
		return nil
	}
	list := make([]*observe.Facts, 0, len(s.lanes))
	first := s.shown(&s.last)
	list = append(list, first.facts)
	for _, l := range s.lanes {
		if l != first {
			list = append(list, l.facts)
		}
	}
	return list
}

// publish hands out a new snapshot, if anything that is shown changed.
func (l *Loop) publish(now state.Moment) {
	if !l.changed {
		return
	}
	l.rev++
	old := l.snapshot.Load()
	next := &Snapshot{Rev: l.rev, At: now.Wall, Keeper: l.heard, Closing: l.closing, Servers: l.views(old), Profiles: old.Profiles, Jobs: l.jobViews(old), Sources: old.Sources}
	if l.set != nil {
		next.Known, next.Sources = l.set.Known, l.set.Sources
	}
	if l.set != l.setShown {
		next.Profiles = profileViews(l.set)
		l.setShown = l.set
	}
	l.changed, l.regroup = false, false
	l.snapshot.Store(next)
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.watchers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// views is the list of the last snapshot with what changed since.
func (l *Loop) views(old *Snapshot) []*ServerView {
	defer func() { l.reshown = l.reshown[:0] }()
	if !l.regroup {
		if len(l.reshown) == 0 {
			return old.Servers
		}
		list := slices.Clone(old.Servers)
		for _, s := range l.reshown {
			list[s.row] = s.view
		}
		return list
	}
	list := make([]*ServerView, 0, len(l.servers))
	order := make([]*server, 0, len(l.servers))
	for _, s := range l.servers {
		if s.view != nil {
			order = append(order, s)
		}
	}
	slices.SortFunc(order, func(a, b *server) int { return compareKeys(a.key, b.key) })
	for i, s := range order {
		s.row = i
		list = append(list, s.view)
	}
	return list
}

func profileViews(set *spec.Set) []*ProfileView {
	uses := map[spec.Key]int{}
	for _, s := range set.Servers {
		uses[s.Object.ProfileKey()]++
	}
	list := make([]*ProfileView, 0, len(set.Profiles))
	for key, p := range set.Profiles {
		list = append(list, &ProfileView{
			Key: key, Object: p.Object, Stale: p.Stale, Servers: uses[key],
			Source: spec.SourceStatus{File: p.Source.File, Document: p.Source.Document, Revision: p.Source.Revision},
		})
	}
	slices.SortFunc(list, func(a, b *ProfileView) int { return compareKeys(a.Key, b.Key) })
	return list
}

// happen notes an event. One that is equal to an earlier one raises its count and becomes the newest. The list of an
// earlier view is not touched.
func happen(events []Event, kind, reason, message string, now time.Time) []Event {
	e := Event{Type: kind, Reason: reason, Message: message, Count: 1, FirstSeen: now, LastSeen: now}
	next := make([]Event, 0, min(len(events)+1, EventLimit))
	for _, old := range events {
		if old.Type == kind && old.Reason == reason && old.Message == message {
			e.Count, e.FirstSeen = old.Count+1, old.FirstSeen
			continue
		}
		next = append(next, old)
	}
	if len(next) >= EventLimit {
		next = next[len(next)-EventLimit+1:]
	}
	return append(next, e)
}
