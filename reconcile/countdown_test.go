package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// announced declares what is said before a run is replaced, in no order.
func announced(p *spec.ProfileSpec) {
	withCommands(console("last"), console("soon"), console("early"))(p)
	if p.Disruption == nil {
		p.Disruption = &spec.Disruption{}
	}
	p.Disruption.Announce = []spec.Announcement{{BeforeSeconds: 60, Command: "soon"}, {BeforeSeconds: 10, Command: "last"}, {BeforeSeconds: 300, Command: "early"}}
}

// newTalker is a town that runs, before which edits come to be announced.
func newTalker(t *testing.T, edits ...func(*spec.ProfileSpec)) *host {
	h := newHost(t)
	h.profile("game", append(edits, announced)...)
	h.server("town", "game")
	h.pass(time.Minute)
	h.took()
	return h
}

// hears lets a time pass and checks what was done then, without looks: said by command, the rest by its kind.
func (h *host) hears(after time.Duration, want ...string) {
	h.t.Helper()
	h.pass(max(0, after-1))
	got := h.said()
	if after > 0 && len(got) > 0 {
		h.t.Fatalf("too early: %q", got)
	}
	if after > 0 {
		h.pass(1)
		got = h.said()
	}
	if !slices.Equal(got, want) {
		h.t.Fatalf("got %q, want %q", got, want)
	}
}

// said is what was done since, in short.
func (h *host) said() []string {
	var list []string
	for _, o := range h.took() {
		kind, rest, _ := strings.Cut(o, " ")
		switch kind {
		case "Do":
			list = append(list, strings.Fields(rest)[1])
		case "Stop", "Start":
			list = append(list, kind)
		}
	}
	return list
}

// A change is announced at its offsets before the stop, and says so.
func TestChangeIsAnnounced(t *testing.T) {
	h := newTalker(t, counted())
	h.profile("game", counted(), announced, args("new"))
	h.hears(0, "early")
	h.wantCondition("town", spec.ConditionRestartPending, "True", "Announced")
	h.wantMessage("town", spec.ConditionRestartPending, "its end is announced for 2026-03-01T12:06:00Z; nobody plays")
	h.wantCondition("town", spec.ConditionReconciling, "True", "RestartPending")
	h.wantEvent("town", EventNormal, "Announced", true)
	h.hears(4*time.Minute, "soon")
	h.hears(50*time.Second, "last")
	h.hears(10*time.Second, "Stop", "Start")
	h.wantCondition("town", spec.ConditionRestartPending, "False", "UpToDate")
	h.wantEvent("town", EventNormal, "PutOff", false)
	h.pass(time.Hour)
	if got := h.said(); len(got) > 0 || h.memories["default/town"].Countdown != nil {
		t.Errorf("%q, %+v", got, h.memories["default/town"].Countdown)
	}
	for _, j := range h.loop.Snapshot().Jobs {
		if j.Status.Phase != spec.JobSucceeded || j.Status.By != "disruption" {
			t.Errorf("job %s is %s, by %s", j.Key.Name, j.Status.Phase, j.Status.By)
		}
	}
	h.once()
}

