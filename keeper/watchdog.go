package keeper

import (
	"fmt"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// sign is a moment in the life of a run, by its number.
type sign struct {
	number int64
	at     time.Duration // CLOCK_BOOTTIME
}

// HandleWatchdog notes that a run, by its number, has said that it lives. It never blocks.
func (c *Core) HandleWatchdog(name spec.Scope, number int64) {
	if s := c.lookup(name); s != nil {
		s.said.Store(&sign{number, c.kernel.Now().Uptime})
	}
}

// askWatchdog answers whether the live run has said that it lives within the last period. What was said to a keeper before this one is
// not known: it listens for a whole period before it says that a run is silent.
func (c *Core) askWatchdog(s *scope, period time.Duration) observe.Probed {
	run, now := s.rec.Run, c.kernel.Now().Uptime
	if s.listened.number != run.Number {
		s.listened = sign{run.Number, now}
	}
	said := s.said.Load()
	switch {
	case said != nil && said.number == run.Number && now-said.at <= period:
		return observe.Probed{Result: observe.ProbePassed}
	case now-s.listened.at <= period:
		return observe.NotRun("it is not listened to for a whole period yet")
	}
	return observe.Probed{Result: observe.ProbeFailed, Detail: fmt.Sprintf("it has not said WATCHDOG=1 for %d s", period/time.Second)}
}
