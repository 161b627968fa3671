package keepertest

import (
	"slices"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// entrusted is the order for a workload that is executed with a secret.
func (s *suite) entrusted(ref string) state.StartOrder {
	o := s.order(Runs)
	o.Launch.Env = append(o.Launch.Env, spec.LaunchEnv{Name: "SECRET", Value: "it is " + spec.MarkSecret(ref)})
	return o
}

// stopForNothing is EC-3: what runs is not ended for what could not be started in its place.
func stopForNothing(s *suite) {
	run := s.start(Runs)
	pids := s.host.Processes(s.scope)
	next := s.host.Launch(s.scope, Missing)
	o := state.StopOrder{Scope: s.scope, RunID: run.ID, Reason: spec.ReasonStopRequested, Why: "SpecChanged", Next: &next}
	s.refused(s.host.Stop(o), keeper.CheckExecutable)
	next = s.entrusted("town/none").Launch
	s.refused(s.host.Stop(o), keeper.CheckSecret)
	if now := s.host.Processes(s.scope); s.run().Stop != nil || !slices.Equal(now, pids) {
		s.Errorf("a refused stop has done something: %+v, processes %v", s.run().Stop, now)
	}
	next = s.host.Launch(s.scope, Runs)
	if err := s.host.Stop(o); err != nil {
		s.Errorf("a stop for what can run: %v", err)
	}
	s.await("being stopped", func(f *observe.Facts) bool { return f.Run.Stop != nil })
}

// secretMissing is EC-6: what a run cannot be executed with is refused before anything of it is there.
func secretMissing(s *suite) {
	s.refused(s.host.Start(s.entrusted("town/none")), keeper.CheckSecret)
	if f := s.host.Facts(s.scope); f != nil {
		s.Errorf("a refused start is on record: %+v", f)
	}
	if pids := s.host.Processes(s.scope); len(pids) > 0 {
		s.Errorf("processes %v live", pids)
	}
}

// secretChanged is API.md rule 5: the facts of a run say that a new one would be executed with another secret, as long as it
// would, and whichever keeper looks.
func secretChanged(s *suite) {
	s.host.Secret("town/a", "first")
	s.host.Secret("town/b", "first")
	if err := s.host.Start(s.entrusted("town/a")); err != nil {
		s.Fatal(err)
	}
	s.await("started", func(f *observe.Facts) bool { return f.Run != nil && f.Run.Phase == state.Started })
	s.host.Settle(s.scope)
	pids := s.host.Processes(s.scope)
	changed := func(f *observe.Facts) bool {
		return f.Run.Changed != nil && slices.Equal(f.Run.Changed.Refs, []string{"town/a"})
	}
	same := func(f *observe.Facts) bool { return f.Run.Changed == nil }

	s.host.Secret("town/b", "second")
	s.host.Secret("town/a", "second")
	s.await("told of its secret", changed)
	s.host.Crash()
	s.await("told of its secret by another keeper", changed)
	s.host.Secret("town/a", "")
	s.await("left alone when no new run could be started", same)
	s.host.Secret("town/a", "third")
	s.await("told of its secret again", changed)
	s.host.Secret("town/a", "first")
	s.await("as it was", same)
	if now := s.host.Processes(s.scope); !slices.Equal(now, pids) {
		s.Errorf("processes %v after %v", now, pids)
	}

	s.host.Secret("town/a", "fourth")
	s.await("told of its secret once more", changed)
	s.host.Kill(s.scope)
	s.over()
	if err := s.host.Start(s.entrusted("town/a")); err != nil {
		s.Fatal(err)
	}
	s.await("executed with the new secret", func(f *observe.Facts) bool { return f.Run.Number == 2 && same(f) })
}
