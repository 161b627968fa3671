package metrics

import (
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// view is what one scrape shows. It is one goroutine's.
type view struct {
	servers []subject
	scopes  []subject
	sources []subject
	jobs    []subject // the servers that have any

	asked  chan map[spec.Scope]Usage // one slot
	points []point                   // for reuse
}

// subject is what series are about: the values of their labels and the text of these, and where their points are read from.
type subject struct {
	values [3]string
	text   []byte // namespace="a",server="b",profile="c"

	server *reconcile.ServerView
	facts  *observe.Facts
	usage  *Usage // nil = not known
	source *spec.SourceState
	jobs   *jobCount
}

// look sees what there is to show, and asks what runs use meanwhile.
func (c *Collector) look() *view {
	v := &view{asked: make(chan map[spec.Scope]Usage, 1)}
	go func() { v.asked <- c.usage() }()
	snap := c.snapshot()
	jobs := countJobs(snap)
	v.servers, v.scopes = make([]subject, 0, len(snap.Servers)), make([]subject, 0, len(snap.Servers))
	for _, s := range snap.Servers {
		about := aboutScope(spec.Scope{Namespace: s.Key.Namespace, Server: s.Key.Name, Profile: s.Profile})
		about.server = s
		v.servers = append(v.servers, about)
		if n := jobs[s.Key]; n != nil {
			about.jobs = n
			v.jobs = append(v.jobs, about)
		}
		v.addScopes(s, about)
	}
	for i := range snap.Sources {
		about := subject{values: [3]string{snap.Sources[i].Name}, source: &snap.Sources[i]}
		about.text = appendLabels(nil, 0, sourceLabels, about.values[:])
		v.sources = append(v.sources, about)
	}
	return v
}

// addScopes adds the scopes of a server, and that of its profile when nothing was ever started there: what counts exists from
// zero.
func (v *view) addScopes(s *reconcile.ServerView, about subject) {
	selected := false
	for _, facts := range s.Facts {
		scope := about
		if facts.Scope.Profile == s.Profile {
			selected = true
		} else {
			scope = aboutScope(facts.Scope)
		}
		scope.facts = facts
		v.scopes = append(v.scopes, scope)
	}
	if !selected {
		about.facts = &observe.Facts{Scope: spec.Scope{Namespace: s.Key.Namespace, Server: s.Key.Name, Profile: s.Profile}}
		v.scopes = append(v.scopes, about)
	}
}

func aboutScope(scope spec.Scope) subject {
	s := subject{values: [3]string{scope.Namespace, scope.Server, scope.Profile}}
	s.text = appendLabels(make([]byte, 0, 96), 0, scopeLabels, s.values[:])
	return s
}

// learnUsage waits for what runs use, once.
func (v *view) learnUsage() {
	if v.asked == nil {
		return
	}
	used := <-v.asked
	v.asked = nil
	for i := range v.scopes {
		if u, known := used[v.scopes[i].facts.Scope]; known {
			v.scopes[i].usage = &u
		}
	}
}

// each gives every series of f to out, in the order of servers or sources. Points are good until out returns.
func (v *view) each(f *family, out func(s *subject, points []point)) {
	subjects := v.servers
	switch {
	case f.ofScope != nil:
		subjects = v.scopes
	case f.ofSource != nil:
		subjects = v.sources
	case f.ofJobs != nil:
		subjects = v.jobs
	}
	if f.ofUsage {
		v.learnUsage()
	}
	for i := range subjects {
		s := &subjects[i]
		switch {
		case f.ofServer != nil:
			v.points = f.ofServer(v.points[:0], s.server)
		case f.ofScope != nil:
			v.points = f.ofScope(v.points[:0], s.facts, s.usage)
		case f.ofSource != nil:
			v.points = f.ofSource(v.points[:0], s.source)
		case f.ofJobs != nil:
			v.points = f.ofJobs(v.points[:0], s.jobs)
		}
		out(s, v.points)
	}
}
