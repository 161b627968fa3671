package keeper

import (
	"cmp"
	"container/list"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Records is what [Core] needs of the store; a [state.Store] is one.
type Records interface {
	Put(*state.Record) error
	// PutProgress is Put of a record that differs from the last in how far its run's start has come.
	PutProgress(*state.Record, state.Progress) error
	Archive(spec.Scope) error
	Retire(context.Context, spec.Scope) error
}

// Core is the keeper's logic. Orders and events for different scopes may come at the same time, those for one scope wait for each other.
type Core struct {
	kernel  Kernel
	records Records
	changed func() // called after facts have changed, without locks; never nil

	mu     sync.Mutex
	host   *Host
	scopes map[spec.Scope]*scope
	// servers has the same scopes by server, and starting those of whom a start is under way, one a server.
	servers  map[spec.Key][]*scope
	starting map[spec.Key]spec.Scope
	numbers  map[spec.Scope]int64 // of the last run of scopes that were archived in this keeper's life
	rev      uint64
	recent   *list.List // of *observe.Facts, by Rev
	// floor is the newest revision of a dropped tombstone: who knows less has to be told everything.
	floor     uint64
	gone      int // tombstones in recent
	unsettled map[spec.Scope]struct{}
	entrusted map[spec.Scope]struct{} // with live runs that were executed with secrets
}

// scope is what is known of one scope. Everything below mu belongs to whoever holds it.
type scope struct {
	name spec.Scope

	// What came while somebody else had the scope: he looks again before he lets go of it.
	poked atomic.Bool
	heard atomic.Int64         // number of the run that printed a literal of its log probe
	spoke atomic.Int64         // number of the run that said that it is ready
	said  atomic.Pointer[sign] // that it lives; nil = none has

	mu      sync.Mutex
	removed bool          // the scope was archived or retired; the table has another one or none
	rec     *state.Record // as it is on disk; nil = none, or none that can be used
	blocked string        // why nothing may be done here; "" = it may
	claimed bool          // another record claims the same process: looking again cannot help

	proc   Process         // the main process, until it is reaped
	dead   bool            // it has ended, whether or not that is on record
	exit   *state.MainExit // how, as long as that is not on record
	gone   string          // why nothing can be learned of its end; "" = it can
	reboot bool            // the run was of another boot: nothing of it can live
	never  never           // the run ends without having run
	totals *LogTotals
	tree   observe.Tree
	remain []remains // of runs that are over
	litter []remains // of programs that are over
	pump   bool      // its output is attached
	again  bool      // something failed that has to be tried again
	told   look      // what was published last

	changed *observe.ChangedSecrets // of the live run

	listened sign // since when its run is listened to for signs of life; another run's number = it is not

	numbered bool  // logged was looked up; since then numbers are on record before there is a log
	logged   int64 // the highest number of a run that had a log then

	probes   map[spec.Purpose]*probeProgram
	programs map[string]*program // those that are open on record, by their ids; one that is missing is a predecessor's

	// Deliveries that this core handed to its kernel and whose end is not on record, and who asks for it.
	flying map[DeliveryRef]bool
	askers map[string][]func(state.Delivery, Outcome)
	unsaid map[DeliveryRef]string // lines for a terminal whose text goes on record with their end
	typing *typing                // who is at the live run's terminal; nil = nobody
	// What has come of them: written by events, which do not wait for whoever has the scope.
	news    sync.Mutex
	arrived []arrived

	// What is shown of it, guarded by Core.mu.
	entry  *list.Element // of Core.recent
	shown  Place         // of the live run; the zero value without one
	record *state.Record // nil = none
}

// remains is what a run that is over may have left: its zombie, its folder, its cgroup.
type remains struct {
	proc  Process // nil = none
	place Place
}

// look is all that facts are made of.
type look struct {
	rec     *state.Record
	tree    observe.Tree
	dead    bool
	blocked string
}

func (s *scope) now() look { return look{s.rec, s.tree, s.dead, s.blocked} }

// never says that nothing of a run's workload ran, and why; the zero value says that it may have.
type never struct {
	reason  spec.ExitReason
	message string // public
}

// NewCore compares every record with the kernel and takes the live runs over again. contents is what opening the
// store answered. changed is called after facts have changed; it must neither block nor call the core; nil = nobody.
func NewCore(k Kernel, records Records, contents *state.Contents, host *Host, changed func()) *Core {
	if changed == nil {
		changed = func() {}
	}
	c := &Core{
		kernel: k, records: records, changed: changed, host: host,
		scopes: map[spec.Scope]*scope{}, servers: map[spec.Key][]*scope{}, starting: map[spec.Key]spec.Scope{}, numbers: map[spec.Scope]int64{},
		recent: list.New(), unsettled: map[spec.Scope]struct{}{}, entrusted: map[spec.Scope]struct{}{},
	}
	for _, b := range contents.Blocked {
		s := &scope{name: b.Scope, blocked: string(b.Reason)}
		c.enter(s)
		c.publish(s)
	}
	c.adoptAll(contents)
	return c
}

// SetHost replaces what this host allows; live runs are not touched.
func (c *Core) SetHost(h *Host) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.host = h
}

