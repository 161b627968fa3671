package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
)

// on declares an endpoint at a port that the server gives.
func on(p *spec.ProfileSpec) {
	p.Parameters = []spec.Parameter{{Name: "port", Type: spec.ParameterInteger}, {Name: "v", Default: &spec.IntOrString{String: "1", IsString: true}}}
	p.Endpoints = []spec.Endpoint{{Name: "game", Port: spec.IntOrString{String: "$(port)", IsString: true}}}
	p.Actions.Start.Args = []string{"$(v)"}
}

func withPort(port int64, v string) func(*spec.ServerSpec) {
	return func(s *spec.ServerSpec) {
		s.Parameters = map[string]spec.IntOrString{"port": {Int: port}, "v": {String: v, IsString: true}}
	}
}

// conflicts checks that a server waits for a port and says whose it is.
func (h *host) conflicts(name, with string) {
	h.t.Helper()
	h.wantCondition(name, spec.ConditionStalled, "True", "PortConflict")
	h.wantCondition(name, spec.ConditionReconciling, "False", "Stalled")
	if m := conditionOf(h.view(name), spec.ConditionStalled).Message; !strings.Contains(m, with) {
		h.t.Errorf("the message does not name %s: %q", with, m)
	}
	h.wantEvent(name, EventWarning, "PortConflict", true)
}

// The second server that declares a port is not started, and the first goes on; it gets the port when the first lets go of it.
func TestPortLedger(t *testing.T) {
	h := newHost(t)
	h.profile("game", on)
	h.server("town", "game", withPort(4000, "1"))
	h.settle()
	h.wall = h.wall.Add(time.Minute)
	h.server("city", "game", withPort(4000, "1"))
	h.server("other", "game", withPort(4001, "1"))
	h.settle()
	h.wantOrders("Start town/game Wanted", "Start other/game Wanted")
	h.conflicts("city", "town")
	if i := slices.IndexFunc(h.view("city").Events, func(e Event) bool { return e.Reason == "PortConflict" }); h.view("city").Events[i].Count != 1 {
		t.Errorf("it was told %d times, want once", h.view("city").Events[i].Count)
	}
	h.wantState("city", spec.StatePending)
	h.wantCondition("city", spec.ConditionReady, "False", "PortConflict")
	h.wantCondition("city", spec.ConditionEndpointsReachable, "False", "PortConflict")
	h.wantCondition("town", spec.ConditionReady, "True", "NoProbe")
	h.pass(time.Hour)
	h.restart() // and over our restart
	h.settle()
	h.wantOrders()
	h.crash("town", "game") // nor is it lost by a crash, and a wait
	h.settle()
	h.wantOrders("Start town/game Crashed")
	h.crash("town", "game")
	h.settle()
	h.wantState("town", spec.StateBackOff)
	h.conflicts("city", "town")
	h.pass(time.Minute)
	h.wantOrders("Start town/game Crashed")
	h.server("town", "game", withPort(4000, "1"), stopped)
	h.settle()
	h.wantOrders("Stop town/game StateStopped", "Step town/game 0", "Start city/game Wanted")
	h.wantCondition("city", spec.ConditionStalled, "False", "NotStalled")
	h.server("town", "game", withPort(4000, "1")) // now it is the other way round
	h.settle()
	h.wantOrders()
	h.conflicts("town", "city")
	h.remove("city")
	h.settle()
	h.pass(time.Minute)
	if got := h.took(); !slices.Contains(got, "Start town/game Wanted") {
		t.Errorf("orders %q", got)
	}
}

// Nobody loses a port by a crash: not even to one that was accepted before, and waits.
func TestPortIsKeptOverACrash(t *testing.T) {
	h := newHost(t)
	h.profile("game", on)
	h.server("old", "game", withPort(4000, "1"), stopped)
	h.settle()
	h.wall = h.wall.Add(time.Minute)
	h.server("town", "game", withPort(4000, "1"))
	h.settle()
	h.server("old", "game", withPort(4000, "1"))
	h.settle()
	h.conflicts("old", "town")
	h.pass(time.Hour)
	for range 3 {
		h.crash("town", "game")
		h.pass(10 * time.Minute)
	}
	h.wantOrders("Start town/game Wanted", "Start town/game Crashed", "Start town/game Crashed", "Start town/game Crashed")
	h.server("town", "game", withPort(4000, "2")) // and by a change
	h.settle()
	h.wantOrders("Stop town/game SpecChanged", "Step town/game 0", "Start town/game SpecChanged")
	h.conflicts("old", "town")
}

// Of two that are new at once the first by name gets the port.
func TestPortLedgerAtTheSameMoment(t *testing.T) {
	for range 20 { // maps have no order
		h := newHost(t)
		h.profile("game", on)
		for _, name := range []string{"c", "b", "a", "d"} {
			h.server(name, "game", withPort(4000, "1"))
		}
		h.settle()
		h.wantOrders("Start a/game Wanted")
	}
}

// A change to a port that another has ends nothing: what runs goes on as it is, whether the change needs a restart or not.
func TestPortLedgerEndsNothing(t *testing.T) {
	for _, v := range []string{"1", "2"} {
		h := newHost(t)
		h.profile("game", on)
		h.server("town", "game", withPort(4000, "1"))
		h.server("city", "game", withPort(4001, "1"))
		h.settle()
		h.took()
		h.server("city", "game", withPort(4000, v))
		h.settle()
		h.wantOrders()
		h.conflicts("city", "town")
		h.wantState("city", spec.StateRunning)
		if err := h.ask(ActionRestart, Ask{Server: key("city"), By: "anna"}); err != nil {
			t.Fatal(err)
		}
		h.settle()
		h.wantOrders()
		if run := h.records[scopeOf("city", "game")].Run; run.Endpoints[0].Port != 4001 || run.Number != 1 {
			t.Errorf("it runs as %+v", run)
		}
		h.server("town", "game", withPort(4000, "1"), stopped)
		h.settle()
		h.pass(time.Second)
		if run := h.records[scopeOf("city", "game")].Run; run.Endpoints[0].Port != 4000 || run.Number != 2 {
			t.Errorf("with the port free it runs as %+v", run)
		}
	}
}

// A copy that waits for a port halts no roll-out.
func TestPortLedgerHaltsNoRollout(t *testing.T) {
	h := newHost(t)
	h.profile("game", on)
	for i, name := range []string{"a", "b", "c"} {
		h.server(name, "game", withPort(int64(4000+i), "1"))
	}
	h.settle()
	h.took()
	h.server("a", "game", withPort(4001, "2"))
	h.server("c", "game", withPort(4002, "2"))
	h.pass(time.Minute)
	h.conflicts("a", "b")
	if got := h.took(); !slices.Contains(got, "Start c/game SpecChanged") || slices.Contains(got, "Stop a/game SpecChanged") {
		t.Errorf("orders %q", got)
	}
}
