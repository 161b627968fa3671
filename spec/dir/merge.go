package dir

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"reconciler.dev/reconciler/spec"
)

// merge is the next state: s, and what looks at directories found, at most one at each. Time comes from the scans alone.
// It is pure: the same arguments give the same result, and none is changed. The new state has the serial of s when nothing
// that a Set shows has changed but the time of a last success.
func (s *state) merge(looks ...look) *state {
	next := &state{roots: slices.Clone(s.roots), objects: s.objects, rivals: s.rivals, touched: slices.Clone(s.touched)}
	for _, l := range looks {
		root := s.roots[l.root].clone()
		next.roots[l.root] = root
		if l.scan.full {
			root.takeFull(l.scan)
		} else {
			root.takePaths(l.scan)
		}
	}
	if !next.decideQuickly() {
		claims, rivals := next.claims()
		next.rivals = rivals
		next.decide(claims, rivals)
	}
	next.relent()
	for _, l := range looks {
		if l.scan.full {
			next.remove(l.root, l.scan)
		}
		next.roots[l.root].forget(l.root, next.objects)
	}
	next.publish(s)
	return next
}

// setObject and dropObject change what is wanted, in a map of this state's own.
func (s *state) setObject(key spec.ObjectKey, w *wanted) {
	s.ownObjects()
	s.objects[key] = w
	s.touched = append(s.touched, key)
}

func (s *state) dropObject(key spec.ObjectKey) {
	s.ownObjects()
	delete(s.objects, key)
	s.touched = append(s.touched, key)
}

func (s *state) ownObjects() {
	if !s.owned {
		s.objects, s.owned = maps.Clone(s.objects), true
	}
}

// takeFull enters a full scan into the root.
func (r *rootState) takeFull(scan *scanResult) {
	r.scanned = true
	r.notice = scan.notice
	if scan.verdict.cause != unsettled {
		r.verdict = scan.verdict
	}
	if !scan.verdict.cause.saw() {
		return
	}
	r.skipped = scan.skipped
	r.revision, r.dirty = scan.revision, scan.dirty
	before := r.files
	if r.unchangedBy(scan) {
		return
	}
	r.states = nil
	// Only a scan that saw every directory may say that a path is not there. Whether an object goes with it is decided later.
	if scan.verdict.cause == unreadable {
		r.files = maps.Clone(before)
	} else {
		r.files = make(map[string]file, len(scan.files))
	}
	for _, f := range scan.files {
		r.files[f.path] = before[f.path].then(f)
	}
}

// unchangedBy reports whether the scan found the files as they are known.
func (r *rootState) unchangedBy(scan *scanResult) bool {
	if len(scan.files) != len(r.files) {
		return false
	}
	for _, f := range scan.files {
		if old, ok := r.files[f.path]; !ok || old != old.then(f) {
			return false
		}
	}
	return true
}

// takePaths enters what was found at some paths.
func (r *rootState) takePaths(scan *scanResult) {
	r.files = maps.Clone(r.files)
	r.states = slices.Clone(r.states)
	for _, f := range scan.files {
		r.setFile(f.path, r.files[f.path].then(f))
	}
	for _, path := range scan.gone {
		if f, ok := r.files[path]; ok {
			f.present = false
			r.setFile(path, f)
		}
	}
}

// setFile changes a file of a root whose files and their shown states are its own.
func (r *rootState) setFile(path string, f file) {
	r.files[path] = f
	if r.states == nil {
		return
	}
	st := f.state(path, nil)
	at, there := slices.BinarySearchFunc(r.states, path, func(s spec.FileState, path string) int { return strings.Compare(s.Path, path) })
	if there {
		r.states[at] = st
	} else {
		r.states = slices.Insert(r.states, at, st)
	}
}

// then is the file after it was found as n.
func (f file) then(n found) file {
	f.present, f.pending, f.trouble = true, n.pending, n.trouble
	if n.content == nil {
		return f
	}
	f.current = n.content
	if n.content.good() {
		f.good = n.content
	}
	return f
}

// decideQuickly decides when all that happened is that files hold newer versions of their objects, or objects that nobody
// has. It reports false, and does nothing, when there is more to it.
func (s *state) decideQuickly() bool {
	if len(s.rivals) > 0 {
		return false
	}
	held := 0
	var news []claim
	fresh := map[spec.ObjectKey]bool{}
	for i, root := range s.roots {
		if len(root.lost) > 0 {
			return false
		}
		for path, f := range root.files {
			c, stale := f.effective()
			if c == nil {
				continue
			}
			if !f.present || stale {
				return false
			}
			for _, o := range c.objects {
				was := s.objects[o.key]
				switch {
				case was == nil:
					if fresh[o.key] {
						return false
					}
					fresh[o.key] = true
				case was.root != i || was.path != path || was.unclaimed || was.stale:
					return false
				default:
					held++
					if was.object == o {
						continue
					}
				}
				news = append(news, claim{root: i, path: path, object: o, content: c})
			}
		}
	}
	if held != len(s.objects) {
		return false
	}
	for _, n := range news {
		s.setObject(n.object.key, s.objects[n.object.key].by(n))
	}
	return true
}

// claim is a file's word that an object is in it.
type claim struct {
	root    int
	path    string
	object  *object
	content *content
	stale   bool
	weak    bool // gives way to any other claim: its file was seen to be gone, or holds nothing now
}

