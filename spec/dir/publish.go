package dir

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"reconciler.dev/reconciler/spec"
)

// publish makes the state's Set. It is the Set of old, but for the times of the last successes, when nothing else in it
// would differ, and then the serial stays; it shares with it whatever is equal.
func (s *state) publish(old *state) {
	s.serial = old.serial
	before := old.set
	for i, r := range s.roots {
		if i >= len(old.roots) || r.revision != old.roots[i].revision {
			s.touched = s.keys()
			break
		}
	}
	same := before != nil
	for _, key := range s.touched {
		w := s.objects[key]
		if w == nil {
			same = same && old.objects[key] == nil
			continue
		}
		if n := s.accepted(key, w); n != w {
			s.ownObjects()
			s.objects[key], w = n, n
		}
		same = same && w.shownAs(old.objects[key])
	}
	sources := s.sources(old)
	known := s.known()
	switch {
	case same && before.Known == known && slices.EqualFunc(before.Sources, sources, sameSource):
		s.set = refreshed(before, sources)
	case same:
		s.serial++
		s.set = &spec.Set{Profiles: before.Profiles, Servers: before.Servers, Jobs: before.Jobs, Sources: sources, Known: known}
	default:
		s.serial++
		s.set = s.amended(before)
		s.set.Sources, s.set.Known = sources, known
	}
	s.owned, s.touched = false, nil
}

// keys is the keys of all objects.
func (s *state) keys() []spec.ObjectKey {
	keys := make([]spec.ObjectKey, 0, len(s.objects))
	for key := range s.objects {
		keys = append(keys, key)
	}
	return keys
}

// refreshed is the Set with the times of the last successes as they are now: the same when none moved.
func refreshed(set *spec.Set, now []spec.SourceState) *spec.Set {
	if slices.EqualFunc(set.Sources, now, func(a, b spec.SourceState) bool { return a.LastSuccess.Equal(b.LastSuccess) }) {
		return set
	}
	n := *set
	n.Sources = slices.Clone(set.Sources)
	for i := range n.Sources {
		n.Sources[i].LastSuccess = now[i].LastSuccess
	}
	return &n
}

// amended is the objects of a Set with what was touched since.
func (s *state) amended(before *spec.Set) *spec.Set {
	set := &spec.Set{}
	if before != nil {
		set.Profiles, set.Servers, set.Jobs = before.Profiles, before.Servers, before.Jobs
	}
	touched := map[string]bool{}
	for _, key := range s.touched {
		touched[key.Kind] = true
	}
	set.Profiles = ownMap(set.Profiles, touched[spec.KindProfile])
	set.Servers = ownMap(set.Servers, touched[spec.KindServer])
	set.Jobs = ownMap(set.Jobs, touched[spec.KindJob])
	for _, key := range s.touched {
		w := s.objects[key]
		switch key.Kind {
		case spec.KindProfile:
			amend(set.Profiles, key.Key, w, func(w *wanted) *spec.Accepted[spec.Profile] { return w.profile })
		case spec.KindServer:
			amend(set.Servers, key.Key, w, func(w *wanted) *spec.Accepted[spec.Server] { return w.server })
		case spec.KindJob:
			amend(set.Jobs, key.Key, w, func(w *wanted) *spec.Accepted[spec.Job] { return w.job })
		}
	}
	return set
}

// ownMap is a map that may be changed, if it has to be.
func ownMap[T any](m map[spec.Key]*spec.Accepted[T], change bool) map[spec.Key]*spec.Accepted[T] {
	switch {
	case m == nil:
		return map[spec.Key]*spec.Accepted[T]{}
	case change:
		return maps.Clone(m)
	}
	return m
}

// amend enters an object as it is shown now, nil as gone.
func amend[T any](m map[spec.Key]*spec.Accepted[T], key spec.Key, w *wanted, shown func(*wanted) *spec.Accepted[T]) {
	if w == nil {
		delete(m, key)
		return
	}
	m[key] = shown(w)
}

// known reports whether every directory has been read whole once, and nothing that was known is lost.
func (s *state) known() bool {
	for _, r := range s.roots {
		if !r.former && !r.known || len(r.lost) > 0 {
			return false
		}
	}
	return true
}

