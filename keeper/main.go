package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/anchor"
	"reconciler.dev/reconciler/keeper/pump"
	"reconciler.dev/reconciler/keeper/stage"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/logs"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Config is what a keeper is made of.
type Config struct {
	Layout  state.Layout
	Version string // of the program, for people
	// Host is the host configuration that the keeper was given itself, nil = none: then the reconciler's holds, if it is the same user's.
	Host *Host
	// Hosts brings newer versions of it; nil = there are none.
	Hosts <-chan *Host
	// Ready is called once the socket is listened to; nil = nobody waits.
	Ready func()
	Log   *slog.Logger // nil = slog.Default()
	// Anchor is what this process has from its anchor; nil = it has none.
	Anchor *anchor.Inheritance

	// For tests.
	noCgroups    bool
	noWatches    bool
	fault        func(stage.Step) error
	secretsEvery time.Duration
}

// startWorkers and otherWorkers are how many starts, and how many other orders, are carried out at the same time; exits have workers
// of their own, so that no storm of the one holds up the others.
const (
	startWorkers = 4
	otherWorkers = 4
	exitWorkers  = 4
)

// Main is the keeper's life: it takes the lock, compares what is on record with what lives, and serves until ctx ends. Ending leaves every
// run alone. An error wrapping [state.ErrLocked] says that another keeper has the state directory.
func Main(ctx context.Context, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	unix.Umask(0o027) // what workloads inherit (API.md rule 9)
	signal.Ignore(unheard()...)
	debug.SetGCPercent(calmGC)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := &keeper{cfg: cfg, quit: cancel, events: newEvents(), starts: make(chan struct{}, startWorkers), since: time.Now()}
	if err := k.open(); err != nil {
		return errors.Join(err, k.close())
	}
	return errors.Join(k.run(ctx), k.close())
}

// unheard are the real-time signals that Go's runtime would ignore with a handler. The child of each fork takes every handler back, by a
// call for each; a signal that is ignored has none, and the stage resets what a workload gets.
func unheard() []os.Signal {
	var signals []os.Signal
	for s := syscall.Signal(35); s <= 64; s++ { // the C library's own come before
		signals = append(signals, s)
	}
	return signals
}

// keeper is the process: everything around the core.
type keeper struct {
	cfg    Config
	quit   func()
	since  time.Time
	events *events
	starts chan struct{}

	store    *state.Store
	contents *state.Contents
	loop     *pump.Loop
	pump     *pump.Pump
	bell     *logs.Bell
	kernel   *linux
	core     *Core
	server   *server
	strays   strays
	measured atomic.Pointer[measured] // of the last scrape
	claim    *anchorClaim             // after open the chores' alone
}

// open takes the lock before anything else is touched, then makes everything.
func (k *keeper) open() error {
	l := k.cfg.Layout
	if err := l.MakeKeeper(); err != nil {
		return err
	}
	var err error
	if k.store, k.contents, err = state.Open(state.LinuxDisk{}, l.Keeper()); err != nil {
		return err
	}
	k.claim = meetAnchor(k.cfg.Anchor, l, k.cfg.Log)
	if k.loop, err = pump.NewLoop(); err != nil {
		return err
	}
	k.bell = &logs.Bell{}
	host := k.cfg.Host
	if host == nil {
		host = builtinHost(l)
	}
	k.pump, err = pump.New(pump.Config{
		Dir: l.Logs(), PoolDirs: pump.PoolDirs(l.Runtime, l.State), Loop: k.loop, Bell: k.bell,
		ScopeBudget: host.LogsPerServer, HostBudget: host.LogsTotal, Log: k.cfg.Log,
	})
	if err != nil {
		return err
	}
	if k.kernel, err = newLinux(k.loop, k.pump, runFolders(l), k.cfg); err != nil {
		return err
	}
	k.kernel.orphans = newOrphans(k.cfg.Anchor, k.contents)
	if err := k.kernel.watchAnchor(k.cfg.Anchor); err != nil {
		return err
	}
	if err := errors.Join(claimMemory(l), sweepMemory(sharedMemory, os.Geteuid())); err != nil {
		k.cfg.Log.Warn("cannot tidy up in memory", "error", err)
	}
	k.kernel.settle, k.kernel.logSeen, k.kernel.pause = k.events.settle, k.events.logSeen, k.pauseStart
	k.kernel.delivered = k.events.delivered
	k.server = &server{
		version: k.cfg.Version, layout: l, ownHost: k.cfg.Host != nil, bell: k.bell, written: k.pump.Flush, listen: k.pump.Tap,
		starts: k.starts, others: make(chan struct{}, otherWorkers),
		setHost: k.setHost, usage: k.usage, listening: k.listening, past: k.past, writtenTo: k.writtenTo, status: k.status, inside: k.inside, note: k.note, inbox: k.inbox, quit: k.quit, log: k.cfg.Log,
		strangers: make(chan struct{}, maxStrangers), conns: map[*serverConn]struct{}{}, session: firstSession(k.kernel.Now()),
	}
	return nil
}

