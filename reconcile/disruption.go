package reconcile

import (
	"fmt"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// The reasons of a change that waits for people, or for its time.
const (
	reasonOccupied = "Occupied"      // more people play than are to be disturbed, or nobody knows how many
	reasonWindow   = "OutsideWindow" // no window is open
	// reasonAnnounced: it is being announced that the run ends.
	reasonAnnounced = "Announced"
)

// affects says who plays on a run, to go on a sentence; "" = nobody counts, or nobody was counted yet.
func (s *standing) affects(run *observe.RunFacts) string {
	crowd := s.probing.crowd
	switch {
	case run.Over() || s.probing.runID != run.ID || crowd.since.IsZero():
		return ""
	case crowd.known && crowd.count == 0:
		return "; nobody plays"
	case crowd.known:
		return fmt.Sprintf("; %d play", crowd.count)
	}
	return "; nobody knows how many play"
}

// forbidden is why a run that is to be replaced for a change goes on.
type forbidden struct {
	reason, message string
	unknown         bool // nobody knows whether it is
}

// scheduled reports whether the restart that is asked for is one that a schedule wants.
func (d *decision) scheduled(s *standing) bool { return d.need == needRenew && s.mem.Restart.Scheduled }

// forbids says whether people or windows forbid that a run is replaced for a change or a schedule, by the newest spec (API.md rule 7). It asks for another
// look when that may be otherwise.
func (d *decision) forbids(s *standing, run *observe.RunFacts, now state.Moment) *forbidden {
	want := &s.good.launch.Disruption
	f, lead := s.occupied(want, run), d.lead(s, run, now)
	if f == nil {
		f = d.outside(s, run, lead, now)
	}
	if f == nil || want.DeadlineSeconds == 0 {
		return f
	}
	at := d.pendingSince(s, run).Add(time.Duration(want.DeadlineSeconds) * time.Second)
	switch {
	case now.Wall.Add(lead).Before(at):
		d.lookIn(at.Sub(now.Wall)-lead, now)
		until := "waits on"
		if want.OnDeadline == spec.DeadlineForce {
			until = "is replaced whatever forbids it"
		}
		f.message += "; at " + at.UTC().Format(time.RFC3339) + " it " + until
	case want.OnDeadline == spec.DeadlineForce:
		return nil
	default:
		f.message += "; its deadline was at " + at.UTC().Format(time.RFC3339) + ", and it waits on"
	}
	return f
}

// occupied says that more people play than a change may disturb. Whoever is not counted may be there.
func (s *standing) occupied(want *spec.LaunchDisruption, run *observe.RunFacts) *forbidden {
	if want.MaxPlayers == nil {
		return nil
	}
	crowd := s.probing.crowd
	switch {
	case run.Players == nil:
		return &forbidden{reason: reasonOccupied, message: "nobody counts the players of this run, which was started without `players`: restart it when nobody minds"}
	case s.probing.runID != run.ID || !crowd.known:
		return &forbidden{reasonOccupied, "nobody knows how many play, so it counts as occupied", true}
	case int64(crowd.count) > *want.MaxPlayers:
		return &forbidden{reason: reasonOccupied, message: fmt.Sprintf("%d play, and it is replaced with at most %d", crowd.count, *want.MaxPlayers)}
	}
	return nil
}

// outside says that no window is open when a run would be replaced that has lead until then, and when the next one is.
func (d *decision) outside(s *standing, run *observe.RunFacts, lead time.Duration, now state.Moment) *forbidden {
	want := &s.good.launch.Disruption
	var first time.Time
	for i := range want.Windows {
		open, next := want.Windows[i].Opens(now.Wall.Add(lead))
		if open {
			return nil
		}
		if first.IsZero() || !next.IsZero() && next.Before(first) {
			first = next
		}
	}
	switch {
	case len(want.Windows) == 0:
		return nil
	case first.IsZero():
		return &forbidden{reason: reasonWindow, message: "no window opens any more"}
	}
	d.lookIn(first.Sub(now.Wall)-lead, now)
	return &forbidden{reason: reasonWindow, message: "the next window opens at " + first.UTC().Format(time.RFC3339) + s.affects(run)}
}

// pendingSince is since when a run waits to be replaced: the newest spec was accepted then, its secret was seen to be another, or the job of
// the schedule began.
func (d *decision) pendingSince(s *standing, run *observe.RunFacts) time.Time {
	if d.scheduled(s) {
		return s.mem.Restart.At
	}
	if run.Changed != nil && run.Changed.At.After(s.mem.ChangedAt) {
		return run.Changed.At
	}
	return s.mem.ChangedAt
}
