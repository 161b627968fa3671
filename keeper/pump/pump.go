package pump

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/logs"
)

// Config is what a pump is made of. Dir, Loop and PoolDirs are needed. The loop serves one pump, which is made before the
// loop runs.
type Config struct {
	Dir      string   // folder of all logs, STATE/keeper/logs; made when missing, 0700
	PoolDirs []string // where the pool file may lie, best first; see PoolDirs
	Loop     *Loop
	Bell     *logs.Bell // rung when a scope's log has grown; nil = nobody follows

	ScopeBudget int64        // bytes of log files a scope, all its runs together; 0 = 64 MiB
	HostBudget  int64        // bytes of all log files; 0 = 2 GiB
	Slots       int          // of 64 KiB each, at most 64; 0 = 8
	Log         *slog.Logger // nil = slog.Default()

	// For tests: the size of a log file, 0 = a part of the budget; how long a full pool waits for the disk, 0 = stallAfter;
	// and what is called at every change of a slot, where a test ends the pump.
	fileSize int64
	patience time.Duration
	at       func(point string)
}

// The defaults of [Config], and how long a full pool waits for a disk before output is dropped.
const (
	DefaultScopeBudget = 64 << 20
	DefaultHostBudget  = 2 << 30
	defaultSlots       = 8
	stallAfter         = 500 * time.Millisecond
)

// Stats are one run's numbers since it was attached; what a predecessor had read and this pump wrote is included.
type Stats struct {
	Bytes        int64 // output bytes written to the log, without time stamps
	DroppedLines int64 // lines of which at least a part was dropped
}

// The faults of an Attach and of what needs one.
var (
	ErrUnknownRun = errors.New("run is not attached to the log pump")
	ErrAttached   = errors.New("run is attached to the log pump already")
)

// Pump moves output to log files. All methods may be called from any goroutine, loop callbacks included; none but New, Run
// and Flush waits for anything. New touches files; Run's goroutine does from then on.
type Pump struct {
	dir  string
	loop *Loop
	bell *logs.Bell
	log  *slog.Logger
	pool *pool

	scopeBudget, hostBudget atomic.Int64
	fileSize                int64 // 0 = a part of the budget
	patience                time.Duration

	mu   sync.Mutex
	runs map[logs.Run]*run

	reader reader // the loop's goroutine
	writer writer // Run's goroutine
	queue  queue  // from the one to the other
	scans  scanner

	at func(point string) // see Config
}

// run is what is known of one run. Of its parts each has one owner.
type run struct {
	id       logs.Run
	attached bool           // under Pump.mu
	streams  []*source      // the loop's; stdout and stderr, or a terminal alone; nil without attachment
	watch    *watch         // the loop's
	expected []*expectation // the loop's
	taps     []*Tap         // the loop's
	file     logFile        // the writer's

	pool           *pool
	bytes, dropped atomic.Int64
	tally          atomic.Pointer[tally] // where dropped is told to a successor; nil until something was
	tallyOnce      sync.Once
}

// New opens or makes the pool and settles what a killed predecessor left in it; those lines are written when Run begins.
// The caller holds the keeper's lock: no other process uses the folder or the pool.
func New(cfg Config) (*Pump, error) {
	if cfg.Dir == "" || cfg.Loop == nil || len(cfg.PoolDirs) == 0 {
		return nil, errors.New("cannot make a log pump: Dir, Loop and PoolDirs must be given")
	}
	if cfg.Slots == 0 {
		cfg.Slots = defaultSlots
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.patience == 0 {
		cfg.patience = stallAfter
	}
	if cfg.at == nil {
		cfg.at = func(string) {}
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the log folder: %w", err)
	}
	pool, err := openPool(cfg.PoolDirs, cfg.Slots)
	if err != nil {
		return nil, err
	}
	p := &Pump{
		dir: cfg.Dir, loop: cfg.Loop, bell: cfg.Bell, log: cfg.Log, pool: pool, runs: map[logs.Run]*run{},
		fileSize: cfg.fileSize, patience: cfg.patience, at: cfg.at,
	}
	p.SetBudgets(cfg.ScopeBudget, cfg.HostBudget)
	p.queue.wake = make(chan struct{}, 1)
	p.scans.wake = make(chan struct{}, 1)
	p.reader.init(p)
	p.writer.init(p)
	for _, slot := range pool.settle(cfg.Dir, cfg.at, p.lost) {
		p.queue.push(work{run: p.left(slot), slot: slot})
	}
	cfg.Loop.after = p.reader.turn
	return p, nil
}

// left is the run of a slot that a predecessor left.
func (p *Pump) left(slot int) *run {
	id := p.pool.run(slot)
	if p.runs[id] == nil {
		p.runs[id] = p.newRun(id)
	}
	return p.runs[id]
}

// lost counts what a predecessor left and cannot be written.
func (p *Pump) lost(slot int, err error) {
	r := p.left(slot)
	r.countDropped(countLines(p.pool.data(slot)[:p.pool.header(slot).n]))
	p.log.Warn("log lines are dropped that were on their way when the keeper ended", "run", r.id, "error", err)
}

// Run writes log files until ctx ends, and then what was read by then. End the loop first. What the disk does not take
// stays in the pool for a successor.
func (p *Pump) Run(ctx context.Context) error {
	var scanning sync.WaitGroup
	scanning.Go(func() { p.scanLoop(ctx) })
	defer scanning.Wait()
	return p.writer.loop(ctx)
}

// Close gives up every descriptor and the pool, whose file goes when nothing is under way in it. Run and the loop's Run
// must have returned, or never begun.
func (p *Pump) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, r := range p.runs {
		r.endTaps()
		for _, s := range r.streams {
			if !s.closed {
				p.loop.Remove(s.fd)
				s.closed = true
				errs = append(errs, unix.Close(s.fd))
			}
		}
	}
	counted := p.pool.keepTallies(func(id logs.Run) bool { return p.runs[id] != nil && p.runs[id].attached })
	clear(p.runs)
	p.loop.after = nil
	return errors.Join(append(errs, p.writer.close(), p.pool.leave(counted))...)
}

