package apitest

import (
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Now is the moment at which [Sample] is looked at.
var Now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// Canary stands, in [Sample], wherever something is that must not be shown to the public: arguments, values of the
// environment, identifiers of runs.
const Canary = "canary-7f3a"

const sampleManifest = `apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: openttd, labels: {game: openttd}}
spec:
  parameters:
  - {name: port, type: Integer, default: 3979}
  actions:
    start: {workspace: usr, executable: games/openttd, args: [-D, "canary-7f3a:$(port)"]}
  env: [{name: TOKEN, value: canary-7f3a}]
  endpoints: [{name: game, port: $(port)}]
  readinessProbe: {log: {contains: [game started]}}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: town, labels: {game: openttd, tier: prod}, annotations: {owner: "team a"}}
spec: {profile: openttd, parameters: {port: 3980}}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: village, labels: {game: openttd}}
spec: {profile: openttd, x-note: kept}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: hamlet}
spec: {profile: openttd, state: Stopped}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: proxy, namespace: edge}
spec: {profile: openttd}
`

// Sample is a snapshot with one server in each state that people meet: Ready, backing off, held, and in another namespace.
func Sample() *reconcile.Snapshot {
	file := spec.Decode("games.yaml", []byte(sampleManifest))
	if len(file.Faults) > 0 {
		panic(file.Faults[0].Error())
	}
	snap := &reconcile.Snapshot{Rev: 42, At: Now, Keeper: true, Known: true, Jobs: sampleJobViews(), Sources: sampleSources()}
	for _, d := range file.Documents {
		if d.Profile != nil {
			snap.Profiles = append(snap.Profiles, &reconcile.ProfileView{
				Key: d.Key, Object: d.Profile, Servers: 3, Source: spec.SourceStatus{File: "games.yaml", Revision: sampleRevision}})
		}
		if d.Server != nil {
			snap.Servers = append(snap.Servers, sampleServer(d))
		}
	}
	// By key: default/hamlet, default/town, default/village, edge/proxy.
	s := snap.Servers
	snap.Servers = []*reconcile.ServerView{s[2], s[0], s[1], s[3]}
	return snap
}

const sampleRevision = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"

func sampleSources() []spec.SourceState {
	return []spec.SourceState{{
		Name: "manifests", Revision: sampleRevision, Dirty: true, Complete: true, LastSuccess: Now.Add(-3 * time.Second),
		Objects: map[string]int{"accepted": 5, "stale": 0, "absent": 0, "invalid": 1, "conflict": 0},
		Files: []spec.FileState{
			{Path: "bad.yaml", State: spec.FileInvalid, Faults: []spec.Fault{{
				File: "bad.yaml", Line: 4, Column: 9, Field: "spec.profil", Kind: spec.FaultInvalid, Detail: "unknown field; did you mean 'profile'?"}}},
			{Path: "games.yaml", State: spec.FileAccepted},
			{Path: "notes.yaml", State: spec.FileSkipped, Reason: "neither apiVersion nor kind at the top"},
		},
	}}
}

func sampleServer(d spec.Document) *reconcile.ServerView {
	v := &reconcile.ServerView{
		Key: d.Key, Object: d.Server, Profile: "openttd", UID: "5e1c1bb0-2d32-4b5e-9d6f-0b8f5e3f7a11", CreatedAt: Now.Add(-26 * time.Hour),
		Generation: 2, Wish: spec.WishRunning, Rev: 40,
	}
	v.Status = spec.ServerStatus{
		ObservedGeneration: 2,
		Source:             &spec.SourceStatus{File: "games.yaml", Document: d.Index, Revision: sampleRevision},
	}
	switch d.Key.Name {
	case "town":
		running(v)
	case "village":
		backingOff(v)
	default:
		stopped(v, d.Key.Name == "proxy")
	}
	return v
}

func ref[T any](v T) *T { return &v }

// conditions are the eight, with those that are not as usual given.
func conditions(ready, running string, special ...spec.Condition) []spec.Condition {
	base := map[string]spec.Condition{
		spec.ConditionAccepted:           {Status: "True", Reason: "Accepted"},
		spec.ConditionRunning:            {Status: running, Reason: "Alive"},
		spec.ConditionEndpointsReachable: {Status: "Unknown", Reason: "NotChecked"},
		spec.ConditionReady:              {Status: ready, Reason: "ProbeSucceeded"},
		spec.ConditionCrashLoop:          {Status: "False", Reason: "Stable"},
		spec.ConditionRestartPending:     {Status: "False", Reason: "UpToDate"},
		spec.ConditionReconciling:        {Status: "False", Reason: "AsWanted"},
		spec.ConditionStalled:            {Status: "False", Reason: "NotStalled"},
	}
	for _, c := range special {
		base[c.Type] = c
	}
	var out []spec.Condition
	for _, t := range spec.ConditionTypes {
		c := base[t]
		c.Type, c.ObservedGeneration, c.LastTransitionTime = t, 2, Now.Add(-time.Hour)
		out = append(out, c)
	}
	return out
}

func facts(v *reconcile.ServerView, run *observe.RunFacts, exits ...state.Exit) *observe.Facts {
	return &observe.Facts{
		Scope: spec.Scope{Namespace: v.Key.Namespace, Server: v.Key.Name, Profile: v.Profile},
		Rev:   7, UID: v.UID, Run: run, Exits: exits,
		Counters: state.Counters{Starts: int64(len(exits)) + 1, Restarts: int64(len(exits)), LogBytes: 4096},
	}
}

func running(v *reconcile.ServerView) {
	start := Now.Add(-2 * time.Hour)
	v.Status.State = spec.StateRunning
	v.Status.Conditions = conditions("True", "True")
	v.Status.Run = &spec.RunStatus{Number: 2, StartedAt: &start, ReadyAt: ref(start.Add(3 * time.Second)), Restarts: 1}
	v.Status.Players = &spec.PlayersStatus{Count: ref(7), At: Now.Add(-3 * time.Minute)}
	v.Status.Schedules = []spec.ScheduleStatus{
		{Name: "backup", NextAt: ref(Now.Add(50 * time.Minute)), LastAt: ref(Now.Add(-10 * time.Minute)), LastJob: "town-backup-29543750"},
		{Name: "restart", NextAt: ref(Now.Add(-time.Minute)), Missed: 3},
	}
	exit := spec.ExitStatus{
		Class: spec.Expected, Reason: spec.ReasonStopRequested, ExitCode: ref(0),
		StartedAt: ref(Now.Add(-26 * time.Hour)), FinishedAt: start.Add(-time.Second), StopStep: ref(1),
	}
	v.Status.LastExit = &exit
	v.Status.LastAction = &spec.ActionStatus{Type: "Restart", By: "root", At: start.Add(-2 * time.Second)}
	v.Facts = []*observe.Facts{facts(v, &observe.RunFacts{
		Number: 2, ID: Canary, Phase: state.Started, SpecHash: Canary, LiveHash: Canary, Cause: "Requested", By: "root",
		StartedAt: start, ReadyAt: start.Add(3 * time.Second), Alive: observe.Alive,
	}, state.Exit{Number: 1, RunID: Canary, Generation: 1, Why: "Restart", By: "root", Cause: "Wanted", ExitStatus: exit})}
	v.Events = []reconcile.Event{
		{Type: reconcile.EventNormal, Reason: "Started", Message: "run 2 was started (Requested)", Count: 1, FirstSeen: start, LastSeen: start},
		{Type: reconcile.EventNormal, Reason: "Ready", Message: "run 2 is ready", Count: 1, FirstSeen: start.Add(3 * time.Second), LastSeen: start.Add(3 * time.Second)},
	}
}

func backingOff(v *reconcile.ServerView) {
	end := Now.Add(-20 * time.Second)
	v.Status.State = spec.StateBackOff
	v.Status.NextStartAt = ref(Now.Add(40 * time.Second))
	v.Status.Conditions = conditions("False", "False",
		spec.Condition{Type: spec.ConditionRunning, Status: "False", Reason: "BackOff", Message: "waits for its next try"},
		spec.Condition{Type: spec.ConditionReady, Status: "False", Reason: "BackOff", Message: "not running"},
		spec.Condition{Type: spec.ConditionCrashLoop, Status: "True", Reason: "BackOff", Message: "ended 7 times in a row"})
	v.Status.Run = &spec.RunStatus{Number: 8, StartedAt: ref(end.Add(-2 * time.Second)), Restarts: 7}
	exit := spec.ExitStatus{
		Class: spec.Unexpected, Reason: spec.ReasonSignaled, Signal: "SIGSEGV", CoreDumped: true,
		StartedAt: ref(end.Add(-2 * time.Second)), FinishedAt: end,
	}
	v.Status.LastExit = &exit
	v.Facts = []*observe.Facts{facts(v, &observe.RunFacts{Number: 8, ID: Canary, Phase: state.Exited, Cause: "Crashed"},
		state.Exit{Number: 8, RunID: Canary, Generation: 2, Cause: "Crashed", ExitStatus: exit})}
	v.Events = []reconcile.Event{{
		Type: reconcile.EventWarning, Reason: "Exited", Message: "run 8 ended: Signaled, SIGSEGV", Count: 7, FirstSeen: Now.Add(-10 * time.Minute), LastSeen: end}}
}

func stopped(v *reconcile.ServerView, held bool) {
	v.Status.State = spec.StateStopped
	v.Wish = spec.WishStopped
	v.Status.Conditions = conditions("False", "False",
		spec.Condition{Type: spec.ConditionRunning, Status: "False", Reason: "Stopped"},
		spec.Condition{Type: spec.ConditionReady, Status: "False", Reason: "Stopped"})
	if held {
		v.Status.Leftovers = "Unknown"
		v.Status.Hold = &spec.HoldStatus{State: spec.WishStopped, Reason: "host maintenance", By: "root", Since: Now.Add(-time.Minute), Until: ref(Now.Add(29 * time.Minute))}
	}
}
