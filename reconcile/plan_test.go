package reconcile

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

var noon = state.Moment{Wall: epoch, BootID: "boot", Uptime: time.Hour}

// stands makes a server that is as it should be: it shall run, and runs by its newest spec.
func stands() *standing {
	launch := &spec.Launch{
		Scope: scopeOf("town", "game"), Executable: "bin/game",
		Stop:    []spec.StopStep{{Signal: &spec.SignalAction{Name: "SIGTERM", To: spec.ToMain}, WaitFor: spec.WaitForExit, WaitSeconds: 30}},
		Restart: spec.RestartPolicy{Policy: spec.RestartAlways, InitialSeconds: 1, MaxSeconds: 300, ResetSeconds: 600},
	}
	s := &standing{key: key("town"), present: true, known: true, heard: true, good: goodOf(launch)}
	s.mem = &Memory{UID: "uid", CreatedAt: epoch, Generation: 1, ChangedAt: epoch, State: spec.WishRunning, Launch: launch}
	s.lanes = []*lane{{facts: &observe.Facts{Scope: launch.Scope, UID: "uid", Run: &observe.RunFacts{
		Number: 1, ID: "run-1", Phase: state.Started, SpecHash: s.good.specHash, LiveHash: s.good.liveHash, Generation: 1,
		Ladder: launch.Stop, Restart: launch.Restart, LaunchingAt: epoch, StartedAt: epoch,
		Alive: observe.Alive, Tree: observe.Tree{State: observe.TreePopulated, Count: 1},
	}}}}
	return s
}

// put brings a lane into a situation.
func (l *lane) put(sit situation) {
	run := l.facts.Run
	switch sit {
	case vacant:
		run.Phase, run.Alive, run.Tree.State = state.Exited, observe.Dead, observe.TreeEmpty
		l.facts.Exits = []state.Exit{ended(run.Number, time.Second, expected(spec.ReasonStopRequested))}
		l.end = sighting{Number: run.Number, At: noon}
	case blocked:
		l.facts.Blocked = "RecordUnreadable"
	case unverified:
		run.Alive = observe.Unknown
	case launching:
		run.Phase, run.Alive = state.Launching, observe.Dead
	case draining:
		run.MainExit, run.Alive = &state.MainExit{}, observe.Dead
	case ending:
		run.MainExit, run.Alive, run.Tree.State = &state.MainExit{}, observe.Dead, observe.TreeEmpty
	case stopping:
		run.Stop = &state.Stop{Reason: spec.ReasonStopRequested, Why: WhyHold, At: noon, Ladder: run.Ladder}
	}
}

// want makes the server need something.
func (s *standing) want(n need) {
	run := s.lanes[0].facts.Run
	switch n {
	case needKeep:
		s.present, s.known = false, false
	case needLive:
		run.LiveHash = "old"
	case needReload:
		run.Files = []state.GivenFile{{Path: "a", Print: "old"}}
		s.good.launch.Files = []spec.LaunchFile{{Path: "a", Content: "new"}}
		s.good.launch.Reload = &spec.LaunchReload{TimeoutSeconds: 30}
	case needReplace:
		run.SpecHash, s.granted = "old", true
	case needRenew:
		s.mem.Restart = &Request{Mark: Mark{Profile: "game", Number: run.Number, Run: run.ID}}
	case needEnd:
		s.mem.State = spec.WishStopped
	case needGone:
		s.present = false
	}
}

// word is what a decision orders.
func (d *decision) word() string {
	switch o := d.order; {
	case o == nil:
		return "-"
	case o.Stop != nil:
		return "Stop " + o.Stop.Why
	case o.Step != nil:
		return fmt.Sprint("Step ", o.Step.Index)
	default:
		return o.Kind()
	}
}

// What is remembered undoes nothing as long as what the newest manifest asks for is not known.
func TestOlderSpecWaitsForTheSources(t *testing.T) {
	for known, want := range map[bool]string{false: "MarkReady", true: "Stop SpecChanged"} {
		s := stands()
		s.want(needReplace)
		s.known = known
		if d := decide(s, noon); d.word() != want {
			t.Errorf("every source read: %v: %s, want %s", known, d.word(), want)
		}
	}
}

