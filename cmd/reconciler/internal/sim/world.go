package sim

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

const (
	keeperDir     = "/state/keeper"
	reconcilerDir = "/state/reconciler"
	memoryFile    = reconcilerDir + "/servers.journal"
)

// world is one run: the host, the two processes, and what people do.
type world struct {
	choices
	kernel *kernel
	disk   *disk
	wish   *wish

	// The keeper, nil while it is dead.
	store *state.Store
	core  *keeper.Core
	// The reconciler, nil while it is dead. facts is what its client has heard of the keeper.
	loop   *reconcile.Loop
	table  *state.Table[reconcile.Memory]
	jobs   *state.Table[reconcile.JobMemory]
	facts  map[spec.Scope]*observe.Facts
	heard  uint64
	known  bool
	flying []*flight
	wakeAt time.Duration // on the uptime clock; 0 = when something changes

	running   string // which process's code runs: the one that dies at a crash point
	crashIn   int    // crash points until it dies; 0 = it does not
	boots     int
	unmended  bool // the power was cut and no keeper has mended its store since
	plainDisk bool // a file system that cannot exchange two names

	truth    map[string]*life   // by run id
	sent     map[string]bool    // ladder steps and lines that were sent
	lost     map[string]bool    // lines whose end died with a keeper
	lines    int                // that people sent
	errands  map[string]*errand // commands and programs of the ladder
	asked    []state.DoOrder    // the last commands that were asked for
	steps    int
	calm     bool // faults have stopped
	idle     bool // nothing is to be ordered any more
	decoded  map[spec.Scope]decoded
	numbered map[string]bool     // runs that had a log
	uids     map[spec.Key]string // what servers were started as
	past     []reconcile.Order   // orders of this and earlier reconcilers
	deeds    deeds
	asking   asking
	clockSet bool // the wall clock was ever set
	story    []string
	failure  *Failure
}

// flight is an order that the loop gave and that was not answered yet.
type flight struct {
	order reconcile.Order
	done  bool // carried out; err is the answer
	err   error
	with  *keeper.Core // that a command was given to, and whose answer is waited for
}

// life is what really happened to a run.
type life struct {
	scope spec.Scope
	spec  string // the argument that it was started with
	since time.Duration
	ended *end

	secret *vault // as it was then
}

// Failure is a broken invariant.
type Failure struct {
	Invariant string
	What      string
	Story     []string
	Stream    []byte
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%s: %s\n  %s\nchoices: %x", f.Invariant, f.What, strings.Join(f.Story, "\n  "), f.Stream)
}

// crash is the panic that stands for the death of a process.
type crash struct{ at string }

// broken is the panic that ends a run whose invariant is broken.
type broken struct{}

func newWorld(stream []byte) *world {
	w := &world{choices: choices{stream: stream}, truth: map[string]*life{}, sent: map[string]bool{}, numbered: map[string]bool{}, lost: map[string]bool{}, errands: map[string]*errand{}, uids: map[spec.Key]string{}, decoded: map[spec.Scope]decoded{}, deeds: newDeeds(), asking: newAsking(), boots: 1}
	w.kernel = newKernel(w)
	w.disk = newDisk(w, "/state", keeperDir, reconcilerDir)
	w.wish = newWish()
	w.kernel.hasCgroups = w.choose(4) != 1
	w.kernel.reaps = w.choose(2) == 1
	w.kernel.exitInfo = w.choose(2) == 1
	w.plainDisk = w.choose(4) == 1
	if w.choose(4) == 1 {
		w.wish.schedule("p", 1+w.choose(len(schedules)-1))
	}
	w.tell("a host: cgroups %v, orphans reaped %v, ends of the reaped told %v", w.kernel.hasCgroups, w.kernel.reaps, w.kernel.exitInfo)
	return w
}

func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%4d %8s  ", w.steps, w.kernel.uptime.Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// failf ends the run: an invariant is broken.
func (w *world) failf(invariant, format string, args ...any) {
	if w.failure == nil {
		w.failure = &Failure{Invariant: invariant, What: fmt.Sprintf(format, args...)}
	}
	panic(broken{})
}

