package keepertest

import (
	"slices"
	"strconv"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// stepped waits until it is known what became of a step, and returns it.
func (s *suite) stepped(index int) state.StepEntry {
	s.Helper()
	var e state.StepEntry
	s.await("told of a step", func(f *observe.Facts) bool {
		if f.Run.Stop == nil {
			return false // news is on its way
		}
		i := slices.IndexFunc(f.Run.Stop.Steps, func(e state.StepEntry) bool { return e.Index == index && e.Result != "" })
		if i >= 0 {
			e = f.Run.Stop.Steps[i]
		}
		return i >= 0
	})
	return e
}

func talk(s *suite, b Behaviour) {
	s.start(b)
	s.stop(spec.ReasonStopRequested)
	if err := s.step(0); err != nil {
		s.Fatal(err)
	}
	if e := s.stepped(0); e.Result != state.Done || e.Reason != "" {
		s.Errorf("the line that is answered came to %+v", e)
	}
	if err := s.step(1); err != nil {
		s.Fatal(err)
	}
	e := s.over()
	s.want(e, spec.Expected, spec.ReasonStopRequested, 0, "")
	if e.StopStep == nil || *e.StopStep != 2 || e.Killed {
		s.Errorf("the end is %+v", e)
	}
	last := state.Sent
	if b == Asks {
		last = state.Done
	}
	if e := s.stepped(1); e.Result != last {
		s.Errorf("the line that ended it came to %+v", e)
	}
}

func crashInTalk(s *suite, b Behaviour) {
	s.start(b)
	s.stop(spec.ReasonStopRequested)
	if err := s.step(0); err != nil {
		s.Fatal(err)
	}
	s.host.Crash()
	s.await("adopted", func(f *observe.Facts) bool { return f.Run.Alive == observe.Alive })
	before := s.stepped(0)
	if before.Result != state.Indeterminate && before.Result != state.Done {
		s.Errorf("the line came to %+v", before)
	}
	if err := s.step(0); err != nil {
		s.Errorf("a step that was sent: %v", err)
	}
	if steps := s.run().Stop.Steps; len(steps) != 1 || steps[0] != before {
		s.Errorf("the step was journaled again: %+v after %+v", steps, before)
	}
	if err := s.step(1); err != nil {
		s.Fatal(err)
	}
	if e := s.over(); e.Class != spec.Expected || e.StopStep == nil || *e.StopStep != 2 || e.Killed {
		s.Errorf("the end is %+v", e)
	}
}

func send(s *suite) {
	run := s.start(Talks)
	o := state.SendOrder{Scope: s.scope, RunID: run.ID, ID: "a", Line: "hello", By: "me"}
	for range 2 {
		d, err := s.host.Send(o)
		if err != nil || d.Result != state.Sent || d.By != "me" || d.Rail != spec.ConsoleStdin || d.Run != 1 {
			s.Fatalf("the receipt is %+v, %v", d, err)
		}
	}
	s.host.Crash()
	f := s.await("adopted", func(f *observe.Facts) bool { return f.Run.Alive == observe.Alive })
	if len(f.Deliveries) != 1 || f.Deliveries[0].Result != state.Sent {
		s.Errorf("deliveries %+v", f.Deliveries)
	}
	// On a busy host the first line may be unread for long: then another may not follow it.
	o.Line = "exit"
	for i := 0; ; i++ {
		o.ID = "b" + strconv.Itoa(i)
		d, err := s.host.Send(o)
		if err == nil && d.Result == state.Undeliverable && d.Reason == "Unread" {
			continue
		}
		if err != nil || d.Result != state.Sent {
			s.Errorf("the receipt is %+v, %v", d, err)
		}
		break
	}
	// Nobody asked for the end: a line is no stop. After a crash its code need not be known.
	if e := s.over(); e.Class != spec.Unexpected || e.Reason != spec.ReasonExited && e.Reason != spec.ReasonUnknown {
		s.Errorf("the end is %+v", e)
	}
}

func sendNowhere(s *suite) {
	refused := func(o state.SendOrder, c keeper.Check) {
		s.Helper()
		d, err := s.host.Send(o)
		s.refused(err, c)
		if d != (state.Delivery{}) {
			s.Errorf("the receipt of a refused line is %+v", d)
		}
	}
	o := state.SendOrder{Scope: s.scope, RunID: "x", ID: "a", Line: "hello"}
	refused(o, keeper.CheckRun)
	o.RunID = s.start(Runs).ID
	refused(o, keeper.CheckConsole)
	s.host.Kill(s.scope)
	s.over()
	refused(o, keeper.CheckRun)
	o.RunID = s.start(Talks).ID
	o.Line = "a\nb"
	refused(o, keeper.CheckLine)
	if f := s.host.Facts(s.scope); len(f.Deliveries) > 0 {
		s.Errorf("EN-3: a refused line is on record: %+v", f.Deliveries)
	}
}
