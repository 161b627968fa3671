package reconcile

import (
	"testing"
	"time"
)

// The first turns come at once, those of a storm one by one, and after a pause they come at once again.
func TestTurnsArePaced(t *testing.T) {
	var p pace
	now := time.Unix(1, 0)
	for i := range turnBurst {
		if d := p.take(now); d != 0 {
			t.Fatalf("turn %d of a burst waits %s", i, d)
		}
	}
	for i := range 3 {
		d := p.take(now)
		if d != turnEvery {
			t.Fatalf("turn %d of a storm waits %s, not %s", i, d, turnEvery)
		}
		now = now.Add(d)
	}
	if d := p.take(now.Add(time.Hour)); d != 0 {
		t.Errorf("a turn waits %s after a pause", d)
	}
}
