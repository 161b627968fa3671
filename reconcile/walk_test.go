package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// from brings a server, town, into a state.
var from = []struct {
	name string
	do   func(*host)
}{
	{"Pending, never good", func(h *host) { delete(h.profiles, "game"); h.publish() }},
	{"Starting", func(h *host) { h.profile("game", logProbe) }},
	{"Running", func(*host) {}},
	{"Stopping", func(h *host) { h.settle(); h.ignoresTerm["town"] = true; h.hold(ActionStop) }},
	{"Stopped by a hold", func(h *host) { h.settle(); h.hold(ActionStop) }},
	{"Stopped by its manifest", func(h *host) { h.server("town", "game", stopped) }},
	{"Completed", func(h *host) { h.profile("game", policy(spec.RestartNever)); h.settle(); h.exit("town", "game", 0) }},
	{"Failed", func(h *host) { h.profile("game", policy(spec.RestartNever)); h.settle(); h.exit("town", "game", 1) }},
	{"BackOff", func(h *host) { h.settle(); h.crash("town", "game"); h.settle(); h.crash("town", "game") }},
	{"Blocked", func(h *host) {
		h.settle()
		h.change(scopeOf("town", "game"), func(f *observe.Facts) { f.Blocked = "RecordNewer" })
	}},
	{"Removing", func(h *host) { h.settle(); h.ignoresTerm["town"] = true; h.remove("town") }},
}

// events are what may happen to it.
var events = []struct {
	name string
	do   func(*host)
}{
	{"nothing", func(*host) {}},
	{"our restart", func(h *host) { h.restart() }},
	{"the keeper goes and comes", func(h *host) { h.hidden = true; h.settle(); h.hidden = false }},
	{"its end", func(h *host) {
		if f := h.records[scopeOf("town", "game")]; f != nil && !f.Run.Over() && f.Blocked == "" {
			if f.Run.Stop != nil {
				h.end(f.Scope, spec.ExitStatus{Class: spec.Expected, Reason: spec.ReasonStopRequested, Signal: "SIGTERM"})
				return
			}
			h.crash("town", "game")
		}
	}},
	{"another spec", func(h *host) {
		h.profile("game", args("new"), policy(spec.RestartNever))
		if h.servers["town"] != nil {
			h.server("town", "game")
		}
	}},
	{"Stopped in the manifest", func(h *host) {
		if h.servers["town"] != nil {
			h.server("town", "game", stopped)
		}
	}},
	{"stop", func(h *host) { h.hold(ActionStop) }},
	{"start", func(h *host) { h.hold(ActionStart) }},
	{"restart", func(h *host) { h.hold(ActionRestart) }},
	{"release", func(h *host) { h.hold(ActionRelease) }},
	{"removal", func(h *host) { h.remove("town") }},
	{"a declaration", func(h *host) { h.profile("game"); h.server("town", "game") }},
	{"ten minutes", func(h *host) { h.pass(10 * time.Minute) }},
}

// hold asks for something; a refusal is an answer, too.
func (h *host) hold(action Action) { _ = h.ask(action, Ask{Server: key("town"), By: "anna"}) }

// Every state meets every event. The table says what the server is then, and what was ordered on the way; whoever
// changes the loop sees here what changes for people.
func TestEveryStateMeetsEveryEvent(t *testing.T) {
	var got strings.Builder
	for _, f := range from {
		fmt.Fprintf(&got, "%s\n", f.name)
		for _, e := range events {
			h := newHost(t)
			h.profile("game")
			h.server("town", "game")
			f.do(h)
			h.settle()
			h.took()
			e.do(h)
			h.settle()
			state := "gone"
			if v := h.loop.Snapshot().Server(key("town")); v != nil {
				state = string(v.Status.State)
			}
			orders := strings.ReplaceAll(strings.Join(h.took(), ", "), " town/game", "")
			fmt.Fprintf(&got, "  %-26s %-9s %s\n", e.name, state, orders)
			// I8: whatever it came to, a restart of ours adds nothing.
			h.restart()
			h.settle()
			if more := h.took(); len(more) != 0 {
				t.Errorf("%s, %s: after our restart %q", f.name, e.name, more)
			}
		}
	}
	golden(t, "testdata/walk.txt", got.String())
}