// accepted is w with its published form: w itself when it has it.
func (s *state) accepted(key spec.ObjectKey, w *wanted) *wanted {
	root := s.roots[w.root]
	src := spec.ObjectSource{Root: root.name, File: w.path, Document: w.object.document, Line: w.object.line, Revision: root.revision}
	if w.shown == w.object && w.shownAt == src && w.shownStale == w.stale && w.shownAbsent == w.absent() {
		return w
	}
	n := *w
	n.shown, n.shownAt, n.shownStale, n.shownAbsent = w.object, src, w.stale, w.absent()
	n.profile, n.server, n.job = nil, nil, nil
	switch o := w.object; key.Kind {
	case spec.KindProfile:
		n.profile = &spec.Accepted[spec.Profile]{Object: o.profile, Source: src, Stale: n.stale, Absent: n.absent()}
	case spec.KindServer:
		n.server = &spec.Accepted[spec.Server]{Object: o.server, Source: src, Stale: n.stale, Absent: n.absent()}
	case spec.KindJob:
		n.job = &spec.Accepted[spec.Job]{Object: o.job, Source: src, Stale: n.stale, Absent: n.absent()}
	}
	return &n
}

// shownAs reports whether both have the same published form.
func (w *wanted) shownAs(o *wanted) bool {
	return o != nil && w.profile == o.profile && w.server == o.server && w.job == o.job
}

// sources is the state of each source as shown.
func (s *state) sources(old *state) []spec.SourceState {
	rivals := s.rivals
	conflicts := conflictFaults(rivals)
	states := make([]spec.SourceState, len(s.roots))
	counts := make([]map[string]int, len(s.roots))
	for i := range s.roots {
		counts[i] = map[string]int{"accepted": 0, "stale": 0, "absent": 0, "invalid": 0, "conflict": 0}
	}
	for key, w := range s.objects {
		n := counts[w.root]
		n["accepted"]++
		if w.stale {
			n["stale"]++
		}
		if !w.absent() {
			continue
		}
		n["absent"]++
		if w.object.keep {
			states[w.root].PruneKept = append(states[w.root].PruneKept, key)
		}
	}
	for _, r := range rivals {
		for at, c := range r.claims {
			if at != r.winner {
				counts[c.root]["conflict"]++
			}
		}
	}
	shown := states[:0:0]
	for i, r := range s.roots {
		st := &states[i]
		st.Name, st.Revision, st.Dirty, st.Notice, st.LastSuccess = r.name, r.revision, r.dirty, r.notice, r.lastSuccess
		st.Complete = r.verdict.cause == complete
		st.Reason = r.verdict.reason
		if r.verdict.cause == empty && r.holds() {
			st.Complete, st.Reason = true, "" // a file came since; the scan that follows it is on its way
		}
		st.Objects = counts[i]
		if r.states == nil || len(conflicts) > 0 || len(old.rivals) > 0 {
			c := *r
			c.states = r.fileStates(i, conflicts)
			s.roots[i], r = &c, &c
		}
		st.Files = r.states
		for _, f := range st.Files {
			if f.State == spec.FileInvalid {
				counts[i]["invalid"]++
			}
		}
		for key := range r.paused {
			st.PrunePaused = append(st.PrunePaused, key)
		}
		sortKeys(st.PrunePaused)
		sortKeys(st.PruneKept)
		if !r.former || st.Objects["accepted"] > 0 || len(st.PrunePaused) > 0 {
			shown = append(shown, *st)
		}
	}
	return shown
}

// holds reports whether a manifest file is there, as far as scans and events know.
func (r *rootState) holds() bool {
	for _, f := range r.files {
		if f.present && f.current != nil {
			return true
		}
	}
	return false
}

// place is a file of a root.
type place struct {
	root int
	path string
}

