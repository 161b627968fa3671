package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/probe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// host is everything around a loop: a keeper that obeys at once, a store, a source, a clock, and processes that do what the
// test says. Its parts may be used by several goroutines.
type host struct {
	t  testing.TB
	mu sync.Mutex

	wall   time.Time
	uptime time.Duration
	boot   string

	records map[spec.Scope]*observe.Facts
	hidden  bool // the keeper has not been heard whole
	rev     uint64
	runs    int
	orders  []string // that were carried out, in words

	ignoresTerm map[string]bool  // servers whose process does not end on SIGTERM
	refuse      map[string]error // by order kind: what the keeper answers
	lateFacts   bool             // Facts stays as it is
	shown       []*observe.Facts

	memories map[string]Memory
	diskErr  error
	uids     int

	set      *spec.Set
	profiles map[string]*spec.Accepted[spec.Profile]
	servers  map[string]*spec.Accepted[spec.Server]

	heard   map[string]observe.Listening // by endpoint: who listens, if not the run's own processes
	blind   bool                         // it cannot be looked who listens
	looked  int
	asked   map[string]string // by endpoint: the address that a probe was sent to last
	checks  map[string]error  // by endpoint: what a probe finds
	checked int
	counted int
	players int
	probed  map[spec.Purpose]int // how often the keeper was asked
	finds   map[spec.Purpose]observe.Probed
	left    int // the port of a server where nobody plays; 0 = there is none

	jobs     map[string]JobMemory
	wanted   map[string]*spec.Accepted[spec.Job]
	commands commands

	allows *spec.HostView

	loop *Loop
}

var errBusy = errors.New("nothing there answers")

var openHost = spec.HostView{Workspaces: map[string]string{"usr": "/usr", "data": "/data"}}

func newHost(t testing.TB) *host {
	h := &host{
		t: t, wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), uptime: time.Hour, boot: "boot-1",
		records: map[spec.Scope]*observe.Facts{}, ignoresTerm: map[string]bool{}, refuse: map[string]error{},
		memories: map[string]Memory{}, profiles: map[string]*spec.Accepted[spec.Profile]{},
		servers: map[string]*spec.Accepted[spec.Server]{}, checks: map[string]error{}, heard: map[string]observe.Listening{}, asked: map[string]string{},
		probed: map[spec.Purpose]int{}, finds: map[spec.Purpose]observe.Probed{},
		jobs: map[string]JobMemory{}, wanted: map[string]*spec.Accepted[spec.Job]{}, commands: newCommands(), allows: &openHost,
	}
	h.restart()
	return h
}

// restart makes a new loop of what the store has, as after a crash of the reconciler.
func (h *host) restart() {
	h.loop = New(Options{
		Executor: h, Source: h, Clock: ClockFunc(h.now), Store: h, Jobs: jobTable{h}, Checker: h, Host: func() *spec.HostView { return h.allows },
		NewUID: func() string { h.uids++; return fmt.Sprintf("uid-%d", h.uids) },
	})
}

func (h *host) now() state.Moment {
	return state.Moment{Wall: h.wall, BootID: h.boot, Uptime: h.uptime}
}

// settle turns until nothing is left to do now.
func (h *host) settle() {
	h.t.Helper()
	for range 1000 {
		orders, wake := h.loop.Turn(h.now())
		if len(orders) == 0 && (wake == 0 || wake > h.uptime) {
			return
		}
		for _, o := range orders {
			h.loop.Done(h.now(), o, o.CarryOut(context.Background(), h, h, jobTable{h}, h))
		}
	}
	h.t.Fatalf("the loop does not come to rest; its last orders: %q", h.orders[max(0, len(h.orders)-10):])
}

// pass lets time go by, turning whenever the loop asks for it.
func (h *host) pass(d time.Duration) {
	h.t.Helper()
	h.settle()
	for end := h.uptime + d; h.uptime < end; {
		_, wake := h.loop.Turn(h.now())
		next := end
		if wake > h.uptime && wake < end {
			next = wake
		}
		h.wall, h.uptime = h.wall.Add(next-h.uptime), next
		h.settle()
	}
}

// took returns the orders since the last call.
func (h *host) took() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.orders
	h.orders = nil
	return list
}

func (h *host) wantOrders(want ...string) {
	h.t.Helper()
	if got := h.took(); !slices.Equal(got, want) {
		h.t.Fatalf("orders:\n got %q\nwant %q", got, want)
	}
}

func (h *host) view(name string) *ServerView {
	h.t.Helper()
	v := h.loop.Snapshot().Server(spec.Key{Namespace: "default", Name: name})
	if v == nil {
		h.t.Fatalf("the snapshot has no server %s", name)
	}
	return v
}

func (h *host) wantState(name string, want spec.ServerState) {
	h.t.Helper()
	if got := h.view(name).Status.State; got != want {
		h.t.Fatalf("%s is %s, want %s; conditions: %v", name, got, want, h.view(name).Status.Conditions)
	}
}

