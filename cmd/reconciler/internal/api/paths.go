package api

import (
	"net/url"
	"path"

	"reconciler.dev/reconciler/spec"
)

// The paths outside the objects.
const (
	PathVersion  = "/version"
	PathHealth   = "/healthz"
	PathReady    = "/readyz"
	PathDoctor   = "/doctor"
	PathShutdown = "/shutdown"
	root         = "/apis/" + Version
)

// The resources.
const (
	Servers  = "servers"
	Profiles = "profiles"
	Holds    = "holds"
	Jobs     = "jobs"
	Sources  = "sources"
	Events   = "events"
)

// The verbs that a server takes by POST.
const (
	VerbStart   = "start"
	VerbStop    = "stop"
	VerbRestart = "restart"
	VerbRelease = "release"
	VerbRetire  = "retire"
	VerbSend    = "send"
	VerbAttach  = "attach"
	VerbKeys    = "keys"
	VerbCancel  = "cancel" // of a job
)

// ListPath is the path of all objects of a resource, in one namespace or, when that is "", in all.
func ListPath(resource, namespace string) string {
	if namespace == "" {
		return path.Join(root, resource)
	}
	return path.Join(root, "namespaces", url.PathEscape(namespace), resource)
}

// ObjectPath is the path of one object, and with sub of what belongs to it: log, history, or a verb.
func ObjectPath(resource string, k spec.Key, sub ...string) string {
	return path.Join(append([]string{ListPath(resource, k.Namespace), url.PathEscape(k.Name)}, sub...)...)
}

// PrunePath is where a held removal is confirmed.
func PrunePath() string { return path.Join(root, Sources, "prune") }

// The query parameters, in Kubernetes' spelling.
const (
	QueryWatch      = "watch"
	QuerySelector   = "labelSelector"
	QueryView       = "view" // ViewSummary, or "" for the whole object
	QueryFollow     = "follow"
	QueryPrevious   = "previous"
	QueryTail       = "tailLines"
	QuerySince      = "sinceSeconds"
	QueryTimestamps = "timestamps"
	QueryStream     = "stream"
	QueryName       = "name" // of the server, for events
)

// ViewSummary asks for objects as everybody may see them: without the spec that a file gave. It is far cheaper.
const ViewSummary = "summary"

// Order is the body of a verb.
type Order struct {
	Reason     string `json:"reason,omitempty"`     // in the caller's words, at most MaxReason bytes
	ForSeconds int64  `json:"forSeconds,omitempty"` // the hold ends by itself after this time; 0 = it does not
	Force      bool   `json:"force,omitempty"`      // skip the waits of the stop ladder
}

// MaxReason is the longest reason, in bytes.
const MaxReason = 1024

// Outcome is the answer to a verb: what was recorded, and from where the caller may watch for its effect.
type Outcome struct {
	TypeMeta
	Server Server `json:"server"` // as it was just before
	// Unchanged says that what was asked for is already so.
	Unchanged bool `json:"unchanged,omitempty"`
}

// Line is the body of send.
type Line struct {
	Line string `json:"line"` // 1-1024 bytes, one line; of an attachment it may be empty: the end of a line alone
	// Attachment says that the line was written in one: it is refused when that has not the writer's place. "" = it comes by itself.
	Attachment string `json:"attachment,omitempty"`
	// Patient waits some seconds until the server has read its earlier input, instead of a moment.
	Patient bool `json:"patient,omitempty"`
}

// Receipt is the answer to send: what became of the line. It says what was handed over, not what the server made of it.
type Receipt struct {
	TypeMeta
	spec.DeliveryStatus
	Message string `json:"message,omitempty"` // more about its reason
	Reply   string `json:"reply,omitempty"`   // the beginning of what the server answered, on a rail that carries answers
}

// Keys is the body of keys: what was typed on a terminal that is attached to one of the server's.
type Keys struct {
	Attachment string `json:"attachment"`     // that types; it has the writer's place
	Offset     int64  `json:"offset"`         // how many bytes of this attachment were taken before
	Keys       []byte `json:"keys,omitempty"` // any bytes, at most MaxKeys
	// Rows and Columns are the size that the server's terminal shall have, 1-1000; 0 = it stays.
	Rows    int64 `json:"rows,omitempty"`
	Columns int64 `json:"columns,omitempty"`
}

// MaxKeys is how much may be typed at once, in bytes.
const MaxKeys = 16 << 10

// Typed is the answer to keys.
type Typed struct {
	TypeMeta
	Taken int `json:"taken"` // bytes, from their beginning: fewer only where the server leaves thousands unread
	// Unknown says that nobody knows whether anything was taken: the attachment types no more.
	Unknown bool `json:"unknown,omitempty"`
}

// Prune is the answer to a confirmed removal.
type Prune struct {
	TypeMeta
	Removed []string `json:"removed"` // the objects whose removal was held and now goes on
}

// Versions is what is running.
type Versions struct {
	Reconciler string `json:"reconciler"`
	Keeper     string `json:"keeper,omitempty"` // "" = it does not answer
}

// Report is what doctor finds, by axis.
type Report struct {
	Checks []Check `json:"checks"`
}

// Check is one finding.
type Check struct {
	Axis     string `json:"axis"` // Runtime or Ownership
	Name     string `json:"name"`
	State    string `json:"state"` // OK, Warning or Failed
	Required bool   `json:"required"`
	Message  string `json:"message,omitempty"`
}

// The axes of doctor, and the states of a check.
const (
	AxisRuntime   = "Runtime"
	AxisOwnership = "Ownership"
	CheckOK       = "OK"
	CheckWarning  = "Warning"
	CheckFailed   = "Failed"
)
