package keeper_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// receipts collects what senders are told.
type receipts []state.Delivery

func (r *receipts) told(d state.Delivery, _ keeper.Outcome) { *r = append(*r, d) }

func (w *world) sendOrder(id, line string) state.SendOrder {
	o := state.SendOrder{Scope: w.scope, ID: id, Line: line, By: "me"}
	if f := w.facts(); f != nil && f.Run != nil {
		o.RunID = f.Run.ID
	}
	return o
}

// EN-3, EN-6: a line is refused, without any change, where it has no way or no reader.
func TestSendRefusals(t *testing.T) {
	none := func(state.Delivery, keeper.Outcome) { t.Error("somebody is told of a line that was refused") }
	w := newWorld(t, workTalks)
	w.open()
	refusedFor(t, w.core.Send(w.sendOrder("a", "hello"), nil, none), keeper.CheckRun)
	w.drive(true)
	before := len(w.kernel.names)

	drifted := w.sendOrder("a", "hello")
	drifted.RunID = "other"
	refusedFor(t, w.core.Send(drifted, nil, none), keeper.CheckRun)
	refusedFor(t, w.core.Send(w.sendOrder("", "hello"), nil, none), keeper.CheckMessage)
	for _, line := range []string{"a\nb", "a\x00", "\x1b[A", strings.Repeat("a", 1025), "a\xff"} {
		refusedFor(t, w.core.Send(w.sendOrder("a", line), nil, none), keeper.CheckLine)
	}
	errGuard := errors.New("fenced")
	if err := w.core.Send(w.sendOrder("a", "hello"), func() error { return errGuard }, none); !errors.Is(err, errGuard) {
		t.Errorf("a fenced asker gets %v", err)
	}
	if slices.Contains(w.kernel.names[before:], "Put") {
		t.Error("a refused line has changed the record")
	}

	if err := w.stop(spec.ReasonStopRequested); err != nil {
		t.Fatal(err)
	}
	refusedFor(t, w.core.Send(w.sendOrder("a", "hello"), nil, none), keeper.CheckRun)
	w.drive(false)
	refusedFor(t, w.core.Send(w.sendOrder("a", "hello"), nil, none), keeper.CheckRun)

	mute := newWorld(t, workRuns)
	mute.drive(true)
	refusedFor(t, mute.core.Send(mute.sendOrder("a", "hello"), nil, none), keeper.CheckConsole)
	if lines := mute.main().lines; len(lines) > 0 {
		t.Errorf("lines %q", lines)
	}
}

// EN-1, EN-6: a line that cannot be put on record is not handed over, and its sender knows that; the same line may be sent again.
func TestSendThatCannotBeRecorded(t *testing.T) {
	w := newWorld(t, workTalks)
	w.drive(true)
	w.kernel.failing = "Put"
	before := len(w.kernel.names)
	err := w.core.Send(w.sendOrder("a", "hello"), nil, func(state.Delivery, keeper.Outcome) { t.Error("somebody is told of a line that was refused") })
	refusedFor(t, err, keeper.CheckRecord)
	if slices.Contains(w.kernel.names[before:], "Deliver") || len(w.main().lines) > 0 {
		t.Errorf("it was handed over: %q", w.kernel.names[before:])
	}
	w.kernel.failing = ""
	var got receipts
	if err := w.core.Send(w.sendOrder("a", "hello"), nil, got.told); err != nil {
		t.Fatal(err)
	}
	w.kernel.tell(w.core)
	if len(got) != 1 || got[0].Result != state.Sent || !slices.Equal(w.main().lines, []string{"hello"}) {
		t.Errorf("receipts %+v, lines %q", got, w.main().lines)
	}
}

// EN-6: one line at a time, each once, with its sender, time and rail on record, and without its text.
func TestSend(t *testing.T) {
	w := newWorld(t, workTalks)
	w.drive(true)
	var got receipts
	first := w.sendOrder("a", "say the secret")
	if err := errors.Join(w.core.Send(first, nil, got.told), w.core.Send(first, nil, got.told)); err != nil {
		t.Fatal(err)
	}
	refusedFor(t, w.core.Send(w.sendOrder("b", "hello"), nil, got.told), keeper.CheckBusy)
	if len(got) > 0 {
		t.Errorf("told too early: %+v", got)
	}
	w.kernel.tell(w.core)
	if len(got) != 2 || got[0] != got[1] || got[0].Result != state.Sent || got[0].By != "me" || got[0].Rail != spec.ConsoleStdin || got[0].At.IsZero() {
		t.Errorf("told %+v", got)
	}
	if err := w.core.Send(first, nil, got.told); err != nil || len(got) != 3 || got[2] != got[0] {
		t.Errorf("asked again: %v, %+v", err, got)
	}
	for i := range 2 * state.DeliveryLimit {
		if err := w.core.Send(w.sendOrder(fmt.Sprint(i), "hello"), nil, got.told); err != nil {
			t.Fatal(err)
		}
		w.kernel.tell(w.core)
	}
	f := w.facts()
	if len(f.Deliveries) != state.DeliveryLimit || f.Deliveries[state.DeliveryLimit-1].ID != fmt.Sprint(2*state.DeliveryLimit-1) {
		t.Errorf("%d deliveries are kept: %+v", len(f.Deliveries), f.Deliveries)
	}
	if n := count(w.main().lines, "say the secret"); n != 1 {
		t.Errorf("handed over %d times", n)
	}
	if strings.Contains(string(w.store.records[w.scope]), "secret") {
		t.Error("the line's text is on record")
	}
}

