package sim

import (
	"fmt"
	"maps"
	"slices"

	"reconciler.dev/reconciler/spec"
)

// wish is what people want (the files), and what the source has published of it.
type wish struct {
	profiles  map[string]profileText
	servers   map[string]serverText
	published *spec.Set
	cache     map[string]spec.File
	jobs      map[string]jobText

	scheduled    bool                                // a profile has had schedules
	acceptedJobs map[string]*spec.Accepted[spec.Job] // by text, so that an unchanged one keeps its pointer
}

// profileText is what a profile's file says.
type profileText struct {
	ladder  int // index into ladders
	log     bool
	probes  int  // index into probes, without log
	slow    bool // ask seldom
	initial int  // restart.initialSeconds
	policy  string
	exits   int // index into exitRules
	most    int // disruption.maxUnavailable
	comes   int // index into schedules
	broken  bool
}

// serverText is what a server's file says.
type serverText struct {
	profile string
	stopped bool
	v       int
	port    int    // of its endpoint, from firstPort on: another may have the same
	after   string // the server that it depends on; "" = none
	broken  bool   // the file cannot be read as a manifest: its last good content counts
	good    *serverText
}

// firstPort is the first of the ports that servers declare.
const firstPort = 8212

func (s serverText) String() string {
	return fmt.Sprintf("profile %s, v %d, port %d, after %q, stopped %v, broken %v", s.profile, s.v, firstPort+s.port, s.after, s.stopped, s.broken)
}

var ladders = []string{
	"[{signal: {name: SIGTERM}, waitSeconds: 5}]",
	"[{signal: {name: SIGINT}, waitSeconds: 2}, {signal: {name: SIGTERM, to: Tree}, waitSeconds: 3}]",
	"[{console: {line: save, expect: saved}, waitFor: Done, waitSeconds: 4}, {console: {line: exit}, waitSeconds: 2}, {signal: {name: SIGTERM}, waitSeconds: 1}]",
	"[{console: {line: save, expect: saved}, waitSeconds: 1}, {signal: {name: SIGINT, to: Tree}, waitSeconds: 1}, {console: {line: exit}, waitFor: Done, waitSeconds: 2}]",
	"[{http: {endpoint: rest, method: POST, path: /save}, waitFor: Done, waitSeconds: 4}, {http: {endpoint: rest, path: /exit}, waitSeconds: 2}, {signal: {name: SIGTERM, to: Tree}, waitSeconds: 1}]",
	"[{exec: {args: [stop]}, waitFor: Done, waitSeconds: 2}, {exec: {}, waitSeconds: 3}, {signal: {name: SIGTERM}, waitSeconds: 1}]",
	"[{signal: {name: SIGUSR1}, waitFor: Done, waitSeconds: 2}, {signal: {name: SIGQUIT}, waitSeconds: 3}, {signal: {name: SIGTERM}, waitSeconds: 1}]",
}

var exitRules = []string{
	"[]",
	"[{codes: [0], action: Complete}, {codes: [3], action: Fail}]",
	"[{codes: [0, 143], action: Restart}, {signals: [SIGSEGV], action: Complete}]",
	"[{signals: [SIGUSR1, SIGTERM], action: Fail}, {codes: [3], action: Restart}, {codes: [0, 3], action: Backoff}]",
}

func newWish() *wish {
	return &wish{
		profiles: map[string]profileText{"p": {most: 1, initial: 1, policy: "Always", probes: 1}, "q": {ladder: 1, most: 0, initial: 2, policy: "Always", exits: 3, log: true, probes: 1}},
		servers:  map[string]serverText{},
		cache:    map[string]spec.File{},
		jobs:     map[string]jobText{}, acceptedJobs: map[string]*spec.Accepted[spec.Job]{},
	}
}

func (s *wish) Latest() *spec.Set        { return s.published }
func (s *wish) Changed() <-chan struct{} { return nil }

