package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
)

// counted declares players of whom none are to be disturbed, and what else disruption says.
func counted(edits ...func(*spec.Disruption)) func(*spec.ProfileSpec) {
	return func(p *spec.ProfileSpec) {
		p.Endpoints = []spec.Endpoint{{Name: "game", Port: spec.IntOrString{Int: 4000}}}
		p.Players = &spec.Players{Query: &spec.Query{Protocol: "Minecraft", Endpoint: "game"}}
		p.Disruption = &spec.Disruption{}
		for _, edit := range edits {
			edit(p.Disruption)
		}
	}
}

func window(schedule string, seconds int64) func(*spec.Disruption) {
	return func(d *spec.Disruption) {
		d.Windows = append(d.Windows, spec.Window{Schedule: schedule, DurationSeconds: seconds})
	}
}

func deadline(seconds int64, then string) func(*spec.Disruption) {
	return func(d *spec.Disruption) { d.DeadlineSeconds, d.OnDeadline = &seconds, then }
}

// goesOn checks that a change of a server waits, and why.
func (h *host) goesOn(name, reason, why string) {
	h.t.Helper()
	h.wantOrders()
	h.wantState(name, spec.StateRunning)
	h.wantCondition(name, spec.ConditionRestartPending, "True", reason)
	h.wantMessage(name, spec.ConditionRestartPending, why)
	h.wantCondition(name, spec.ConditionReconciling, "True", "RestartPending")
}

// replaced checks that a server was replaced for a change.
func (h *host) replaced(name string) {
	h.t.Helper()
	if got := h.took(); !slices.Contains(got, "Stop "+name+"/game SpecChanged") || !slices.Contains(got, "Start "+name+"/game SpecChanged") {
		h.t.Fatalf("orders %q", got)
	}
	h.wantCondition(name, spec.ConditionRestartPending, "False", "UpToDate")
}

// A change waits as long as people play or nobody knows whether they do, over our restart too; meanwhile the run is governed by its own
// spec. What a person asks for, a removal, a crash and a run that never was Ready wait for nobody.
func TestPeopleFirst(t *testing.T) {
	h := newHost(t)
	h.profile("game", counted())
	h.server("town", "game")
	h.players = 3
	h.pass(time.Minute)
	h.took()
	h.profile("game", counted(), args("new"))
	h.settle()
	h.goesOn("town", "Occupied", "3 play, and it is replaced with at most 0")
	h.wantEvent("town", EventNormal, "Occupied", true)
	h.restart()
	h.settle()
	h.goesOn("town", "Occupied", "nobody knows how many play")
	h.pass(time.Minute)
	h.goesOn("town", "Occupied", "3 play")
	h.checks["game"] = errBusy
	h.pass(time.Minute)
	h.goesOn("town", "Occupied", "nobody knows how many play")
	h.checks["game"], h.players = nil, 0
	h.pass(time.Minute)
	h.replaced("town")

	h.players = 3
	h.pass(time.Minute)
	h.profile("game", counted(), args("newer"))
	h.settle()
	h.goesOn("town", "Occupied", "3 play")
	if err := h.ask(ActionRestart, Ask{Server: key("town"), By: "anna"}); err != nil {
		t.Fatal(err)
	}
	if got := h.took(); !slices.Contains(got, "Stop town/game Restart") {
		t.Errorf("orders %q", got)
	}
	h.pass(time.Minute)
	h.took()
	h.profile("game", counted(), args("newest"))
	h.settle()
	h.goesOn("town", "Occupied", "3 play")
	h.crash("town", "game")
	h.settle()
	h.wantOrders("Start town/game SpecChanged")
	h.wantCondition("town", spec.ConditionRestartPending, "False", "UpToDate")
	h.profile("game", counted(), logProbe, args("broken"))
	h.pass(time.Minute)
	h.took()
	h.remove("town")
	h.settle()
	if got := h.took(); !slices.Contains(got, "Stop town/game Removed") {
		t.Errorf("orders %q", got)
	}

	h.profile("game", counted(), logProbe)
	h.server("city", "game")
	h.pass(time.Minute)
	h.took()
	h.profile("game", counted(), logProbe, args("mended"))
	h.settle()
	h.replaced("city") // it never was Ready
}