// Wherever we die, and however long we are away, each is said once, and nobody is given less time than was said.
func TestAnnouncementsSurviveUs(t *testing.T) {
	for _, away := range []time.Duration{0, time.Hour} {
		for die, died := 0, true; died; die++ {
			h := newTalker(t)
			h.profile("game", announced, args("new"))
			at := map[string]time.Time{}
			died = false
			for n, end := 0, h.uptime+20*time.Minute; h.uptime < end; {
				orders, wake := h.loop.Turn(h.now())
				idle := len(orders) == 0
				for len(orders) > 0 {
					o := orders[0]
					err := o.CarryOut(t.Context(), h, h, jobTable{h}, h)
					for _, what := range h.said() {
						if _, twice := at[what]; twice {
							t.Fatalf("%d: %s twice", die, what)
						}
						at[what] = h.wall
					}
					if n++; n == die+1 {
						died = true
						h.restart() // the answer is lost
						h.wall, h.uptime, end = h.wall.Add(away), h.uptime+away, end+away
						break
					}
					more, _ := h.loop.Turn(h.now()) // it looks again before it is answered
					orders = append(orders[1:], more...)
					h.loop.Done(h.now(), o, err)
				}
				if idle {
					next := min(end, h.uptime+time.Minute)
					if wake > h.uptime {
						next = min(next, wake)
					}
					h.wall, h.uptime = h.wall.Add(next-h.uptime), next
				}
			}
			h.once()
			for what, before := range map[string]time.Duration{"early": 300 * time.Second, "soon": 60 * time.Second, "last": 10 * time.Second} {
				late := slices.ContainsFunc(h.loop.Snapshot().Jobs, func(j *JobView) bool {
					return j.Spec.Command == what && j.Status.Phase == spec.JobCancelled && j.Status.Reason == JobReasonLate
				})
				if at[what].IsZero() && away > 0 && late && !at["Stop"].IsZero() {
					continue // it was on record, and nobody was there to say it in time
				}
				if at[what].IsZero() || at["Stop"].Sub(at[what]) < before {
					t.Errorf("%d: %s is said at %v, and it is ended at %v", die, what, at[what], at["Stop"])
				}
			}
			if t.Failed() {
				return
			}
		}
	}
}

// Nothing that an announcement comes to holds up the change.
func TestAnnouncementsHoldNothingUp(t *testing.T) {
	for name, spoil := range map[string]func(*host){
		"it fails":              func(h *host) { h.commands.result["soon"] = state.Failed },
		"it is refused":         func(h *host) { h.commands.refuse["soon"] = refused{"command", "no"} },
		"it does not get there": func(h *host) { h.commands.deaf["soon"] = true },
		"it never ends":         func(h *host) { h.commands.hang["soon"] = true },
		"another has its name":  func(h *host) { h.job(h.memories["default/town"].Countdown.next().job("town"), "town", "nonesuch") },
		"a command takes a while": func(h *host) {
			h.commands.hang["early"] = true
			if err := h.addJob("backup", spec.JobSpec{Server: "town", Command: "early"}); err != nil {
				h.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTalker(t)
			h.profile("game", announced, args("new"))
			h.hears(0, "early")
			spoil(h)
			h.pass(5*time.Minute - time.Second)
			if got := h.said(); slices.Contains(got, "Stop") {
				t.Fatalf("too early: %q", got)
			}
			h.pass(2 * time.Minute)
			if got := h.said(); !slices.Contains(got, "Stop") || !slices.Contains(got, "Start") {
				t.Fatalf("got %q", got)
			}
		})
	}
}

// next is the countdown at its next step.
func (c *Countdown) next() *Countdown {
	n := *c
	n.Step++
	return &n
}

// What was announced is put off when nobody wants it any more, or people forbid it, and is announced anew from the beginning. Where nobody knows
// whether they do, it waits.
func TestAnnouncementsArePutOff(t *testing.T) {
	h := newTalker(t, counted())
	h.profile("game", counted(), announced, args("new"))
	h.hears(0, "early")
	h.pass(2 * time.Minute)
	h.profile("game", counted(), announced)
	h.settle()
	h.wantEvent("town", EventNormal, "PutOff", true)
	h.wantCondition("town", spec.ConditionRestartPending, "False", "UpToDate")
	h.pass(time.Hour)
	if got := h.said(); len(got) > 0 {
		t.Fatalf("%q", got)
	}

	h.profile("game", counted(), announced, args("newer"))
	h.hears(0, "early")
	h.players = 3
	h.pass(2 * time.Minute)
	h.goesOn("town", "Occupied", "3 play")
	h.pass(time.Hour)
	h.players = 0
	h.pass(time.Minute)
	if got := h.said(); !slices.Equal(got, []string{"early"}) {
		t.Fatalf("%q", got)
	}
	h.restart() // nobody knows for a moment how many play
	h.settle()
	h.pass(30 * time.Second)
	h.checks["game"] = errBusy
	h.pass(10 * time.Minute)
	h.wantCondition("town", spec.ConditionRestartPending, "True", "Occupied")
	if got := h.said(); len(got) > 0 {
		t.Fatalf("%q", got)
	}
	delete(h.checks, "game")
	h.pass(2 * time.Minute)
	if got := h.said(); !slices.Equal(got, []string{"soon", "last", "Stop", "Start"}) {
		t.Fatalf("%q", got)
	}
}

