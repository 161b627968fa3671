package reconcile

import (
	"slices"
	"strings"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// What a server depends on is looked at whenever a run of it would begin, and never ends one. Where both are to end, who depends
// goes first.

// dependents are who depends on what, by what the remembered specs say.
type dependents map[dependency]map[*server]struct{}

// dependency is an object that others depend on.
type dependency struct {
	kind string
	key  spec.Key
}

// posture is what a server is for those that depend on it, and for those that it depends on.
type posture struct {
	there, up, ready, wished, leaving bool
}

// pending is what a server waits for.
type pending struct {
	reason  string // dependencyPending, or why it will not come about by itself
	message string
}

// The reasons of a server that waits for others.
const (
	dependencyPending  = "DependencyPending"
	dependencyNotFound = "DependencyNotFound"
	dependencyStopped  = "DependencyStopped" // it shall not run
	dependencyFailed   = "DependencyFailed"  // a job that ended without success
)

// stuck reports whether somebody has to do something about it.
func (p *pending) stuck() bool { return p != nil && p.reason != dependencyPending }

// dependsOn are what the server depends on, by the spec that governs it.
func (s *server) dependsOn() []spec.Dependency {
	if s.good == nil {
		return nil
	}
	return s.good.launch.DependsOn
}

func (s *server) dependency(d spec.Dependency) dependency {
	return dependency{d.Kind, spec.Key{Namespace: s.key.Namespace, Name: d.Name}}
}

// depend brings up to date who depends on what.
func (l *Loop) depend(s *server) {
	next := s.dependsOn()
	if slices.Equal(s.depends, next) {
		return
	}
	for _, d := range s.depends {
		on := s.dependency(d)
		if delete(l.dependents[on], s); len(l.dependents[on]) == 0 {
			delete(l.dependents, on)
		}
	}
	s.depends = next
	for _, d := range next {
		on := s.dependency(d)
		if l.dependents[on] == nil {
			l.dependents[on] = map[*server]struct{}{}
		}
		l.dependents[on][s] = struct{}{}
	}
}

// dependentsOf are the servers that depend on something, by their keys.
func (l *Loop) dependentsOf(d dependency) []*server {
	list := make([]*server, 0, len(l.dependents[d]))
	for s := range l.dependents[d] {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *server) int { return compareKeys(a.key, b.key) })
	return list
}

// stands is how a server stands by what is known now, before it was decided on, too.
func (s *server) stands(now state.Moment) posture {
	p := posture{there: s.object != nil || s.mem != nil, leaving: s.leaving(now)}
	lane, sit := s.foremost()
	p.up = sit == up
	p.ready = p.up && readinessOf(lane.facts.Run, sit, &s.standing).ok()
	w := wishOf(&s.standing, now)
	p.wished = w.intent == intentRun || w.intent == intentKeep || w.why == WhyJob
	return p
}

// poise has everybody looked at again whom it concerns how a server stands now.
func (l *Loop) poise(s *server, now state.Moment) {
	next := s.stands(now)
	if next == s.posture {
		return
	}
	s.posture = next
	l.concernDependents(dependency{spec.KindServer, s.key})
	for _, d := range s.depends {
		if d.Kind != spec.KindServer {
			continue
		}
		if on := l.servers[s.dependency(d).key]; on != nil {
			l.touch(on)
		}
	}
}

// concernDependents has the servers looked at again that depend on something.
func (l *Loop) concernDependents(d dependency) {
	for _, s := range l.dependentsOf(d) {
		l.touch(s)
	}
}

// awaits is what a run of a server waits for; nil = nothing. The reason is that of what somebody has to do something about, if any is.
func (l *Loop) awaits(s *server, now state.Moment) *pending {
	var waits []pending
	for _, d := range s.dependsOn() {
		if p := l.unmet(s, d, now); p != nil {
			waits = append(waits, *p)
		}
	}
	if len(waits) == 0 {
		return nil
	}
	reason := waits[0].reason
	texts := make([]string, len(waits))
	for i := range waits {
		if texts[i] = waits[i].message; reason == dependencyPending {
			reason = waits[i].reason
		}
	}
	return &pending{reason, "a run of it waits for " + strings.Join(texts, ", and for ")}
}

// unmet is one dependency that is not as it has to be; nil = it is.
func (l *Loop) unmet(s *server, d spec.Dependency, now state.Moment) *pending {
	on := s.dependency(d)
	if d.Kind == spec.KindJob {
		return l.unmetJob(on.key, d)
	}
	var other posture
	if o := l.servers[on.key]; o != nil {
		other = o.stands(now)
	}
	switch {
	case !other.there:
		return &pending{dependencyNotFound, d.String() + ", which no source has"}
	case d.Condition == spec.DependRunning && other.up, d.Condition == spec.DependReady && other.ready:
		return nil
	case !other.wished:
		return &pending{dependencyStopped, d.String() + ", which is to be stopped"}
	case d.Condition == spec.DependRunning:
		return &pending{dependencyPending, d.String() + " to run"}
	}
	return &pending{dependencyPending, d.String() + " to be Ready"}
}

