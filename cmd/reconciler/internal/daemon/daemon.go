package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/metrics"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/spec/dir"
	"reconciler.dev/reconciler/state"
)

// Config is what a reconciler is made of.
type Config struct {
	Layout     state.Layout
	Manifests  []string // directories; none = the host configuration's sources
	Workspaces []Workspace
	HostFile   string // "" = none
	AllowEmpty bool
	StopOnExit bool
	Listen     string // address of the TCP listener; "" = none
	MustListen bool   // an address that cannot be had ends the start; else it is told and done without
	Version    string
	Keeper     []string // the keeper's command line, the program's absolute path first
	// First hears of the first server that is Ready, or that was there already and goes on; nil = nobody does.
	First    func(spec.Key)
	Shutdown string       // the command that ends everything here, to be named; "" = reconciler shutdown
	Log      *slog.Logger // must not block
}

// UsageError says that a reconciler was asked for wrongly.
type UsageError struct{ Message string }

func (e *UsageError) Error() string { return e.Message }

// daemon is one running reconciler.
type daemon struct {
	cfg    Config
	log    *slog.Logger
	uid    int
	lock   *state.Lock
	table  *state.Table[reconcile.Memory]
	jobs   *state.Table[reconcile.JobMemory]
	source source
	client *keeper.Client
	loop   *reconcile.Loop
	story  story
	doors  doors
	began  time.Time

	consoles consoles
	trying   sync.Mutex // held while the store is tried

	host      atomic.Pointer[Host]
	hostStamp stamp                  // of the file that host was read from
	hostError atomic.Pointer[string] // why the newest file is not in use; "" = it is
	again     bool                   // begin anew after the end

	guarantees atomic.Pointer[[]spec.Guarantee]
	closing    atomic.Bool // no keeper is started any more

	quit     context.CancelCauseFunc // ends the daemon
	shutOnce sync.Once
	shutBy   string
	shut     chan struct{} // closed when a shutdown is begun
	shutDone chan struct{} // closed when it is over
	shutErr  error         // of the shutdown; set before shutDone is closed
}

// source is where the wish comes from.
type source interface {
	reconcile.Source
	Run(context.Context) error
	ConfirmPrune(context.Context) ([]spec.ObjectKey, error)
}

// errShutDown is why a daemon ends that was asked to stop everything.
var errShutDown = errors.New("shut down")

// Run is a reconciler's life. It ends when ctx does, or by a shutdown, and is then nil; every run goes on, but for those
// that it was asked to stop. Any other error says why it could not begin, or what has broken.
func Run(ctx context.Context, cfg Config) error {
	for {
		err := runOnce(ctx, cfg)
		if err != errAgain || ctx.Err() != nil {
			return err
		}
	}
}

func runOnce(ctx context.Context, cfg Config) error {
	d := newDaemon(cfg)
	if err := d.prepare(ctx); err != nil {
		return errors.Join(err, d.close())
	}
	err := errors.Join(d.run(ctx), d.close())
	if err == nil && d.again {
		return errAgain
	}
	return err
}

func newDaemon(cfg Config) *daemon {
	return &daemon{cfg: cfg, log: cfg.Log, uid: os.Getuid(), began: time.Now(), shut: make(chan struct{}), shutDone: make(chan struct{})}
}

// prepare reads and checks everything, then takes the lock, and only then makes anything that others can see.
func (d *daemon) prepare(ctx context.Context) error {
	if err := d.readHost(); err != nil {
		return err
	}
	roots, err := d.roots(d.host.Load())
	if err != nil {
		return err
	}
	if err := d.open(); err != nil {
		return err
	}
	d.source, err = dir.New(dir.Config{Roots: roots, AllowEmpty: d.cfg.AllowEmpty, LastGood: d.lastGood(), Log: d.log})
	if err != nil {
		return err
	}
	if err := d.doors.open(d.cfg, d.log); err != nil {
		return err
	}
	if err := d.firstKeeper(ctx); err != nil {
		return err
	}
	d.assemble()
	for _, r := range roots {
		d.log.Info("watching manifests", "directory", r.Path)
	}
	return nil
}

// readHost reads the host configuration that there is at the start.
func (d *daemon) readHost() error {
	if d.cfg.HostFile != "" {
		now, err := stampOf(d.cfg.HostFile)
		if err != nil {
			return fmt.Errorf("cannot read the host configuration: %w", err)
		}
		d.hostStamp = now
	}
	host, err := d.loadHost()
	if err != nil {
		return err
	}
	d.host.Store(host)
	return nil
}

func (d *daemon) loadHost() (*Host, error) {
	var conf *spec.Host
	if d.cfg.HostFile != "" {
		var err error
		if conf, err = ReadHost(d.cfg.HostFile); err != nil {
			return nil, err
		}
	}
	host, err := NewHost(d.cfg.Layout, conf, d.cfg.Workspaces)
	if err != nil {
		return nil, &UsageError{err.Error()}
	}
	return host, nil
}

