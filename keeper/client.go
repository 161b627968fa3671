package keeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// ErrNoKeeper says that there is no connection to a keeper now.
var ErrNoKeeper = errors.New("no keeper is connected")

// ErrUnresponsive says that a keeper holds the state directory and does not answer (KeeperUnresponsive). No other may take its
// place: it is to be looked at, and ended by hand if need be.
var ErrUnresponsive = errors.New("the keeper does not answer: KeeperUnresponsive")

// ClientConfig is what a client is made of.
type ClientConfig struct {
	Layout  state.Layout
	Version string
	// Host is what the reconciler's own configuration allows, for a keeper that has none of its own.
	Host *Host
	// Spawn starts a keeper when none holds the state directory; nil = one is started by somebody else. See [Spawner].
	Spawn func(context.Context) error
	// Patience is how long a keeper may take to welcome us; 0 = 10 s. It compares every record with the kernel first.
	Patience time.Duration
}

// Client is the reconciler's side of the socket: a control connection that is made again when it breaks, and the newest
// facts. It fits the reconciler's executor.
type Client struct {
	cfg     ClientConfig
	changed chan struct{}

	mu      sync.Mutex
	host    *Host
	session *session         // nil while there is none
	jobs    *session         // for lines, commands and probes, as long as session is there
	facts   []*observe.Facts // by scope; it is handed out, so every change makes another
	known   bool
	welcome Welcome
	err     error // why there is no session
}

// NewClient makes a client. [Client.Run] connects it.
func NewClient(cfg ClientConfig) *Client {
	return &Client{cfg: cfg, host: cfg.Host, changed: make(chan struct{}, 1), err: ErrNoKeeper}
}

// Changed has a slot that is filled when Facts may answer differently.
func (c *Client) Changed() <-chan struct{} { return c.changed }

func (c *Client) ring() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Facts is the newest known state of every scope that has a record, sorted by scope, and whether the keeper was heard whole since
// the last connection. Neither slice nor facts are changed afterwards. It never blocks.
func (c *Client) Facts() (facts []*observe.Facts, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.facts, c.known
}

// Problem is why there is no connection now; nil when there is one.
func (c *Client) Problem() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Welcome is what the keeper said of itself at the last handshake.
func (c *Client) Welcome() Welcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.welcome
}

