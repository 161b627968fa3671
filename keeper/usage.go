package keeper

import (
	"runtime"
	"sync"
	"sync/atomic"

	"reconciler.dev/reconciler/observe/proc"
)

// usage is what every live run uses. All processors look: at a thousand runs somebody waits for it. After each run they let
// whatever else the keeper has to do go first (I12).
func (k *keeper) usage() ([]Usage, error) {
	places := k.core.livePlaces()
	all := make([]Usage, len(places))
	families := k.kernel.familyUsage(places)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(places); i = int(next.Add(1)) - 1 {
				used, ok := families[i]
				if !ok {
					used = k.kernel.cgroupUsage(places[i])
				}
				all[i] = Usage{Scope: places[i].Scope, CPU: used.CPU, ResidentBytes: used.RSS, OpenFDs: used.FDs}
				stats, _ := k.pump.Stats(runOf(places[i]))
				all[i].LogBytes, all[i].LogDroppedLines = stats.Bytes, stats.DroppedLines
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
	return all, nil
}

// cgroupUsage is what a run with a cgroup uses, nothing when that cannot be told: it may have ended meanwhile.
func (k *linux) cgroupUsage(p Place) proc.Usage {
	g, err := k.cgroup(p)
	if err != nil {
		return proc.Usage{}
	}
	used, err := g.Usage()
	if err != nil {
		return proc.Usage{}
	}
	return used
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