func (h *host) wantCondition(name, kind, status, reason string) {
	h.t.Helper()
	c := conditionOf(h.view(name), kind)
	if c.Status != status || c.Reason != reason {
		h.t.Fatalf("%s of %s is %s (%s, %q), want %s (%s)", kind, name, c.Status, c.Reason, c.Message, status, reason)
	}
}

// ask is a request that is carried through.
func (h *host) ask(action Action, a Ask) error {
	h.t.Helper()
	answer := h.loop.Submit(action, a)
	h.settle()
	select {
	case err := <-answer:
		return err
	default:
		h.t.Fatalf("%s of %s was not answered", action, a.Server)
		return nil
	}
}

func key(name string) spec.Key { return spec.Key{Namespace: "default", Name: name} }

func scopeOf(server, profile string) spec.Scope {
	return spec.Scope{Namespace: "default", Server: server, Profile: profile}
}

// The source.

func (h *host) Latest() *spec.Set        { return h.set }
func (h *host) Changed() <-chan struct{} { return nil }

// publish hands out a Set of all that is declared.
func (h *host) publish() {
	set := &spec.Set{Profiles: map[spec.Key]*spec.Accepted[spec.Profile]{}, Servers: map[spec.Key]*spec.Accepted[spec.Server]{}, Jobs: map[spec.Key]*spec.Accepted[spec.Job]{}, Known: true}
	for _, p := range h.profiles {
		set.Profiles[p.Object.Key()] = p
	}
	for _, s := range h.servers {
		set.Servers[s.Object.Key()] = s
	}
	for _, j := range h.wanted {
		set.Jobs[j.Object.Key()] = j
	}
	h.set = set
}

// profile declares a profile; each edit changes it before.
func (h *host) profile(name string, edits ...func(*spec.ProfileSpec)) {
	p := &spec.Accepted[spec.Profile]{Object: &spec.Profile{}, Source: spec.ObjectSource{File: name + ".yaml"}}
	p.Object.Meta = spec.Meta{Name: name, Namespace: "default"}
	p.Object.Spec.Actions.Start.Executable = "bin/" + name
	for _, edit := range edits {
		edit(&p.Object.Spec)
	}
	h.profiles[name] = p
	h.publish()
}

// server declares a server; each edit changes it before.
func (h *host) server(name, profile string, edits ...func(*spec.ServerSpec)) {
	s := &spec.Accepted[spec.Server]{Object: &spec.Server{}, Source: spec.ObjectSource{File: name + ".yaml"}}
	s.Object.Meta = spec.Meta{Name: name, Namespace: "default"}
	s.Object.Spec.Profile = profile
	for _, edit := range edits {
		edit(&s.Object.Spec)
	}
	h.servers[name] = s
	h.publish()
}

// remove takes a server out of the source.
func (h *host) remove(name string) {
	delete(h.servers, name)
	h.publish()
}

func args(values ...string) func(*spec.ProfileSpec) {
	return func(p *spec.ProfileSpec) { p.Actions.Start.Args = values }
}

func policy(name string) func(*spec.ProfileSpec) {
	return func(p *spec.ProfileSpec) { p.Restart = &spec.Restart{Policy: name} }
}

func stopped(s *spec.ServerSpec) { s.State = spec.WishStopped }

// The store.

func (h *host) All() map[string]Memory { return maps.Clone(h.memories) }

// Set keeps what a memory is after it was on disk.
func (h *host) Set(key string, m Memory) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var back Memory
	if err := json.Unmarshal(text, &back); err != nil {
		return err
	}
	h.memories[key] = back
	return h.diskErr
}

func (h *host) Delete(key string) error {
	delete(h.memories, key)
	return h.diskErr
}

func (h *host) Flush(context.Context) error { return h.diskErr }

// The probes.

func (h *host) Check(_ context.Context, e spec.LaunchEndpoint, p *spec.LaunchProbe) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checked++
	h.asked[e.Name] = e.Address
	if p.Endpoint() != e.Name {
		h.t.Errorf("endpoint %s is asked what %s is to be asked", e.Name, p.Endpoint())
	}
	return h.checks[e.Name]
}

// Probe is what the keeper finds, by what it is asked for: that all is well, if it is not said otherwise.
func (h *host) Probe(_ context.Context, o state.ProbeOrder) (observe.Probed, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.records[o.Scope]; f == nil || f.Run.ID != o.RunID {
		h.t.Errorf("%s is asked by a run that it does not have", o.Scope)
	}
	h.probed[o.For]++
	if a, ok := h.finds[o.For]; ok {
		return a, h.refuse["Probe"]
	}
	return observe.Probed{Result: observe.ProbePassed, Count: h.players}, h.refuse["Probe"]
}

func (h *host) Count(_ context.Context, e spec.LaunchEndpoint, _ *spec.LaunchPlayers) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counted++
	if h.left == e.Port {
		return 0, h.checks[e.Name]
	}
	return h.players, h.checks[e.Name]
}

var _ Checker = probe.Checker{}

// ticking is a clock that follows the time of a synctest bubble.
func (h *host) ticking(start time.Time) func() state.Moment {
	wall, uptime := h.wall, h.uptime
	return func() state.Moment {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.wall, h.uptime = wall.Add(time.Since(start)), uptime+time.Since(start)
		return h.now()
	}
}
