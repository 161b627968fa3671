package reconcile

import (
	"slices"
	"testing"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// deliver puts a line into the facts of a server.
func (h *host) deliver(server string, d state.Delivery) {
	d.At, d.Rail, d.By = h.now().Wall, spec.ConsoleStdin, "me"
	h.change(scopeOf(server, "game"), func(f *observe.Facts) {
		f.Run.Console = &spec.LaunchConsole{Input: spec.ConsoleStdin}
		list := slices.DeleteFunc(slices.Clone(f.Deliveries), func(old state.Delivery) bool { return old.ID == d.ID })
		f.Deliveries = append(list, d)
	})
	h.settle()
}

// A line that somebody sent is shown, and told of once it is known what became of it; a reconciler that starts tells of none
// that came before.
func TestLinesAreShownAndTold(t *testing.T) {
	h := newHost(t)
	var told []string
	listen := func() {
		h.loop.opts.Told = func(_ spec.Key, e Event) {
			if e.Reason == "Line" || e.Reason == "StepFailed" {
				told = append(told, e.Type+" "+e.Message)
			}
		}
	}
	listen()
	h.profile("game")
	h.server("town", "game")
	h.settle()
	if c := h.view("town").Status.Console; c != nil {
		t.Errorf("without a console: %+v", c)
	}
	h.deliver("town", state.Delivery{ID: "a", Run: 1})
	if c := h.view("town").Status.Console; c == nil || c.Input != spec.ConsoleStdin || c.Last == nil || c.Last.Result != "" || len(told) > 0 {
		t.Errorf("on its way: %+v, told %q", c, told)
	}
	h.deliver("town", state.Delivery{ID: "a", Run: 1, Result: state.Sent})
	h.deliver("town", state.Delivery{ID: "b", Run: 1, Result: state.Undeliverable, Reason: "Unread"})
	h.settle()
	want := []string{"Normal a line from me by Stdin: Sent", "Warning a line from me by Stdin: Undeliverable (Unread)"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	h.restart()
	listen()
	h.settle()
	if !slices.Equal(told, want) {
		t.Errorf("a new reconciler tells again: %q", told)
	}
	if c := h.view("town").Status.Console; c == nil || c.Last == nil || c.Last.Result != "Undeliverable" {
		t.Errorf("a new reconciler shows %+v", c)
	}
}

// Who types on a terminal is told of when he begins and when he ends, or when nobody knows how much it was.
func TestKeysAreShownAndTold(t *testing.T) {
	h := newHost(t)
	var told []string
	h.loop.opts.Told = func(_ spec.Key, e Event) {
		if e.Reason == "Keys" || e.Reason == "Line" {
			told = append(told, e.Type+" "+e.Message)
		}
	}
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.deliver("town", state.Delivery{ID: "a", Run: 1, Keys: &state.Keys{}})
	if c := h.view("town").Status.Console; c.Last == nil || !c.Last.Keys || c.Last.Result != "" {
		t.Errorf("while he types: %+v", c.Last)
	}
	h.deliver("town", state.Delivery{ID: "a", Run: 1, Keys: &state.Keys{Bytes: 7, Until: h.now().Wall}, Result: state.Sent})
	if c := h.view("town").Status.Console; c.Last.Bytes != 7 || c.Last.Until.IsZero() {
		t.Errorf("afterwards: %+v", c.Last)
	}
	h.deliver("town", state.Delivery{ID: "b", Run: 1, Keys: &state.Keys{}, Result: state.Indeterminate})
	want := []string{"Normal me types on the terminal", "Normal me has typed 7 bytes on the terminal",
		"Warning nobody knows how much me has typed on the terminal: the keeper has ended meanwhile"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// A step of the ladder that came to nothing is told of once.
func TestFailedStepsAreTold(t *testing.T) {
	s := &server{}
	var told []string
	stop := &state.Stop{Steps: []state.StepEntry{
		{Index: 0, Result: state.Done}, {Index: 1, Result: state.Failed, Reason: "NotSeen"}, {Index: 3, Result: state.Indeterminate}, {Index: 4},
	}}
	warning := func(reason, message string) { told = append(told, reason+" "+message) }
	s.tellSteps(stop, warning)
	s.tellSteps(stop, warning)
	want := []string{"StepFailed step 2 of the stop: Failed (NotSeen)", "StepFailed step 4 of the stop: Indeterminate"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	stop.Steps[3].Result = state.Undeliverable
	s.tellSteps(stop, warning)
	if len(told) != 3 || told[2] != "StepFailed step 5 of the stop: Undeliverable" {
		t.Errorf("told %q", told)
	}
}
