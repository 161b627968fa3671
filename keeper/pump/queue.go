package pump

import "sync"

// work is one thing for the writer: a slot with a run's output, or something to do in its turn.
type work struct {
	run  *run
	slot int
	do   func(*writer)
}

// queue hands work to the writer. It holds no more slots than there are and a few things to do, so a push never waits.
type queue struct {
	mu    sync.Mutex
	items []work
	wake  chan struct{}
}

func (q *queue) push(w work) {
	q.mu.Lock()
	q.items = append(q.items, w)
	first := len(q.items) == 1
	q.mu.Unlock()
	if !first {
		return
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take swaps the waiting work for an empty slice, which the next items use.
func (q *queue) take(empty []work) []work {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items = empty[:0]
	return items
}
