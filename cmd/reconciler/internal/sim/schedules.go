package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// schedules are what profiles have of them.
var schedules = []string{
	"[]",
	"[{name: save, schedule: '* * * * *', startingDeadlineSeconds: 90, job: {command: backup}}]",
	"[{name: save, schedule: '*/2 * * * *', startingDeadlineSeconds: 1, job: {command: move}}, {name: again, schedule: '*/3 * * * *', job: {type: Restart}}]",
}

// announcements are what profiles with schedules say before a run is replaced.
var announcements = []string{
	"[]",
	"[{beforeSeconds: 2, command: poke}, {beforeSeconds: 30, command: backup}]",
	"[{beforeSeconds: 1, command: poke}]",
}

// checkAnnounced checks that a run is replaced for a change after that was announced to the end, if it is to be.
func (w *world) checkAnnounced(o *state.StopOrder) {
	m := w.table.All()[o.Scope.Namespace+"/"+o.Scope.Server]
	r := w.record(o.Scope)
	if m.Launch == nil || m.Launch.Scope != o.Scope || len(m.Launch.Disruption.Announce) == 0 || r == nil || r.Run == nil || r.Run.ID != o.RunID || r.Run.ReadyAt.IsZero() {
		return
	}
	c := m.Countdown
	if f := w.facts[o.Scope]; f.Run.ReadyAt.IsZero() {
		return // the reconciler has yet to hear of it
	}
	if c == nil || c.Run != o.RunID || c.Step != len(c.Steps)-1 {
		w.failf("S23", "run %s of %s is replaced, and what was announced of it is %+v", o.RunID, o.Scope, c)
	}
}

// slowest is the longest starting deadline of them.
const slowest = 300 * time.Second

// checkScheduled checks that a job of a schedule is the only one of its time, that it was made after its time was on record and not too late, and
// that no other of its schedule is open. open has those that are.
func (w *world) checkScheduled(name string, m *reconcile.JobMemory, open map[string]string) {
	o := m.Origin
	if o == nil || o.Announces != "" {
		return
	}
	schedule := m.Spec.Server + "/" + o.Schedule
	if other := open[schedule]; other != "" && !m.Phase.Over() {
		w.failf("Schedule", "jobs %s and %s of schedule %s overlap", other, name, schedule)
	}
	if !m.Phase.Over() {
		open[schedule] = name
	}
	occasion := fmt.Sprintf("%s at %s", schedule, o.At.UTC().Format(time.RFC3339))
	made, known := w.deeds.occasions[occasion]
	if known && made != m.UID {
		w.failf("Schedule", "%s has a second job", occasion)
	}
	if known {
		return
	}
	w.deeds.occasions[occasion] = m.UID
	w.tell("    job %s is made for %s", name, occasion)
	if late := m.Accepted.Wall.Sub(o.At); late < 0 && !w.clockSet || late > slowest {
		w.failf("Schedule", "the job of %s is made %s after its time", occasion, late)
	}
	server, _ := w.table.Get(spec.DefaultNamespace + "/" + m.Spec.Server)
	i := slices.IndexFunc(server.Schedules, func(s reconcile.Scheduled) bool { return s.Name == o.Schedule })
	if i >= 0 && server.Schedules[i].After.Before(o.At) && !w.clockSet {
		w.failf("Schedule", "the job of %s is made before its time is on record", occasion)
	}
}

// schedule gives a profile schedules.
func (s *wish) schedule(profile string, index int) {
	p := s.profiles[profile]
	p.comes = index
	s.profiles[profile], s.scheduled = p, s.scheduled || index > 0
}

// unschedule takes them all away: also from a server whose newest manifest is refused as it would wait for itself, by whose last good one they
// would go on for ever.
func (s *wish) unschedule() {
	for name, p := range s.profiles {
		p.comes = 0
		s.profiles[name] = p
	}
	for _, name := range slices.Sorted(maps.Keys(s.servers)) {
		if v, there := s.of(name); there && s.scheduled && s.circles(name) {
			v.after = ""
			s.servers[name] = v
		}
	}
}

// circles reports whether a server depends on itself, over others.
func (s *wish) circles(name string) bool {
	v, _ := s.of(name)
	for range serverNames {
		if v.after == name {
			return true
		}
		v, _ = s.of(v.after)
	}
	return false
}