// What a person asks for is not announced, and nothing that was to be said is said to the next run.
func TestNextRunHearsNothing(t *testing.T) {
	h := newTalker(t)
	h.profile("game", announced, args("new"))
	h.hears(0, "early")
	h.commands.hang["early"] = true
	if err := h.addJob("backup", spec.JobSpec{Server: "town", Command: "early"}); err != nil {
		t.Fatal(err)
	}
	h.pass(4*time.Minute + time.Second) // the next one waits for it
	if err := h.ask(ActionRestart, Ask{Server: key("town"), By: "anna"}); err != nil {
		t.Fatal(err)
	}
	h.finish(town, state.Failed)
	h.pass(time.Hour)
	if got := h.said(); !slices.Equal(got, []string{"early", "Stop", "Start"}) {
		t.Fatalf("%q", got)
	}
	for _, j := range h.loop.Snapshot().Jobs {
		if !j.Status.Phase.Over() {
			t.Errorf("job %s is %s", j.Key.Name, j.Status.Phase)
		}
	}
}

// What a deadline forces, or a window allows, is announced before, so that it comes at that time.
func TestAnnouncedForATime(t *testing.T) {
	h := newTalker(t, counted(deadline(3600, spec.DeadlineForce)))
	h.players = 3
	h.pass(time.Minute)
	h.profile("game", counted(deadline(3600, spec.DeadlineForce)), announced, args("new"))
	h.hears(55*time.Minute, "early")
	h.wantMessage("town", spec.ConditionRestartPending, "its end is announced for 2026-03-01T13:02:00Z; 3 play")
	h.hears(4*time.Minute, "soon")
	h.hears(50*time.Second, "last")
	h.hears(10*time.Second, "Stop", "Start")

	only := func(p *spec.ProfileSpec) {
		p.Disruption = &spec.Disruption{}
		window("0 14 * * *", 60)(p.Disruption)
	}
	h = newTalker(t, only)
	h.profile("game", only, announced, args("new"))
	h.settle()
	h.goesOn("town", "OutsideWindow", "the next window opens at 2026-03-01T14:00:00Z")
	h.hears(time.Date(2026, 3, 1, 13, 55, 0, 0, time.UTC).Sub(h.wall), "early")
	h.hears(4*time.Minute, "soon")
	h.hears(50*time.Second, "last")
	h.hears(10*time.Second, "Stop", "Start")
}

// A restart that a schedule wants is announced while its job waits; a run that never was Ready has nobody to tell.
func TestScheduledRestartIsAnnounced(t *testing.T) {
	h := newTalker(t, every(""))
	h.hears(9*time.Minute, "early")
	h.wantJob(jobAt(10), spec.JobRunning, "")
	h.hears(4*time.Minute, "soon")
	h.hears(50*time.Second, "last")
	h.hears(10*time.Second, "Stop", "Start")
	h.wantJob(jobAt(10), spec.JobSucceeded, "")

	h = newTalker(t, logProbe)
	h.profile("game", logProbe, announced, args("new"))
	h.hears(0, "Stop", "Start")
}

// Of several copies one is announced, and replaced, after the other; our restart changes nothing of that.
func TestAnnouncedOneByOne(t *testing.T) {
	h := newHost(t)
	h.profile("game", announced)
	for _, name := range []string{"a", "b", "c"} {
		h.server(name, "game")
	}
	h.pass(time.Minute)
	h.took()
	h.profile("game", announced, args("new"))
	h.pass(time.Minute)
	h.restart()
	h.pass(20 * time.Minute)
	var got []string
	for _, o := range h.took() {
		if kind, rest, _ := strings.Cut(o, " "); kind == "Do" || kind == "Stop" {
			f := strings.Fields(rest)
			got = append(got, fmt.Sprint(strings.TrimSuffix(f[0], "/game"), " ", f[1]))
		}
	}
	var want []string
	for _, name := range []string{"a", "b", "c"} {
		for _, what := range []string{"early", "soon", "last", "SpecChanged"} {
			want = append(want, name+" "+what)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
