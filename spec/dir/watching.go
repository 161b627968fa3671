package dir

import (
	"errors"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// startWatching makes the one watcher.
func (r *run) startWatching(now time.Time) {
	r.tryWatch = now.Add(period)
	w, err := (*fsnotify.Watcher)(nil), r.hooks.polling
	if err == nil {
		w, err = fsnotify.NewBufferedWatcher(1024)
	}
	if err != nil && r.blind == nil {
		r.cfg.Log.Warn("directories are not watched but looked at every two seconds", "error", err)
	}
	r.blind = err
	if err == nil {
		r.watcher.Store(w)
		r.events, r.errors = w.Events, make(chan error, 1)
		r.hearing.Go(func() { hear(w.Errors, r.errors) })
	}
	for _, t := range r.tended {
		if t.worker != nil {
			t.worker.scanner.watch = r.watchDirectory
		}
	}
}

// hear takes errors from a watcher until it is closed, and keeps one for the owner: each says the same, that everything has to be read
// again. A watcher may hold its lock until somebody takes an error (of a directory that was moved and removed, fsnotify 1.10), and the
// owner needs that lock at the same time.
func hear(from <-chan error, to chan<- error) {
	for err := range from {
		select {
		case to <- err:
		default:
		}
	}
}

// watchDirectory is called by the workers.
func (r *run) watchDirectory(dir string) error {
	if r.hooks.watch != nil {
		if err := r.hooks.watch(dir); err != nil {
			return err
		}
	}
	w := r.watcher.Load()
	if w == nil {
		return unix.EMFILE
	}
	return w.Add(dir)
}

// stopWatching ends the watcher.
func (r *run) stopWatching() {
	w := r.watcher.Load()
	if w == nil {
		return
	}
	if err := w.Close(); err != nil {
		r.cfg.Log.Warn("cannot close the watcher of manifests", "error", err)
	}
	r.hearing.Wait()
}

// drain takes the events that are there already, so that they are answered together.
func (r *run) drain() {
	for range 4096 {
		select {
		case ev := <-r.events:
			r.event(ev)
		default:
			return
		}
	}
}

// event notes what an event hints at.
func (r *run) event(ev fsnotify.Event) {
	now := time.Now()
	layouts := make([]layout, len(r.roots))
	for i := range r.roots {
		layouts[i] = r.tended[i].layout
	}
	known := false
	for _, h := range hints(ev, layouts) {
		known = true
		t := r.tended[h.root]
		if h.path != "" {
			t.settling.touch(h.path, now, h.renamed)
		}
		switch {
		case h.taken:
			t.twice(now)
		case h.path == "":
			t.soon(now)
		}
	}
	if known {
		return
	}
	for _, t := range r.tended {
		if t.busy && t.requests == nil {
			t.rescan = true // it may be of a directory that this scan has just begun to watch
		}
	}
}

// lostEvents has everything scanned.
func (r *run) lostEvents(err error) {
	if r.hooks.lost != nil {
		r.hooks.lost()
	}
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		r.cfg.Log.Warn("an error while watching manifests: everything is read again", "error", err)
	}
	for _, t := range r.tended {
		if !t.former {
			t.twice(time.Now())
		}
	}
}

// notice is what a reader of a source's state should know.
func (r *run) notice(i int, scanned string) string {
	var parts []string
	if scanned != "" {
		parts = append(parts, scanned)
	}
	if r.tended[i].unwatched > 2 && scanned == "" {
		parts = append(parts, unwatchedNotice)
	}
	if r.saver != nil {
		if n := r.saver.notice(); n != "" {
			parts = append(parts, n)
		}
	}
	return strings.Join(parts, "; ")
}

// mendWatches compares what is watched with what should be after a scan of root i, and reports whether a directory of it
// is not: it was renamed or replaced while the watch was set. Watches that nobody needs are ended.
func (r *run) mendWatches(i int) bool {
	w := r.watcher.Load()
	if w == nil {
		return false
	}
	watched := map[string]bool{}
	for _, d := range w.WatchList() {
		watched[d] = true
	}
	missing := false
	for d := range r.tended[i].layout.watched {
		missing = missing || !watched[d]
	}
	if missing {
		r.tended[i].unwatched++
	} else {
		r.tended[i].unwatched = 0
	}
	if r.anyBusy() {
		return missing
	}
	for _, t := range r.tended {
		for d := range t.layout.watched {
			delete(watched, d)
		}
	}
	for d := range watched {
		if err := w.Remove(d); err != nil && !errors.Is(err, fsnotify.ErrNonExistentWatch) && !errors.Is(err, unix.EINVAL) {
			r.cfg.Log.Warn("cannot end the watch of a directory", "path", d, "error", err)
		}
	}
	return missing
}
