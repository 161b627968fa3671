package keeper

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/pump"
	"reconciler.dev/reconciler/keeper/stage"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/logs"
	"reconciler.dev/reconciler/observe/proc"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// linux is the [Kernel] of this host.
type linux struct {
	proc    *proc.Kernel
	cgroups *proc.Cgroups // nil: runs have none here
	trees   *proc.Watch   // nil without cgroups, and where the host has no watches left
	stager  *stage.Stager
	pump    *pump.Pump
	loop    *pump.Loop
	runs    []string            // where runs have their folders, the first for new ones
	logs    string              // where scopes have their logs
	logged  map[string]struct{} // the scopes that had some when this keeper began, by their ids; nil = it is not known
	notify  string              // where runs may speak of themselves
	users   *users
	lines   *lines
	probes  probes
	orphans orphans

	anchorFd   int // pidfd of the anchor; -1 = there is none
	anchorAway atomic.Bool
	log        *slog.Logger
	// settle, logSeen and delivered ask for the core's attention. They never block.
	settle  func(spec.Scope)
	logSeen func(scope spec.Scope, number int64)

	delivered func(spec.Scope, DeliveryRef, Outcome)
	poke      func() // something is due at another time than before
	// pause is called around a long wait of a start, so that others can start meanwhile.
	pause func() (resume func())

	ctx    context.Context // ends with close
	cancel context.CancelFunc
	late   sync.WaitGroup // releases and deliveries that nobody waits for

	mu         sync.Mutex
	made       map[string]struct{}         // the runs whose folders this keeper made, in the first of runs
	mains      map[int]struct{}            // numbers of the unreaped main processes, of which nobody else may take the exit
	seen       map[string][]state.Identity // by run: family of a run without a cgroup, as it was when its main process was reaped
	polled     map[string]spec.Scope       // trees that somebody waits for and the kernel tells nothing about, by watchKey
	wakes      map[spec.Scope]time.Duration
	collectors map[string]*collector   // of programs, by their ids
	terminals  map[string]*runTerminal // of runs, by their ids

	holders holders
}

// newLinux finds out what this host can do. Cgroups that do not work are no error: the guarantees say so.
func newLinux(loop *pump.Loop, p *pump.Pump, runs []string, cfg Config) (*linux, error) {
	kernel, err := proc.Probe()
	if err != nil {
		return nil, err
	}
	if err := kernel.BecomeSubreaper(); err != nil {
		return nil, err
	}
	stager, err := stage.New(stage.Options{Dir: runs[len(runs)-1], Fault: cfg.fault})
	if err != nil {
		return nil, err
	}
	k := &linux{
		proc: kernel, stager: stager, pump: p, loop: loop, runs: runs, logs: cfg.Layout.Logs(), logged: listLogs(cfg.Layout.Logs()), notify: cfg.Layout.NotifySocket(), users: newUsers(), lines: newLines(), probes: newProbes(), log: cfg.Log, anchorFd: -1,
		made: map[string]struct{}{}, mains: map[int]struct{}{}, seen: map[string][]state.Identity{}, polled: map[string]spec.Scope{},
		wakes: map[spec.Scope]time.Duration{}, collectors: map[string]*collector{}, terminals: map[string]*runTerminal{}, poke: func() {},
		settle: func(spec.Scope) {}, logSeen: func(spec.Scope, int64) {}, delivered: func(spec.Scope, DeliveryRef, Outcome) {}, pause: func() func() { return func() {} },
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	if err := k.findCgroups(cfg); err != nil {
		cfg.Log.Warn("runs have no cgroups on this host: what they leave behind is found less surely", "error", err)
	}
	k.probeExit()
	return k, nil
}

func (k *linux) findCgroups(cfg Config) error {
	if cfg.noCgroups {
		return proc.ErrNoCgroups
	}
	cgroups, err := k.proc.FindCgroups()
	if err != nil {
		return err
	}
	born, err := k.stager.SelfTest(cgroups.Base())
	if err != nil {
		return errors.Join(err, cgroups.Close())
	}
	k.proc.CloneIntoCgroup = born
	k.cgroups = cgroups
	if k.trees, err = k.watchCgroups(cfg.noWatches); err != nil {
		k.log.Warn("what runs leave behind is looked at from time to time, as the kernel cannot be asked to tell", "error", err)
	}
	return nil
}

func (k *linux) watchCgroups(none bool) (*proc.Watch, error) {
	if none {
		return nil, unix.EMFILE
	}
	watch, err := proc.NewWatch()
	if err != nil {
		return nil, err
	}
	if err := k.loop.Add(watch.Fd(), unix.EPOLLIN, func(uint32) { k.treesChanged(watch) }); err != nil {
		return nil, errors.Join(err, watch.Close())
	}
	return watch, nil
}

// probeExit finds out whether the kernel tells the exit of a reaped process, with a stage that is never released.
func (k *linux) probeExit() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close()
	n := int(null.Fd())
	held, err := k.stager.Hold(stage.Spec{Exec: n, Argv: []string{stage.Comm}, Dir: n, Stdio: [3]int{n, n, n}, Cgroup: -1})
	if err != nil {
		return
	}
	pidfd, dupErr := held.Dup()
	if err := held.Abandon(); err == nil && dupErr == nil {
		k.proc.ProbeExit(pidfd)
	}
	if dupErr == nil {
		_ = unix.Close(pidfd)
	}
}

