package reconcile

import (
	"testing"

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