// The waits between two tries to connect.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// Run keeps the client connected until ctx ends.
func (c *Client) Run(ctx context.Context) error {
	retry := time.Duration(firstRetry)
	for ctx.Err() == nil {
		heard, err := c.connect(ctx)
		c.setProblem(err)
		if heard {
			retry = firstRetry
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
		retry = min(2*retry, lastRetry)
	}
	return nil
}

func (c *Client) setProblem(err error) {
	if err == nil {
		err = ErrNoKeeper
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session, c.jobs, c.known, c.err = nil, nil, false, err
	c.ring()
}

// connect makes a session and stays with it until it breaks. heard says that it was welcomed.
func (c *Client) connect(ctx context.Context) (heard bool, err error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return false, err
	}
	hello := Hello{Protocol: Protocol, Version: c.cfg.Version, Purpose: PurposeControl, Host: c.currentHost()}
	s, err := shakeHands(ctx, conn, hello, c.cfg.Patience)
	if err != nil {
		return false, err
	}
	defer s.close()
	jobs, err := c.connectJobs(ctx, s)
	if err != nil {
		return false, err
	}
	defer jobs.close()
	stop := context.AfterFunc(ctx, func() {
		s.link.close()
		jobs.link.close()
	})
	defer stop()
	c.begin(s, jobs)
	return true, c.follow(ctx, s, jobs)
}

// connectJobs makes the connection for jobs of a session (BP-13).
func (c *Client) connectJobs(ctx context.Context, s *session) (*session, error) {
	conn, err := dial(ctx, c.cfg.Layout)
	if err != nil {
		return nil, err
	}
	return shakeHands(ctx, conn, Hello{Protocol: Protocol, Version: c.cfg.Version, Purpose: PurposeJobs, Session: s.welcome.Session}, c.cfg.Patience)
}

// dial connects, and starts a keeper when there is none and we may.
func (c *Client) dial(ctx context.Context) (*net.UnixConn, error) {
	conn, err := dial(ctx, c.cfg.Layout)
	if err == nil || c.cfg.Spawn == nil || !isAbsent(err) {
		return conn, err
	}
	if err := c.cfg.Spawn(ctx); err != nil {
		return nil, err
	}
	return dial(ctx, c.cfg.Layout)
}

func (c *Client) begin(s, jobs *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session, c.jobs, c.welcome, c.err, c.known = s, jobs, s.welcome, nil, false
}

// follow hears all facts, then what changes, until the session breaks.
func (c *Client) follow(ctx context.Context, s, jobs *session) error {
	since := uint64(0)
	pace := pace{burst: listBurst, every: listEvery}
	for {
		pace.wait(ctx)
		var page ListPage
		if err := s.ask(ctx, OpList, ListRequest{Since: since}, &page); err != nil {
			return err
		}
		c.take(s, page)
		since = page.Rev
		if page.More {
			continue
		}
		select {
		case <-s.notice:
		case <-s.ended:
			return s.problem()
		case <-jobs.ended:
			return jobs.problem()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take puts a page into the facts.
func (c *Client) take(s *session, page ListPage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != s {
		return
	}
	if page.Whole {
		c.facts, c.known = nil, false
	}
	c.facts = merge(c.facts, page.Facts)
	if !page.More {
		c.known = true
	}
	c.ring()
}

// merge is another slice, by scope, in which newer facts have taken the place of older ones.
func merge(facts, newer []*observe.Facts) []*observe.Facts {
	next := append(make([]*observe.Facts, 0, len(facts)+len(newer)), facts...)
	for _, f := range newer {
		i, found := slices.BinarySearchFunc(next, f.Scope, func(f *observe.Facts, s spec.Scope) int { return cmpScope(f.Scope, s) })
		switch {
		case found && f.Gone:
			next = slices.Delete(next, i, i+1)
		case found:
			next[i] = f
		case !f.Gone:
			next = slices.Insert(next, i, f)
		}
	}
	return next
}

// current is the session that there is.
func (c *Client) current() (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil {
		return nil, fmt.Errorf("%w", c.err)
	}
	return c.session, nil
}

func (c *Client) order(ctx context.Context, op Op, body any) error {
	s, err := c.current()
	if err != nil {
		return err
	}
	return s.ask(ctx, op, body, nil)
}

// Start asks for a run. See [Core.Start] for the errors.
func (c *Client) Start(ctx context.Context, o state.StartOrder) error {
	return c.order(ctx, OpStart, o)
}

// Stop records a stop.
func (c *Client) Stop(ctx context.Context, o state.StopOrder) error { return c.order(ctx, OpStop, o) }

// Step sends a step of the recorded ladder.
func (c *Client) Step(ctx context.Context, o state.StepOrder) error { return c.order(ctx, OpStep, o) }

// Send hands a line to a run's console and returns what became of it. An error that is no refusal says that nobody knows: the
// record of the run tells it.
func (c *Client) Send(ctx context.Context, o state.SendOrder) (state.Receipt, error) {
	return c.receipt(ctx, OpSend, o)
}

// Do carries out a declared command and returns what became of it, when it has ended. An error that is no refusal says that nobody
// knows; the same order with Recall asks for the receipt.
func (c *Client) Do(ctx context.Context, o state.DoOrder) (state.Receipt, error) {
	return c.receipt(ctx, OpDo, o)
}

// Probe asks a run what the keeper alone can ask. An error says that it was not asked, or that nobody knows.
func (c *Client) Probe(ctx context.Context, o state.ProbeOrder) (observe.Probed, error) {
	var p observe.Probed
	err := c.askJobs(ctx, OpProbe, o, &p)
	return p, err
}

// Type types keys on a run's terminal, and answers how many bytes it took. An error that is no refusal says that nobody knows.
func (c *Client) Type(ctx context.Context, o state.KeysOrder) (taken int, err error) {
	var typed state.Typed
	err = c.askJobs(ctx, OpType, o, &typed)
	return typed.Taken, err
}

func (c *Client) receipt(ctx context.Context, op Op, order any) (state.Receipt, error) {
	var r state.Receipt
	err := c.askJobs(ctx, op, order, &r)
	return r, err
}

// askJobs asks for what may take its time.
func (c *Client) askJobs(ctx context.Context, op Op, order, answer any) error {
	c.mu.Lock()
	s, err := c.jobs, c.err
	c.mu.Unlock()
	if s == nil {
		return fmt.Errorf("%w", err)
	}
	return s.ask(ctx, op, order, answer)
}

// ApplyLive writes live-class fields into a run's record.
func (c *Client) ApplyLive(ctx context.Context, o state.LiveOrder) error {
	return c.order(ctx, OpApplyLive, o)
}

// MarkReady records that a run was Ready for the first time.
func (c *Client) MarkReady(ctx context.Context, o state.ReadyOrder) error {
	return c.order(ctx, OpMarkReady, o)
}

// Reload gives a run other files, and has it read them.
func (c *Client) Reload(ctx context.Context, o state.ReloadOrder) error {
	return c.order(ctx, OpReload, o)
}

// Archive moves the record of a scope without a live run out of the way.
func (c *Client) Archive(ctx context.Context, o state.ScopeOrder) error {
	return c.order(ctx, OpArchive, o)
}

// Retire frees a scope whose record cannot be used.
func (c *Client) Retire(ctx context.Context, o state.ScopeOrder) error {
	return c.order(ctx, OpRetire, o)
}

func (c *Client) currentHost() *Host {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.host
}

// SetHost says that what this host allows has changed: now, and at every later connection. A keeper with a host configuration
// of its own refuses it, which is no fault.
func (c *Client) SetHost(ctx context.Context, h *Host) error {
	c.mu.Lock()
	c.host = h
	c.mu.Unlock()
	err := c.order(ctx, OpHost, h)
	if check, refused := IsRefused(err); refused && check == CheckPeer {
		return nil
	}
	return err
}

// Shutdown ends the keeper. It is refused while a run is live.
func (c *Client) Shutdown(ctx context.Context) error { return c.order(ctx, OpShutdown, struct{}{}) }

// Usage is what the live runs use now.
func (c *Client) Usage(ctx context.Context) ([]Usage, error) {
	s, err := c.current()
	if err != nil {
		return nil, err
	}
	var u []Usage
	return u, s.ask(ctx, OpUsage, nil, &u)
}

// Listening tells who listens on the endpoints of those of the runs that live, in any order. Of a keeper that is older than the
// question nothing can be learned: every endpoint of every run is Unseen then, and the answer has none of them.
func (c *Client) Listening(ctx context.Context, runs []observe.RunName) ([]observe.RunListening, error) {
	s, err := c.current()
	if err != nil {
		return nil, err
	}
	var found []observe.RunListening
	err = s.ask(ctx, OpListening, runs, &found)
	if check, refused := IsRefused(err); refused && check == CheckMessage {
		for _, r := range runs {
			found = append(found, observe.RunListening{RunName: r})
		}
		return found, nil
	}
	return found, err
}

// Past is what is kept of a server that was removed: the ends of its runs, oldest record first; nil when there is nothing.
func (c *Client) Past(ctx context.Context, server spec.Key) ([]*observe.Facts, error) {
	s, err := c.current()
	if err != nil {
		return nil, err
	}
	var past []*observe.Facts
	err = s.ask(ctx, OpPast, server, &past)
	return past, err
}

// Written is what was delivered to a server's console, with its text; of one that was removed, what is kept of it. A keeper of an older
// version refuses it, for [CheckMessage].
func (c *Client) Written(ctx context.Context, server spec.Key) ([]observe.Written, error) {
	s, err := c.current()
	if err != nil {
		return nil, err
	}
	var all []observe.Written
	err = s.ask(ctx, OpWritten, server, &all)
	return all, err
}

// Ping returns when the keeper answers. When it does not before ctx ends, the error wraps [ErrUnresponsive].
func (c *Client) Ping(ctx context.Context) error {
	s, err := c.current()
	if err != nil {
		return err
	}
	err = s.ask(ctx, OpPing, nil, nil)
	if _, refused := IsRefused(err); refused {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrUnresponsive, err)
	}
	return err
}

// Try has the keeper look whether it can write records. A refusal by [CheckRecord] says why it cannot.
func (c *Client) Try(ctx context.Context) error {
	err := c.order(ctx, OpTry, nil)
	if check, refused := IsRefused(err); refused && check == CheckMessage {
		return nil // a keeper that is older than the question
	}
	return err
}

// Status is how the keeper is.
func (c *Client) Status(ctx context.Context) (Status, error) {
	s, err := c.current()
	if err != nil {
		return Status{}, err
	}
	var st Status
	return st, s.ask(ctx, OpStatus, nil, &st)
}