func (k *linux) close() error {
	k.cancel()
	k.late.Wait()
	for _, c := range k.collectors { // their programs go on
		k.loop.Remove(c.fd)
		c.finish()
	}
	errs := k.letGoTerminals()
	if k.trees != nil {
		k.loop.Remove(k.trees.Fd())
		errs = append(errs, k.trees.Close())
	}
	if k.cgroups != nil {
		errs = append(errs, k.cgroups.Close())
	}
	for _, dir := range k.runs[:len(k.runs)-1] {
		_ = unix.Rmdir(dir) // in memory, where nobody tidies up; it stays as long as a run has its folder there
	}
	return errors.Join(append(errs, k.stager.Close(), k.leaveAnchor())...)
}

// Now implements [Kernel].
func (k *linux) Now() state.Moment { return now(k.proc.BootID) }

func now(bootID string) state.Moment {
	var ts unix.Timespec
	// It cannot fail: the clock is there since 2.6.39.
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return state.Moment{Wall: time.Now().Round(0), BootID: bootID, Uptime: time.Duration(ts.Nano())}
}

// NewRunID implements [Kernel].
func (k *linux) NewRunID() string { return strings.ToLower(rand.Text()) }

// CgroupName implements [Kernel].
func (k *linux) CgroupName(runID string) string {
	if k.cgroups == nil {
		return ""
	}
	return k.cgroups.Name(runID)
}

// Attach implements [Kernel]. A run that lives already goes on without it, so what is wrong is told here.
func (k *linux) Attach(p Place) error {
	err := k.attach(p)
	if err != nil && p.Main != nil {
		k.log.Error("the output of a run cannot be read any more", "scope", p.Scope.String(), "run", p.Number, "error", err)
	}
	return err
}

func (k *linux) attach(p Place) error {
	if p.Terminal != nil {
		return k.attachTerminal(p)
	}
	stdout, err := k.openReader(p, 1)
	if err != nil {
		return err
	}
	stderr, err := k.openReader(p, 2)
	if err != nil {
		return errors.Join(err, unix.Close(stdout))
	}
	if err := k.pump.Attach(runOf(p), stdout, stderr); err != nil {
		return errors.Join(err, unix.Close(stdout), unix.Close(stderr))
	}
	return nil
}

func runOf(p Place) logs.Run { return logs.Run{Scope: p.Scope.ID(), Number: p.Number} }

// WatchLog implements [Kernel].
func (k *linux) WatchLog(p Place, literals []string) error {
	return k.pump.Watch(runOf(p), literals, func() { k.logSeen(p.Scope, p.Number) })
}

// drainLimit bounds the wait for what a run has written last.
const drainLimit = 2 * time.Second

// LastLogged implements [Kernel]. Nearly all that are started for the first time had no logs when this keeper began, and a look for
// them would cost each ten microseconds.
func (k *linux) LastLogged(scope spec.Scope) int64 {
	if _, ok := k.logged[scope.ID()]; !ok && k.logged != nil {
		return 0
	}
	return logs.LastRun(filepath.Join(k.logs, scope.ID()))
}

// listLogs is the folders in the directory of logs, nil when they cannot be listed.
func listLogs(dir string) map[string]struct{} {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	logged := make(map[string]struct{}, len(entries))
	for _, e := range entries {
		logged[e.Name()] = struct{}{}
	}
	return logged
}

// Drain implements [Kernel].
func (k *linux) Drain(p Place) LogTotals {
	run := runOf(p)
	done := make(chan bool, 1)
	if err := k.pump.Drain(run, drainLimit, func(complete bool) { done <- complete }); err != nil {
		return LogTotals{} // never attached
	}
	if complete := <-done; !complete {
		k.log.Warn("the last output of a run was not written in time", "scope", p.Scope.String(), "run", p.Number)
	}
	stats, _ := k.pump.Stats(run)
	k.pump.Detach(run)
	return LogTotals{Bytes: stats.Bytes, DroppedLines: stats.DroppedLines}
}

// cgroup is the run's cgroup, by its recorded name.
func (k *linux) cgroup(p Place) (proc.Cgroup, error) {
	if k.cgroups == nil {
		return proc.Cgroup{}, fmt.Errorf("cannot reach the cgroup of %s: %w", p.Scope, proc.ErrNoCgroups)
	}
	return k.cgroups.Cgroup(p.Cgroup)
}