// point is a moment between two calls to the kernel or the disk: the running process may die there.
func (w *world) point(at string) {
	if w.crashIn == 0 {
		return
	}
	if w.crashIn--; w.crashIn == 0 {
		panic(crash{at})
	}
}

// as runs code of one process. It reports false when the process died on the way.
func (w *world) as(process string, code func()) (alive bool) {
	w.running = process
	defer func() {
		w.running = ""
		w.crashIn = 0
		switch r := recover().(type) {
		case nil:
		case crash:
			w.tell("the %s dies at %s", process, r.at)
			w.kill(process)
			alive = false
		default:
			panic(r)
		}
	}()
	code()
	return true
}

// mayDie lets the process that runs next die at one of its next points, now and then.
func (w *world) mayDie() {
	if !w.calm && w.choose(6) == 5 {
		w.crashIn = 1 + w.choose(40)
	}
}

func (w *world) kill(process string) {
	w.disk.dropLocks(process)
	if process == "keeper" {
		w.core, w.store = nil, nil
		w.known = false
		w.kernel.keeperDied()
		return
	}
	w.loop, w.table, w.jobs, w.flying, w.facts, w.known = nil, nil, nil, nil, nil, false
	clear(w.asking.denials)
	clear(w.asking.heard)
}

func (w *world) startKeeper() {
	w.tell("a keeper starts")
	w.mayDie()
	w.as("keeper", func() {
		store, contents, err := state.Open(w.disk, keeperDir)
		if err != nil {
			if w.disk.fail > 0 || !w.calm {
				w.tell("the keeper cannot start: %v", err)
				w.kill("keeper")
				return
			}
			w.failf("EN-4", "the store cannot be opened: %v", err)
		}
		for _, b := range contents.Blocked {
			w.failf("EN-4", "a record that only we wrote cannot be used: %v", b.Err)
		}
		w.unmended = false
		core := keeper.NewCore(w.kernel, store, contents, hostOf(), nil)
		w.store, w.core = store, core
		w.heard, w.known = 0, false
	})
}

func hostOf() *keeper.Host {
	return &keeper.Host{InheritAny: true, Workspaces: []spec.Workspace{
		{Name: "usr", Path: "/usr", Executables: []string{"**"}}, {Name: "data", Path: "/state/data", Writable: true}}}
}

func (w *world) startReconciler() {
	w.tell("a reconciler starts")
	w.wish.published = nil // it reads its source anew
	w.as("reconciler", func() {
		table, err := state.OpenTable[reconcile.Memory](w.disk, memoryFile, state.Format{Kind: "servers", Version: 1})
		if err != nil {
			if !w.calm {
				w.tell("the reconciler cannot start: %v", err)
				w.kill("reconciler")
				return
			}
			w.failf("EN-4", "the reconciler's memory cannot be opened: %v", err)
		}
		jobs, err := state.OpenTable[reconcile.JobMemory](w.disk, jobFile, state.Format{Kind: "jobs", Version: 1})
		if err != nil {
			if !w.calm {
				w.tell("the reconciler cannot start: %v", err)
				w.kill("reconciler")
				return
			}
			w.failf("EN-4", "the reconciler's jobs cannot be opened: %v", err)
		}
		view := &spec.HostView{Workspaces: map[string]string{"usr": "/usr", "data": "/state/data"}}
		uids := 0
		w.table, w.jobs, w.facts, w.heard, w.known = table, jobs, map[spec.Scope]*observe.Facts{}, 0, false
		w.loop = reconcile.New(reconcile.Options{
			Executor: executor{w}, Source: w.wish, Clock: w.kernel, Store: memories{w}, Jobs: jobTable{w}, Checker: nil,
			Host:   func() *spec.HostView { return view },
			NewUID: func() string { uids++; return fmt.Sprintf("uid-%d-%d", w.steps, uids) },
		})
	})
}

// executor is the loop's side of the keeper: it answers Facts; orders go through [world.carryOut].
type executor struct{ w *world }