// Every situation meets every need; what follows is told here in full, so that a change of the table shows.
func TestEverySituationMeetsEveryNeed(t *testing.T) {
	names := [situations]string{"vacant", "blocked", "unverified", "launching", "up", "draining", "ending", "stopping"}
	want := [situations][needs]string{
		//            Keep               Run                Live               Reload             Replace             Renew              End                  Gone
		vacant:     {"-", "Start", "Start", "Start", "Start", "Start", "-", "Archive"},
		blocked:    {"-", "-", "-", "-", "-", "-", "-", "-"},
		unverified: {"-", "-", "-", "-", "-", "-", "-", "-"},
		launching:  {"-", "-", "-", "-", "Stop SpecChanged", "Stop Restart", "Stop StateStopped", "Stop Removed"},
		up:         {"-", "MarkReady", "ApplyLive", "Reload", "Stop SpecChanged", "Stop Restart", "Stop StateStopped", "Stop Removed"},
		draining:   {"Stop MainExited", "Stop MainExited", "Stop MainExited", "Stop MainExited", "Stop MainExited", "Stop MainExited", "Stop MainExited", "Stop MainExited"},
		ending:     {"-", "-", "-", "-", "-", "-", "-", "-"},
		stopping:   {"Step 0", "Step 0", "Step 0", "Step 0", "Step 0", "Step 0", "Step 0", "Step 0"},
	}
	for sit := range situations {
		for n := range needs {
			s := stands()
			s.want(n)
			s.lanes[0].put(sit)
			if got := situationOf(s.lanes[0].facts); got != sit {
				t.Fatalf("%s is taken for %s", names[sit], names[got])
			}
			d := decide(s, noon)
			if got := d.word(); got != want[sit][n] {
				t.Errorf("%s, need %d: %s, want %s", names[sit], n, got, want[sit][n])
			}
			if s.granted = false; n == needReplace && sit == up {
				if d := decide(s, noon); d.word() != "-" || d.pending != WhySpecChanged {
					t.Errorf("without the roll-out's grant: %s, pending %q", d.word(), d.pending)
				}
			}
			if s.busy = true; true {
				if d := decide(s, noon); d.order != nil {
					t.Errorf("%s, need %d, with an order in flight: %s", names[sit], n, d.word())
				}
			}
			// The status is whole, whatever the pair.
			o := outlook{keeper: true, recorded: true}
			st := statusOf(s, &o, &d, noon)
			if st.State == "" || len(st.Conditions) != len(spec.ConditionTypes) {
				t.Errorf("%s, need %d: status %+v", names[sit], n, st)
			}
			for _, c := range st.Conditions {
				if c.Reason == "" || c.Status != "True" && c.Status != "False" && c.Status != "Unknown" {
					t.Errorf("%s, need %d: condition %+v", names[sit], n, c)
				}
			}
		}
	}
}

// Two scopes of one server, in every pair of situations: never a start beside something that lives, or that cannot be told.
func TestTwoScopesOfOneServer(t *testing.T) {
	for a := range situations {
		for b := range situations {
			s := stands()
			other := stands().lanes[0]
			other.facts.Scope.Profile = "old"
			s.lanes = append(s.lanes, other)
			s.lanes[0].put(a)
			s.lanes[1].put(b)
			s.granted = true
			d := decide(s, noon)
			if d.order != nil && d.order.Start != nil && (a != vacant || b != vacant) {
				t.Errorf("%d beside %d: a start", a, b)
			}
			if o := d.order; o != nil && (a == blocked || a == unverified) && o.Scope == s.lanes[0].facts.Scope ||
				o != nil && (b == blocked || b == unverified) && o.Scope == s.lanes[1].facts.Scope {
				t.Errorf("%d beside %d: %s in a scope that cannot be told", a, b, d.word())
			}
			if b == up && (a == up || a == stopping) && d.word() != "Stop ProfileChanged" {
				t.Errorf("%d beside the old profile's run: %s", a, d.word())
			}
		}
	}
}

