package keeper

import (
	"fmt"
	"slices"

	"reconciler.dev/reconciler/observe"
)

// UnknownRuns are the runs that have processes and are on no record that can be used: their record is damaged, newer, or was
// taken away. Which scope they are of is told by nothing but that record (EN-1), so that they may be of any scope that is blocked by
// its own. Nothing is done to them. A run that is being started just now may be among them.
func (c *Core) UnknownRuns() ([]Place, error) {
	ids, err := c.kernel.Folders()
	if err != nil {
		return nil, fmt.Errorf("cannot tell which runs have processes: %w", err)
	}
	known := c.knownRuns()
	var unknown []Place
	for _, id := range slices.Sorted(slices.Values(ids)) {
		if known[id] {
			continue
		}
		place := Place{RunID: id, Cgroup: c.kernel.CgroupName(id)}
		tree, err := c.kernel.Tree(place)
		if err != nil {
			return nil, fmt.Errorf("cannot tell which runs have processes: %w", err)
		}
		if tree.State == observe.TreePopulated {
			unknown = append(unknown, place)
		}
	}
	return unknown, nil
}

// knownRuns are the last runs of the records that can be used.
func (c *Core) knownRuns() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := make(map[string]bool, len(c.scopes))
	for _, s := range c.scopes {
		if s.entry == nil {
			continue
		}
		f := s.entry.Value.(*observe.Facts)
		if f.Run != nil {
			known[f.Run.ID] = true
			for _, why := range programProbes {
				known[probeID(f.Run.ID, why)] = true
			}
		}
		for _, id := range f.Programs() {
			known[id] = true
		}
	}
	return known
}

// mayRun refuses to free a scope whose record cannot be used as long as a run lives that may be its own: the next start
// would be the second of two (I1).
func (c *Core) mayRun(s *scope) error {
	if s.blocked == "" || s.blocked == BlockedUnverified {
		return nil
	}
	unknown, err := c.UnknownRuns()
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		return refuse(CheckLive, "%s may still run: processes live of %d runs that no usable record names; end them first, 'reconciler doctor' says where they are", s.name, len(unknown))
	}
	return nil
}