// rivalry is an object that several files claim.
type rivalry struct {
	claims []claim // strong ones, in order of root and path
	winner int     // index of the incumbent, -1 = none
	// waits is set when one claim is left, of an old rival, and the incumbent's file was missed by scans only that did not see
	// everything. Until one does, the object stays as it was.
	waits bool
}

// claims gathers what every file says: the claim for each object that has one claim that counts, and the rivals of the others.
// Of claims that give way one that belongs to the incumbent is kept.
func (s *state) claims() (map[spec.ObjectKey]claim, map[spec.ObjectKey]*rivalry) {
	single := make(map[spec.ObjectKey]claim, len(s.objects))
	var rivals map[spec.ObjectKey]*rivalry
	for i, root := range s.roots {
		for path, f := range root.files {
			c, stale := f.effective()
			if c == nil {
				continue
			}
			for _, o := range c.objects {
				// A file that an event found gone gives way to where its object moved, but not to an old rival: it may be gone
				// for a moment only.
				weak := !f.present && s.rivals[o.key] == nil || stale && f.hollow()
				n := claim{root: i, path: path, object: o, content: c, stale: stale, weak: weak}
				was := s.objects[o.key]
				incumbent := was != nil && was.root == i && was.path == path && !was.unclaimed
				if (stale || n.weak) && !incumbent {
					continue // the past of a file cannot claim what is not its own now
				}
				other, taken := single[o.key]
				switch {
				case !taken || other.weak:
					single[o.key] = n
				case n.weak:
				default:
					if rivals == nil {
						rivals = map[spec.ObjectKey]*rivalry{}
					}
					r := rivals[o.key]
					if r == nil {
						r = &rivalry{claims: []claim{other}, winner: -1}
						rivals[o.key] = r
					}
					r.claims = append(r.claims, n)
				}
			}
		}
	}
	for key, r := range rivals {
		slices.SortFunc(r.claims, func(a, b claim) int {
			return cmp.Or(cmp.Compare(a.root, b.root), cmp.Compare(a.path, b.path))
		})
		delete(single, key)
		if was := s.objects[key]; was != nil {
			r.winner = slices.IndexFunc(r.claims, func(c claim) bool { return c.root == was.root && c.path == was.path })
		}
	}
	for key := range s.rivals {
		c, ok := single[key]
		was := s.objects[key]
		if !ok || was == nil || c.root == was.root && c.path == was.path || !s.missedInPart(was) {
			continue
		}
		if rivals == nil {
			rivals = map[spec.ObjectKey]*rivalry{}
		}
		rivals[key] = &rivalry{claims: []claim{c}, winner: -1, waits: true}
		delete(single, key)
	}
	return single, rivals
}

// missedInPart reports whether the object's file is not there, as far as a scan can tell that did not see everything.
func (s *state) missedInPart(w *wanted) bool {
	root := s.roots[w.root]
	_, there := root.files[w.path]
	return !there && root.verdict.cause != complete
}

// decide sets what is wanted by what is claimed.
func (s *state) decide(claims map[spec.ObjectKey]claim, rivals map[spec.ObjectKey]*rivalry) {
	for key, c := range claims {
		if was := s.objects[key]; was.by(c) != was {
			s.setObject(key, was.by(c))
		}
	}
	for key, r := range rivals {
		was := s.objects[key]
		switch {
		case r.winner >= 0:
			if now := was.by(r.claims[r.winner]); now != was {
				s.setObject(key, now)
			}
		case was != nil && r.waits:
			if !was.unclaimed {
				w := *was
				w.unclaimed, w.stale = true, false
				s.setObject(key, &w)
			}
		case was != nil:
			// It moved to two places at once: what it was stays until one of them gives way.
			if was.unclaimed || !was.stale {
				w := *was
				w.unclaimed, w.stale, w.absentSince = false, true, time.Time{}
				s.setObject(key, &w)
			}
		}
	}
	for key, was := range s.objects {
		if _, ok := claims[key]; ok || rivals[key] != nil || was.unclaimed {
			continue
		}
		w := *was
		w.unclaimed, w.stale = true, false
		s.setObject(key, &w)
	}
	for i, r := range s.roots {
		found := slices.ContainsFunc(slices.Collect(maps.Keys(r.lost)), func(key spec.ObjectKey) bool { _, ok := claims[key]; return ok })
		if !found {
			continue
		}
		n := r.clone()
		maps.DeleteFunc(n.lost, func(key spec.ObjectKey, _ string) bool { _, ok := claims[key]; return ok })
		s.roots[i] = n
	}
}

// by is the object as the claim has it: w itself when that changes nothing.
func (w *wanted) by(c claim) *wanted {
	if w != nil && w.root == c.root && w.path == c.path && w.object == c.object && w.stale == c.stale && !w.unclaimed && w.absentSince.IsZero() {
		return w
	}
	return &wanted{root: c.root, path: c.path, object: c.object, content: c.content, stale: c.stale}
}

// forget lets go of the last good content of files whose objects are all elsewhere now, or gone.
func (r *rootState) forget(i int, objects map[spec.ObjectKey]*wanted) {
	owned := false
	for path, f := range r.files {
		if f.good == nil || f.current.good() {
			continue
		}
		used := slices.ContainsFunc(f.good.objects, func(o *object) bool {
			w := objects[o.key]
			return w != nil && w.root == i && w.path == path
		})
		if used {
			continue
		}
		if !owned {
			r.files, r.states, owned = maps.Clone(r.files), nil, true
		}
		f.good = nil
		r.files[path] = f
	}
}
