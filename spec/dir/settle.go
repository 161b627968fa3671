package dir

import "time"

// lookGap is the least time between two looks at a path for which event follows event.
const lookGap = 5 * time.Millisecond

// settling is the paths that events named and that were not taken since: each waits until it rests. A path is looked at
// at once, which tells whether it is gone, and read when a second look, restTime after the last event, finds it as it was.
type settling map[string]restless

// restless is one such path.
type restless struct {
	print    fingerprint
	looked   bool      // print is of after the last event
	lookedAt time.Time // when it was last looked at
	since    time.Time // of the last event, or of the look that saw another fingerprint than the one before
	changed  time.Time // when the fingerprint last differed
	renamed  bool      // the last event was that it was renamed into place
}

// touch notes an event.
func (s settling) touch(path string, now time.Time, renamed bool) {
	r := s[path]
	r.since, r.looked, r.renamed = now, false, renamed
	if r.changed.IsZero() {
		r.changed = now
	}
	s[path] = r
}

// dueAt is when the path is to be looked at next.
func (r restless) dueAt() time.Time {
	if r.looked {
		return r.since.Add(restTime)
	}
	if at := r.lookedAt.Add(lookGap); at.After(r.since) {
		return at
	}
	return r.since
}

// due is the looks that are due.
func (s settling) due(now time.Time) []request {
	var due []request
	for path, r := range s {
		if r.dueAt().After(now) {
			continue
		}
		due = append(due, request{path: path, print: r.print, rested: r.looked, renamed: r.renamed,
			evenOpen: r.looked && now.Sub(r.changed) >= openLimit})
	}
	return due
}

// next is when the next look is due; the zero time = never.
func (s settling) next() time.Time {
	var next time.Time
	for _, r := range s {
		if at := r.dueAt(); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// answer enters what the looks found, which were asked for at that time: the paths that they left unread go on waiting, the
// others are done with, unless an event has named them since.
func (s settling) answer(requests []request, left []unread, asked, now time.Time) {
	waits := make(map[string]bool, len(left))
	for _, u := range left {
		waits[u.path] = true
	}
	for _, q := range requests {
		if r, ok := s[q.path]; ok && !waits[q.path] && !r.since.After(asked) {
			delete(s, q.path)
		}
	}
	s.leave(left, asked, now)
}

// leave enters the files that a look or a scan, begun at asked, left unread.
func (s settling) leave(left []unread, asked, now time.Time) {
	for _, u := range left {
		r, ok := s[u.path]
		switch {
		case !ok:
			r.since, r.changed = now, now
		case r.since.After(asked):
			continue // an event came after the look: look again
		case r.looked && r.print == u.print:
			r.since = now // it rests, but is open for writing
		case r.looked || !r.lookedAt.IsZero() && r.print != u.print:
			r.changed = now
			if r.looked {
				r.since = now
			}
		}
		r.print, r.looked, r.lookedAt, r.renamed = u.print, true, now, false
		s[u.path] = r
	}
}