// A run of a time when nobody counted goes on: whoever is not counted may be there.
func TestPeopleWhomNobodyCounts(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.took()
	h.profile("game", counted(), args("new"))
	h.pass(time.Minute)
	h.goesOn("town", "Occupied", "nobody counts the players of this run")
}

// A change waits for its window, by the wall clock, and for people in it.
func TestWindows(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.settle()
	h.took()
	only := func(p *spec.ProfileSpec) {
		p.Disruption = &spec.Disruption{}
		window("0 4 * * *", 3600)(p.Disruption)
		window("30 5 * * 1", 600)(p.Disruption)
	}
	h.profile("game", only, args("new"))
	h.settle() // at noon on a Sunday
	h.goesOn("town", "OutsideWindow", "the next window opens at 2026-03-02T04:00:00Z")
	h.pass(15*time.Hour + 59*time.Minute)
	h.wantOrders()
	h.pass(2 * time.Minute)
	h.replaced("town")

	h.profile("game", only, args("newer"))
	h.settle() // it is open
	h.replaced("town")
	h.pass(time.Hour)
	h.profile("game", only, args("newest"))
	h.settle()
	h.goesOn("town", "OutsideWindow", "the next window opens at 2026-03-02T05:30:00Z")
	h.wall = h.wall.Add(24 * time.Hour) // the clock is set: that window has passed
	h.settle()
	h.goesOn("town", "OutsideWindow", "the next window opens at 2026-03-04T04:00:00Z")
}

// A change that has waited until its deadline waits on, or waits no more.
func TestDisruptionDeadline(t *testing.T) {
	for _, then := range []string{"", spec.DeadlineHold, spec.DeadlineForce} {
		t.Run(then, func(t *testing.T) {
			h := newHost(t)
			h.profile("game", counted(deadline(3600, then)))
			h.server("town", "game")
			h.players = 3
			h.pass(time.Minute)
			h.took()
			h.profile("game", counted(deadline(3600, then)), args("new"))
			h.pass(59 * time.Minute)
			h.goesOn("town", "Occupied", "3 play, and it is replaced with at most 0; at 2026-03-01T13:01:00Z it")
			h.restart()
			h.pass(2 * time.Minute)
			if then == spec.DeadlineForce {
				h.replaced("town")
				return
			}
			h.goesOn("town", "Occupied", "its deadline was at 2026-03-01T13:01:00Z, and it waits on")
		})
	}
}

// One that people keep from being replaced keeps no other copy waiting.
func TestPeopleHaltNoRollout(t *testing.T) {
	h := newHost(t)
	h.profile("game", on, counted(), func(p *spec.ProfileSpec) { p.Endpoints[0].Port = spec.IntOrString{String: "$(port)", IsString: true} })
	for i, name := range []string{"a", "b", "c"} {
		h.server(name, "game", withPort(int64(4000+i), "1"))
	}
	h.pass(time.Minute)
	h.took()
	h.players = 3
	h.pass(time.Minute)
	for i, name := range []string{"a", "b", "c"} {
		h.server(name, "game", withPort(int64(4000+i), "2"))
	}
	h.settle()
	for _, name := range []string{"a", "b", "c"} {
		h.goesOn(name, "Occupied", "3 play")
	}
	h.left = 4001
	h.pass(time.Minute)
	h.replaced("b")
	h.goesOn("a", "Occupied", "3 play")
	h.left = 0
	h.players = 0
	h.pass(time.Minute)
	got := strings.Join(h.took(), ", ")
	if !strings.Contains(got, "Start a/game SpecChanged, Stop c/game SpecChanged") {
		t.Errorf("orders %q: they are replaced one at a time", got)
	}
}

// Whoever ends a run, and why: the event says how many that concerns, as far as anybody knows.
func TestEventsSayWhoIsAffected(t *testing.T) {
	for players, want := range map[int]string{0: "the run is being ended: Restart, by anna; nobody plays", 3: "the run is being ended: Restart, by anna; 3 play"} {
		h := newHost(t)
		h.profile("game", counted())
		h.server("town", "game")
		h.players = players
		h.pass(time.Minute)
		if err := h.ask(ActionRestart, Ask{Server: key("town"), By: "anna"}); err != nil {
			t.Fatal(err)
		}
		events := h.view("town").Events
		if !slices.ContainsFunc(events, func(e Event) bool { return e.Reason == "Stopping" && e.Message == want }) {
			t.Errorf("with %d players the events are %+v", players, events)
		}
	}
}