// Random facts and wishes, most of them never to be met: what holds of every decision.
func TestDecideProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	chance := func(n int) bool { return rng.IntN(n) == 0 }
	for range 20000 {
		s := stands()
		if chance(3) {
			other := stands().lanes[0]
			other.facts.Scope.Profile = "old"
			other.put(situation(rng.IntN(int(situations))))
			s.lanes = append(s.lanes, other)
		}
		s.want(need(rng.IntN(int(needs))))
		s.granted = chance(2)
		s.lanes[0].put(situation(rng.IntN(int(situations))))
		if chance(5) {
			s.lanes = s.lanes[1:]
		}
		if chance(4) {
			s.mem.Hold = &Hold{State: []string{spec.WishRunning, spec.WishStopped}[rng.IntN(2)], By: "anna", Until: noon.Wall.Add(time.Duration(rng.IntN(3)-1) * time.Hour)}
		}
		if chance(8) {
			s.mem, s.good = nil, nil
		}
		s.closing, s.busy, s.heard = chance(10), chance(5), !chance(10)

		d := decide(s, noon)
		if again := decide(s, noon); !reflect.DeepEqual(d, again) {
			t.Fatalf("decided twice, differently: %+v, %+v", d, again)
		}
		if d.order == nil {
			continue
		}
		if s.busy || !s.heard {
			t.Fatalf("%s while an order is in flight, or the keeper not heard", d.word())
		}
		var here *lane
		for _, l := range s.lanes {
			if l.facts.Scope == d.order.Scope {
				here = l
			}
			if sit := situationOf(l.facts); d.order.Start != nil && sit != vacant {
				t.Fatalf("a start while a scope is in situation %d", sit)
			}
		}
		switch {
		case d.order.Start != nil:
			if s.closing || d.wish.state != spec.WishRunning || s.mem == nil || s.mem.UID == "" {
				t.Fatalf("a start against the wish %+v", d.wish)
			}
		case here == nil:
			t.Fatalf("%s in a scope without a record", d.word())
		case here.facts.Blocked != "" || here.facts.Run.Alive == observe.Unknown && !here.facts.Run.Over():
			t.Fatalf("%s in a scope that cannot be told", d.word())
		case d.order.Stop != nil && d.order.Stop.Reason == spec.ReasonStopRequested:
			unchanged := s.selected(here) && here.facts.Run.SpecHash == s.good.specHash && s.mem.Restart == nil
			if unchanged && d.wish.intent == intentRun || d.wish.intent == intentKeep {
				t.Fatalf("I8: %s for a wish that did not change", d.word())
			}
		}
	}
}

// The plan, carried out, is a plan of nothing: whatever happened before, in whatever order.
func TestStories(t *testing.T) {
	for seed := range uint64(400) {
		tellStory(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func tellStory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	h := newHost(t)
	servers, profiles := []string{"a", "b", "c"}, []string{"one", "two"}
	pick := func(from []string) string { return from[rng.IntN(len(from))] }
	edit := func(p *spec.ProfileSpec) { p.Actions.Start.Args = []string{fmt.Sprint(rng.IntN(3))} }
	h.profile("one")
	h.profile("two")
	for range 40 {
		name := pick(servers)
		switch rng.IntN(16) {
		case 0, 1:
			h.server(name, pick(profiles))
		case 2:
			h.server(name, pick(profiles), stopped)
		case 3:
			h.remove(name)
		case 4:
			h.profile(pick(profiles), edit)
		case 5:
			delete(h.profiles, pick(profiles))
			h.publish()
		case 6, 7:
			for scope, f := range h.records {
				if scope.Server == name && !f.Run.Over() {
					h.crash(scope.Server, scope.Profile)
				}
			}
		case 8:
			h.restart()
		case 9:
			h.hidden = !h.hidden
		case 10:
			h.ignoresTerm[name] = !h.ignoresTerm[name]
		case 11:
			h.loop.Submit([]Action{ActionStop, ActionStart, ActionRestart, ActionRelease}[rng.IntN(4)], Ask{Server: key(name), By: "anna", Force: rng.IntN(2) == 0, For: time.Duration(rng.IntN(2)) * time.Minute})
		case 12:
			h.wall = h.wall.Add(time.Duration(rng.IntN(49)-24) * time.Hour)
		case 13:
			h.pass(time.Duration(rng.IntN(600)) * time.Second)
		case 14:
			h.diskErr = []error{nil, errBusy}[rng.IntN(2)]
		case 15:
			h.refuse = map[string]error{pick([]string{"Start", "Stop", "Step", "ApplyLive", "Archive"}): []error{nil, errBusy}[rng.IntN(2)]}
		}
		h.settle()
	}
	// Calm: faults end, everybody's wish is met, and nothing is left to do.
	h.hidden, h.diskErr = false, nil
	clear(h.refuse)
	h.pass(60 * 24 * time.Hour)
	h.took()
	h.restart()
	h.pass(60 * 24 * time.Hour)
	h.wantOrders()
	for _, v := range h.loop.Snapshot().Servers {
		lives := false
		for _, f := range v.Facts {
			lives = lives || !f.Run.Over()
		}
		accepted := conditionOf(v, spec.ConditionAccepted)
		switch {
		case v.Removing:
			t.Errorf("%s is still there", v.Key)
		case h.memories[storeKey(v.Key)].Launch != nil && lives != (v.Wish == spec.WishRunning):
			t.Errorf("%s shall be %s; lives: %v", v.Key, v.Wish, lives)
		case accepted.Status == "True" && lives && v.Status.Run.Number > 0 && v.Facts[0].Scope.Profile != v.Profile:
			t.Errorf("%s runs under %s, not %s", v.Key, v.Facts[0].Scope.Profile, v.Profile)
		}
	}
}
