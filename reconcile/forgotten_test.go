package reconcile

import (
	"slices"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// A record of a server that is in no source and in nobody's memory, as a power cut may bring it back: it is archived when
// its run is over and every source was read, and a run that lives is left alone.
func TestForgottenRecord(t *testing.T) {
	scope := spec.Scope{Namespace: spec.DefaultNamespace, Server: "town", Profile: "game"}
	record := func(phase state.Phase, alive observe.Liveness, tree observe.TreeState) *observe.Facts {
		return &observe.Facts{Scope: scope, Run: &observe.RunFacts{Number: 1, ID: "a", Phase: phase, Alive: alive, Tree: observe.Tree{State: tree}}}
	}
	for name, tt := range map[string]struct {
		facts   *observe.Facts
		known   bool
		archive bool
	}{
		"over, all sources read":     {record(state.Exited, observe.Dead, observe.TreeEmpty), true, true},
		"over, not all sources read": {record(state.Exited, observe.Dead, observe.TreeEmpty), false, false},
		"alive":                      {record(state.Started, observe.Alive, observe.TreePopulated), true, false},
	} {
		s := &standing{key: scope.ServerKey(), known: tt.known, heard: true, lanes: []*lane{{facts: tt.facts}}}
		d := decide(s, state.Moment{BootID: "b"})
		if got := d.order != nil && d.order.Archive != nil; got != tt.archive || d.order != nil && !got {
			t.Errorf("%s: the order is %+v, archived %v wanted", name, d.order, tt.archive)
		}
	}
}

// A server whose removal had begun is not started again by the next reconciler, which is not certain of it yet; one that is declared
// again is, and so is one that a person wants.
func TestRemovalGoesOnOverOurRestart(t *testing.T) {
	for _, then := range []string{"removal", "declared", "asked"} {
		t.Run(then, func(t *testing.T) {
			h := newHost(t)
			h.profile("game")
			h.server("town", "game")
			h.settle()
			h.took()
			declared := *h.servers["town"]
			memory := h.memories["default/town"]
			h.refuse["Archive"] = errBusy // we end before that
			h.remove("town")
			h.settle()
			if got := h.took(); !slices.Contains(got, "Stop town/game Removed") {
				t.Fatalf("orders %q", got)
			}
			absent := declared
			absent.Absent = true
			h.memories["default/town"] = memory
			h.servers["town"] = &absent
			h.publish()
			delete(h.refuse, "Archive")
			h.restart()
			h.pass(time.Hour)
			h.wantOrders()
			h.wantCondition("town", spec.ConditionAccepted, "True", "Absent")
			switch then {
			case "removal":
				h.remove("town")
				h.settle()
				h.wantOrders("Archive town/game")
			case "declared":
				h.servers["town"] = &declared
				h.publish()
				h.settle()
				h.wantOrders("Start town/game Wanted")
			case "asked":
				if err := h.ask(ActionStart, Ask{Server: key("town"), By: "anna"}); err != nil {
					t.Fatal(err)
				}
				h.wantOrders("Start town/game Asked")
			}
		})
	}
}

// What was edited while no reconciler ran governs the first start already: nothing is started by the old spec to be replaced at once. Where
// it cannot be recorded the old one goes on to govern.
func TestEditWhileNobodyRan(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*host)
		want []string
	}{
		{"another spec", func(h *host) { h.profile("game", args("new")) }, []string{"Start town/game SpecChanged"}},
		{"Stopped", func(h *host) { h.server("town", "game", stopped) }, nil},
		{"another spec, and a full disk", func(h *host) { h.profile("game", args("new")); h.diskErr = errBusy }, []string{"Start town/game Crashed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			h.profile("game")
			h.server("town", "game")
			h.settle()
			h.crash("town", "game")
			c.edit(h)
			h.wall, h.uptime = h.wall.Add(time.Hour), h.uptime+time.Hour
			h.took()
			h.restart()
			h.pass(time.Second)
			h.wantOrders(c.want...)
		})
	}
}
