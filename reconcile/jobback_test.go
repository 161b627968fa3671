package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
)

// A job that comes back while the store is forgetting it is another job of its name, and is done.
func TestJobComesBackWhileItIsForgotten(t *testing.T) {
	h := newHost(t)
	h.profile("game", withCommands(console("poke")))
	h.server("town", "game")
	h.settle()
	answer := func(o Order) { h.loop.Done(h.now(), o, o.CarryOut(context.Background(), h, h, jobTable{h}, h)) }

	h.job("j", "town", "poke")
	h.diskErr = errors.New("no space left on device")
	orders, _ := h.loop.Turn(h.now())
	for _, o := range orders {
		answer(o) // nobody knows whether it is recorded
	}
	h.diskErr = nil
	h.removeJob("j")
	h.wall, h.uptime = h.wall.Add(time.Minute), h.uptime+time.Minute // the store is tried again
	orders, _ = h.loop.Turn(h.now())
	for _, o := range orders {
		if o.Save == nil || len(o.Save.Jobs) != 1 || o.Save.Jobs[key("j")] != nil {
			t.Fatalf("it is not forgotten: %+v", o)
		}
	}
	if len(orders) != 1 {
		t.Fatalf("%d orders", len(orders))
	}
	h.job("j", "town", "poke")
	if again, _ := h.loop.Turn(h.now()); len(again) != 0 {
		t.Fatalf("it is looked at while it is forgotten: %+v", again)
	}
	answer(orders[0])
	h.settle()
	h.wantJob("j", spec.JobSucceeded, "")
	h.once()
}