// firstSession is less than any session of this keeper and more than any of its predecessors in this boot.
func firstSession(now state.Moment) uint64 { return uint64(now.Uptime.Microseconds()) }

// builtinHost is what a host allows that was never configured, until a reconciler of the same user says more.
func builtinHost(l state.Layout) *Host {
	return &Host{InheritAny: true, SecretsDirectory: l.Secrets(), Workspaces: []spec.Workspace{
		{Name: "usr", Path: "/usr"},
		{Name: "data", Path: l.Data(), Writable: true, Executables: []string{}},
	}}
}

// close lets go of what open made, the lock last.
func (k *keeper) close() error {
	var errs []error
	if k.kernel != nil {
		errs = append(errs, k.kernel.close())
	}
	if k.pump != nil {
		errs = append(errs, k.pump.Close())
	}
	if k.kernel != nil {
		errs = append(errs, leaveMemory(k.cfg.Layout))
	}
	if k.loop != nil {
		errs = append(errs, k.loop.Close())
	}
	errs = append(errs, k.claim.close())
	if k.store != nil {
		errs = append(errs, k.store.Close())
	}
	return errors.Join(errs...)
}

// run serves until ctx ends. What is under way then is ended in the order in which it depends on each other: orders, events, output,
// records.
func (k *keeper) run(ctx context.Context) error {
	var errs [4]error
	disk, endDisk := context.WithCancel(context.Background())
	output, endOutput := context.WithCancel(context.Background())
	loop, endLoop := context.WithCancel(context.Background())
	var disks, outputs, loops sync.WaitGroup
	// None of them ends before it is told to, unless it is broken: then a new keeper does better.
	disks.Go(func() { errs[0] = k.store.Run(disk); k.quit() })
	outputs.Go(func() { errs[1] = k.pump.Run(output); k.quit() })
	loops.Go(func() { errs[2] = k.loop.Run(loop); k.quit() })

	errs[3] = k.serve(ctx)

	endLoop()
	loops.Wait()
	endOutput()
	outputs.Wait()
	endDisk()
	disks.Wait()
	return errors.Join(errs[:]...)
}

// serve compares the records with the kernel, then answers until ctx ends.
func (k *keeper) serve(ctx context.Context) error {
	host := k.cfg.Host
	if host == nil {
		host = builtinHost(k.cfg.Layout)
	}
	chores := make(chan struct{}, 1)
	k.kernel.poke = func() {
		select {
		case chores <- struct{}{}:
		default:
		}
	}
	k.core = NewCore(k.kernel, k.store, k.contents, host, func() {
		k.server.notify()
		k.kernel.poke()
	})
	for _, note := range k.contents.Notes {
		k.cfg.Log.Warn(note)
	}
	for _, b := range k.contents.Blocked {
		k.cfg.Log.Error("a scope is blocked: look at its record, then run: reconciler retire "+b.Scope.Server,
			"scope", b.Scope.String(), "reason", string(b.Reason), "error", b.Err)
	}
	notes := k.contents.Notes
	k.contents = &state.Contents{Notes: notes} // the records are the core's now
	k.server.core = k.core

	defer k.endProbes()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer k.server.end()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { k.events.run(inner, exitWorkers, k.look) })
	wg.Go(func() { k.doChores(inner, chores) })
	wg.Go(func() { k.takeHosts(inner) })
	return k.listen(ctx)
}

