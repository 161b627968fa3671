package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// I10: nothing that is shown holds an argument, an environment value, a path, a hash, or the keeper's own words.
func TestNothingShownTellsSecrets(t *testing.T) {
	canaries := []string{"canary-arg", "canary-env", "bin/canary", "canary-dir", "canary-error", "/srv/canary"}
	value := "canary-env"
	h := newHost(t)
	h.refuse["Start"] = errors.New("open /srv/canary: canary-error")
	h.profile("game", args("canary-arg"), func(p *spec.ProfileSpec) {
		p.Actions.Start.Executable = "bin/canary"
		p.Env = []spec.EnvVar{{Name: "X", Value: &value}}
		p.Directory = &spec.Folder{Path: "canary-dir"}
	})
	h.server("town", "game")
	h.pass(time.Minute)
	look := func() {
		v := *h.view("town")
		for _, f := range v.Facts {
			if run := f.Run; run != nil {
				canaries = append(canaries, run.SpecHash, run.LiveHash, run.ID)
			}
		}
		v.Facts, v.Object = nil, nil
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range canaries {
			if strings.Contains(string(text), c) {
				t.Errorf("%q is shown: %s", c, text)
			}
		}
	}
	look()
	delete(h.refuse, "Start")
	h.pass(time.Minute)
	h.wantState("town", spec.StateRunning)
	look()
	h.crash("town", "game")
	h.settle()
	h.crash("town", "game")
	h.settle()
	look()
}

// A refusal that is public is shown in its own words.
type publicRefusal struct{ text string }

func (e publicRefusal) Error() string  { return "refused: " + e.text }
func (e publicRefusal) Public() string { return e.text }

func TestPublicRefusalIsShown(t *testing.T) {
	h := newHost(t)
	h.refuse["Start"] = fmt.Errorf("no: %w", publicRefusal{"workspace usr is not opened by this host"})
	h.profile("game")
	h.server("town", "game")
	h.pass(time.Minute)
	h.wantCondition("town", spec.ConditionStalled, "True", "Refused")
	if c := conditionOf(h.view("town"), spec.ConditionStalled); !strings.Contains(c.Message, "workspace usr is not opened") {
		t.Errorf("message %q", c.Message)
	}
}

// The word and the conditions that kstatus reads, for every way a server may stand.
func TestStates(t *testing.T) {
	exit := func(edits ...func(*state.Exit)) func(*standing) {
		return func(s *standing) {
			s.lanes[0].put(vacant)
			s.lanes[0].facts.Exits = []state.Exit{ended(1, time.Second, edits...), ended(2, time.Second, edits...)}
			s.lanes[0].facts.Run.Number = 2
			s.lanes[0].end = sighting{Number: 2, At: state.Moment{Wall: ended(2, time.Second).FinishedAt, Uptime: noon.Uptime}}
		}
	}
	under := func(policy string, edits ...func(*state.Exit)) func(*standing) {
		return func(s *standing) {
			exit(edits...)(s)
			s.good.launch.Restart.Policy = policy
		}
	}
	for _, c := range []struct {
		what                        string
		edit                        func(*standing)
		state                       spec.ServerState
		ready, reconciling, stalled string
	}{
		{"it runs", func(*standing) {}, spec.StateRunning, "True", "False", "False"},
		{"it is being started", func(s *standing) { s.lanes[0].put(launching) }, spec.StateStarting, "False", "True", "False"},
		{"it was never Ready", func(s *standing) {
			s.lanes[0].facts.Run.Readiness = &spec.LaunchProbe{Log: []string{"x"}}
		}, spec.StateStarting, "False", "True", "False"},
		{"it is not Ready any more", func(s *standing) {
			s.lanes[0].facts.Run.Readiness = &spec.LaunchProbe{Socket: &spec.SocketProbe{Endpoint: "x"}}
			s.lanes[0].facts.Run.ReadyAt = epoch
			s.probing = probing{runID: "run-1"}
			s.probing.readiness.tally.Results = 3
		}, spec.StateRunning, "False", "False", "False"},
		{"it stops", func(s *standing) { s.lanes[0].put(stopping) }, spec.StateStopping, "False", "True", "False"},
		{"its main process left something", func(s *standing) { s.lanes[0].put(draining) }, spec.StateStopping, "False", "True", "False"},
		{"it shall be stopped and is", func(s *standing) { s.lanes[0].put(vacant); s.mem.State = spec.WishStopped }, spec.StateStopped, "False", "False", "False"},
		{"its record cannot be used", func(s *standing) { s.lanes[0].put(blocked) }, spec.StateBlocked, "Unknown", "False", "True"},
		{"its process cannot be told", func(s *standing) { s.lanes[0].put(unverified) }, spec.StateBlocked, "Unknown", "False", "True"},
		{"it waits after crashes", exit(), spec.StateBackOff, "False", "True", "False"},
		{"it has done its work", under(spec.RestartNever, code(0), expected(spec.ReasonCompleted)), spec.StateStopped, "False", "False", "False"},
		{"it failed for good", under(spec.RestartNever, code(1)), spec.StateFailed, "False", "False", "True"},
		{"it is about to start", func(s *standing) { s.lanes = nil }, spec.StatePending, "False", "True", "False"},
		{"it cannot be started", func(s *standing) {
			s.lanes = nil
			d := decide(s, noon)
			for range stalledAfter {
				s.attempt.note(*d.order, errBusy, noon.Uptime)
			}
		}, spec.StatePending, "False", "False", "True"},
		{"a change waits", func(s *standing) { s.lanes[0].facts.Run.SpecHash = "old" }, spec.StateRunning, "True", "True", "False"},
	} {
		s := stands()
		c.edit(s)
		o := outlook{keeper: true, recorded: true, object: &spec.Accepted[spec.Server]{Object: &spec.Server{}}}
		d := decide(s, noon)
		st := statusOf(s, &o, &d, noon)
		v := &ServerView{Status: st}
		got := []string{conditionOf(v, spec.ConditionReady).Status, conditionOf(v, spec.ConditionReconciling).Status, conditionOf(v, spec.ConditionStalled).Status}
		if st.State != c.state || !slices.Equal(got, []string{c.ready, c.reconciling, c.stalled}) {
			t.Errorf("%s: %s, ready, reconciling, stalled %q; want %s, %q", c.what, st.State, got, c.state, []string{c.ready, c.reconciling, c.stalled})
		}
	}
}

