package daemon

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

// tidyAfter is how long nothing must have changed before memory is given back.
const tidyAfter = 3 * time.Second

// How much garbage there may be, in percent of what is kept: more while much happens.
const (
	calmGC = 100
	busyGC = 400
)

// tidy gives back the memory that a storm of changes has left, once it is quiet: a thousand starts leave as much garbage
// as there is to keep. While nothing changes, nothing happens here either.
func (d *daemon) tidy(ctx context.Context) error {
	changed, end := d.loop.Watch()
	defer end()
	debug.SetGCPercent(busyGC) // a start is busy
	quiet, busy := time.NewTimer(tidyAfter), true
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			if !busy {
				debug.SetGCPercent(busyGC)
			}
			busy = true
			quiet.Reset(tidyAfter)
		case <-quiet.C:
			busy = false
			debug.SetGCPercent(calmGC)
			runtime.GC() // what pools hold and stacks have too much goes in two rounds
			debug.FreeOSMemory()
		}
	}
}