// MakeCgroup implements [Kernel].
func (k *linux) MakeCgroup(p Place) error {
	g, err := k.cgroup(p)
	if err != nil {
		return err
	}
	return g.Create()
}

// Tree implements [Kernel].
func (k *linux) Tree(p Place) (observe.Tree, error) {
	if p.Cgroup == "" {
		f, err := k.family(p)
		return f.Tree, err
	}
	g, err := k.cgroup(p)
	if err != nil {
		return observe.Tree{State: observe.TreeUnknown}, err
	}
	return g.Tree()
}

// family looks for the processes of a run without a cgroup.
func (k *linux) family(p Place) (proc.Family, error) {
	unknown := proc.Family{Tree: observe.Tree{State: observe.TreeUnknown}}
	hint, err := k.hint(p)
	if err != nil {
		return unknown, err
	}
	families, err := k.proc.Families([]proc.Hint{hint})
	if err != nil {
		return unknown, err
	}
	return families[0], nil
}

// hint is what is known of a run's family.
func (k *linux) hint(p Place) (proc.Hint, error) {
	k.mu.Lock()
	hint := proc.Hint{Main: p.Main, Seen: k.seen[p.RunID]}
	k.mu.Unlock()
	for _, name := range fifoNames {
		id, err := proc.FileIDOf(filepath.Join(k.folder(p.RunID), name))
		switch {
		case err == nil:
			hint.FIFOs = append(hint.FIFOs, id)
		case !errors.Is(err, fs.ErrNotExist):
			return proc.Hint{}, err
		}
	}
	return hint, nil
}

// WatchTree implements [Kernel].
func (k *linux) WatchTree(p Place) error {
	if p.Cgroup == "" {
		k.poll(p)
		return nil
	}
	g, err := k.cgroup(p)
	if err != nil {
		return err
	}
	if k.trees == nil {
		k.poll(p)
		return nil
	}
	err = k.trees.Add(g, watchKey(p))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // empty by now: whoever watches looks again
	case errors.Is(err, unix.ENOSPC): // fs.inotify.max_user_watches are used up
		k.poll(p)
		return nil
	}
	return err
}

// poll has a tree looked at from time to time.
func (k *linux) poll(p Place) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.polled[watchKey(p)] = p.Scope
}

func (k *linux) treesChanged(w *proc.Watch) {
	ids, err := w.Changed()
	if err != nil {
		k.log.Error("cannot learn which runs have become empty", "error", err)
	}
	for _, key := range ids {
		id, _, _ := strings.Cut(key, "/")
		if scope, ok := spec.ParseScopeID(id); ok {
			k.settle(scope)
		}
	}
}

// polls reports whether there are trees that the kernel tells nothing about.
func (k *linux) polls() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.polled) > 0
}

// pollTrees asks for attention to them.
func (k *linux) pollTrees() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, scope := range k.polled {
		k.settle(scope)
	}
}

// SignalTree implements [Kernel].
func (k *linux) SignalTree(p Place, name string) error {
	sig := unix.SignalNum(name)
	if sig == 0 {
		return fmt.Errorf("there is no signal %s", name)
	}
	if p.Cgroup == "" {
		f, err := k.family(p)
		if err != nil {
			return err
		}
		_, err = k.proc.SignalFamily(f, sig)
		return err
	}
	g, err := k.cgroup(p)
	if err != nil {
		return err
	}
	_, err = g.SignalTree(sig)
	return err
}

// killRounds bounds the kill of a family that forks faster than it is found; what is left is asked for again.
const killRounds = 64

// KillTree implements [Kernel].
func (k *linux) KillTree(p Place) error {
	if p.Cgroup != "" {
		g, err := k.cgroup(p)
		if err != nil {
			return err
		}
		return g.Kill()
	}
	for range killRounds {
		f, err := k.family(p)
		if err != nil {
			return err
		}
		if len(f.Members) == 0 {
			return nil
		}
		if _, err := k.proc.SignalFamily(f, unix.SIGKILL); err != nil {
			return err
		}
	}
	return nil
}

// strays reaps dead orphans of no run and counts the living.
func (k *linux) strays() (living int, err error) {
	k.stager.Quiet(func(held func(int) bool) {
		var found []proc.Stray
		found, _, err = k.proc.Strays(func(pid int) bool {
			if held(pid) {
				return true
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			_, ok := k.mains[pid]
			return ok
		})
		living = k.ofNoRun(found)
	})
	return living, err
}

// ofNoRun counts those that belong to no run.
func (k *linux) ofNoRun(found []proc.Stray) (n int) {
	for _, s := range found {
		if s.Comm == stage.CustodianComm {
			continue // of a run's terminal
		}
		if k.cgroups == nil || !k.ofRun(s.Cgroup) {
			n++
		}
	}
	return n
}

// ofRun reports whether a process in this cgroup is part of a run.
func (k *linux) ofRun(cgroup string) bool {
	return strings.Contains(cgroup, k.cgroups.Name("")+"/")
}
