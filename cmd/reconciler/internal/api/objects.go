package api

import (
	"encoding/json"
	"time"

	"reconciler.dev/reconciler/spec"
)

// Version is the group and version of every object but Status and List, which are Kubernetes' own v1.
const Version = "reconciler.dev/v1alpha1"

// TypeMeta says what an object is.
type TypeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// ObjectMeta is the part of Kubernetes' metadata that has a meaning here.
type ObjectMeta struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace,omitempty"` // "" = default
	UID               string            `json:"uid,omitempty"`
	ResourceVersion   string            `json:"resourceVersion,omitempty"` // opaque: compare for equality alone
	Generation        int64             `json:"generation,omitempty"`
	CreationTimestamp *time.Time        `json:"creationTimestamp,omitempty"`
	DeletionTimestamp *time.Time        `json:"deletionTimestamp,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
}

// Key is the object's namespace and name.
func (m ObjectMeta) Key() spec.Key {
	if m.Namespace == "" {
		return spec.Key{Namespace: spec.DefaultNamespace, Name: m.Name}
	}
	return spec.Key{Namespace: m.Namespace, Name: m.Name}
}

// metaOf is the metadata of a key: the default namespace is not shown.
func metaOf(k spec.Key) ObjectMeta {
	m := ObjectMeta{Name: k.Name}
	if k.Namespace != spec.DefaultNamespace {
		m.Namespace = k.Namespace
	}
	return m
}

// Group is the API group.
const Group = "reconciler.dev"

// Server is a Server with its status. An administrator gets the whole spec as its file says it, with defaults; this is
// the part of it that everybody may see.
type Server struct {
	TypeMeta
	Metadata ObjectMeta        `json:"metadata"`
	Spec     Summary           `json:"spec"`
	Status   spec.ServerStatus `json:"status"`
}

// Summary is what everybody may see of a Server's spec.
type Summary struct {
	Profile string `json:"profile,omitempty"`
	State   string `json:"state,omitempty"` // what the manifest asks for; "" = it is in no manifest
}

// Profile is a Profile and who uses it. An administrator gets the spec too.
type Profile struct {
	TypeMeta
	Metadata ObjectMeta    `json:"metadata"`
	Status   ProfileStatus `json:"status"`
}

// ProfileStatus is what is known of a Profile.
type ProfileStatus struct {
	Servers int                `json:"servers"` // that select it
	Ready   int                `json:"ready"`   // of these
	Source  *spec.SourceStatus `json:"source,omitempty"`
}

// Hold is a recorded wish of a person over a manifest's state; it has the name of its Server.
type Hold struct {
	TypeMeta
	Metadata ObjectMeta      `json:"metadata"`
	Status   spec.HoldStatus `json:"status"`
}

// Job is a Job and what has become of it. An administrator gets the whole spec and what its commands have written; this is the part
// that everybody may see.
type Job struct {
	TypeMeta
	Metadata ObjectMeta     `json:"metadata"`
	Spec     JobSummary     `json:"spec"`
	Status   spec.JobStatus `json:"status"`
}

// JobSummary is what everybody may see of a Job's spec.
type JobSummary struct {
	Server  string       `json:"server"`
	Type    spec.JobType `json:"type"`
	Command string       `json:"command,omitempty"`
	Attempt int64        `json:"attempt,omitempty"`
	Cancel  bool         `json:"cancel,omitempty"`
}

// Source is one directory of manifests, as its last scan found it.
type Source struct {
	TypeMeta
	Metadata ObjectMeta   `json:"metadata"`
	Status   SourceReport `json:"status"`
}

// SourceReport is what the last scan of a source found.
type SourceReport struct {
	Revision    string         `json:"revision,omitempty"`
	Dirty       bool           `json:"dirty,omitempty"`
	Complete    bool           `json:"complete"`
	Reason      string         `json:"reason,omitempty"` // why it is not complete
	Notice      string         `json:"notice,omitempty"` // what else a reader should know
	LastSuccess *time.Time     `json:"lastSuccess,omitempty"`
	Objects     map[string]int `json:"objects"` // by state: accepted, stale, absent, invalid, conflict
	Files       []SourceFile   `json:"files"`
	PrunePaused []string       `json:"prunePaused,omitempty"` // objects whose removal waits for `prune --confirm`
	PruneKept   []string       `json:"pruneKept,omitempty"`   // objects in no file, kept by their annotation
}

// SourceFile is one file of a source.
type SourceFile struct {
	File   string       `json:"file"`
	State  string       `json:"state"`
	Reason string       `json:"reason,omitempty"`
	Faults []spec.Fault `json:"faults,omitempty"`
	Notes  []spec.Fault `json:"notes,omitempty"` // what is ignored or not portable
}

// Event is something that happened to a Server, or to a source.
type Event struct {
	TypeMeta
	Metadata       ObjectMeta      `json:"metadata"`
	InvolvedObject ObjectReference `json:"involvedObject"`
	Type           string          `json:"type"` // Normal or Warning
	Reason         string          `json:"reason"`
	Message        string          `json:"message,omitempty"`
	FirstTimestamp time.Time       `json:"firstTimestamp"`
	LastTimestamp  time.Time       `json:"lastTimestamp"`
	Count          int             `json:"count"`
	By             string          `json:"by,omitempty"` // who caused it, by the kernel's word
}

// ObjectReference names an object.
type ObjectReference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// HistoryEntry is one ended run.
type HistoryEntry struct {
	Number     int64  `json:"number"`
	Profile    string `json:"profile"`
	Generation int64  `json:"generation,omitempty"`
	Cause      string `json:"cause,omitempty"` // why it was started
	Why        string `json:"why,omitempty"`   // why it was stopped, or why it could not start
	By         string `json:"by,omitempty"`
	spec.ExitStatus
}

// History is every run of a Server and how it ended, oldest first, and the one that lives.
type History struct {
	TypeMeta
	Metadata ObjectMeta     `json:"metadata"`
	Items    []HistoryEntry `json:"items"`
	Current  *CurrentRun    `json:"current,omitempty"`
	// Console is what was written to the server's console, oldest first: for administrators alone.
	Console []ConsoleEntry `json:"console,omitempty"`
}

// ConsoleEntry is one delivery to a console: a line, a command's, or what somebody typed on the server's terminal.
type ConsoleEntry struct {
	At      time.Time     `json:"at"`
	By      string        `json:"by,omitempty"`
	Profile string        `json:"profile"`
	Run     int64         `json:"run,omitempty"`
	Rail    string        `json:"rail"`
	Command string        `json:"command,omitempty"`
	Result  string        `json:"result,omitempty"` // "" = it is on its way, or goes on
	Reason  string        `json:"reason,omitempty"`
	Keys    bool          `json:"keys,omitempty"`  // it was typed key by key
	Bytes   int64         `json:"bytes,omitempty"` // of keys, when they have ended
	Until   *time.Time    `json:"until,omitempty"` // of keys; absent = they go on, or nobody knows
	Lines   []ConsoleLine `json:"lines,omitempty"` // as many as are kept
}

// ConsoleLine is a line that was written. Secrets that the server's spec names are "[secret]", control characters are shown as ^C.
type ConsoleLine struct {
	At       time.Time `json:"at"`
	Text     string    `json:"text,omitempty"`
	Withheld int64     `json:"withheld,omitempty"` // bytes that are not told: the terminal did not show them, or a secret could be in them
	Earlier  int64     `json:"earlier,omitempty"`  // lines before it that are not kept
}

// CurrentRun is the run that has not ended.
type CurrentRun struct {
	Number    int64            `json:"number"`
	Profile   string           `json:"profile"`
	State     spec.ServerState `json:"state"`
	Cause     string           `json:"cause,omitempty"`
	By        string           `json:"by,omitempty"`
	StartedAt *time.Time       `json:"startedAt,omitempty"`
}

// List is many objects.
type List struct {
	TypeMeta
	Metadata ListMeta          `json:"metadata"`
	Items    []json.RawMessage `json:"items"`
}

// ListMeta is the metadata of a List.
type ListMeta struct {
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// WatchEvent is one line of a watch.
type WatchEvent struct {
	Type   string          `json:"type"` // ADDED, MODIFIED, DELETED, BOOKMARK or ERROR
	Object json.RawMessage `json:"object"`
}

// The types of a watch event.
const (
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
	WatchErr = "ERROR"
	Bookmark = "BOOKMARK" // everything that was there when the watch began has been sent; sent once
)

// ServerList is a List of Servers, for reading.
type ServerList struct {
	Items []Server `json:"items"`
}

// EventList is a List of Events, for reading.
type EventList struct {
	Items []Event `json:"items"`
}

// SourceList is a List of Sources, for reading.
type SourceList struct {
	Items []Source `json:"items"`
}
