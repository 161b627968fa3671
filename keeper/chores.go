package keeper

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"reconciler.dev/reconciler/keeper/anchor"
)

// How long the chores wait. Each is due only when there is a reason, so that nothing happens at rest.
const (
	againEvery = time.Second            // scopes in which something failed
	pollEvery  = 250 * time.Millisecond // trees that the kernel tells nothing about
	strayAfter = time.Second            // orphans that have ended
	tidyAfter  = 3 * time.Second        // memory that a storm has left, once it is quiet
	gather     = 10 * time.Millisecond  // while much happens

	secretsEvery = 30 * time.Second // secrets that live runs were executed with
)

// How much garbage there may be, in percent of what is kept. A small heap matters more than the collector's time, but not while
// much happens: then it would be a tenth of the work, and what is left is given back afterwards.
const (
	calmGC = 50
	busyGC = 200
)

// strays counts living orphans of no run.
type strays struct{ n atomic.Int64 }

func (s *strays) count() int { return int(s.n.Load()) }

// doChores does what no event asks for, until ctx ends. poke says that there may be something.
func (k *keeper) doChores(ctx context.Context, poke <-chan struct{}) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	defer signal.Stop(died)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var settleAt, pollAt, strayAt, tidyAt, secretsAt, claimAt time.Time // zero = not due
	if k.cfg.Anchor != nil {
		due(&strayAt, strayAfter) // what our predecessor has left
	}
	checking := make(chan struct{}, 1) // a disk may hang: nothing else shall wait for it
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(checking)
	wg.Go(func() {
		for range checking {
			k.core.CheckSecrets()
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-died:
			due(&strayAt, strayAfter)
		case <-poke:
			if tidyAt.IsZero() {
				debug.SetGCPercent(busyGC)
			}
			tidyAt = time.Now().Add(tidyAfter)
			time.Sleep(gather) // what changes in the next moments is looked at with it
		case <-timer.C:
		}
		if k.chore(&settleAt, len(k.core.Unsettled()) > 0, againEvery) {
			for _, scope := range k.core.Unsettled() {
				k.events.settle(scope)
			}
		}
		if k.chore(&pollAt, k.kernel.polls(), pollEvery) {
			k.kernel.pollTrees()
		}
		if k.chore(&strayAt, !strayAt.IsZero(), strayAfter) {
			strayAt = time.Time{}
			if again := k.reapStrays(); again {
				due(&strayAt, strayAfter)
			}
		}
		if k.chore(&secretsAt, k.core.Entrusted(), k.secretsEvery()) {
			select {
			case checking <- struct{}{}:
			default: // it is still at it
			}
		}
		if k.chore(&claimAt, k.claim.wanted(), againEvery) && k.claim.try() == nil {
			k.cfg.Log.Info("from now on it can be seen from outside that our anchor is there")
			claimAt = time.Time{}
		}
		if k.chore(&tidyAt, !tidyAt.IsZero(), tidyAfter) {
			debug.SetGCPercent(calmGC)
			runtime.GC() // what pools hold and stacks have too much goes in two rounds
			debug.FreeOSMemory()
			tidyAt = time.Time{}
		}
		timer.Reset(next(settleAt, pollAt, strayAt, tidyAt, secretsAt, claimAt, k.kernel.wake()))
	}
}

// chore reports whether a chore is due, and when it is due next.
func (k *keeper) chore(at *time.Time, wanted bool, every time.Duration) bool {
	if !wanted {
		*at = time.Time{}
		return false
	}
	due(at, every)
	if time.Now().Before(*at) {
		return false
	}
	*at = time.Now().Add(every)
	return true
}

// secretsEvery is how often secrets are looked at.
func (k *keeper) secretsEvery() time.Duration {
	if k.cfg.secretsEvery > 0 {
		return k.cfg.secretsEvery
	}
	return secretsEvery
}

func due(at *time.Time, after time.Duration) {
	if at.IsZero() {
		*at = time.Now().Add(after)
	}
}

// forever is longer than any keeper lives.
const forever = 100 * 365 * 24 * time.Hour

func next(times ...time.Time) time.Duration {
	wait := time.Duration(forever)
	for _, t := range times {
		if !t.IsZero() {
			wait = min(wait, max(time.Until(t), 0))
		}
	}
	return wait
}

// reapStrays reports whether it should be tried again: the anchor has not answered.
func (k *keeper) reapStrays() (again bool) {
	own, err := k.kernel.strays()
	before, anchorErr := k.kernel.anchorStrays()
	again = errors.Is(anchorErr, anchor.ErrAway)
	if again || errors.Is(anchorErr, context.Canceled) {
		anchorErr = nil
	}
	if err := errors.Join(err, anchorErr); err != nil {
		k.cfg.Log.Error("cannot look for orphans", "error", err)
		return again
	}
	k.strays.n.Store(int64(own + before))
	return again
}
