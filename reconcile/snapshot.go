package reconcile

import (
	"slices"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// Snapshot is everything that may be shown, at one moment. It is never changed once it is handed out.
type Snapshot struct {
	Rev     uint64    // grows with every change
	At      time.Time // of the turn that made it
	Keeper  bool      // the keeper has been heard whole
	Known   bool      // every source has been read whole
	Closing bool      // a shutdown is under way
	// Servers are sorted by key. One that left its source stays, with Removing set, until nothing of it runs.
	Servers  []*ServerView
	Profiles []*ProfileView // sorted by key
	Jobs     []*JobView     // sorted by key
	Sources  []spec.SourceState
}

// Server finds a server by its key; nil when there is none.
func (s *Snapshot) Server(key spec.Key) *ServerView {
	i, ok := slices.BinarySearchFunc(s.Servers, key, func(v *ServerView, k spec.Key) int { return compareKeys(v.Key, k) })
	if !ok {
		return nil
	}
	return s.Servers[i]
}

// Profile finds a profile by its key; nil when there is none.
func (s *Snapshot) Profile(key spec.Key) *ProfileView {
	i, ok := slices.BinarySearchFunc(s.Profiles, key, func(v *ProfileView, k spec.Key) int { return compareKeys(v.Key, k) })
	if !ok {
		return nil
	}
	return s.Profiles[i]
}

// ServerView is one server as it stands. Everything but Facts is public as it is; Facts is for metrics and history, which
// choose what they show.
type ServerView struct {
	Key        spec.Key
	Rev        uint64       // grows with every change of this view; an opaque resourceVersion
	Object     *spec.Server // nil when it is in no source any more
	Profile    string       // the selected one; of a removed server the last one
	UID        string       // "" until it is accepted
	CreatedAt  time.Time
	Generation int64  // 0 until it is accepted
	Wish       string // what it shall be, holds considered: spec.WishRunning or spec.WishStopped
	Removing   bool
	Status     spec.ServerStatus
	Faults     []spec.Fault     // why the newest manifest is not accepted
	Facts      []*observe.Facts // of each of its scopes that has a record, the selected one first
	Events     []Event          // oldest first, at most EventLimit
}

// ProfileView is one profile as it stands.
type ProfileView struct {
	Key     spec.Key
	Object  *spec.Profile
	Source  spec.SourceStatus
	Stale   bool // its file is faulty now; this is its last good content
	Servers int  // that select it
}

// Event is something that happened to a server, in the manner of Kubernetes.
type Event struct {
	Type      string // EventNormal or EventWarning
	Reason    string // CamelCase
	Message   string // public
	Count     int
	FirstSeen time.Time
	LastSeen  time.Time
}

// The types of events.
const (
	EventNormal  = "Normal"
	EventWarning = "Warning"
)

// EventLimit is how many events are kept of a server.
const EventLimit = 64
