package reconcile

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/probe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Loop is the one owner of everything that is decided. The goroutine that calls Turn and Done writes all of it but the
// fields below the mutex.
type Loop struct {
	opts Options

	servers map[spec.Key]*server
	groups  map[spec.Key]*group
	rolling []*group  // in which something changed
	stale   []*group  // of which not all members show yet whom they wait for
	dirty   []*server // to be looked at in this turn
	due     dueHeap
	wakeAt  time.Duration // besides due: the earliest other deadline of this turn
	origin  time.Time     // what the wall clock said at uptime 0, when it was looked at last

	set     *spec.Set
	host    *spec.HostView
	facts   []*observe.Facts // as they were taken last
	lanes   int              // of all servers together
	heard   bool             // the keeper has been heard whole since its last connection
	adopted bool             // it has been heard before: a run that is new to us began in our time

	unsaved    map[*server]struct{}
	budget     budget
	jobs       jobs
	looking    looking
	ledger     ledger
	retie      bool // a job that others depend on has come to something else
	tangled    bool // specs are refused by which servers would wait for themselves
	dependents dependents
	batch      batch

	closing  bool
	closedBy string
	waiting  []closer

	rev      uint64
	changed  bool      // something that is shown changed since the last snapshot
	regroup  bool      // a server appeared or went since then
	reshown  []*server // whose view is another since then
	setShown *spec.Set

	snapshot atomic.Pointer[Snapshot]
	wake     chan struct{}

	mu       sync.Mutex
	ended    bool
	inbox    []*ask
	jobInbox []*jobAsk
	closers  []closer
	watchers map[chan struct{}]struct{}
}

// New makes a loop and recalls what the store has. It starts nothing.
func New(opts Options) *Loop {
	if opts.Checker == nil {
		opts.Checker = probe.Checker{}
	}
	if opts.Host == nil {
		none := &spec.HostView{}
		opts.Host = func() *spec.HostView { return none }
	}
	if opts.NewUID == nil {
		opts.NewUID = newUID
	}
	if opts.Jobs == nil {
		opts.Jobs = noJobs{}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	l := &Loop{
		opts: opts, servers: map[spec.Key]*server{}, groups: map[spec.Key]*group{}, unsaved: map[*server]struct{}{}, jobs: newJobs(), budget: budget{waiting: map[*server]*turnedAway{}}, looking: looking{servers: map[*server]struct{}{}}, ledger: ledger{map[portKey][]claim{}, map[*server][]claim{}}, dependents: dependents{},
		wake: make(chan struct{}, 1), watchers: map[chan struct{}]struct{}{},
	}
	for name, m := range opts.Store.All() {
		key, ok := parseStoreKey(name)
		if !ok {
			opts.Log.Error("the store has an entry that is no server's; it is left alone", "entry", name)
			continue
		}
		s := l.server(key)
		s.remember(&m)
		s.recalled = m.Countdown
	}
	l.recallJobs()
	l.snapshot.Store(&Snapshot{})
	return l
}

// newUID makes a random UUID (RFC 9562, version 4).
func newUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// server finds or makes a server.
func (l *Loop) server(key spec.Key) *server {
	s := l.servers[key]
	if s == nil {
		s = &server{standing: standing{key: key, closing: l.closing, closedBy: l.closedBy}, at: -1}
		s.known = l.set != nil && l.set.Known
		s.heard, s.keeper = l.heard, l.heard || l.adopted
		l.servers[key] = s
		l.regroup, l.changed = true, true
		l.touch(s)
	}
	return s
}

// touch has a server looked at in this turn, or the next.
func (l *Loop) touch(s *server) {
	if !s.dirty {
		s.dirty = true
		l.dirty = append(l.dirty, s)
	}
}

// The time that an order may take before it counts as failed, and the longest time between two turns: a lost wake costs
// no more than that.
const (
	orderTimeout = time.Minute
	resync       = 10 * time.Second
)

// answer is what became of an order.
type answer struct {
	order Order
	err   error
}

// Run turns until ctx ends and waits for what it has begun. It leaves every run alone. It must be called once.
func (l *Loop) Run(ctx context.Context) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	answers := make(chan answer, 64)
	var facts <-chan struct{}
	if n, ok := l.opts.Executor.(Notifier); ok {
		facts = n.Changed()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var pace pace
	for {
		l.rest(ctx, pace.take(time.Now()), answers)
		now := l.opts.Clock.Now()
		orders, wake := l.Turn(now)
		for _, o := range orders {
			beside.Go(func() {
				err := l.carryOut(ctx, o)
				select {
				case answers <- answer{o, err}:
				case <-ctx.Done():
				}
			})
		}
		timer.Reset(untilWake(wake, now.Uptime))
		select {
		case <-ctx.Done():
			l.refuseAll()
			return nil
		case <-timer.C:
		case <-l.wake:
		case <-facts:
		case <-l.opts.Source.Changed():
		case a := <-answers:
			l.done(a, answers)
		}
	}
}

// done takes an answer and all others that are there.
func (l *Loop) done(a answer, answers <-chan answer) {
	now := l.opts.Clock.Now()
	l.Done(now, a.order, a.err)
	for {
		select {
		case a := <-answers:
			l.Done(now, a.order, a.err)
		default:
			return
		}
	}
}

func untilWake(wake, now time.Duration) time.Duration {
	if wake == 0 {
		return resync
	}
	return min(max(wake-now, 0), resync)
}

// refuseAll answers those who still wait, and those who come later.
func (l *Loop) refuseAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for _, q := range l.inbox {
		q.answer <- ErrClosing
	}
	for _, q := range l.jobInbox {
		q.answer <- ErrClosing
	}
	for _, j := range l.jobs.all {
		j.refuse(ErrClosing)
	}
	for _, s := range l.servers {
		for _, q := range s.asks {
			q.answer <- ErrClosing
		}
	}
	for _, asks := range l.batch.asks {
		for _, q := range asks {
			q.answer <- fmt.Errorf("nobody knows whether it was recorded: %w", ErrClosing)
		}
	}
	for _, c := range append(l.waiting, l.closers...) {
		c.answer <- ErrClosing
	}
}

