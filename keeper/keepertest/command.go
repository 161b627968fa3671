package keepertest

import (
	"slices"
	"time"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// The commands that every launch has. Each runs a program, and needs nothing.
const (
	Done    = "done"    // ends at once with code 0, having written said
	Fails   = "fails"   // ends at once with code 3
	Lives   = "lives"   // takes no notice of any signal but SIGKILL, and has a minute
	Limited = "limited" // the same, and has a second
	Leaves  = "leaves"  // ends at once with code 0, and leaves a process in another session
	Nowhere = "nowhere" // its executable is not there
)

// Answer is what somebody hears who asked for a command.
type Answer struct {
	state.Receipt
	Err error
}

// ask asks for a command, for the live run if there is one.
func (s *suite) ask(id, command string) (state.DoOrder, <-chan Answer) {
	o := state.DoOrder{Scope: s.scope, ID: id, Command: command, By: "me"}
	f := s.host.Facts(s.scope)
	switch {
	case f != nil && !f.Run.Over():
		o.RunID = f.Run.ID
	default:
		l := s.host.Launch(s.scope, Runs)
		o.Launch = &l
		if f != nil && f.Run != nil {
			o.After = f.Run.Number
		}
	}
	return o, s.host.Do(o)
}

// hear waits for an answer.
func (s *suite) hear(from <-chan Answer) Answer {
	s.Helper()
	for deadline := time.Now().Add(patience); ; s.host.Turn() {
		select {
		case a := <-from:
			return a
		default:
		}
		if time.Now().After(deadline) {
			s.Fatalf("nobody answers: %+v", s.host.Facts(s.scope))
		}
	}
}

func (s *suite) wantAnswer(a Answer, result state.DeliveryResult, reason string) {
	s.Helper()
	if a.Err != nil || a.Result != result || a.Reason != reason {
		s.Errorf("the answer is %+v, not %s %q", a, result, reason)
	}
}

// underWay waits until the program of a command is executed.
func (s *suite) underWay(id string) {
	s.Helper()
	s.await("executed", func(f *observe.Facts) bool {
		i := slices.IndexFunc(f.Deliveries, func(d state.Delivery) bool { return d.ID == id })
		return i >= 0 && f.Deliveries[i].Program != nil && !f.Deliveries[i].Program.StartedAt.IsZero()
	})
}

func commands(s *suite) {
	run := s.start(Runs)
	pids := s.host.Processes(s.scope)
	for _, c := range []struct {
		command string
		result  state.DeliveryResult
		reason  string
	}{
		{Done, state.Done, ""}, {Fails, state.Failed, "Exited"}, {Leaves, state.Done, ""}, {Limited, state.Failed, state.ReasonTimedOut},
	} {
		o, answer := s.ask(c.command, c.command)
		a := s.hear(answer)
		s.wantAnswer(a, c.result, c.reason)
		if a.By != "me" || a.Rail != state.RailExec || a.Run != 1 || a.RunID != run.ID {
			s.Errorf("%s: the receipt is %+v", c.command, a.Receipt)
		}
		if now := s.host.Processes(s.scope); !slices.Equal(now, pids) {
			s.Errorf("%s: processes %v live, not %v", c.command, now, pids)
		}
		// Asked for again, it is not done again, and the same is told.
		again := s.hear(s.host.Do(o))
		s.wantAnswer(again, c.result, c.reason)
		if !again.At.Equal(a.At) || again.Program.ID != a.Program.ID || again.Reply != a.Reply {
			s.Errorf("%s: asked again, the receipt is %+v, not %+v", c.command, again.Receipt, a.Receipt)
		}
	}
}

func commandRefused(s *suite) {
	_, answer := s.ask("a", Done)
	if a := s.hear(answer); a.Err != nil {
		s.Fatal(a.Err)
	}
	s.start(Runs)
	before := s.host.Facts(s.scope).Deliveries
	o, answer := s.ask("b", Nowhere)
	s.refused(s.hear(answer).Err, keeper.CheckExecutable)
	o.Command = "other"
	s.refused(s.hear(s.host.Do(o)).Err, keeper.CheckCommand)
	o.Command, o.Parameters = Done, map[string]spec.IntOrString{"a": {Int: 1}}
	s.refused(s.hear(s.host.Do(o)).Err, keeper.CheckParameters)
	o.Parameters, o.RunID = nil, "other"
	s.refused(s.hear(s.host.Do(o)).Err, keeper.CheckRun)
	if after := s.host.Facts(s.scope).Deliveries; len(after) != len(before) {
		s.Errorf("EN-3: a refused command is on record: %+v", after)
	}
	o.Recall = true
	s.wantAnswer(s.hear(s.host.Do(o)), state.Indeterminate, "")
}

func commandBusy(s *suite) {
	s.start(Runs)
	_, first := s.ask("a", Lives)
	s.underWay("a")
	_, second := s.ask("b", Done)
	s.refused(s.hear(second).Err, keeper.CheckBusy)
	s.host.Kill(s.scope)
	s.wantAnswer(s.hear(first), state.Failed, state.ReasonRunEnded)
	s.over()
}

func crashInCommand(s *suite) {
	s.start(Runs)
	o, _ := s.ask("a", Lives)
	s.underWay("a")
	pids := s.host.Processes(s.scope)
	s.host.Crash()
	s.await("adopted", func(f *observe.Facts) bool { return f.Run.Alive == observe.Alive })
	if now := s.host.Processes(s.scope); !slices.Equal(now, pids) {
		s.Errorf("processes %v after %v", now, pids)
	}
	o.Recall = true
	again := s.host.Do(o)
	s.host.Kill(s.scope)
	// Whoever ends it, what is told is no success; after a crash it need not be known.
	if a := s.hear(again); a.Err != nil || a.Result != state.Failed && a.Result != state.Indeterminate {
		s.Errorf("the answer is %+v", a)
	}
	s.over()
}

func commandAtRest(s *suite) {
	_, answer := s.ask("a", Limited)
	s.underWay("a")
	s.refused(s.host.Start(s.order(Runs)), keeper.CheckBusy)
	s.wantAnswer(s.hear(answer), state.Failed, state.ReasonTimedOut)
	s.start(Runs)
	s.host.Kill(s.scope)
	s.over()
	_, answer = s.ask("b", Done)
	s.wantAnswer(s.hear(answer), state.Done, "")
	if pids := s.host.Processes(s.scope); len(pids) > 0 {
		s.Errorf("processes %v live", pids)
	}
}

func programs(s *suite) {
	s.start(Programs)
	s.stop(spec.ReasonStopRequested)
	for i, want := range []struct {
		result state.DeliveryResult
		reason string
	}{{state.Undeliverable, "StartFailed"}, {state.Done, ""}, {state.Failed, "Exited"}} {
		if err := s.step(i); err != nil {
			s.Fatal(err)
		}
		if e := s.stepped(i); e.Result != want.result || e.Reason != want.reason {
			s.Errorf("step %d came to %+v, not %+v", i, e, want)
		}
	}
	s.host.Crash()
	s.await("adopted", func(f *observe.Facts) bool { return f.Run.Alive == observe.Alive })
	if err := s.step(2); err != nil {
		s.Errorf("a step that was sent: %v", err)
	}
	if err := s.step(3); err != nil {
		s.Fatal(err)
	}
	if e := s.over(); e.Class != spec.Expected || e.StopStep == nil || *e.StopStep != 4 || e.Killed {
		s.Errorf("the end is %+v", e)
	}
}
