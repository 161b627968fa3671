package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

func names(keys []spec.Key) string {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = k.Name
	}
	return strings.Join(list, " ")
}

func TestRoll(t *testing.T) {
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	old, young := day, day.Add(time.Hour)
	waits := func(name string, limit int64) member {
		return member{key: key(name), limit: limit, changedAt: young, outdated: true, ready: true}
	}
	with := func(m member, edit func(*member)) member { edit(&m); return m }
	current := member{changedAt: young, ready: true}
	for _, c := range []struct {
		what        string
		members     []member
		grant, wait string
	}{
		{"nobody waits", []member{current}, "", ""},
		{"one at a time, by name", []member{waits("b", 1), waits("a", 1), waits("c", 1)}, "a", ""},
		{"two at a time", []member{waits("b", 2), waits("a", 2), waits("c", 2)}, "a b", ""},
		{"0 is no limit", []member{waits("b", 0), waits("a", 0)}, "a b", ""},
		{"one is on its way", []member{waits("b", 1), with(waits("a", 1), func(m *member) { m.granted = true })}, "", "a"},
		{"the first is Ready on the new spec", []member{waits("b", 1), with(current, func(m *member) { m.key = key("a") })}, "b", ""},
		{"the first is not Ready on the new spec", []member{waits("b", 1), with(current, func(m *member) { m.key, m.ready = key("a"), false })}, "", "a"},
		{"one is stopping for the change", []member{waits("b", 1), {key: key("a"), changedAt: old, moving: true}}, "", "a"},
		{"one was broken before the change", []member{waits("b", 1), {key: key("a"), changedAt: old}}, "b", ""},
		{"a broken copy on the old spec goes first", []member{waits("a", 1), with(waits("b", 1), func(m *member) { m.ready = false })}, "b", ""},
		{"the limit is each copy's own newest", []member{waits("a", 1), waits("b", 2)}, "a b", ""},
	} {
		r := roll(c.members)
		if names(r.grant) != c.grant || names(r.wait) != c.wait {
			t.Errorf("%s: grants %q, waits for %q; want %q, %q", c.what, names(r.grant), names(r.wait), c.grant, c.wait)
		}
	}
}

func logProbe(p *spec.ProfileSpec) {
	p.ReadinessProbe = &spec.Probe{Log: &spec.LogCheck{Contains: []string{"ready"}}}
}

// logs prints the line that the readinessProbe awaits.
func (h *host) logs(server, profile string) {
	h.change(scopeOf(server, profile), func(f *observe.Facts) { f.Run.LogSeenAt = h.wall })
}

func TestChangeRollsOneCopyAtATime(t *testing.T) {
	h := newHost(t)
	h.profile("game", logProbe)
	for _, name := range []string{"a", "b", "c"} {
		h.server(name, "game")
	}
	h.server("off", "game", stopped)
	h.settle()
	for _, name := range []string{"a", "b", "c"} {
		h.logs(name, "game")
	}
	h.settle()
	h.took()
	h.profile("game", logProbe, args("new"))
	h.pass(time.Minute)
	h.wantOrders("Stop a/game SpecChanged", "Step a/game 0", "Start a/game SpecChanged")
	h.wantState("a", spec.StateStarting)
	h.wantCondition("b", spec.ConditionRestartPending, "True", "RolloutWaiting")
	h.restart() // the roll-out goes on where it was
	h.pass(time.Minute)
	h.wantOrders()
	h.logs("a", "game")
	h.pass(time.Minute)
	h.wantOrders("Stop b/game SpecChanged", "Step b/game 0", "Start b/game SpecChanged")
	h.crash("b", "game") // a copy that breaks on the new spec halts the rest
	h.pass(time.Minute)
	h.wantOrders("Start b/game Crashed")
	h.wantCondition("c", spec.ConditionRestartPending, "True", "RolloutWaiting")
	h.crash("c", "game") // a copy that does not run starts by the newest
	h.settle()
	h.wantOrders("Start c/game SpecChanged")
	if run := h.records[scopeOf("c", "game")].Run; run.Generation != 2 {
		t.Errorf("c runs by generation %d", run.Generation)
	}
}

func TestTwoCopiesAtATime(t *testing.T) {
	h := newHost(t)
	two := func(p *spec.ProfileSpec) {
		n := int64(2)
		p.Disruption = &spec.Disruption{MaxUnavailable: &n}
	}
	h.profile("game", logProbe, two)
	for i := range 5 {
		h.server(fmt.Sprint("s", i), "game")
	}
	h.settle()
	for i := range 5 {
		h.logs(fmt.Sprint("s", i), "game")
	}
	h.settle()
	h.took()
	h.profile("game", logProbe, two, args("new"))
	h.settle()
	starts := slices.DeleteFunc(h.took(), func(o string) bool { return !strings.HasPrefix(o, "Start") })
	if len(starts) != 2 {
		t.Fatalf("starts: %q", starts)
	}
}

// A copy that has been broken for other reasons since before the change keeps nobody waiting.
func TestOldTroubleHaltsNoRollOut(t *testing.T) {
	h := newHost(t)
	h.profile("game", logProbe, func(p *spec.ProfileSpec) {
		p.Parameters = []spec.Parameter{{Name: "port", Type: spec.ParameterInteger, Default: &spec.IntOrString{Int: 1}}}
		p.Actions.Start.Args = []string{"$(port)"}
	})
	h.server("a", "game")
	h.server("broken", "game")
	h.settle()
	h.logs("a", "game")
	h.pass(time.Hour)
	h.took()
	h.server("a", "game", func(s *spec.ServerSpec) { s.Parameters = map[string]spec.IntOrString{"port": {Int: 2}} })
	h.settle()
	h.wantOrders("Stop a/game SpecChanged", "Step a/game 0", "Start a/game SpecChanged")
}

func TestProfileMoveIsPacedToo(t *testing.T) {
	h := newHost(t)
	h.profile("old", logProbe)
	h.profile("new", logProbe)
	for _, name := range []string{"a", "b"} {
		h.server(name, "old")
	}
	h.settle()
	for _, name := range []string{"a", "b"} {
		h.logs(name, "old")
	}
	h.settle()
	h.took()
	h.server("a", "new")
	h.server("b", "new")
	h.pass(time.Minute)
	h.wantOrders("Stop a/old ProfileChanged", "Step a/old 0", "Start a/new ProfileChanged")
	h.logs("a", "new")
	h.settle()
	h.wantOrders("Stop b/old ProfileChanged", "Step b/old 0", "Start b/new ProfileChanged")
}
