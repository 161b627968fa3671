package logs

import (
	"sync"
	"sync/atomic"
)

// Bell wakes those who follow a scope's logs. A ring carries no data: the listener looks at the files again. The zero value
// is ready to use; all methods may be called from any goroutine and none blocks.
type Bell struct {
	listeners atomic.Int64
	mu        sync.Mutex
	scopes    map[string]map[chan struct{}]struct{}
}

// Ring wakes every listener of a scope. Without any it costs one atomic load.
func (b *Bell) Ring(scope string) {
	if b.listeners.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.scopes[scope] {
		select {
		case c <- struct{}{}:
		default: // it has not looked since the last ring
		}
	}
}

// Listen returns a channel that receives after every ring (several may fold into one), and the function that ends it.
func (b *Bell) Listen(scope string) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.scopes == nil {
		b.scopes = map[string]map[chan struct{}]struct{}{}
	}
	if b.scopes[scope] == nil {
		b.scopes[scope] = map[chan struct{}]struct{}{}
	}
	b.scopes[scope][c] = struct{}{}
	b.listeners.Add(1)
	return c, func() { b.end(scope, c) }
}

func (b *Bell) end(scope string, c chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.scopes[scope][c]; !ok {
		return
	}
	delete(b.scopes[scope], c)
	if len(b.scopes[scope]) == 0 {
		delete(b.scopes, scope)
	}
	b.listeners.Add(-1)
}
