package keeper

import (
	"context"
	"time"
)

// A client that hears of much lists what has changed so often at once, and then no more often than that: a fact that another has
// replaced meanwhile is neither encoded nor read. Whoever hears of little never waits.
const (
	listBurst = 32
	listEvery = 10 * time.Millisecond
)

// So it is with answers and notices: while many come one by one they are read so often, all that came meanwhile together. Each would wake
// a process that sleeps else, which costs more than reading it.
const (
	readBurst = 32
	readEvery = 5 * time.Millisecond
)

// gatherer is what a receiver that goes by the pace waits with.
func gatherer() func() bool {
	pace := pace{burst: readBurst, every: readEvery}
	return func() bool {
		d := pace.take(time.Now())
		time.Sleep(d) // 0 = at once
		return d > 0
	}
}

// pace lets a few through at once, and more of them one by one.
type pace struct {
	burst int
	every time.Duration
	full  time.Time // when all of the burst may go again
}

// take returns how long the next one has to wait, which is how long it is taken to have waited.
func (p *pace) take(now time.Time) time.Duration {
	if p.full.Before(now) {
		p.full = now
	}
	p.full = p.full.Add(p.every)
	return max(p.full.Sub(now)-time.Duration(p.burst)*p.every, 0)
}

// wait waits for the next one's time, or until ctx ends.
func (p *pace) wait(ctx context.Context) {
	d := p.take(time.Now())
	if d == 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
