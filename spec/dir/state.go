package dir

import (
	"maps"
	"time"

	"reconciler.dev/reconciler/spec"
)

// scanResult is what one look at a directory found: the whole of it, or some paths that events named.
type scanResult struct {
	full       bool
	start, end time.Time
	verdict    verdict
	files      []found  // of a full scan all, sorted by path; else the paths that were read
	gone       []string // paths that are not there any more; only when not full
	skipped    []spec.FileState
	devices    map[string]uint64 // of the root ("") and of every directory on another device than its parent
	revision   string
	dirty      bool
	notice     string
}

// found is one manifest file that is there.
type found struct {
	path    string
	content *content // nil when it has never been read
	trouble string   // why it cannot be read now
	pending bool     // it is being written
}

// cause says what a full scan is good for.
type cause int

const (
	complete    cause = iota // saw everything
	unsettled                // saw everything, but a file is being written
	empty                    // there is no manifest at all: may be a file system that is not mounted
	otherDevice              // the directory, or one below it, is on another device than before
	gitBusy                  // git is at work in the tree
	unreadable               // something is there and cannot be read
	moved                    // what was being read changed under the scan; nothing was taken from it
	vanished                 // the directory is not there
	unreachable              // it cannot be opened, or its file system does not answer
)

// verdict is a cause and its words for people. They hold no absolute path.
type verdict struct {
	cause  cause
	reason string
}

// saw reports whether the scan's list of files may be used at all.
func (c cause) saw() bool { return c < moved }

// counts reports whether an object that the scan did not find counts as not found.
func (c cause) counts() bool { return c == complete || c == empty || c == otherDevice }

// state is everything that the source knows. A state is never changed once it is made: [state.merge] makes the next one.
type state struct {
	roots   []*rootState
	objects map[spec.ObjectKey]*wanted
	rivals  map[spec.ObjectKey]*rivalry
	set     *spec.Set
	// owned and touched are of the making: whether objects is a map of this state's own, and the keys that were changed in it.
	owned   bool
	touched []spec.ObjectKey
	serial  uint64 // grows when the Set differs from the one before by more than the time of a last success
}

// rootState is what is known of one directory.
type rootState struct {
	name       string
	allowEmpty bool
	former     bool // is not given to us any more; only its objects are left

	files       map[string]file
	states      []spec.FileState // how the files are shown, sorted, while there is no conflict; nil = to be made
	skipped     []spec.FileState
	verdict     verdict // of the last full scan, as shown
	scanned     bool    // a full scan was tried
	known       bool    // a full scan saw everything once
	forgetful   bool    // what was known before our restart is there, but cannot be read
	remembered  bool    // what was known before our restart was found on disk
	lastSuccess time.Time
	devices     map[string]uint64
	revision    string
	dirty       bool
	notice      string

	// base is the objects of the last complete scan that missed none: what the size of a removal is measured against.
	base map[spec.ObjectKey]bool
	// grewAt is the end of the last scan that missed an object which the scan before had found.
	grewAt    time.Time
	paused    map[spec.ObjectKey]bool
	confirmed map[spec.ObjectKey]bool
	// lost are objects that were known before our restart and whose content cannot be had.
	lost map[spec.ObjectKey]string // key -> file
}

// file is what is known of one path.
type file struct {
	current *content // as last read; nil before the first reading
	good    *content // the last good one; current, when that is good
	trouble string
	present bool // false: an event found it gone, and no scan has confirmed that yet
	pending bool
}

// effective is the content that counts, and whether it is older than the file.
func (f file) effective() (c *content, stale bool) {
	if f.current.good() {
		return f.current, f.trouble != ""
	}
	return f.good, true
}

// hollow reports whether the file lost its objects without being faulty: emptied, or somebody else's content now. It has
// the last good content still, but cannot hold it against another file.
func (f file) hollow() bool {
	return f.current != nil && !f.current.good() && len(f.current.faults) == 0 && f.trouble == ""
}

// wanted is one object that counts. It is never changed.
type wanted struct {
	root    int
	path    string
	object  *object
	content *content
	stale   bool

	unclaimed   bool      // no file holds it
	absentSince time.Time // the end of the first scan that did not find it; zero = found, or no scan since

	// The published form: exactly one is set, once there is one. The rest is what it was made of.
	shown       *object
	shownAt     spec.ObjectSource
	shownStale  bool
	shownAbsent bool

	profile *spec.Accepted[spec.Profile]
	server  *spec.Accepted[spec.Server]
	job     *spec.Accepted[spec.Job]
}

// absent reports whether a scan missed the object.
func (w *wanted) absent() bool { return w.unclaimed && !w.absentSince.IsZero() }

// clone copies what merge is about to change.
func (r *rootState) clone() *rootState {
	c := *r
	c.paused = maps.Clone(r.paused)
	c.confirmed = maps.Clone(r.confirmed)
	c.lost = maps.Clone(r.lost)
	return &c
}

// newRootState is a directory that has not been looked at.
func newRootState(name string, allowEmpty bool) *rootState {
	return &rootState{
		name: name, allowEmpty: allowEmpty, files: map[string]file{},
		base: map[spec.ObjectKey]bool{}, paused: map[spec.ObjectKey]bool{}, confirmed: map[spec.ObjectKey]bool{},
		lost: map[spec.ObjectKey]string{}, verdict: verdict{cause: unreachable, reason: "has not been read yet"},
	}
}

// newState is a state in which nothing has been looked at.
func newState(roots []Root, allowEmpty bool) *state {
	s := &state{objects: map[spec.ObjectKey]*wanted{}}
	for _, r := range roots {
		s.roots = append(s.roots, newRootState(r.Name, allowEmpty))
	}
	return s
}

// look is what one look at one directory found.
type look struct {
	root int
	scan *scanResult
}
