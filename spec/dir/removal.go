package dir

import (
	"maps"
	"time"

	"reconciler.dev/reconciler/spec"
)

const (
	// confirmGap is the time that must lie between the end of the scan that first missed an object and the start of the one
	// that may remove it.
	confirmGap = 500 * time.Millisecond
	// growthLimit bounds the wait for a deletion that goes on and on to come to rest.
	growthLimit = 10 * time.Second
	// removalFloor is the number of objects above which no scan removes more than half.
	removalFloor = 4
)

// remove decides, after a full scan of root i was entered, which of its objects are gone. It marks those that the scan
// missed, removes those that two scans missed, and holds what looks like an accident:
//
//   - nothing is removed unless the scan saw everything, on the same device, with a manifest in it;
//   - nothing while objects are still going, for at most growthLimit: a tree that is being deleted is judged as a whole;
//   - not the last object; not more than half of more than removalFloor, counted against those of the last scan that missed
//     none, so that newcomers do not make a removal look small;
//   - not what its annotation keeps, and not what a faulty file mentions, which may be where it went.
//
// What is held stays wanted until [state.confirm].
func (s *state) remove(i int, scan *scanResult) {
	root := s.roots[i]
	cause := scan.verdict.cause
	if !cause.counts() {
		return
	}
	switch {
	case root.onOtherDevice(scan, s.misses(i)):
		cause = otherDevice
	case cause == empty && root.allowEmpty:
		cause = complete
		root.verdict = verdict{}
	}
	if cause == complete {
		root.known = root.known || !root.forgetful || !root.mystery()
		root.lastSuccess = scan.end
	}
	missing, ripe := s.missing(i, scan)
	for key := range root.confirmed {
		w := s.objects[key]
		switch _, lost := root.lost[key]; {
		case w != nil && w.root == i && w.absent():
			s.dropObject(key)
			delete(missing, key)
			delete(ripe, key)
		case lost:
			delete(root.lost, key)
		}
	}
	clear(root.confirmed)
	clear(root.paused)
	held := s.holds(i, cause, missing)
	for key := range ripe {
		switch w := s.objects[key]; {
		case w.object.keep:
		case held || s.mentioned(key.Name):
			root.paused[key] = true
		default:
			s.dropObject(key)
			delete(missing, key)
		}
	}
	for key := range root.lost {
		root.paused[key] = true
	}
	if len(missing) > 0 {
		return
	}
	if cause == complete {
		root.base = s.keysOf(i)
	}
	if root.remembered && len(root.lost) == 0 {
		root.known = true // what was known is all there, even if that is nothing
	}
}

// relent takes objects that are in a file again off the removals that are held or confirmed, whatever the look that found them is
// worth: a confirmation must neither be asked for them nor wait for the day on which they are missing again.
func (s *state) relent() {
	for i, r := range s.roots {
		back := func(key spec.ObjectKey, _ bool) bool {
			w := s.objects[key]
			return w != nil && (w.root != i || !w.unclaimed)
		}
		if !anyKey(r.paused, back) && !anyKey(r.confirmed, back) {
			continue
		}
		c := r.clone()
		maps.DeleteFunc(c.paused, back)
		maps.DeleteFunc(c.confirmed, back)
		s.roots[i] = c
	}
}

func anyKey(m map[spec.ObjectKey]bool, is func(spec.ObjectKey, bool) bool) bool {
	for key, v := range m {
		if is(key, v) {
			return true
		}
	}
	return false
}

// mystery reports whether a faulty file may hold objects that were known before our restart: nobody remembers.
func (r *rootState) mystery() bool {
	for _, f := range r.files {
		if f.good == nil && f.current != nil && len(f.current.faults) > 0 {
			return true
		}
	}
	return false
}

// misses reports whether an object of root i is in no file.
func (s *state) misses(i int) bool {
	for _, w := range s.objects {
		if w.root == i && w.unclaimed && !w.object.keep {
			return true
		}
	}
	return false
}

// onOtherDevice compares the devices of the tree with those before. Other ones are taken for the truth when nothing is
// missing; else the scan is worth little: a file system was mounted over the tree, or is not mounted any more.
func (r *rootState) onOtherDevice(scan *scanResult, misses bool) bool {
	if r.devices != nil && misses && !maps.Equal(r.devices, scan.devices) {
		r.verdict = verdict{cause: otherDevice, reason: "is on another file system than before, and objects are missing: " +
			"mount what belongs there, or run `reconciler prune --confirm`"}
		return true
	}
	r.devices = scan.devices
	return false
}

// missing marks the objects of root i that the scan did not find and returns them, without those that their annotation
// keeps, and of them those that may go now.
func (s *state) missing(i int, scan *scanResult) (missing, ripe map[spec.ObjectKey]bool) {
	root := s.roots[i]
	missing, ripe = map[spec.ObjectKey]bool{}, map[spec.ObjectKey]bool{}
	for key, w := range s.objects {
		if w.root != i || !w.unclaimed {
			continue
		}
		if w.absentSince.IsZero() {
			n := *w
			n.absentSince = scan.end
			s.setObject(key, &n)
			if !w.object.keep {
				root.grewAt = scan.end
			}
		}
		if !w.object.keep {
			missing[key] = true
		}
	}
	for key := range missing {
		since := s.objects[key].absentSince
		rested := scan.start.Sub(root.grewAt) >= confirmGap || scan.start.Sub(since) >= growthLimit
		if rested && scan.start.Sub(since) >= confirmGap {
			ripe[key] = true
		}
	}
	return missing, ripe
}

// holds reports whether the removal of all that is missing from root i has to wait for a person.
func (s *state) holds(i int, cause cause, missing map[spec.ObjectKey]bool) bool {
	root := s.roots[i]
	switch {
	case cause != complete:
		return true
	case root.allowEmpty:
		return false
	}
	left, before := 0, maps.Clone(missing)
	for key, w := range s.objects {
		if w.root != i || missing[key] {
			continue
		}
		left++
		if root.base[key] {
			before[key] = true
		}
	}
	return left == 0 || len(before) > removalFloor && 2*len(missing) > len(before)
}

// mentioned reports whether a faulty file has the name in it.
func (s *state) mentioned(name string) bool {
	for _, r := range s.roots {
		for _, f := range r.files {
			if f.current.mentions(name) {
				return true
			}
		}
	}
	return false
}

// keysOf is the keys of the objects of root i.
func (s *state) keysOf(i int) map[spec.ObjectKey]bool {
	keys := make(map[spec.ObjectKey]bool, len(s.objects))
	for key, w := range s.objects {
		if w.root == i {
			keys[key] = true
		}
	}
	return keys
}

// confirm is the next state, in which everything that is held may go with the next scan that still misses it, and what
// that is.
func (s *state) confirm() (*state, []spec.ObjectKey) {
	next := &state{roots: make([]*rootState, len(s.roots)), objects: s.objects, rivals: s.rivals, set: s.set, serial: s.serial}
	var keys []spec.ObjectKey
	for i, r := range s.roots {
		c := r.clone()
		for key := range r.paused {
			c.confirmed[key] = true
			keys = append(keys, key)
		}
		next.roots[i] = c
	}
	sortKeys(keys)
	return next, keys
}
