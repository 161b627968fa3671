package state

import (
	"context"
	"sync"
	"time"
)

// flushDelay is how long a change that nobody waits for may wait for others to share its flush.
const flushDelay = 500 * time.Millisecond

// group is a group commit: changes are numbered, one goroutine flushes all that have happened, and those who wait for one
// of them wait together. The numbers are the whole state; a wake carries nothing.
type group struct {
	mu      sync.Mutex
	last    uint64        // newest change
	durable uint64        // newest change that survives a power cut
	failed  uint64        // newest change that a failed flush covered
	err     error         // of the last flush
	turns   uint64        // flushes so far
	ended   bool          // nobody flushes any more
	turned  chan struct{} // closed after each flush

	dirty chan struct{} // holds one wake: there is something to flush
	hurry chan struct{} // holds one wake: somebody waits for it
}

func newGroup() *group {
	return &group{turned: make(chan struct{}), dirty: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// changed numbers a change that has just been made.
func (g *group) changed() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last++
	wake(g.dirty)
	return g.last
}

// newest is the number of the last change.
func (g *group) newest() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// wait returns when change n survives a power cut, or the error of a flush that covered it and ended since.
func (g *group) wait(ctx context.Context, n uint64) error {
	g.mu.Lock()
	before := g.turns
	g.mu.Unlock()
	for {
		turned, done, err := g.look(n, before)
		if done {
			return err
		}
		wake(g.hurry)
		select {
		case <-turned:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (g *group) look(n, before uint64) (turned <-chan struct{}, done bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.durable >= n:
		return nil, true, nil
	case g.failed >= n && g.turns > before:
		return nil, true, g.err
	case g.ended:
		return nil, true, ErrClosed
	}
	return g.turned, false, nil
}

// health is the error of the last flush.
func (g *group) health() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// run flushes until ctx ends, and then once more.
func (g *group) run(ctx context.Context, flush func() error) error {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-g.dirty:
			g.linger(ctx)
			g.turn(flush)
		}
	}
	err := g.turn(flush)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	close(g.turned)
	g.turned = make(chan struct{})
	return err
}

// linger waits for others to come along.
func (g *group) linger(ctx context.Context) {
	t := time.NewTimer(flushDelay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-g.hurry:
	case <-ctx.Done():
	}
}

// turn flushes once. What failed is left for the next turn, which comes by itself.
func (g *group) turn(flush func() error) error {
	n := g.newest()
	g.mu.Lock()
	clean := g.durable >= n
	g.mu.Unlock()
	if clean {
		return nil
	}
	err := flush()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
	g.turns++
	if err == nil {
		g.durable = n
	} else {
		g.failed = n
		wake(g.dirty)
	}
	close(g.turned)
	g.turned = make(chan struct{})
	return err
}
