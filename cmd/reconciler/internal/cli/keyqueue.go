package cli

import (
	"context"
	"sync"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
)

// maxQueued is how many bytes of keys wait for a server that does not read them.
const maxQueued = 64 << 10

// keyQueue holds keys on their way to a server, and that the size of the screen has changed.
type keyQueue struct {
	mu      sync.Mutex
	keys    []byte
	resized bool
	closed  bool
	wake    chan struct{} // one slot
}

func newKeyQueue() *keyQueue { return &keyQueue{wake: make(chan struct{}, 1)} }

func (q *keyQueue) ring() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// add takes keys, and returns how many bytes there was no room for.
func (q *keyQueue) add(keys []byte) (lost int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(keys), maxQueued-len(q.keys))
	q.keys = append(q.keys, keys[:n]...)
	q.ring()
	return len(keys) - n
}

// resize has the size told again.
func (q *keyQueue) resize() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.resized = true
	q.ring()
}

// close ends the queue once it is empty.
func (q *keyQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ring()
}

// next waits for keys, which stay in the queue until they are done, or for another size. It reports false at the end.
func (q *keyQueue) next(ctx context.Context) (keys []byte, resized, ok bool) {
	for {
		keys, resized, ended := q.look()
		if len(keys) > 0 || resized {
			return keys, resized, ctx.Err() == nil
		}
		if ended {
			return nil, false, false
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return nil, false, false
		}
	}
}

func (q *keyQueue) look() (keys []byte, resized, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys = append(keys, q.keys[:min(len(q.keys), api.MaxKeys)]...)
	resized, q.resized = q.resized, false
	return keys, resized, q.closed
}

// done takes so many bytes out, or all that wait with n negative, and returns how many those were.
func (q *keyQueue) done(n int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n < 0 {
		n = len(q.keys)
	}
	q.keys = append(q.keys[:0], q.keys[n:]...)
	return n
}