// Host is what this host allows now.
func (c *Core) Host() *Host {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.host
}

// enter puts a scope into the table. The caller holds the core, or is the only one who has it.
func (c *Core) enter(s *scope) {
	c.scopes[s.name] = s
	server := s.name.ServerKey()
	c.servers[server] = append(c.servers[server], s)
}

// leave takes a scope out of the table. The caller holds the core.
func (c *Core) leave(s *scope) {
	if c.scopes[s.name] != s {
		return
	}
	delete(c.scopes, s.name)
	server := s.name.ServerKey()
	c.servers[server] = slices.DeleteFunc(c.servers[server], func(x *scope) bool { return x == s })
	if len(c.servers[server]) == 0 {
		delete(c.servers, server)
	}
}

// lookup returns the scope, not locked, or nil when nothing is known of it.
func (c *Core) lookup(name spec.Scope) *scope {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.scopes[name]
}

// find returns the scope, locked, or nil when nothing is known of it.
func (c *Core) find(name spec.Scope) *scope {
	for {
		s := c.lookup(name)
		if s == nil {
			return nil
		}
		s.mu.Lock()
		if !s.removed {
			return s
		}
		s.mu.Unlock()
	}
}

// findOrMake is find for a scope that may be new.
func (c *Core) findOrMake(name spec.Scope) *scope {
	for {
		c.mu.Lock()
		s := c.scopes[name]
		if s == nil {
			s = &scope{name: name}
			c.enter(s)
		}
		c.mu.Unlock()
		s.mu.Lock()
		if !s.removed {
			return s
		}
		s.mu.Unlock()
	}
}

// all is every scope now, by name.
func (c *Core) all() []*scope {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*scope, 0, len(c.scopes))
	for _, s := range c.scopes {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *scope) int {
		return cmpScope(a.name, b.name)
	})
	return all
}

func cmpScope(a, b spec.Scope) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Server, b.Server), strings.Compare(a.Profile, b.Profile))
}

// edit writes a changed copy of the scope's record. After an error nothing has changed here; on disk the change may still
// have taken place, as if we had been killed after it.
func (c *Core) edit(s *scope, change func(*state.Record)) error {
	next := cloneRecord(s.rec)
	change(next)
	if err := c.records.Put(next); err != nil {
		return err
	}
	s.rec = next
	return nil
}

// progress is edit of how far the start of the scope's run has come.
func (c *Core) progress(s *scope, p state.Progress) error {
	next := *s.rec
	next.Run = s.rec.Run.Advanced(p)
	if err := c.records.PutProgress(&next, p); err != nil {
		return err
	}
	s.rec = &next
	return nil
}

// cloneRecord copies what edits change: the run, its stop and main exit. Slices are cut to their length, so that appending copies them.
func cloneRecord(r *state.Record) *state.Record {
	next := *r
	next.History, next.Deliveries = slices.Clip(r.History), slices.Clip(r.Deliveries)
	if r.Run == nil {
		return &next
	}
	run := *r.Run
	next.Run = &run
	if run.Stop != nil {
		stop := *run.Stop
		stop.Steps = slices.Clip(stop.Steps)
		run.Stop = &stop
	}
	return &next
}

// live is the run that is not over, or nil.
func (s *scope) live() *state.Run {
	if s.rec == nil || s.rec.Run == nil || s.rec.Run.Phase == state.Exited {
		return nil
	}
	return s.rec.Run
}

// place is where the things of the scope's run are.
func (s *scope) place() Place {
	r := s.rec.Run
	place := Place{Scope: s.name, RunID: r.ID, Number: r.Number, Cgroup: r.Cgroup, Main: r.Identity}
	if c := r.Launch.Console; c != nil {
		place.Terminal = c.TTY
	}
	return place
}