func (p profileText) text(name string) string {
	period := shortPeriod
	if p.slow {
		period = longPeriod
	}
	probe := ""
	if p.probes > 0 {
		probe = fmt.Sprintf(probes[p.probes], period)
	}
	if p.log {
		probe += "  readinessProbe: {log: {contains: [ready]}}\n"
	}
	secret, env, args := "", "", "[$(v)]"
	if name == "p" { // here a new v is a new file
		secret, env, args = ", {name: s, type: Secret}", "  env: [{name: S, value: $(s)}]\n  files: [{path: v, content: $(v)}]\n", "[]"
	}
	return fmt.Sprintf(`apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: %s}
spec:
  parameters: [{name: v, type: Integer, default: 1}, {name: port, type: Integer}%s]
  actions:
    start: {executable: bin/x, args: %s}
    stop: {steps: %s}
    commands:
    - {name: backup, exec: {args: [backup]}, timeoutSeconds: 5}
    - {name: poke, signal: {name: SIGHUP}}
    - {name: migrate, exec: {args: [migrate]}, requires: Stopped, timeoutSeconds: 5}
    - {name: round, exec: {args: [round]}, before: [poke], after: [poke], timeoutSeconds: 5}
    - {name: move, exec: {args: [move]}, requires: Stopped, before: [poke], after: [poke], timeoutSeconds: 5}
  console: {input: Stdin}
  endpoints: [{name: rest, port: $(port)}]
  restart: {policy: %s, initialSeconds: %d, exits: %s}
  disruption: {maxUnavailable: %d, announce: %s}
  schedules: %s
%s`, name, secret, args, ladders[p.ladder], p.policy, p.initial, exitRules[p.exits], p.most, announcements[p.comes], schedules[p.comes], env+probe)
}

func (s serverText) text(name string) string {
	state := spec.WishRunning
	if s.stopped {
		state = spec.WishStopped
	}
	secret := ""
	if s.profile == "p" {
		secret = ", s: shared/s"
	}
	after := ""
	if s.after != "" {
		after = ", dependsOn: [{name: " + s.after + "}]"
	}
	return fmt.Sprintf(`apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: %s}
spec: {profile: %s, state: %s, parameters: {v: %d, port: %d%s}%s}
`, name, s.profile, state, s.v, firstPort+s.port, secret, after)
}

// decode is the shipped decoder, asked once for each text, so that an unchanged object keeps its pointer.
func (s *wish) decode(text string) spec.File {
	f, ok := s.cache[text]
	if !ok {
		f = spec.Decode("sim.yaml", []byte(text))
		s.cache[text] = f
	}
	return f
}

// policy is what a profile's file says of restarts.
func (s *wish) policy(profile string) *spec.RestartPolicy {
	r := s.decode(s.profiles[profile].text(profile)).Documents[0].Profile.Spec.Restart
	return &spec.RestartPolicy{Policy: r.Policy, Exits: r.Exits}
}

// publish makes a Set of the files as they are. A partial one is what a source has before it has read everything.
func (s *wish) publish(known bool, keep func() bool) {
	set := &spec.Set{Profiles: map[spec.Key]*spec.Accepted[spec.Profile]{}, Servers: map[spec.Key]*spec.Accepted[spec.Server]{}, Known: known}
	for _, name := range slices.Sorted(maps.Keys(s.profiles)) {
		p := s.profiles[name]
		if known || keep() {
			key := spec.Key{Namespace: spec.DefaultNamespace, Name: name}
			set.Profiles[key] = &spec.Accepted[spec.Profile]{Object: s.decode(p.text(name)).Documents[0].Profile}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.servers)) {
		v := s.servers[name]
		if v.broken {
			if v.good == nil {
				continue
			}
			v = *v.good
		}
		if known || keep() {
			key := spec.Key{Namespace: spec.DefaultNamespace, Name: name}
			set.Servers[key] = &spec.Accepted[spec.Server]{Object: s.decode(v.text(name)).Documents[0].Server, Stale: v.broken}
		}
	}
	s.publishJobs(set, known, keep)
	s.published = set
}

// of is what a server's file wants, its last good content when it is broken; false = there is no such server.
func (s *wish) of(name string) (serverText, bool) {
	v, ok := s.servers[name]
	if ok && v.broken {
		if v.good == nil {
			return serverText{}, false
		}
		return *v.good, true
	}
	return v, ok
}