func (e executor) Facts() ([]*observe.Facts, bool) {
	var all []*observe.Facts
	for _, scope := range slices.SortedFunc(maps.Keys(e.w.facts), func(a, b spec.Scope) int { return strings.Compare(a.ID(), b.ID()) }) {
		all = append(all, e.w.facts[scope])
	}
	return all, e.w.known
}

func (e executor) Start(context.Context, state.StartOrder) error {
	panic("orders are carried out by the world")
}
func (e executor) Stop(context.Context, state.StopOrder) error {
	panic("orders are carried out by the world")
}
func (e executor) Step(context.Context, state.StepOrder) error {
	panic("orders are carried out by the world")
}
func (e executor) ApplyLive(context.Context, state.LiveOrder) error {
	panic("orders are carried out by the world")
}
func (e executor) Reload(context.Context, state.ReloadOrder) error {
	panic("the simulation carries orders out itself")
}

func (e executor) MarkReady(context.Context, state.ReadyOrder) error {
	panic("orders are carried out by the world")
}
func (e executor) Listening(context.Context, []observe.RunName) ([]observe.RunListening, error) {
	panic("orders are carried out by the world")
}
func (e executor) Probe(context.Context, state.ProbeOrder) (observe.Probed, error) {
	panic("orders are carried out by the world")
}
func (e executor) Archive(context.Context, state.ScopeOrder) error {
	panic("orders are carried out by the world")
}
func (e executor) Do(context.Context, state.DoOrder) (state.Receipt, error) {
	panic("commands are carried out by the world")
}

// memories is the loop's store: the shipped table on the model's disk.
type memories struct{ w *world }

func (m memories) All() map[string]reconcile.Memory         { return m.w.table.All() }
func (m memories) Set(key string, v reconcile.Memory) error { return m.w.table.Set(key, v) }
func (m memories) Delete(key string) error                  { return m.w.table.Delete(key) }
func (m memories) Flush(context.Context) error              { return m.w.table.FlushNow() }

// turn lets the loop look and decide.
func (w *world) turn() {
	var orders []reconcile.Order
	alive := w.as("reconciler", func() {
		var wake time.Duration
		orders, wake = w.loop.Turn(w.kernel.Now())
		w.wakeAt = wake
	})
	if !alive {
		return
	}
	for _, o := range orders {
		w.tell("order: %s", tellOrder(o))
		w.checkOrder(o)
		if o.Save == nil && o.Check == nil && o.Look == nil {
			w.remember(o)
			if w.idle {
				w.failf("I8", "a restart of both processes leads to an order: %s", tellOrder(o))
			}
		}
		w.flying = append(w.flying, &flight{order: o})
	}
}

// hear brings the reconciler's client up to date.
func (w *world) hear() {
	if w.core == nil || w.loop == nil {
		return
	}
	facts, rev, whole := w.core.Facts(w.heard)
	if whole {
		clear(w.facts)
	}
	for _, f := range facts {
		if f.Gone {
			delete(w.facts, f.Scope)
			continue
		}
		w.facts[f.Scope] = f
	}
	w.heard, w.known = rev, true
}

// carryOut brings an order where it belongs. The answer may be lost with the process that gave it.
func (w *world) carryOut(f *flight) {
	o := f.order
	if o.Save != nil {
		w.mayDie()
		w.as("reconciler", func() { f.err = w.save(o.Save) })
		f.done = true
		return
	}
	if o.Do != nil {
		w.carryOutCommand(f)
		return
	}
	if o.Check != nil && o.Check.ThroughKeeper() {
		w.carryOutProbe(f)
		return
	}
	f.done, f.err = true, errGone
	if o.Check != nil {
		f.err = w.ask(o.Scope)
		return
	}
	if w.core == nil {
		return
	}
	if o.Look != nil {
		o.Look.Found, f.err = w.listening(o.Look.Runs)
		return
	}
	w.mayDie()
	var err error
	if w.as("keeper", func() { err = w.give(o) }) {
		f.err = err
	}
}

var errGone = fmt.Errorf("the keeper is gone")

