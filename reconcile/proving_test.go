package reconcile

import (
	"slices"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// checked gives a profile a check.
func checked(p *spec.ProfileSpec) {
	p.Actions.Check = &spec.Check{Exec: &spec.Exec{Args: []string{"-t"}}}
}

// configFails is what checks come to from now on.
func (h *host) configFails(output string) {
	h.commands.result[state.CheckCommand] = state.Failed
	h.commands.detail[state.CheckCommand] = "it ended with exit code 1"
	h.commands.output[state.CheckCommand] = output
}

func (h *host) configIsGood() { h.commands.result[state.CheckCommand] = state.Done }

func (h *host) messageOf(server, condition string) string {
	h.t.Helper()
	return conditionOf(h.view(server), condition).Message
}

const (
	checkAtRest = "Do town/game actions.check for no run"
	checkBeside = "Do town/game actions.check for run-1"
)

// A new spec is checked before it is used. What does not pass ends nothing: the server says why, and goes on.
func TestBadConfigKeepsTheRun(t *testing.T) {
	h := newHost(t)
	h.profile("game", checked, files(fileOf("a", "1")))
	h.server("town", "game")
	h.settle()
	h.wantOrders(checkAtRest, "Start town/game Wanted")
	h.pass(time.Hour)
	h.configFails("1: one\n\n2:\ttwo\n3: three\n4: four\n5: five\n")
	h.profile("game", checked, files(fileOf("a", "2")))
	h.settle()
	h.wantOrders(checkBeside)
	h.wantCondition("town", spec.ConditionStalled, "True", "ConfigInvalid")
	h.wantCondition("town", spec.ConditionReconciling, "False", "Stalled")
	h.wantCondition("town", spec.ConditionRestartPending, "True", "ConfigInvalid")
	h.wantCondition("town", spec.ConditionReady, "True", "NoProbe")
	h.wantState("town", spec.StateRunning)
	if got, want := h.messageOf("town", spec.ConditionStalled), "its check failed: it ended with exit code 1: 2: two; 3: three; 4: four; 5: five"; got != want {
		t.Errorf("it says %q, not %q", got, want)
	}
	for _, e := range h.view("town").Events {
		if e.Reason == "ConfigInvalid" && e.Message != "its check failed: it ended with exit code 1" {
			t.Errorf("an event tells what the check has written: %q", e.Message)
		}
	}

	// It may have been about more than the spec: it is checked again, ever more seldom, and says the same meanwhile.
	h.commands.deaf[state.CheckCommand] = true
	h.pass(20 * time.Second)
	h.wantOrders()
	h.wantCondition("town", spec.ConditionStalled, "True", "ConfigInvalid")
	delete(h.commands.deaf, state.CheckCommand)
	h.pass(time.Hour)
	again := h.took()
	if n := len(again); n < 12 || n > 20 || slices.ContainsFunc(again, func(o string) bool { return o != checkBeside }) {
		t.Errorf("in an hour it is asked for %q", again)
	}
	h.configIsGood()
	h.pass(10 * time.Minute)
	h.wantOrders(checkBeside, "Stop town/game SpecChanged", "Step town/game 0", "Start town/game SpecChanged")
	h.wantCondition("town", spec.ConditionStalled, "False", "NotStalled")
}

// An edit that is taken back leaves nothing of its failed check.
func TestBadConfigIsTakenBack(t *testing.T) {
	h := newHost(t)
	h.profile("game", checked, files(fileOf("a", "1")))
	h.server("town", "game")
	h.settle()
	h.configFails("")
	h.profile("game", checked, files(fileOf("a", "2")))
	h.settle()
	h.took()
	h.profile("game", checked, files(fileOf("a", "1")))
	h.pass(time.Hour)
	h.wantOrders()
	h.wantCondition("town", spec.ConditionStalled, "False", "NotStalled")
}

// Nothing is started with a spec that does not pass, also after our own restart, and it is not checked before each start.
func TestBadConfigStartsNothing(t *testing.T) {
	h := newHost(t)
	h.configFails("bad")
	h.profile("game", checked, files(fileOf("a", "1")))
	h.server("town", "game")
	h.settle()
	h.wantOrders(checkAtRest)
	h.wantState("town", spec.StatePending)
	h.wantCondition("town", spec.ConditionReady, "False", "ConfigInvalid")
	h.wantCondition("town", spec.ConditionStalled, "True", "ConfigInvalid")
	h.wantCondition("town", spec.ConditionReconciling, "False", "Stalled")
	h.restart()
	h.settle()
	h.wantOrders(checkAtRest)
	h.configIsGood()
	h.pass(time.Minute)
	h.wantOrders(checkAtRest, "Start town/game Wanted")
	h.crash("town", "game")
	h.pass(time.Minute)
	h.wantOrders("Start town/game Crashed")
}

// What runs is not ended for a restart that a person asks for either, unless by force.
func TestBadConfigAndARestart(t *testing.T) {
	h := newHost(t)
	h.profile("game", checked, files(fileOf("a", "1")))
	h.server("town", "game")
	h.settle()
	h.restart() // nobody knows any more that it passed
	h.configFails("bad")
	h.pass(time.Minute)
	h.took()
	if err := h.ask(ActionRestart, Ask{Server: key("town"), By: "me"}); err != nil {
		t.Fatal(err)
	}
	h.wantOrders(checkBeside)
	h.wantCondition("town", spec.ConditionRestartPending, "True", "ConfigInvalid")
	h.configIsGood()
	h.pass(time.Minute)
	h.wantOrders(checkBeside, "Stop town/game Restart", "Step town/game 0", "Start town/game Restart")
}

// A secret that is another one is checked too, with each copy, and the first that does not pass ends none.
func TestCheckOfChangedSecret(t *testing.T) {
	h := newHost(t)
	h.profile("game", checked)
	for _, name := range []string{"a", "b"} {
		h.server(name, "game")
	}
	h.settle()
	h.took()
	h.configFails("bad")
	h.rotate("a", "b")
	h.pass(time.Second)
	h.wantOrders("Do a/game actions.check for run-1", "Do b/game actions.check for run-2")
	h.wantCondition("b", spec.ConditionStalled, "True", "ConfigInvalid")
	h.change(scopeOf("a", "game"), func(f *observe.Facts) { f.Run.Changed = nil })
	h.change(scopeOf("b", "game"), func(f *observe.Facts) { f.Run.Changed = nil })
	h.pass(time.Hour)
	h.wantOrders()
	h.wantCondition("b", spec.ConditionStalled, "False", "NotStalled")
}

// A check whose answer is lost has said nothing: nothing is done for it, and it is asked for again. A stop does not wait for one.
func TestCheckWithoutAnAnswer(t *testing.T) {
	h := newHost(t)
	h.profile("game", checked)
	h.server("town", "game")
	h.commands.lose[state.CheckCommand] = true
	h.pass(10 * time.Second)
	for _, o := range h.took() {
		if o != checkAtRest {
			t.Errorf("%s is ordered", o)
		}
	}
	h.wantCondition("town", spec.ConditionStalled, "False", "NotStalled")
	delete(h.commands.lose, state.CheckCommand)
	h.pass(time.Minute)
	h.wantOrders(checkAtRest, "Start town/game Wanted")

	h.profile("game", checked, args("2"))
	orders, _ := h.loop.Turn(h.now())
	if len(orders) != 1 || orders[0].Save == nil {
		t.Fatalf("%d orders, the first %s", len(orders), orders[0].Kind())
	}
	h.loop.Done(h.now(), orders[0], orders[0].CarryOut(t.Context(), h, h, jobTable{h}, h))
	orders, _ = h.loop.Turn(h.now())
	if len(orders) != 1 || orders[0].Prove == nil {
		t.Fatalf("%d orders, the first %s", len(orders), orders[0].Kind())
	}
	h.server("town", "game", stopped)
	h.settle()
	h.wantOrders("Stop town/game StateStopped", "Step town/game 0")
}