// farewell is how long a keeper that ends waits for what it kills. What is left then is found by the next one.
const farewell = time.Second

// endProbes leaves no probe behind that nobody would end.
func (k *keeper) endProbes() {
	for end := time.Now().Add(farewell); !k.core.EndProbes() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// look handles an event.
func (k *keeper) look(e event) {
	for _, a := range e.came {
		k.core.HandleDelivered(e.scope, a.ref, a.outcome)
	}
	if e.told > 0 {
		k.core.HandleNotified(e.scope, e.told)
	}
	if e.seen > 0 {
		k.core.HandleLogSeen(e.scope, e.seen)
	}
	if e.told == 0 && e.seen == 0 {
		k.core.HandleExit(e.scope)
	}
}

// pauseStart gives a start's place to another while it waits.
func (k *keeper) pauseStart() (resume func()) {
	select {
	case <-k.starts:
		return func() { k.starts <- struct{}{} }
	default: // the start did not come over the socket
		return func() {}
	}
}

// takeHosts goes by every newer host configuration of our own.
func (k *keeper) takeHosts(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case h, ok := <-k.cfg.Hosts:
			if !ok {
				return
			}
			k.setHost(h)
		}
	}
}

// setHost takes what the reconciler says that the host allows.
func (k *keeper) setHost(h *Host) {
	k.core.SetHost(h)
	k.pump.SetBudgets(h.LogsPerServer, h.LogsTotal)
}

// past is what the archive has of a server.
func (k *keeper) past(server spec.Key) ([]*observe.Facts, error) {
	records, err := k.store.Past(server)
	if err != nil {
		return nil, err
	}
	facts := make([]*observe.Facts, len(records))
	for i, r := range records {
		facts[i] = &observe.Facts{Scope: r.Scope, UID: r.UID, Exits: r.History}
	}
	return facts, nil
}

// writtenTo is what was delivered to a server's console; of one that was removed, what the archive has.
func (k *keeper) writtenTo(server spec.Key) ([]observe.Written, error) {
	if all := k.core.Written(server); len(all) > 0 {
		return all, nil
	}
	records, err := k.store.Past(server)
	if err != nil {
		return nil, err
	}
	var all []observe.Written
	for _, r := range records {
		all = append(all, observe.WrittenOf(r)...)
	}
	return all, nil
}

// status fills in how the keeper itself is.
func (k *keeper) status(st *Status) {
	st.Since, st.Guarantees, st.Notes = k.since, k.kernel.guarantees(), k.contents.Notes
	st.Notes = append(st.Notes[:len(st.Notes):len(st.Notes)], k.unknownRuns()...)
	st.Strays = k.strays.count()
	if err := k.store.Health(); err != nil {
		st.Health = fmt.Sprintf("what was recorded last may not survive a power cut: %v", err)
	}
	facts, _, _ := k.core.Facts(0)
	st.Scopes = len(facts)
	for _, f := range facts {
		if f.Blocked != "" {
			st.Blocked = append(st.Blocked, BlockedScope{f.Scope, f.Blocked})
			continue
		}
		if !f.Run.Over() {
			st.Live++
		}
	}
}

// unknownRuns says where the runs live that no usable record names.
func (k *keeper) unknownRuns() []string {
	unknown, err := k.core.UnknownRuns()
	if err != nil {
		return []string{err.Error()}
	}
	var notes []string
	for _, p := range unknown {
		where := "its FIFOs are in " + k.kernel.folder(p.RunID)
		if p.Cgroup != "" {
			where = "its cgroup is " + p.Cgroup
		}
		notes = append(notes, "a run lives that no usable record names; it is left alone, and holds up 'reconciler retire' until its processes have ended: "+where)
	}
	return notes
}

// keeperLog is where a keeper that was made by [Ensure] writes.
func keeperLog(l state.Layout) string { return filepath.Join(l.State, "keeper.log") }
