package keeper

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// What little there is goes at once, a storm after its beginning one by one, and after a pause at once again.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{burst: 3, every: time.Second}
		waited := func() time.Duration {
			began := time.Now()
			p.wait(t.Context())
			return time.Since(began)
		}
		for i, want := range []time.Duration{0, 0, 0, time.Second, time.Second} {
			if got := waited(); got != want {
				t.Errorf("number %d has waited %s, not %s", i, got, want)
			}
		}
		time.Sleep(time.Hour)
		if got := waited(); got != 0 {
			t.Errorf("after a pause one has waited %s", got)
		}
	})
}

func TestPaceEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := pace{every: time.Hour}
	p.wait(ctx) // for an hour, were it not for ctx
}
