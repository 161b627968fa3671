package keeper

import (
	"errors"
	"maps"
	"slices"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// BlockedUnverified says that a recorded process may live, but cannot be told from a stranger.
const BlockedUnverified = "Unverified"

// goneBefore is why nothing is known of an end: no keeper was there to see it.
const goneBefore = "it ended while no keeper was running"

// adoptAll takes over what the records say.
func (c *Core) adoptAll(contents *state.Contents) {
	twice := sharedIdentities(contents.Records)
	folders := c.folders()
	for _, r := range contents.Records {
		s := &scope{name: r.Scope, rec: r}
		c.enter(s)
		if s.live() != nil && r.Run.Identity != nil && twice[*r.Run.Identity] {
			s.blocked, s.claimed = BlockedUnverified, true
			c.publish(s)
			continue
		}
		s.litter = s.endedPrograms(folders)
		s.findProbes(folders)
		if r.Run != nil && r.Run.Phase == state.Exited && folders[r.Run.ID] {
			s.remain = []remains{{place: s.place()}}
		}
		c.adopt(s)
		c.settle(s)
		if s.entry == nil {
			c.publish(s)
		}
		c.note(s)
	}
	if len(contents.Blocked) == 0 { // else one may be of the run that nobody can read about
		c.sweep(contents.Records, folders)
	}
}

// sweep takes away what runs before the last have left, and not a thing that anybody still uses.
func (c *Core) sweep(records []*state.Record, folders map[string]bool) {
	for _, r := range records {
		if r.Run != nil {
			delete(folders, r.Run.ID)
			for _, why := range programProbes {
				delete(folders, probeID(r.Run.ID, why))
			}
		}
	}
	for _, s := range c.all() {
		for _, e := range s.openPrograms() {
			delete(folders, e.ID)
		}
		for _, r := range s.litter { // tried again, and should we die before, the folder shows it
			delete(folders, r.place.RunID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(folders)) {
		place := Place{RunID: id, Cgroup: c.kernel.CgroupName(id)}
		tree, err := c.kernel.Tree(place)
		if err != nil || tree.State == observe.TreePopulated {
			continue
		}
		_ = c.kernel.Remove(place) // the next start tries again
	}
}

// folders is the set of runs that have a folder. When it cannot be read, what is left of ended runs stays for a while.
func (c *Core) folders() map[string]bool {
	ids, err := c.kernel.Folders()
	if err != nil {
		return nil
	}
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// sharedIdentities are those that two live runs claim: one of the records is not ours (EN-4).
func sharedIdentities(records []*state.Record) map[state.Identity]bool {
	count := map[state.Identity]int{}
	for _, r := range records {
		if r.Run != nil && r.Run.Phase != state.Exited && r.Run.Identity != nil {
			count[*r.Run.Identity]++
		}
	}
	shared := map[state.Identity]bool{}
	for id, n := range count {
		shared[id] = n > 1
	}
	return shared
}

// adopt finds the process of a record again, or finds out that it is gone. It signals nothing but what is in a cgroup that no
// workload can have entered, or in one whose kill is on record.
func (c *Core) adopt(s *scope) {
	run := s.live()
	if run == nil {
		last := s.rec.Run
		s.reboot = last != nil && last.Identity != nil && last.Identity.BootID != c.kernel.Now().BootID
		return
	}
	if run.Identity == nil {
		c.abort(s)
		return
	}
	if run.Identity.BootID != c.kernel.Now().BootID {
		s.reboot, s.dead = true, true
		return
	}
	c.attach(s)
	proc, err := c.kernel.Open(s.place())
	switch {
	case err == nil:
		s.proc = proc
	case errors.Is(err, ErrGone):
		s.dead, s.gone = true, goneBefore
		if run.Phase == state.Released && run.MainExit == nil {
			s.never = never{reason: spec.ReasonStartAborted}
		}
	default:
		s.blocked, s.again = BlockedUnverified, true
		return
	}
	if run.Stop != nil && run.Stop.Killed != nil {
		c.killAgain(s)
	}
}

// abort ends a start of which no process is known: the stage of it, if it lives, is in its cgroup and was never
// released. Its gate is closed since our predecessor's death, so it ends by itself where there is no cgroup.
func (c *Core) abort(s *scope) {
	s.dead, s.never = true, never{reason: spec.ReasonStartAborted}
	if s.rec.Run.Cgroup == "" {
		return
	}
	if err := c.kernel.KillTree(s.place()); err != nil {
		s.again = true
	}
}

// killAgain repeats a kill that is on record, since nobody knows whether it was carried out. Unlike a step of the ladder it may be: it
// means the same each time, and without it the run would never end.
func (c *Core) killAgain(s *scope) {
	tree, err := c.kernel.Tree(s.place())
	if err == nil && tree.State == observe.TreePopulated {
		err = c.kernel.KillTree(s.place())
	}
	if err != nil {
		s.again = true
	}
}

// attach goes on with the run's output. Trouble with it must not keep the run from being looked after.
func (c *Core) attach(s *scope) {
	if s.pump {
		return
	}
	if err := c.kernel.Attach(s.place()); err != nil {
		return
	}
	s.pump = true
	c.watchLog(s)
}

func (c *Core) watchLog(s *scope) {
	run := s.rec.Run
	if run.Launch.Readiness == nil || len(run.Launch.Readiness.Log) == 0 || !run.LogSeenAt.IsZero() || !s.pump {
		return
	}
	if err := c.kernel.WatchLog(s.place(), slices.Clone(run.Launch.Readiness.Log)); err != nil {
		s.again = true
	}
}

// readopt looks again at a scope whose process could not be verified.
func (c *Core) readopt(s *scope) {
	if s.blocked != BlockedUnverified || s.claimed || s.live() == nil {
		return
	}
	proc, err := c.kernel.Open(s.place())
	if err != nil && !errors.Is(err, ErrGone) {
		s.again = true
		return
	}
	if err == nil {
		proc.Close()
	}
	s.blocked = ""
	c.adopt(s)
	c.publish(s)
}