// The end of a line that comes when the run is over, or another runs, is on record all the same.
func TestDeliveryOutlivesItsRun(t *testing.T) {
	w := newWorld(t, workTalks)
	w.drive(true)
	var got receipts
	if err := w.core.Send(w.sendOrder("a", "exit"), nil, got.told); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.drive(true)
	if n := w.facts().Run.Number; n != 2 {
		t.Fatalf("run %d", n)
	}
	if err := w.core.Send(w.sendOrder("b", "hello"), nil, got.told); err != nil {
		t.Errorf("a line of an earlier run is in the way: %v", err)
	}
	w.kernel.tell(w.core)
	if d := w.facts().Deliveries; len(d) != 2 || d[0].Result != state.Sent || d[0].Run != 1 || d[1].Result != state.Sent || len(got) != 2 {
		t.Errorf("deliveries %+v, told %+v", d, got)
	}
}

// EN-6: the keeper dies at every point of a delivery. The line was handed over once or not at all; what is not known stays so.
func TestDyingInADelivery(t *testing.T) {
	for n := 1; ; n++ {
		w := newWorld(t, workTalks)
		w.drive(true)
		w.kernel.crashAt = w.kernel.points + n
		var got receipts
		o := w.sendOrder("a", "hello")
		err := w.alive(func() error {
			err := w.core.Send(o, nil, got.told)
			w.kernel.tell(w.core)
			return err
		})
		done := w.crashes == 0
		_ = w.alive(func() error { w.core.Settle(w.scope); return nil })
		handed := count(w.main().lines, "hello")
		d := w.facts().Deliveries
		switch {
		case done && (err != nil || handed != 1 || d[0].Result != state.Sent):
			t.Fatalf("without a death: %v, %d, %+v", err, handed, d)
		case handed > 1:
			t.Fatalf("dead at point %d: handed over %d times", n, handed)
		case len(d) == 0 && handed > 0:
			t.Fatalf("dead at point %d: handed over and not on record", n)
		case len(d) == 1 && d[0].Result != state.Indeterminate && d[0].Result != state.Sent:
			t.Fatalf("dead at point %d: %+v", n, d)
		}
		// Asked for again, the same delivery is not made again.
		if err := w.core.Send(o, nil, got.told); err != nil {
			t.Fatal(err)
		}
		w.kernel.tell(w.core)
		if again := count(w.main().lines, "hello"); len(d) == 1 && again != handed || again > 1 {
			t.Fatalf("dead at point %d: handed over %d times, then %d", n, handed, again)
		}
		if done {
			return
		}
	}
}

// EN-6: a step of the ladder whose end nobody knows is told so, and the ladder goes on.
func TestDyingInAConsoleStep(t *testing.T) {
	w := newWorld(t, workTalks)
	w.drive(true)
	if err := errors.Join(w.stop(spec.ReasonStopRequested), w.step(0)); err != nil {
		t.Fatal(err)
	}
	w.kernel.die()
	w.open()
	run := w.facts().Run
	if len(run.Stop.Steps) != 1 || run.Stop.Steps[0].Result != state.Indeterminate {
		t.Fatalf("steps %+v", run.Stop.Steps)
	}
	if err := errors.Join(w.step(0), w.step(1)); err != nil {
		t.Fatal(err)
	}
	if lines := w.main().lines; !slices.Equal(lines, []string{"save", "exit"}) {
		t.Errorf("lines %q", lines)
	}
	w.settle()
	w.kernel.tell(w.core)
	run = w.facts().Run
	if !run.Over() || run.Stop.Steps[1].Result != state.Sent {
		t.Errorf("over %v, steps %+v", run.Over(), run.Stop.Steps)
	}
	if e := w.lastExit(); e.Class != spec.Expected || e.StopStep == nil || *e.StopStep != 2 || e.Killed {
		t.Errorf("the end is %+v", e)
	}
}

// A main process that is gone takes no lines: only what is left of its tree is stopped.
func TestConsoleStepNeedsAMainProcess(t *testing.T) {
	w := newWorld(t, workTalks)
	w.drive(true)
	main := w.main()
	w.kernel.fork(keeper.Place{Scope: w.scope, RunID: main.run, Cgroup: main.cgroup}, "child")
	w.kernel.signal(main, "SIGKILL")
	w.settle()
	if run := w.facts().Run; run.Over() || run.Alive != observe.Dead {
		t.Fatalf("facts %+v", run)
	}
	if err := w.stop(spec.ReasonMainExited); err != nil {
		t.Fatal(err)
	}
	if err := w.step(3); err != nil {
		t.Fatal(err)
	}
	if steps := w.facts().Run.Stop.Steps; len(steps) != 1 || steps[0].Index != 3 || len(main.lines) > 0 {
		t.Errorf("steps %+v, lines %q", steps, main.lines)
	}
}

// A ladder's line that finds nobody passes on at once.
func TestConsoleStepWithoutAConsole(t *testing.T) {
	w := newWorld(t, workTalks)
	w.drive(true)
	if err := errors.Join(w.stop(spec.ReasonStopRequested), w.step(0)); err != nil {
		t.Fatal(err)
	}
	w.kernel.tell(w.core)
	l := w.launch()
	l.Console, l.Stop = nil, l.Stop[2:]
	if err := w.core.ApplyLive(state.LiveOrder{RunID: w.facts().Run.ID, Launch: l, Generation: 2}, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.step(1); err != nil {
		t.Fatal(err)
	}
	steps := w.facts().Run.Stop.Steps
	if len(steps) != 2 || steps[0].Result != state.Done || steps[1].Result != state.Undeliverable {
		t.Errorf("steps %+v", steps)
	}
}