// The transition times are the same before and after our restart, as far as facts tell them.
func TestTransitionTimesSurviveOurRestart(t *testing.T) {
	h := newHost(t)
	h.profile("game", logProbe)
	h.server("runs", "game")
	h.server("off", "game", stopped)
	h.pass(time.Minute)
	h.logs("runs", "game")
	h.pass(time.Minute)
	h.server("off2", "game")
	h.settle()
	h.server("off2", "game", stopped)
	h.pass(time.Minute)
	for _, name := range []string{"runs", "off", "off2"} {
		before := h.view(name).Status.Conditions
		h.pass(time.Hour)
		h.restart()
		h.settle()
		for i, c := range h.view(name).Status.Conditions {
			if !c.LastTransitionTime.Equal(before[i].LastTransitionTime) || c.Status != before[i].Status {
				t.Errorf("%s, %s: %s since %v, before our restart %s since %v", name, c.Type, c.Status, c.LastTransitionTime, before[i].Status, before[i].LastTransitionTime)
			}
		}
	}
}

func TestEventsTellTheStory(t *testing.T) {
	h := newHost(t)
	h.profile("game", logProbe)
	h.server("town", "game")
	h.settle()
	h.logs("town", "game")
	h.settle()
	for range 3 {
		h.crash("town", "game")
		h.pass(10 * time.Second)
	}
	if err := h.ask(ActionStop, Ask{Server: key("town"), By: "anna", Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range h.view("town").Events {
		got = append(got, fmt.Sprintf("%s %s x%d: %s", e.Type, e.Reason, e.Count, e.Message))
	}
	want := []string{
		"Normal Accepted x1: it was accepted",
		"Normal Started x1: a run was started: Wanted",
		"Normal Ready x1: a text of the readinessProbe was printed",
		"Warning CrashLoop x1: it ended again and again",
		"Warning Exited x3: Unexpected, Signaled, SIGSEGV",
		"Warning BackOff x2: it waits before the next try",
		"Normal Started x3: a run was started: Crashed",
		"Normal Stop x1: asked for by anna: enough",
		"Normal Stopping x1: the run is being ended: Hold, by anna",
		"Normal Exited x1: Expected, StopRequested, SIGTERM",
	}
	if !slices.Equal(got, want) {
		t.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	h.restart()
	h.hidden = true // the first view is made before the keeper is heard
	h.settle()
	h.hidden = false
	h.settle()
	if events := h.view("town").Events; len(events) != 0 {
		t.Errorf("after our restart, when nothing happened: %+v", events)
	}
	if err := h.ask(ActionStart, Ask{Server: key("town"), By: "anna"}); err != nil {
		t.Fatal(err)
	}
	h.restart()
	h.hidden = true
	h.settle()
	h.hidden = false
	h.settle()
	if events := h.view("town").Events; len(events) != 1 || events[0].Reason != "Adopted" {
		t.Errorf("after our restart, when a run was there: %+v", events)
	}
}

func TestEventsAreBounded(t *testing.T) {
	var events []Event
	for i := range 3 * EventLimit {
		events = happen(events, EventNormal, "Reason", fmt.Sprint(i), epoch.Add(time.Duration(i)*time.Second))
	}
	if len(events) != EventLimit || events[EventLimit-1].Message != fmt.Sprint(3*EventLimit-1) {
		t.Errorf("%d events, the last %+v", len(events), events[len(events)-1])
	}
}

func TestLeftoversAreShown(t *testing.T) {
	for _, c := range []struct {
		tree observe.Tree
		over bool
		want string
	}{
		{observe.Tree{State: observe.TreePopulated, Count: 3}, false, "3"},
		{observe.Tree{State: observe.TreePopulated}, false, "Unknown"},
		{observe.Tree{State: observe.TreeUnknown}, true, "Unknown"},
		{observe.Tree{State: observe.TreeEmpty}, true, ""},
	} {
		run := &observe.RunFacts{Alive: observe.Dead, Tree: c.tree, Phase: state.Started}
		if c.over {
			run.Phase = state.Exited
		}
		if got := leftovers(run); got != c.want {
			t.Errorf("%+v: %q, want %q", c.tree, got, c.want)
		}
	}
}

// A snapshot that was handed out never changes.
func TestSnapshotsAreImmutable(t *testing.T) {
	h := newHost(t)
	h.profile("game")
	h.server("town", "game")
	h.server("vale", "game")
	h.settle()
	before := h.loop.Snapshot()
	text, _ := json.Marshal(before)
	h.crash("town", "game")
	h.settle()
	h.remove("vale")
	h.pass(time.Minute)
	after := h.loop.Snapshot()
	if again, _ := json.Marshal(before); string(again) != string(text) {
		t.Error("the old snapshot changed")
	}
	if after.Rev <= before.Rev || len(after.Servers) != 1 {
		t.Errorf("rev %d after %d, %d servers", after.Rev, before.Rev, len(after.Servers))
	}
	if after.Server(key("vale")) != nil || before.Server(key("vale")) == nil || after.Profile(key("game")).Servers != 1 {
		t.Error("the snapshots do not tell the removal")
	}
}