func (l *Loop) unmetJob(key spec.Key, d spec.Dependency) *pending {
	j := l.jobs.all[key]
	switch {
	case j == nil:
		return &pending{dependencyNotFound, d.String() + ", which no source has"}
	case j.mem != nil && j.mem.Phase == spec.JobSucceeded:
		return nil
	case j.mem != nil && j.mem.Phase.Over():
		return &pending{dependencyFailed, d.String() + ", which came to " + string(j.mem.Phase) + ": give it another attempt, or take it out"}
	}
	return &pending{dependencyPending, d.String() + " to succeed"}
}

// leaving reports whether a run of the server is to end, and its end is still to be waited for: not once it was killed, nor where
// nobody can tell.
func (s *standing) leaving(now state.Moment) bool {
	w := wishOf(s, now)
	if w.intent != intentEnd && w.intent != intentGone {
		return false
	}
	lane, sit := s.foremost()
	switch sit {
	case launching, up, draining, stopping:
		stop := lane.facts.Run.Stop
		return stop == nil || stop.Killed == nil
	}
	return false
}

// firstLeaving are the servers that depend on one and are to end before it. One that it depends on itself, by whatever way, is not waited for.
func (l *Loop) firstLeaving(s *server, now state.Moment) (first []spec.Key) {
	if len(l.dependents) == 0 || !s.leaving(now) {
		return nil
	}
	for _, other := range l.dependentsOf(dependency{spec.KindServer, s.key}) {
		if other.leaving(now) && !l.leadsTo(s, other, map[*server]bool{}) {
			first = append(first, other.key)
		}
	}
	return first
}

// leadsTo reports whether a server depends on another, by whatever way.
func (l *Loop) leadsTo(s, to *server, seen map[*server]bool) bool {
	for _, d := range s.dependsOn() {
		if d.Kind != spec.KindServer {
			continue
		}
		on := l.servers[s.dependency(d).key]
		if on == nil || seen[on] {
			continue
		}
		if seen[on] = true; on == to || l.leadsTo(on, to, seen) {
			return true
		}
	}
	return false
}

// untangle refuses the newest specs by which servers would wait for themselves. What is not newly asked for stays as it was remembered.
func (l *Loop) untangle(set *spec.Set) {
	l.retie, l.tangled = false, false
	some := false
	for _, s := range l.servers {
		if s.tangled != nil {
			s.adopt(*s.tangled)
			l.touch(s)
		}
		some = some || s.asked() != nil && len(s.asked().DependsOn) > 0
	}
	if !some {
		return
	}
	order := spec.Order{Launches: map[spec.Key]*spec.Launch{}, Job: func(key spec.Key) *spec.JobSpec { return l.undone(set, key) }}
	for key, s := range l.servers {
		if launch := s.asked(); launch != nil {
			order.Launches[key] = launch
		}
	}
	for key, fault := range order.Cycles() {
		s := l.servers[key]
		if s.res.good == nil {
			continue
		}
		was := s.res
		s.adopt(resolved{faults: []spec.Fault{fault}})
		if s.mem != nil {
			s.source = s.mem.Source
		}
		s.tangled, l.tangled = &was, true
		l.touch(s)
	}
}

// asked is the launch that is asked for, else the one that is remembered; nil = there is none.
func (s *server) asked() *spec.Launch {
	switch {
	case s.res.good != nil:
		return s.res.launch
	case s.good != nil:
		return s.good.launch
	}
	return nil
}

// undone is a job that has not succeeded; nil = there is none.
func (l *Loop) undone(set *spec.Set, key spec.Key) *spec.JobSpec {
	j := l.jobs.all[key]
	switch {
	case j != nil && j.mem != nil && j.mem.Phase == spec.JobSucceeded:
		return nil
	case set.Jobs[key] != nil:
		return &set.Jobs[key].Object.Spec
	case j != nil && j.mem != nil:
		return &j.mem.Spec
	}
	return nil
}

// poiseJob has those looked at again that depend on a job, when it has come to something else.
func (l *Loop) poiseJob(j *job) {
	phase := spec.JobPending
	if j.mem != nil {
		phase = j.mem.Phase
	}
	if phase == j.stood {
		return
	}
	j.stood = phase
	l.concernJob(j.key)
}

// concernJob has those looked at again whom a job concerns. Who depends on it by a spec that was refused is among those that wait for themselves.
func (l *Loop) concernJob(key spec.Key) {
	on := dependency{spec.KindJob, key}
	l.concernDependents(on)
	l.retie = l.retie || l.tangled || len(l.dependents[on]) > 0
}