// conflictFaults is what each file of a rivalry is told.
func conflictFaults(rivals map[spec.ObjectKey]*rivalry) map[place][]spec.Fault {
	if len(rivals) == 0 {
		return nil
	}
	faults := map[place][]spec.Fault{}
	for key, r := range rivals {
		for at, c := range r.claims {
			others := make([]string, 0, len(r.claims)-1)
			for o, other := range r.claims {
				if o != at {
					others = append(others, fmt.Sprintf("%s:%d", other.path, other.object.line))
				}
			}
			detail := "is also in " + strings.Join(others, ", ")
			switch {
			case r.waits:
				detail = "was first in another file, which cannot be found in a directory that cannot be read whole; it stays as it was until it can"
			case r.winner < 0:
				detail += "; none of them is used: remove or rename all but one"
			case r.winner == at:
				detail += "; this one was first and stays: remove or rename the other"
			default:
				detail += fmt.Sprintf("; %s was first and stays: remove or rename this one", r.claims[r.winner].path)
			}
			at := place{c.root, c.path}
			faults[at] = append(faults[at], spec.Fault{File: c.path, Line: c.object.line, Document: c.object.document,
				Field: "metadata.name", Kind: spec.FaultDuplicate, Value: key.String(), Detail: detail})
		}
	}
	for _, f := range faults {
		slices.SortFunc(f, func(a, b spec.Fault) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Value, b.Value)) })
	}
	return faults
}

// fileStates is what is shown of the files of root i, sorted by path.
func (r *rootState) fileStates(i int, conflicts map[place][]spec.Fault) []spec.FileState {
	states := make([]spec.FileState, 0, len(r.files)+len(r.skipped))
	states = append(states, r.skipped...)
	for path, f := range r.files {
		states = append(states, f.state(path, conflicts[place{i, path}]))
	}
	slices.SortFunc(states, func(a, b spec.FileState) int { return strings.Compare(a.Path, b.Path) })
	return states
}

// state is what is shown of one file.
func (f file) state(path string, conflicts []spec.Fault) spec.FileState {
	st := spec.FileState{Path: path, State: spec.FileAccepted}
	if f.current != nil {
		st.Faults, st.Notes = f.current.faults, f.current.notes
	}
	switch {
	case f.trouble != "":
		st.State = spec.FileInvalid
		st.Faults = []spec.Fault{{File: path, Kind: spec.FaultInvalid, Detail: f.trouble}}
	case f.current == nil:
		st.State, st.Reason = spec.FilePending, "is being written"
	case len(f.current.faults) > 0:
		st.State = spec.FileInvalid
	case f.hollow() && f.good != nil:
		st.State = spec.FileInvalid
		st.Faults = []spec.Fault{{File: path, Kind: spec.FaultRequired, Detail: fmt.Sprintf(
			"the file declared %d objects and holds none now (%s): they stay as they were; remove the file to remove them",
			len(f.good.objects), f.current.skipped)}}
	case f.hollow():
		st.State, st.Reason = spec.FileSkipped, f.current.skipped
	case len(conflicts) > 0:
		st.State, st.Faults = spec.FileConflict, conflicts
	}
	if f.pending && st.State == spec.FileAccepted {
		st.State, st.Reason = spec.FilePending, "is being written"
	}
	return st
}

// sameSource reports whether both look the same but for the time of the last success.
func sameSource(a, b spec.SourceState) bool {
	return a.Name == b.Name && a.Revision == b.Revision && a.Dirty == b.Dirty && a.Complete == b.Complete && a.Reason == b.Reason &&
		a.Notice == b.Notice && a.LastSuccess.IsZero() == b.LastSuccess.IsZero() &&
		slices.Equal(a.PrunePaused, b.PrunePaused) && slices.Equal(a.PruneKept, b.PruneKept) &&
		maps.Equal(a.Objects, b.Objects) && slices.EqualFunc(a.Files, b.Files, sameFile)
}

// sameFile reports whether both look the same.
func sameFile(a, b spec.FileState) bool {
	return a.Path == b.Path && a.State == b.State && a.Reason == b.Reason && slices.Equal(a.Faults, b.Faults) && slices.Equal(a.Notes, b.Notes)
}

// sortKeys sorts by kind, namespace and name.
func sortKeys(keys []spec.ObjectKey) { slices.SortFunc(keys, compareKeys) }

// compareKeys orders by kind, namespace and name.
func compareKeys(a, b spec.ObjectKey) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// plural is a number and its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
