package reconcile

import (
	"slices"
	"testing"

	"reconciler.dev/reconciler/spec"
)

// Who is told of events hears each one once, in the order in which they happened, the last of a removed server too.
func TestEachEventIsToldOnce(t *testing.T) {
	h := newHost(t)
	var told []string
	h.loop.opts.Told = func(key spec.Key, e Event) { told = append(told, key.Name+" "+e.Reason) }
	h.profile("game")
	h.server("town", "game")
	h.settle()
	want := []string{"town Accepted", "town Started", "town Ready"}
	if !slices.Equal(told, want) {
		t.Errorf("after a start: %q, want %q", told, want)
	}
	h.settle()
	if !slices.Equal(told, want) {
		t.Errorf("at rest: %q, want nothing new", told[len(want):])
	}
	shown := len(h.view("town").Events)
	if shown != len(want) {
		t.Errorf("%d events are shown, %d were told", shown, len(want))
	}

	delete(h.servers, "town")
	h.publish()
	h.settle()
	if h.loop.Snapshot().Server(spec.Key{Namespace: spec.DefaultNamespace, Name: "town"}) != nil {
		t.Fatal("the server is still there")
	}
	if gone := told[len(want):]; !slices.Equal(gone, []string{"town Removed", "town Stopping", "town Exited"}) {
		t.Errorf("of a removal: %q", gone)
	}
}
