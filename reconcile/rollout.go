package reconcile

import (
	"cmp"
	"slices"
	"time"

	"reconciler.dev/reconciler/spec"
)

// member is a server as its profile's roll-out sees it: one that shall run.
type member struct {
	key       spec.Key
	limit     int64     // its newest disruption.maxUnavailable; 0 = none
	changedAt time.Time // when its newest spec was accepted
	outdated  bool      // it runs by an older spec and waits to be replaced
	granted   bool      // it may be replaced; from here on it counts as unavailable
	announced bool      // that it is to be replaced was announced
	moving    bool      // it is being replaced, or its run was started by a change and was not Ready yet
	ready     bool
}

// rollout is what a roll-out of one profile comes to.
type rollout struct {
	grant []spec.Key // these may be replaced now
	wait  []spec.Key // for these: copies that are not Ready and keep the others waiting
}

// roll permits as many copies to be replaced as disruption.maxUnavailable leaves. A copy counts as unavailable while it
// takes part in a change and is not Ready: it is being replaced, or it is on a spec at least as new as the oldest that
// waits. So a copy that breaks on the new spec halts the rest, and one that has been broken for other reasons
// since before the change does not. Copies that do not run are no business of a roll-out: they start by the newest
// spec. Of those that wait, those go first of which it was announced, then broken ones, which costs nobody anything; then by name.
func roll(members []member) rollout {
	waiting := make([]*member, 0, len(members))
	var oldest time.Time
	for i := range members {
		m := &members[i]
		if !m.outdated || m.granted {
			continue
		}
		waiting = append(waiting, m)
		if oldest.IsZero() || m.changedAt.Before(oldest) {
			oldest = m.changedAt
		}
	}
	if len(waiting) == 0 {
		return rollout{}
	}
	var r rollout
	for i := range members {
		if m := &members[i]; m.unavailable(oldest) {
			r.wait = append(r.wait, m.key)
		}
	}
	slices.SortFunc(waiting, func(a, b *member) int {
		if a.announced != b.announced {
			if a.announced {
				return -1
			}
			return 1
		}
		if a.ready != b.ready {
			if b.ready {
				return -1
			}
			return 1
		}
		return compareKeys(a.key, b.key)
	})
	slices.SortFunc(r.wait, compareKeys)
	for _, m := range waiting {
		if m.limit == 0 || int64(len(r.wait)+len(r.grant)) < m.limit {
			r.grant = append(r.grant, m.key)
		}
	}
	return r
}

// unavailable reports whether the member takes part in a change that is as new as the oldest waiting one and is not Ready.
func (m *member) unavailable(oldest time.Time) bool {
	switch {
	case m.outdated:
		return m.granted
	case m.ready:
		return false
	}
	return m.moving || !m.changedAt.Before(oldest)
}

func compareKeys(a, b spec.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
