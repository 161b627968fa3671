package keeper

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"reconciler.dev/reconciler/observe/proc"
)

// usageMaxAge is how long what the members of a run use may be told again while none of them does anything.
const usageMaxAge = time.Minute

// measure is what a run used when it was measured.
type measure struct {
	usage proc.Usage
	at    time.Time // when its members were asked
}

// usage is what every live run uses. All processors look: at a thousand runs somebody waits for it. After each run they let
// whatever else the keeper has to do go first (I12).
func (k *keeper) usage() ([]Usage, error) {
	places := k.core.livePlaces()
	all := make([]Usage, len(places))
	measures := make([]measure, len(places))
	families := k.kernel.familyUsage(places)
	before, now := k.measured.Load(), time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(places); i = int(next.Add(1)) - 1 {
				used, ok := families[i]
				if !ok {
					measures[i] = k.kernel.cgroupUsage(places[i], before.of(places[i].RunID), now)
					used = measures[i].usage
				}
				all[i] = Usage{Scope: places[i].Scope, CPU: used.CPU, ResidentBytes: used.RSS, OpenFDs: used.FDs}
				stats, _ := k.pump.Stats(runOf(places[i]))
				all[i].LogBytes, all[i].LogDroppedLines = stats.Bytes, stats.DroppedLines
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
	latest := make(measured, len(places))
	for i, m := range measures {
		if !m.at.IsZero() {
			latest[places[i].RunID] = m
		}
	}
	k.measured.Store(&latest)
	return all, nil
}

// measured are the measures of the runs, by their IDs.
type measured map[string]measure

func (m *measured) of(runID string) measure {
	if m == nil {
		return measure{}
	}
	return (*m)[runID]
}

// cgroupUsage is what a run with a cgroup uses, nothing when that cannot be told: it may have ended meanwhile.
func (k *linux) cgroupUsage(p Place, last measure, now time.Time) measure {
	g, err := k.cgroup(p)
	if err != nil {
		return measure{}
	}
	if now.Sub(last.at) > usageMaxAge {
		last = measure{at: now}
	}
	used, err := g.Usage(last.usage)
	if err != nil {
		return measure{}
	}
	if used != last.usage {
		last.at = now
	}
	return measure{usage: used, at: last.at}
}

// familyUsage is what the runs without a cgroup use, by their index: one look through all processes finds all of them.
func (k *linux) familyUsage(places []Place) map[int]proc.Usage {
	var of []int
	var hints []proc.Hint
	used := map[int]proc.Usage{}
	for i, p := range places {
		if p.Cgroup != "" {
			continue
		}
		used[i] = proc.Usage{}
		if hint, err := k.hint(p); err == nil {
			of, hints = append(of, i), append(hints, hint)
		}
	}
	if len(hints) == 0 {
		return used
	}
	families, err := k.proc.Families(hints)
	if err != nil {
		return used
	}
	for i, f := range families {
		used[of[i]] = f.Usage()
	}
	return used
}
