package keeper

import (
	"context"
	"sync"
)

// lines lets the deliveries to one run go one after the other.
type lines struct {
	mu   sync.Mutex
	runs map[string]*lane
}

// lane is one run's turn.
type lane struct {
	turn chan struct{} // full while somebody has it
	want int           // who has it or waits for it
}

func newLines() *lines { return &lines{runs: map[string]*lane{}} }

// enter waits for the run's turn. leave gives it to the next.
func (l *lines) enter(ctx context.Context, runID string) (leave func(), err error) {
	l.mu.Lock()
	r := l.runs[runID]
	if r == nil {
		r = &lane{turn: make(chan struct{}, 1)}
		l.runs[runID] = r
	}
	r.want++
	l.mu.Unlock()
	select {
	case r.turn <- struct{}{}:
		return func() { <-r.turn; l.drop(runID, r) }, nil
	case <-ctx.Done():
		l.drop(runID, r)
		return nil, context.Cause(ctx)
	}
}

func (l *lines) drop(runID string, r *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.want--; r.want == 0 {
		delete(l.runs, runID)
	}
}
