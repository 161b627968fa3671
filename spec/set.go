package spec

import (
	"strings"
	"time"
)

// Set is everything wanted by all sources at one moment, plus the faults per file. A Set is never changed once it is
// handed out, and what two Sets have in common they share: an object that did not change has the same pointer in both.
type Set struct {
	Profiles map[Key]*Accepted[Profile]
	Servers  map[Key]*Accepted[Server]
	Jobs     map[Key]*Accepted[Job]
	Sources  []SourceState
	// Known is set once every source has been read whole: until then nothing may be removed.
	Known bool
}

// Accepted is an object that a source wants, and where it stands. An object that is no longer wanted is in no Set.
type Accepted[T any] struct {
	Object *T // nobody changes it
	Source ObjectSource
	Stale  bool // its file is faulty, unreadable or in conflict now; this is its last good content
	Absent bool // it was not found in any file; it stays until its removal is certain, confirmed or allowed
}

// ObjectSource is where an object was read.
type ObjectSource struct {
	Root     string // the name of the source
	File     string // relative to the source's directory
	Document int    // of the file, from 0
	Line     int    // of the document's first key, from 1
	Revision string // git revision of the tree, "" when it is in none
}

// ObjectKey names an object of any kind.
type ObjectKey struct {
	Kind string `json:"kind"` // KindProfile, KindServer or KindJob
	Key
}

// String is "server/town", with the namespace before the name when it is not the default one.
func (k ObjectKey) String() string { return strings.ToLower(k.Kind) + "/" + k.Key.String() }

// SourceState is one source as `get sources` shows it. Nothing in it tells an absolute path.
type SourceState struct {
	Name        string
	Revision    string // of the tree: a git commit, or the name that a published tree goes by; "" = unknown
	Dirty       bool   // files differ from what git has recorded of them
	Complete    bool   // the last scan saw everything
	Reason      string // why it is incomplete
	Notice      string // why events are not relied upon, or what else a reader should know; "" = nothing
	LastSuccess time.Time
	// Objects counts by state, every state always present: accepted, stale and absent (both are accepted too), invalid
	// (files), conflict (objects refused because another file had them first).
	Objects     map[string]int
	Files       []FileState // sorted by path
	PrunePaused []ObjectKey // objects whose removal is held until `prune --confirm`, sorted
	PruneKept   []ObjectKey // absent objects that their annotation keeps, sorted
}

// The states of a file.
const (
	FileAccepted = "Accepted"
	FileInvalid  = "Invalid"  // has faults or cannot be read: its last good content is used, if there was one
	FileConflict = "Conflict" // an object of it is in another file too
	FileSkipped  = "Skipped"  // not a manifest of ours
	FilePending  = "Pending"  // is being written: used as it was until it rests
)

// FileState is one file of a source.
type FileState struct {
	Path   string // relative
	State  string // one of the File constants
	Reason string // for Skipped and Pending
	Faults []Fault
	Notes  []Fault // what is ignored or not portable; nothing that stands in the way
}

// Fault is one thing wrong with a manifest, in words that let the reader mend it.
type Fault struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Document int    `json:"document"`
	Field    string `json:"field,omitempty"` // spec.endpoints[0].port
	Kind     string `json:"kind"`            // as in Kubernetes: Required value, Invalid value, Unsupported value, Duplicate value, Not found, Forbidden, Too long, Too many
	Value    string `json:"value,omitempty"` // never for args and env
	Detail   string `json:"detail"`          // what is allowed, and the remedy
}
