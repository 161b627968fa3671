package pump

import (
	"context"
	"errors"
	"testing"

	"reconciler.dev/reconciler/observe/logs"
)

// A follower sees every line once, over rotations; one that does not take its lines holds up neither it nor the pump
// (BP-13).
func TestFollowersAreNoBurden(t *testing.T) {
	var bell logs.Bell
	r := newRig(t, func(c *Config) { c.Bell, c.fileSize = &bell, 100_000 })
	r.attach()
	r.start()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	query := logs.Query{Dir: r.cfg.Dir, Scope: testRun.Scope, Tail: -1, Follow: true, Bell: &bell}

	stuck := make(chan struct{})
	stuckEnded := make(chan error, 1)
	go func() {
		stuckEnded <- logs.Read(ctx, query, func(logs.Entry) error {
			close(stuck) // it is not called again
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	r.print(r.out, string(floodLine(0)))
	<-stuck

	const lines = 20_000
	all := errors.New("all lines were seen")
	seen := make(chan error, 1)
	go func() {
		n := 0
		seen <- logs.Read(ctx, query, func(e logs.Entry) error {
			if want := floodLine(n); string(e.Text) != string(want[:len(want)-1]) || e.Partial {
				return errors.New("got " + string(e.Text) + ", want " + string(want))
			}
			if n++; n == lines {
				return all
			}
			return nil
		})
	}()
	for n := 1; n < lines; n++ {
		r.print(r.out, string(floodLine(n)))
	}
	if err := <-seen; err != all {
		t.Error(err)
	}
	cancel()
	if err := <-stuckEnded; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
