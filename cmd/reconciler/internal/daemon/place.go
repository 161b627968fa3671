package daemon

import "github.com/fsnotify/fsnotify"

// placeWatch tells when something happens in the directory of our socket, so that nothing has to be looked at while
// nothing happens. Where the host has no watches left it tells nothing, and its user looks more often.
type placeWatch struct {
	watcher *fsnotify.Watcher // nil = the host gives none
}

func newPlaceWatch() placeWatch {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return placeWatch{}
	}
	return placeWatch{w}
}

// look watches a directory as it is now, and reports whether it can. One that is watched already costs nothing.
func (p placeWatch) look(dir string) bool { return p.watcher != nil && p.watcher.Add(dir) == nil }

// changed has a slot for each thing that happened.
func (p placeWatch) changed() <-chan fsnotify.Event {
	if p.watcher == nil {
		return nil
	}
	return p.watcher.Events
}

// missed has a slot when there was more than the kernel could tell.
func (p placeWatch) missed() <-chan error {
	if p.watcher == nil {
		return nil
	}
	return p.watcher.Errors
}

func (p placeWatch) close() {
	if p.watcher != nil {
		_ = p.watcher.Close() // it only looked
	}
}
