package dir

import (
	"time"
)

// dispatch gives the idle workers what is due and returns when the owner is needed next.
func (r *run) dispatch() time.Time {
	now := time.Now()
	if r.first != nil && !now.Before(r.prime) {
		r.begin()
	}
	if r.blind != nil && !now.Before(r.tryWatch) && !r.anyBusy() {
		r.startWatching(now)
	}
	next := now.Add(period)
	if r.first != nil {
		next = r.prime
	}
	for i, t := range r.tended {
		if t.former || r.first != nil && r.first[i] != nil {
			continue // it has nothing to do until there is a first Set
		}
		if t.busy {
			r.checkHang(i, now)
		} else {
			r.give(i, now)
		}
		if at := t.deadline(); !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}

// give gives an idle worker what is due. Looks go first, unless a scan has waited for them long enough.
func (r *run) give(i int, now time.Time) {
	t := r.tended[i]
	scan := !t.scanAt.After(now)
	if r.first == nil && !(scan && now.Sub(t.scanAt) > 50*time.Millisecond) {
		if due := t.settling.due(now); len(due) > 0 {
			t.busy, t.asked, t.requests = true, now, due
			t.worker.jobs <- job{requests: due}
			return
		}
	}
	if !scan {
		return
	}
	j := job{full: true}
	if r.first != nil {
		if inv := r.inventory(i); inv != nil {
			j.restore = func(files []found) *prior { return r.vault.restore(inv, files, r.cfg.Decode) }
		}
	}
	t.busy, t.asked, t.requests, t.rescan = true, now, nil, false
	t.worker.jobs <- j
}

// inventory is what was known of root i, nil when nothing was.
func (r *run) inventory(i int) *inventory {
	if i >= len(r.ids) {
		return nil
	}
	return r.inventories[r.ids[i]]
}

// anyBusy reports whether a worker has something in hand.
func (r *run) anyBusy() bool {
	for _, t := range r.tended {
		if t.busy {
			return true
		}
	}
	return false
}

// checkHang reports a worker that does not come back.
func (r *run) checkHang(i int, now time.Time) {
	t := r.tended[i]
	if t.reported || now.Sub(t.asked) < hangLimit {
		return
	}
	t.reported = true
	r.cfg.Log.Error("the file system of a directory of manifests does not answer", "source", r.roots[i].Name, "path", r.roots[i].Path)
	if r.first == nil {
		r.enter(look{root: i, scan: hungScan(now)})
	}
}

// hungScan is the scan of a directory that does not answer.
func hungScan(now time.Time) *scanResult {
	return &scanResult{full: true, start: now, end: now, verdict: verdict{unreachable, "its file system does not answer"}}
}

// answered takes what a worker found.
func (r *run) answered(a *answerTo) {
	now := time.Now()
	t := r.tended[a.root]
	t.busy, t.reported = false, false
	if a.look != nil {
		t.settling.answer(t.requests, a.look.unread, t.asked, now)
		if a.look.rescan {
			t.soon(now)
		}
		if len(a.look.scan.gone) > 0 {
			t.twice(now)
		}
		if len(a.look.scan.files)+len(a.look.scan.gone) > 0 {
			before := r.state.serial
			r.enter(look{root: a.root, scan: a.look.scan})
			if r.state.serial != before {
				t.soon(now.Add(quietTime))
			}
		}
		return
	}
	t.layout = a.full.layout
	t.scanEnd, t.scanTook = now, a.full.scan.end.Sub(a.full.scan.start)
	t.settling.leave(a.full.unread, t.asked, now)
	if r.hooks.scanned != nil {
		r.hooks.scanned(a.root, a.full.scan)
	}
	if r.first != nil {
		r.first[a.root] = a
		r.planNext(a.root, now, a.full)
		for _, f := range r.first {
			if f == nil {
				return
			}
		}
		r.begin()
		return
	}
	// A prior that comes with it is too late for the first Set, for which what was known was read without it.
	r.enter(look{root: a.root, scan: a.full.scan})
	r.planNext(a.root, now, a.full)
}

// begin makes the first Set of all that has been found, and of what was known where nothing has answered.
func (r *run) begin() {
	now := time.Now()
	first := r.first
	r.first = nil
	looks := make([]look, 0, len(r.state.roots))
	for i := range r.state.roots {
		var p *prior
		switch inv := r.inventory(i); {
		case i < len(first) && first[i] != nil:
			p = first[i].prior
		case inv != nil:
			p = r.vault.restore(inv, nil, r.cfg.Decode)
		}
		if p != nil {
			r.state = r.state.restore(i, p)
		}
		switch {
		case i >= len(first):
		case first[i] != nil:
			looks = append(looks, look{root: i, scan: first[i].full.scan})
		default:
			looks = append(looks, look{root: i, scan: hungScan(now)})
		}
	}
	r.inventories = nil
	r.enter(looks...)
	for i := range r.roots {
		if first[i] != nil {
			r.planNext(i, now, first[i].full)
		}
	}
}

// planNext sets when root i is scanned next, and mends its watches.
func (r *run) planNext(i int, now time.Time, full *fullResult) {
	t := r.tended[i]
	unwatched := r.mendWatches(i)
	polling := r.blind != nil || full.layout.trouble != "" || t.unwatched > 2
	t.plan(now, full.scan.verdict.cause, r.waiting(i), polling, full.layout.foreign)
	if t.rescan || unwatched && t.unwatched <= 2 {
		t.rescan = false
		t.soon(now)
	}
}

// waiting reports whether objects of root i wait for one more scan to be removed.
func (r *run) waiting(i int) bool {
	for j, root := range r.state.roots {
		if j != i && !root.former {
			continue
		}
		for key, w := range r.state.objects {
			if w.root == j && w.unclaimed && !w.object.keep && !root.paused[key] {
				return true
			}
		}
	}
	return false
}
