package keeper

import (
	"context"
	"sync"

	"reconciler.dev/reconciler/spec"
)

// event is a reason to look at a scope. The reasons of one scope fold into one.
type event struct {
	scope spec.Scope
	seen  int64 // number of the run that printed a literal of its log probe; 0 = none did
	told  int64 // number of the run that said that it is ready; 0 = none did
	came  []arrived
}

// events hands reasons to look from the event loop, which may not wait, to workers, which may. A scope is with one worker
// at a time.
type events struct {
	mu      sync.Mutex
	pending map[spec.Scope]event
	order   []spec.Scope // of pending
	busy    map[spec.Scope]bool
	wake    *sync.Cond
	closed  bool
}

func newEvents() *events {
	e := &events{pending: map[spec.Scope]event{}, busy: map[spec.Scope]bool{}}
	e.wake = sync.NewCond(&e.mu)
	return e
}

// settle asks to look at a scope. It never blocks.
func (e *events) settle(scope spec.Scope) { e.add(event{scope: scope}) }

// logSeen asks to note that a literal was printed. It never blocks.
func (e *events) logSeen(scope spec.Scope, number int64) { e.add(event{scope: scope, seen: number}) }

// notified asks to note that a run said that it is ready. It never blocks.
func (e *events) notified(scope spec.Scope, number int64) { e.add(event{scope: scope, told: number}) }

// delivered tells what became of a delivery. It never blocks.
func (e *events) delivered(scope spec.Scope, ref DeliveryRef, o Outcome) {
	e.add(event{scope: scope, came: []arrived{{ref, o}}})
}

func (e *events) add(ev event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	old, waiting := e.pending[ev.scope]
	ev.seen, ev.told = max(ev.seen, old.seen), max(ev.told, old.told)
	ev.came = append(old.came, ev.came...)
	e.pending[ev.scope] = ev
	if !waiting && !e.busy[ev.scope] {
		e.order = append(e.order, ev.scope)
		e.wake.Signal()
	}
}

// run hands every event to look, with this many workers, until ctx ends.
func (e *events) run(ctx context.Context, workers int, look func(event)) {
	stop := context.AfterFunc(ctx, e.close)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for range workers {
		wg.Go(func() {
			for {
				ev, ok := e.next()
				if !ok {
					return
				}
				look(ev)
				e.done(ev.scope)
			}
		})
	}
}

func (e *events) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.wake.Broadcast()
}

func (e *events) next() (event, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.order) == 0 && !e.closed {
		e.wake.Wait()
	}
	if e.closed {
		return event{}, false
	}
	scope := e.order[0]
	e.order = e.order[1:]
	ev := e.pending[scope]
	delete(e.pending, scope)
	e.busy[scope] = true
	return ev, true
}

func (e *events) done(scope spec.Scope) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.busy, scope)
	if _, waiting := e.pending[scope]; waiting {
		e.order = append(e.order, scope)
		e.wake.Signal()
	}
}