// Attach begins to read a run's output. The descriptors are read ends, O_NONBLOCK (see [OpenReader]); from success on they
// are the pump's, after an error they stay the caller's. It fails with [ErrAttached] or for want of kernel resources.
func (p *Pump) Attach(id logs.Run, stdout, stderr int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, err := p.unattached(id)
	if err != nil {
		return err
	}
	out, err := p.reader.watch(r, stdout, logs.Stdout)
	if err != nil {
		return fmt.Errorf("cannot attach %v: %w", id, err)
	}
	errs, err := p.reader.watch(r, stderr, logs.Stderr)
	if err != nil {
		p.loop.Remove(stdout)
		return fmt.Errorf("cannot attach %v: %w", id, err)
	}
	p.begin(r, out, errs)
	return nil
}

// unattached is the run of an id that nothing is read of. The caller holds the pump.
func (p *Pump) unattached(id logs.Run) (*run, error) {
	r := p.runs[id]
	if r == nil {
		if len(id.Scope) > len(slotHeader{}.scope) || id.Scope == "" || id.Number < 1 {
			return nil, fmt.Errorf("cannot attach %v: not a run of a scope", id)
		}
		r = p.newRun(id)
	}
	if r.attached {
		return nil, fmt.Errorf("cannot attach %v: %w", id, ErrAttached)
	}
	return r, nil
}

// begin reads from watched sources. The caller holds the pump.
func (p *Pump) begin(r *run, streams ...*source) {
	r.streams = streams
	r.attached = true
	p.runs[r.id] = r
	for _, s := range streams {
		p.reader.enable(s)
	}
}

// lookup returns an attached run.
func (p *Pump) lookup(id logs.Run) (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.runs[id]; r != nil && r.attached {
		return r, nil
	}
	return nil, fmt.Errorf("%v: %w", id, ErrUnknownRun)
}

// Drain reads what is in the run's FIFOs now, and calls done once, on the loop's goroutine: with true when all of that
// is in the log file or counted as dropped, with false when limit has passed before. It fails with [ErrUnknownRun].
func (p *Pump) Drain(id logs.Run, limit time.Duration, done func(complete bool)) error {
	r, err := p.lookup(id)
	if err != nil {
		return fmt.Errorf("cannot drain: %w", err)
	}
	deadline := time.Now().Add(limit)
	p.loop.Post(func() { p.reader.drain(r, deadline, done) })
	return nil
}

// Detach ends the reading of a run and closes its descriptors; what was read is written before its log file is closed. Its
// Stats end with it; see [Pump.Recorded]. A run that is not attached is no fault.
func (p *Pump) Detach(id logs.Run) {
	r, err := p.lookup(id)
	if err != nil {
		return
	}
	p.loop.Post(func() {
		p.reader.forget(r)
		p.queue.push(work{do: func(w *writer) { w.forget(r) }})
	})
}

// Stats returns an attached run's numbers, and false for another run.
func (p *Pump) Stats(id logs.Run) (Stats, bool) {
	r, err := p.lookup(id)
	if err != nil {
		return Stats{}, false
	}
	return Stats{Bytes: r.bytes.Load(), DroppedLines: r.dropped.Load()}, true
}

// SetBudgets changes the budgets, in bytes; they hold from the next file on. Zero means the default.
func (p *Pump) SetBudgets(scope, host int64) {
	if scope <= 0 {
		scope = DefaultScopeBudget
	}
	if host <= 0 {
		host = DefaultHostBudget
	}
	p.scopeBudget.Store(scope)
	p.hostBudget.Store(host)
}

// Remove deletes the log files of a scope, those of attached runs excepted.
func (p *Pump) Remove(scope string) {
	p.queue.push(work{do: func(w *writer) { w.removeScope(scope) }})
}

// Flush returns when all that was read before the call is written or dropped.
func (p *Pump) Flush(ctx context.Context) error {
	done := make(chan struct{})
	p.loop.Post(func() {
		p.queue.push(work{do: func(*writer) { close(done) }})
	})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot flush logs: %w", context.Cause(ctx))
	}
}
