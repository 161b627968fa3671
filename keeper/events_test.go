package keeper

import (
	"context"
	"sync"
	"testing"

	"reconciler.dev/reconciler/spec"
)

// Reasons of one scope fold into one, a scope is with one worker at a time, and none is lost that comes meanwhile.
func TestEventsFold(t *testing.T) {
	e := newEvents()
	scope := spec.Scope{Server: "a"}
	other := spec.Scope{Server: "b"}
	ctx, cancel := context.WithCancel(t.Context())
	inside, goOn := make(chan event), make(chan struct{})
	var mu sync.Mutex
	busy := map[spec.Scope]bool{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.run(ctx, 3, func(ev event) {
			mu.Lock()
			if busy[ev.scope] {
				t.Error("a scope is with two workers")
			}
			busy[ev.scope] = true
			mu.Unlock()
			inside <- ev
			<-goOn
			mu.Lock()
			busy[ev.scope] = false
			mu.Unlock()
		})
	}()
	e.settle(scope)
	if ev := <-inside; ev.scope != scope || ev.seen != 0 {
		t.Errorf("event %+v", ev)
	}
	e.settle(scope)
	e.logSeen(scope, 4)
	e.settle(scope)
	e.settle(other)
	if ev := <-inside; ev.scope != other {
		t.Errorf("event %+v: another scope has to wait", ev)
	}
	goOn <- struct{}{}
	goOn <- struct{}{}
	if ev := <-inside; ev.scope != scope || ev.seen != 4 {
		t.Errorf("event %+v", ev)
	}
	goOn <- struct{}{}
	cancel()
	<-done
}
