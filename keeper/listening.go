package keeper

import (
	"context"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// listening tells who listens on the endpoints of the runs that are asked about and live. It looks at the kernel's tables and at what
// processes have open, beside the loop.
func (k *keeper) listening(ctx context.Context, runs []observe.RunName) ([]observe.RunListening, error) {
	wanted := make(map[observe.RunName]bool, len(runs))
	for _, r := range runs {
		wanted[r] = true
	}
	live := k.core.livePlaces()
	var asked []listener
	for _, p := range live {
		if !wanted[observe.RunName{Scope: p.Scope, ID: p.RunID}] || p.Main == nil {
			continue
		}
		if endpoints := k.core.endpointsOf(p); len(endpoints) > 0 {
			asked = append(asked, listener{place: p, endpoints: endpoints})
		}
	}
	return k.kernel.listening(ctx, asked, live)
}

// endpointsOf are the endpoints that a run declares.
func (c *Core) endpointsOf(p Place) []spec.LaunchEndpoint {
	f := c.FactsOf(p.Scope)
	if f == nil || f.Run == nil || f.Run.ID != p.RunID {
		return nil
	}
	return f.Run.Endpoints
}