// carryOut does what an order says and returns the answer for Done.
func (l *Loop) carryOut(ctx context.Context, o Order) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, o.timeout())
	defer cancel()
	err := o.CarryOut(ctx, l.opts.Executor, l.opts.Store, l.opts.Jobs, l.opts.Checker)
	if l.opts.Meter != nil {
		l.opts.Meter.Order(o.Kind(), time.Since(began), err)
	}
	return err
}

// Wake asks for a turn. It carries no data, never blocks and may be called by anybody.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Done takes the answer to an order that Turn returned. Turn again after it.
func (l *Loop) Done(now state.Moment, o Order, err error) {
	if o.Save != nil {
		l.saved(o.Save, err, now)
		return
	}
	if o.Do != nil {
		l.jobDone(o.Do, err, now)
		return
	}
	if o.Look != nil {
		l.looked(o.Look, err, now)
		return
	}
	s := l.servers[o.Scope.ServerKey()]
	if s == nil {
		return
	}
	l.touch(s)
	if o.Check != nil {
		if s.probing.note(o.Check, err, now) {
			l.opts.Log.Warn("the program of a probe did not succeed", "scope", o.Scope.String(), "for", string(o.Check.For), "error", err, "output", o.Check.Output)
		}
		return
	}
	if o.Prove != nil {
		s.proving.note(o.Prove, err, now.Uptime)
		return
	}
	if !s.busy || s.sent != o.key() {
		return
	}
	s.busy = false
	s.attempt.note(o, err, now.Uptime)
	if err != nil && s.attempt.tries == 1 {
		l.opts.Log.Warn("an order was not carried out", "order", o.Kind(), "scope", o.Scope.String(), "error", err)
	}
}
