package keeper

import (
	"slices"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// maxGone is how many scopes without a record are remembered for those who ask what has changed.
const maxGone = 4096

// Facts returns what has changed since a revision, oldest change first, and the revision up to which that is everything.
// whole is set when the answer is all there is, because since was 0 or is too long ago: what is not in it is gone.
func (c *Core) Facts(since uint64) (facts []*observe.Facts, rev uint64, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	whole = since == 0 || since < c.floor || since > c.rev
	if whole {
		since = 0
	}
	for e := c.recent.Back(); e != nil; e = e.Prev() {
		f := e.Value.(*observe.Facts)
		if f.Rev <= since {
			break
		}
		if whole && f.Gone {
			continue
		}
		facts = append(facts, f)
	}
	slices.Reverse(facts)
	return facts, c.rev, whole
}

// FactsOf is what is known of one scope, nil when nothing is.
func (c *Core) FactsOf(name spec.Scope) *observe.Facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.scopes[name]
	if s == nil || s.entry == nil {
		return nil
	}
	return s.entry.Value.(*observe.Facts)
}

// livePlaces is where the things of every live run are.
func (c *Core) livePlaces() []Place {
	c.mu.Lock()
	defer c.mu.Unlock()
	var places []Place
	for _, s := range c.scopes {
		if s.shown.RunID != "" {
			places = append(places, s.shown)
		}
	}
	return places
}

// Rev is the newest revision.
func (c *Core) Rev() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rev
}

// show makes it known where the things of a scope's live run are. The caller holds the scope.
func (c *Core) show(s *scope) {
	place := Place{}
	if s.blocked == "" && s.live() != nil {
		place = s.place()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.shown = place
}

// publish makes facts of what is known of a scope. The caller holds the scope.
func (c *Core) publish(s *scope) {
	f := s.facts()
	s.told = s.now()
	c.show(s)
	c.mu.Lock()
	delete(c.entrusted, s.name)
	if run := s.live(); s.blocked == "" && run != nil && len(run.Secrets) > 0 {
		c.entrusted[s.name] = struct{}{}
	}
	c.rev++
	f.Rev = c.rev
	s.record = s.rec
	if s.entry != nil {
		c.recent.Remove(s.entry)
	}
	s.entry = c.recent.PushBack(f)
	c.mu.Unlock()
	c.changed()
}

// forget takes a scope out of the table and leaves a tombstone. The caller holds the scope.
func (c *Core) forget(s *scope) {
	s.removed = true
	c.mu.Lock()
	c.leave(s)
	delete(c.entrusted, s.name)
	if s.entry != nil {
		c.recent.Remove(s.entry)
		s.entry = nil
		c.rev++
		c.recent.PushBack(&observe.Facts{Scope: s.name, Rev: c.rev, Gone: true})
		c.gone++
		c.dropTombstones()
	}
	c.mu.Unlock()
	c.changed()
}

func (c *Core) dropTombstones() {
	for e := c.recent.Front(); e != nil && c.gone > maxGone; {
		next := e.Next()
		if f := e.Value.(*observe.Facts); f.Gone {
			c.recent.Remove(e)
			c.gone--
			c.floor = f.Rev
		}
		e = next
	}
}

// facts is the record and what the kernel said last.
func (s *scope) facts() *observe.Facts {
	f := &observe.Facts{Scope: s.name, Blocked: s.blocked}
	if s.rec == nil {
		return f
	}
	f.UID, f.Exits, f.Counters = s.rec.UID, s.rec.History, s.rec.Counters
	f.Deliveries = s.rec.Deliveries
	r := s.rec.Run
	if r == nil {
		return f
	}
	f.Run = &observe.RunFacts{
		Number: r.Number, ID: r.ID, Phase: r.Phase, SpecHash: r.SpecHash, LiveHash: r.LiveHash, FilesHash: r.FilesHash, Files: r.Files, Reload: r.Reload, Generation: r.Generation,
		Source: r.Source, Cause: r.Cause, By: r.By, LaunchingAt: r.LaunchingAt, StartedAt: r.StartedAt, ReadyAt: r.ReadyAt,
		LogSeenAt: r.LogSeenAt, NotifiedAt: r.NotifiedAt, Stop: stopFacts(r.Stop), MainExit: r.MainExit, Changed: s.changed,
		Ladder: withoutArguments(r.Launch.Stop), Console: r.Launch.Console, Endpoints: r.Launch.Endpoints, Readiness: probeFacts(r.Launch.Readiness), Restart: r.Launch.Restart,
		Liveness: probeFacts(r.Launch.Liveness), StartDeadlineSeconds: r.Launch.StartDeadlineSeconds, Players: r.Launch.Players,
		Commands: observe.CommandsOf(&r.Launch),
		Alive:    s.liveness(), Tree: s.treeFacts(),
	}
	return f
}

// withoutArguments is a ladder without the arguments of its programs: they are nobody's business, and may be long.
func withoutArguments(ladder []spec.StopStep) []spec.StopStep {
	if !slices.ContainsFunc(ladder, hasArguments) {
		return ladder
	}
	ladder = slices.Clone(ladder)
	for i := range ladder {
		if hasArguments(ladder[i]) {
			exec := *ladder[i].Exec
			exec.Args = nil
			ladder[i].Exec = &exec
		}
	}
	return ladder
}

// probeFacts is a probe without the arguments of its program.
func probeFacts(p *spec.LaunchProbe) *spec.LaunchProbe {
	if p == nil || p.Exec == nil || len(p.Exec.Args) == 0 {
		return p
	}
	shown, exec := *p, *p.Exec
	exec.Args, shown.Exec = nil, &exec
	return &shown
}

func hasArguments(s spec.StopStep) bool { return s.Exec != nil && len(s.Exec.Args) > 0 }

func stopFacts(stop *state.Stop) *state.Stop {
	if stop == nil || !slices.ContainsFunc(stop.Ladder, hasArguments) {
		return stop
	}
	shown := *stop
	shown.Ladder = withoutArguments(stop.Ladder)
	return &shown
}

func (s *scope) liveness() observe.Liveness {
	switch {
	case s.blocked != "":
		return observe.Unknown
	case s.proc != nil && !s.dead:
		return observe.Alive
	}
	return observe.Dead
}

func (s *scope) treeFacts() observe.Tree {
	switch {
	case s.blocked != "":
		return observe.Tree{State: observe.TreeUnknown}
	case s.live() == nil && s.rec.Run.Cgroup == "" && s.rec.Run.Identity != nil && !s.reboot:
		return observe.Tree{State: observe.TreeUnknown} // what could be seen is gone
	case s.live() == nil:
		return observe.Tree{State: observe.TreeEmpty}
	case s.proc != nil && !s.dead:
		return observe.Tree{State: observe.TreePopulated} // not counted while it does not matter
	}
	return s.tree
}

// restarted reports whether a start after this record is a restart: the last end was not asked for, or a restart was.
func restarted(r *state.Record) bool {
	if len(r.History) == 0 {
		return false
	}
	last := r.History[len(r.History)-1]
	return last.Class == spec.Unexpected || last.Reason == spec.ReasonDeclaredRestart || slices.Contains(restartWhys, last.Why)
}

// restartWhys are the reasons of stops that ask for a next run.
var restartWhys = []string{"Restart", "SpecChanged", "SecretChanged"}
