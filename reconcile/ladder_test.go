package reconcile

import (
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

func TestRung(t *testing.T) {
	toMain := func(name string) spec.StopStep {
		return spec.StopStep{Signal: &spec.SignalAction{Name: name, To: spec.ToMain}, WaitFor: spec.WaitForExit, WaitSeconds: 10}
	}
	toTree, done, line, save := toMain("SIGHUP"), toMain("SIGUSR1"), toMain(""), toMain("")
	toTree.Signal.To = spec.ToTree
	done.WaitFor = spec.WaitForDone
	line.Signal, line.Console = nil, &spec.ConsoleAction{Line: "exit", Expect: "bye"}
	save.Signal, save.Console, save.WaitFor = nil, &spec.ConsoleAction{Line: "save", Expect: "saved"}, spec.WaitForDone
	ladder := []spec.StopStep{toMain("SIGINT"), done, toTree, toMain("SIGTERM")}
	talk := []spec.StopStep{save, line, toTree}

	now := state.Moment{BootID: "boot", Uptime: time.Hour}
	at := func(ago time.Duration) state.Moment { return state.Moment{BootID: "boot", Uptime: time.Hour - ago} }
	sent := func(index int, ago time.Duration, result state.DeliveryResult) state.StepEntry {
		return state.StepEntry{Index: index, At: at(ago), Result: result}
	}
	moment := at(time.Second)
	for _, c := range []struct {
		what   string
		steps  []state.StepEntry
		killed *state.Moment
		gone   bool // the main process
		force  bool
		next   int
		wait   time.Duration
	}{
		{"the first", nil, nil, false, false, 0, 0},
		{"its wait", []state.StepEntry{sent(0, 4*time.Second, "Sent")}, nil, false, false, -1, 6 * time.Second},
		{"its wait is over", []state.StepEntry{sent(0, 10*time.Second, "Sent")}, nil, false, false, 1, 0},
		{"it reached nobody", []state.StepEntry{sent(0, 0, "Undeliverable")}, nil, false, false, 1, 0},
		{"nobody knows whether it was sent", []state.StepEntry{sent(0, time.Second, "")}, nil, false, false, -1, 9 * time.Second},
		{"journaled in another boot", []state.StepEntry{{Index: 0, At: state.Moment{BootID: "before", Uptime: 2 * time.Hour}}}, nil, false, false, 1, 0},
		{"done is enough", []state.StepEntry{sent(1, 0, "Sent")}, nil, false, false, 2, 0},
		{"not known to be done", []state.StepEntry{sent(1, time.Second, "")}, nil, false, false, -1, 9 * time.Second},
		{"the last one's wait is over: the kill", []state.StepEntry{sent(3, time.Minute, "Sent")}, nil, false, false, 4, 0},
		{"the kill is repeated while something lives", []state.StepEntry{sent(3, time.Minute, "Sent")}, &moment, false, false, 4, 0},
		{"the main process is gone: to the tree alone", nil, nil, true, false, 2, 0},
		{"the main process went during a wait", []state.StepEntry{sent(0, time.Second, "Sent")}, nil, true, false, -1, 9 * time.Second},
		{"the main process is gone, nothing is left for the tree", []state.StepEntry{sent(2, time.Minute, "Sent")}, nil, true, false, 4, 0},
		{"a line on its way", []state.StepEntry{sent(0, time.Second, "")}, nil, false, false, -1, 9 * time.Second},
		{"a line that was answered", []state.StepEntry{sent(0, time.Second, state.Done)}, nil, false, false, 1, 0},
		{"a line that was not answered", []state.StepEntry{sent(0, time.Second, state.Failed)}, nil, false, false, 1, 0},
		{"a line that nobody took", []state.StepEntry{sent(1, time.Second, state.Undeliverable)}, nil, false, false, 2, 0},
		{"a line of which nobody knows", []state.StepEntry{sent(0, time.Second, state.Indeterminate)}, nil, false, false, -1, 9 * time.Second},
		{"a line that is answered does not end the run", []state.StepEntry{sent(1, time.Second, state.Done)}, nil, false, false, -1, 9 * time.Second},
		{"a line to a main process that is gone", []state.StepEntry{sent(0, time.Second, state.Done)}, nil, true, false, 2, 0},
		{"by force", []state.StepEntry{sent(0, 0, "Sent")}, nil, false, true, 4, 0},
	} {
		ladder := ladder
		if strings.HasPrefix(c.what, "a line") {
			ladder = talk
		}
		run := &observe.RunFacts{Alive: observe.Alive, Stop: &state.Stop{Ladder: ladder, Steps: c.steps, Killed: c.killed}}
		if c.gone {
			run.Alive, run.MainExit = observe.Dead, &state.MainExit{}
		}
		want := rung{next: c.next}
		if c.wait > 0 {
			want.at = now.Uptime + c.wait
		}
		if got := rungOf(run, c.force, now); got != want {
			t.Errorf("%s: %+v, want %+v", c.what, got, want)
		}
	}
}