func (w *world) give(o reconcile.Order) error {
	switch {
	case o.Start != nil:
		return w.core.Start(*o.Start, nil)
	case o.Stop != nil:
		return w.stop(*o.Stop)
	case o.Step != nil:
		return w.core.Step(*o.Step, nil)
	case o.Live != nil:
		return w.core.ApplyLive(*o.Live, nil)
	case o.Ready != nil:
		return w.core.MarkReady(*o.Ready, nil)
	case o.Reload != nil:
		return w.core.Reload(*o.Reload, nil)
	case o.Archive != nil:
		return w.core.Archive(*o.Archive, nil)
	}
	panic("an order of no kind")
}

func (w *world) save(o *reconcile.SaveOrder) error {
	if len(o.Jobs) > 0 {
		if err := w.saveJobs(o.Jobs); err != nil {
			return err
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(o.Memories), func(a, b spec.Key) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) }) {
		name := key.Namespace + "/" + key.Name
		var err error
		if m := o.Memories[key]; m != nil {
			err = w.table.Set(name, *m)
		} else {
			err = w.table.Delete(name)
		}
		if err != nil {
			return err
		}
	}
	return w.table.FlushNow()
}

// answer tells the loop what became of an order.
func (w *world) answer(f *flight) {
	w.flying = slices.DeleteFunc(w.flying, func(g *flight) bool { return g == f })
	if f.order.Check != nil {
		w.answeredOf(f.order.Check, f.err)
	}
	if f.order.Look != nil && f.err == nil {
		w.toldOf(f.order.Look)
	}
	w.as("reconciler", func() { w.loop.Done(w.kernel.Now(), f.order, f.err) })
}

// record is a scope's record as the disk has it now; nil = none.
func (w *world) record(scope spec.Scope) *state.Record {
	text, ok := w.disk.text(path.Join(keeperDir, "records", scope.ID()+".json"))
	if !ok {
		return nil
	}
	if c, ok := w.decoded[scope]; ok && c.text == text {
		return c.record
	}
	r, err := state.DecodeRecord([]byte(text))
	if err != nil && !w.unmended {
		w.failf("EN-4", "the record of %s is torn: %v", scope, err)
	}
	w.decoded[scope] = decoded{text, r}
	return r
}

// decoded is a record that was read before: most are asked for again and again.
type decoded struct {
	text   string
	record *state.Record
}

func (w *world) executed(p *proc) {
	r := w.record(p.scope)
	if r == nil || r.Run == nil {
		return // told by the kernel already, unless a power cut was in between
	}
	w.checkUID(r)
	w.truth[p.run] = &life{scope: p.scope, spec: versionOf(&r.Run.Launch), secret: p.secret, since: w.kernel.uptime}
	w.tell("    %s runs with %q", p.scope, w.truth[p.run].spec)
}

func (w *world) ended(p *proc) {
	w.truth[p.run].ended = &p.trueEnd
	w.tell("    the main process of %s ends, status %#x, asked for %v", p.scope, p.status, p.trueEnd.asked)
}

func tellOrder(o reconcile.Order) string {
	switch {
	case o.Start != nil:
		return fmt.Sprintf("start %s with %q after run %d: %s", o.Start.Launch.Scope, versionOf(&o.Start.Launch), o.Start.After, o.Start.Cause)
	case o.Stop != nil:
		return fmt.Sprintf("stop %s: %s, %s", o.Stop.Scope, o.Stop.Reason, o.Stop.Why)
	case o.Step != nil:
		return fmt.Sprintf("step %d of %s", o.Step.Index, o.Step.Scope)
	case o.Live != nil:
		return fmt.Sprintf("apply live fields to %s", o.Live.Launch.Scope)
	}
	if o.Do != nil {
		return fmt.Sprintf("do %s in %s for run %q, recall %v: %s", o.Do.Command, o.Scope, o.Do.RunID, o.Do.Recall, o.Do.ID)
	}
	return fmt.Sprintf("%s %s", o.Kind(), o.Scope)
}

// versionOf is the v that a launch was made with.
func versionOf(l *spec.Launch) string {
	if f := l.File("v"); f != nil {
		return f.Content
	}
	return strings.Join(l.Args, " ")
}
