package daemon

import (
	"context"
	"errors"
	"sync"
)

// group is goroutines that end together. Each has the group's context; one that fails ends the daemon.
type group struct {
	once   sync.Once
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	errs   []error
}

// Go begins run. quit is told its failure at once, so that the others do not go on without it.
func (g *group) Go(quit context.CancelCauseFunc, run func(context.Context) error) {
	g.once.Do(func() { g.ctx, g.cancel = context.WithCancel(context.Background()) })
	g.wg.Go(func() {
		err := run(g.ctx)
		if err == nil || errors.Is(err, context.Canceled) {
			return
		}
		g.mu.Lock()
		g.errs = append(g.errs, err)
		g.mu.Unlock()
		quit(errFailed)
	})
}

// errFailed is why a daemon ends of which a part has failed: the part's own error says more.
var errFailed = errors.New("the reconciler cannot go on")

// end ends the group, waits for it and returns what went wrong in it.
func (g *group) end() error {
	g.cancel()
	g.wg.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return errors.Join(g.errs...)
}
