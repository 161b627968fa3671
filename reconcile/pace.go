package reconcile

import (
	"context"
	"time"
)

// While much happens a turn takes in what came in a few milliseconds: a server that is looked at once for all of it costs a
// fraction of one that is looked at for each. The first turns of a storm come at once, as do all when little happens.
const (
	turnBurst = 32
	turnEvery = 10 * time.Millisecond
)

// pace says when a turn may begin.
type pace struct {
	full time.Time // when all of the burst may go again
}

// take returns how long the next turn has to wait, which is how long it is taken to have waited.
func (p *pace) take(now time.Time) time.Duration {
	if p.full.Before(now) {
		p.full = now
	}
	p.full = p.full.Add(turnEvery)
	return max(p.full.Sub(now)-turnBurst*turnEvery, 0)
}

// rest lets answers gather for a while, and takes them then: each would wake its taker else.
func (l *Loop) rest(ctx context.Context, d time.Duration, answers <-chan answer) {
	if d == 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return
	case <-t.C:
	}
	select {
	case a := <-answers:
		l.done(a, answers)
	default:
	}
}
