package keeper

import (
	"slices"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Entrusted reports whether there are live runs that were executed with secrets: whoever drives the core then calls
// [Core.CheckSecrets] about every half minute.
func (c *Core) Entrusted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entrusted) > 0
}

// CheckSecrets looks whether the secrets that live runs were executed with are others now (API.md rule 5), and says so in
// their facts. It reads files, so it may take long; no scope waits for it.
func (c *Core) CheckSecrets() {
	c.mu.Lock()
	names := make([]spec.Scope, 0, len(c.entrusted))
	for name := range c.entrusted {
		names = append(names, name)
	}
	c.mu.Unlock()
	slices.SortFunc(names, cmpScope)
	at := c.kernel.Now().Wall // one moment for all that one change of a secret concerns: a roll-out goes by it
	for _, name := range names {
		c.checkSecrets(name, at)
	}
}

func (c *Core) checkSecrets(name spec.Scope, at time.Time) {
	s := c.find(name)
	if s == nil {
		return
	}
	run := s.live() // it is never changed, but replaced
	c.release(s)
	if run == nil {
		return
	}
	now, err := c.kernel.Prints(&run.Launch, c.Host(), run.ID)
	if s = c.find(name); s == nil {
		return
	}
	defer c.release(s)
	if again := s.live(); again == nil || again.ID != run.ID {
		return
	}
	var changed *observe.ChangedSecrets
	// With what cannot be read, or used, now, no new run would come of it: the one that is there is left alone.
	if refs := changedRefs(run.Secrets, now); err == nil && len(refs) > 0 {
		changed = &observe.ChangedSecrets{Refs: refs, At: at}
		if s.changed != nil && slices.Equal(s.changed.Refs, refs) {
			return
		}
	}
	if s.changed != changed {
		s.changed = changed
		c.publish(s)
	}
}

// changedRefs are the secrets of a run that have another print now.
func changedRefs(then, now []state.SecretPrint) []string {
	var refs []string
	for _, p := range then {
		i := slices.IndexFunc(now, func(q state.SecretPrint) bool { return q.Ref == p.Ref })
		if i >= 0 && now[i] != p && !slices.Contains(refs, p.Ref) {
			refs = append(refs, p.Ref)
		}
	}
	return refs
}