// roots are the directories to read: those of the command line, or else those of the host configuration.
func (d *daemon) roots(host *Host) ([]dir.Root, error) {
	switch {
	case len(d.cfg.Manifests) > 0 && len(host.Sources) > 0:
		return nil, &UsageError{"both --manifests and the host configuration's spec.sources say what to read; use one of them"}
	case len(d.cfg.Manifests) == 0 && len(host.Sources) == 0:
		return nil, &UsageError{"nothing says what to read: give --manifests DIR, or spec.sources in the host configuration"}
	}
	var roots []dir.Root
	for _, path := range d.cfg.Manifests {
		if err := isDirectory(path); err != nil {
			return nil, &UsageError{fmt.Sprintf("--manifests %s: %s", path, err)}
		}
		roots = append(roots, dir.Root{Path: path})
	}
	for _, s := range host.Sources {
		if err := isDirectory(s.Path); err != nil {
			return nil, fmt.Errorf("source %s of the host configuration, %s: %w", s.Name, s.Path, err)
		}
		roots = append(roots, dir.Root{Name: s.Name, Path: s.Path})
	}
	return roots, nil
}

// open takes the lock and opens what only its holder may touch.
func (d *daemon) open() error {
	l := d.cfg.Layout
	if err := l.MakeReconciler(); err != nil {
		return err
	}
	lock, err := state.TakeLock(state.LinuxDisk{}, l.ReconcilerLock(), "reconciler")
	var held *state.HeldError
	if errors.As(err, &held) {
		return alreadyRuns(held, l)
	}
	if err != nil {
		return err
	}
	d.lock = lock
	d.table, err = state.OpenTable[reconcile.Memory](state.LinuxDisk{}, l.Table("servers"), state.Format{Kind: "servers", Version: 1})
	if err != nil {
		return err
	}
	d.jobs, err = state.OpenTable[reconcile.JobMemory](state.LinuxDisk{}, l.Table("jobs"), state.Format{Kind: "jobs", Version: 1})
	if err != nil {
		return err
	}
	return l.MakeRuntime()
}

// alreadyRuns says of the lock's holder what a person needs, which is not its process number.
func alreadyRuns(held *state.HeldError, l state.Layout) error {
	since := ""
	if !held.Holder.Since.IsZero() {
		since = " since " + held.Holder.Since.Format(time.RFC3339)
	}
	return fmt.Errorf("another reconciler is running%s with the state directory %s; 'reconciler get servers' asks it, and another state directory is named with --state-dir", since, l.State)
}

func (d *daemon) lastGood() string { return d.cfg.Layout.Reconciler() + "/lastgood" }

// assemble puts the rooms together.
func (d *daemon) assemble() {
	d.client = keeper.NewClient(keeper.ClientConfig{Layout: d.cfg.Layout, Version: d.cfg.Version, Host: d.host.Load().Keeper, Spawn: d.spawn})
	meter := metrics.NewMeter()
	d.story = story{log: d.log, first: d.cfg.First, now: time.Now}
	d.loop = reconcile.New(reconcile.Options{
		Executor:   d.client,
		Source:     d.source,
		Clock:      reconcile.ClockFunc(clock()),
		Store:      d.table,
		Jobs:       d.jobs,
		Host:       func() *spec.HostView { return d.host.Load().View },
		Guarantees: d.promises,
		Told:       d.story.event,
		Meter:      meter,
		Log:        d.log,
	})
	svc := &api.Service{Loop: d.loop, Host: d, UID: d.uid, Log: d.log}
	d.doors.service(svc, d.page(meter))
}

// page is what Prometheus scrapes.
func (d *daemon) page(meter *metrics.Meter) http.Handler {
	page, err := metrics.NewPage(metrics.NewCollector(d.loop.Snapshot, d.usage), meter)
	if err != nil {
		panic(err) // the names of our own metrics clash
	}
	return page
}

func (d *daemon) promises() []spec.Guarantee {
	if g := d.guarantees.Load(); g != nil {
		return *g
	}
	return nil
}

// clock reads both clocks.
func clock() func() state.Moment {
	boot, err := state.LinuxDisk{}.BootID()
	if err != nil {
		boot = "" // no wait is counted over from another process then
	}
	return func() state.Moment {
		var ts unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // it has been there since 2.6.39
		return state.Moment{Wall: time.Now().Round(0), BootID: boot, Uptime: time.Duration(ts.Nano())}
	}
}

// run keeps everything going until it is told to end or a part of it fails, and then ends it in the order of dependence: first who
// asks, then who decides, then who is asked, and the disk last.
func (d *daemon) run(told context.Context) error {
	var ctx context.Context
	ctx, d.quit = context.WithCancelCause(told)
	defer d.quit(nil)

	var disk, below, deciding, asking group
	disk.Go(d.quit, d.table.Run)
	disk.Go(d.quit, d.jobs.Run)
	below.Go(d.quit, d.client.Run)
	below.Go(d.quit, d.source.Run)
	deciding.Go(d.quit, d.loop.Run)
	deciding.Go(d.quit, d.follow)
	deciding.Go(d.quit, d.rereadHost)
	deciding.Go(d.quit, d.tidy)
	deciding.Go(d.quit, func(ctx context.Context) error { return d.story.faults(ctx, d.loop) })
	if d.doors.control != nil {
		asking.Go(d.quit, d.doors.run)
	}
	asking.Go(d.quit, d.awaitShutdown)

	<-ctx.Done()
	d.again = context.Cause(ctx) == errAgain
	var wish error
	if told.Err() != nil {
		wish = d.lastWish()
	}
	return errors.Join(wish, asking.end(), deciding.end(), below.end(), disk.end())
}

// close lets go of what prepare took, the lock last.
func (d *daemon) close() error {
	errs := []error{d.doors.close()}
	if d.table != nil {
		errs = append(errs, d.table.Close())
	}
	if d.jobs != nil {
		errs = append(errs, d.jobs.Close())
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Release())
	}
	return errors.Join(errs...)
}
