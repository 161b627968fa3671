package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Meta is the part of an object's metadata that people write. What a cluster adds (uid, resourceVersion, generation,
// managedFields, creationTimestamp) is ignored with a note.
type Meta struct {
	Name        string            `json:"name"`                // DNS label
	Namespace   string            `json:"namespace,omitempty"` // DNS label; never empty after Decode
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Key is the object's key.
func (m Meta) Key() Key {
	if m.Namespace == "" {
		return Key{Namespace: DefaultNamespace, Name: m.Name}
	}
	return Key{Namespace: m.Namespace, Name: m.Name}
}

// PruneDisabled reports whether the object asks to be left alone when it leaves its file.
func (m Meta) PruneDisabled() bool { return m.Annotations[PruneAnnotation] == PruneDisabled }

// The annotation that keeps an object whose file is gone, and its only value.
const (
	PruneAnnotation = "reconciler.dev/prune"
	PruneDisabled   = "disabled"
)

// Profile is how a kind of server runs. Absent fields are nil or empty: a Profile holds what its file says, and
// defaults are filled in by [Resolve].
type Profile struct {
	Meta `json:"metadata"`
	Spec ProfileSpec `json:"spec"`
	// Written is the object as its file has it, as JSON: keys in their order, `x-` keys included.
	Written []byte `json:"-"`
}

// ProfileSpec is Profile.spec of API.md.
type ProfileSpec struct {
	Parameters           []Parameter `json:"parameters,omitempty"`
	Actions              Actions     `json:"actions"`
	Env                  []EnvVar    `json:"env,omitempty"`
	Directory            *Folder     `json:"directory,omitempty"`
	User                 string      `json:"user,omitempty"`
	Limits               *Limits     `json:"limits,omitempty"`
	Capabilities         []string    `json:"capabilities,omitempty"`
	Console              *Console    `json:"console,omitempty"`
	Endpoints            []Endpoint  `json:"endpoints,omitempty"`
	ReadinessProbe       *Probe      `json:"readinessProbe,omitempty"`
	LivenessProbe        *Probe      `json:"livenessProbe,omitempty"`
	StartDeadlineSeconds *int64      `json:"startDeadlineSeconds,omitempty"` // 1-86400; absent = only shown
	Players              *Players    `json:"players,omitempty"`
	Files                []FileRule  `json:"files,omitempty"`
	Restart              *Restart    `json:"restart,omitempty"`
	Disruption           *Disruption `json:"disruption,omitempty"`
	Schedules            []Schedule  `json:"schedules,omitempty"`
	Tun                  *Tun        `json:"tun,omitempty"`
}

// Parameter is a value that a Server gives to a Profile, or a caller to a command.
type Parameter struct {
	Name        string       `json:"name"`           // [a-z][a-zA-Z0-9]*, at most 63
	Type        string       `json:"type,omitempty"` // String (default), Integer or Secret
	Default     *IntOrString `json:"default,omitempty"`
	DefaultFrom *DefaultFrom `json:"defaultFrom,omitempty"`
	Enum        []string     `json:"enum,omitempty"`
	Minimum     *int64       `json:"minimum,omitempty"`
	Maximum     *int64       `json:"maximum,omitempty"`
	Pattern     string       `json:"pattern,omitempty"`   // RE2, for the whole value
	MaxLength   *int64       `json:"maxLength,omitempty"` // bytes, 1-4096, 256
	InArgs      bool         `json:"inArgs,omitempty"`
	Description string       `json:"description,omitempty"`
}

// The parameter types.
const (
	ParameterString  = "String"
	ParameterInteger = "Integer"
	ParameterSecret  = "Secret"
)

// DefaultFrom derives a default from another Integer parameter.
type DefaultFrom struct {
	Parameter string `json:"parameter"`
	Add       *int64 `json:"add,omitempty"` // -65535 to 65535, 0
}

// EnvVar is one variable: a value, or inherited from the host.
type EnvVar struct {
	Name    string  `json:"name"`
	Value   *string `json:"value,omitempty"` // at most 4096 bytes
	Inherit bool    `json:"inherit,omitempty"`
}

// Folder is a directory below a workspace.
type Folder struct {
	Workspace string `json:"workspace,omitempty"` // data
	Path      string `json:"path,omitempty"`      // $(server.name)
}

// Limits bound what a run may use. Memory and CPU are quantities or one reference.
type Limits struct {
	Memory    *IntOrString `json:"memory,omitempty"`
	CPU       *IntOrString `json:"cpu,omitempty"`
	Pids      *int64       `json:"pids,omitempty"`      // 1-4194304
	OpenFiles *int64       `json:"openFiles,omitempty"` // 64-1048576
}

// Console says where a line for the server goes.
type Console struct {
	Input    string `json:"input,omitempty"` // None (default), Stdin, RCON, QuakeRCON, WebRCON, Telnet, FIFO or Mailbox
	Endpoint string `json:"endpoint,omitempty"`
	Path     string `json:"path,omitempty"`
	Password string `json:"password,omitempty"` // one reference to a Secret
	TTY      *TTY   `json:"tty,omitempty"`
}

// The schemes of a request.
const (
	SchemeHTTP  = "HTTP"
	SchemeHTTPS = "HTTPS"
)

// The rails of this version.
const (
	ConsoleNone  = "None"
	ConsoleStdin = "Stdin" // the main process's standard input
	ConsoleFIFO  = "FIFO"  // a FIFO of the server's own, in its directory
	// The network rails: each talks to an endpoint of the server's.
	ConsoleRCON      = "RCON"      // Source RCON, over TCP
	ConsoleQuakeRCON = "QuakeRCON" // that of ioquake3, over UDP
	ConsoleWebRCON   = "WebRCON"   // that of Rust, a websocket
	ConsoleTelnet    = "Telnet"    // text over TCP
	ConsoleMailbox   = "Mailbox"   // lines wait until the server fetches them
)

// TTY asks for a terminal instead of pipes.
type TTY struct {
	Rows    *int64 `json:"rows,omitempty"`    // 1-1000, 24
	Columns *int64 `json:"columns,omitempty"` // 1-1000, 80
}

// Endpoint is an address on which the server listens.
type Endpoint struct {
	Name        string      `json:"name"`
	Port        IntOrString `json:"port"`                  // 1-65535 or one reference
	Protocol    string      `json:"protocol,omitempty"`    // TCP (default) or UDP
	Address     string      `json:"address,omitempty"`     // an IP address; absent = any
	AppProtocol string      `json:"appProtocol,omitempty"` // HTTP, SOCKS5 or Mixed
}

// The transport protocols.
const (
	ProtocolTCP = "TCP"
	ProtocolUDP = "UDP"
)

// What is spoken on an endpoint.
const (
	AppHTTP   = "HTTP"
	AppSOCKS5 = "SOCKS5"
	AppMixed  = "Mixed" // SOCKS5 and HTTP on one port
)

// Players says how the number of players is known.
type Players struct {
	Query         *Query `json:"query,omitempty"`
	HTTP          *HTTP  `json:"http,omitempty"`
	Field         string `json:"field,omitempty"`         // a.b, with HTTP
	PeriodSeconds *int64 `json:"periodSeconds,omitempty"` // 1-3600, 15
}

// FileRule is a file of the server's, written by us or watched.
type FileRule struct {
	Path      string  `json:"path"`
	Workspace string  `json:"workspace,omitempty"` // the directory
	Content   *string `json:"content,omitempty"`   // at most 256 KiB; absent = somebody else's file
	Write     string  `json:"write,omitempty"`     // EachStart (default) or IfMissing
	OnChange  string  `json:"onChange,omitempty"`  // Apply (default) or Ignore
}

// Restart is when and how fast an ended run is followed by the next.
type Restart struct {
	Policy         string     `json:"policy,omitempty"`         // Always (default), OnFailure or Never
	InitialSeconds *int64     `json:"initialSeconds,omitempty"` // 0-3600, 1
	MaxSeconds     *int64     `json:"maxSeconds,omitempty"`     // 0-86400, 300
	ResetSeconds   *int64     `json:"resetSeconds,omitempty"`   // 1-86400, 600
	Exits          []ExitRule `json:"exits,omitempty"`
}

// ExitRule says what an exit that nobody asked for means.
type ExitRule struct {
	Codes   []int64    `json:"codes,omitempty"`   // 0-255
	Signals []string   `json:"signals,omitempty"` // SIG*; one matches the exit code 128+N too
	Action  ExitAction `json:"action"`            // Backoff, Restart, Complete or Fail
}

// Disruption governs the restarts that we want.
type Disruption struct {
	MaxPlayers      *int64         `json:"maxPlayers,omitempty"`     // 0-100000, 0
	MaxUnavailable  *int64         `json:"maxUnavailable,omitempty"` // 0-10000, 1; 0 = no limit
	Windows         []Window       `json:"windows,omitempty"`
	Announce        []Announcement `json:"announce,omitempty"`
	DeadlineSeconds *int64         `json:"deadlineSeconds,omitempty"` // 60-2592000
	OnDeadline      string         `json:"onDeadline,omitempty"`      // Hold (default) or Force
}

// Window is a time in which we may restart.
type Window struct {
	Schedule        string `json:"schedule"`           // cron, 5 fields
	TimeZone        string `json:"timeZone,omitempty"` // UTC
	DurationSeconds int64  `json:"durationSeconds"`    // 60-604800
}

// Announcement is a command that is run before a restart.
type Announcement struct {
	BeforeSeconds int64                  `json:"beforeSeconds"` // 1-86400
	Command       string                 `json:"command"`
	Parameters    map[string]IntOrString `json:"parameters,omitempty"`
}

// order is by time, and then by what is done.
func (a Announcement) order() string {
	text := fmt.Sprintf("%05d %s", a.BeforeSeconds, a.Command)
	for _, name := range slices.Sorted(maps.Keys(a.Parameters)) {
		text += fmt.Sprintf(" %s=%q", name, a.Parameters[name].Text())
	}
	return text
}

// Schedule is a job that comes back.
type Schedule struct {
	Name                    string       `json:"name"`
	Schedule                string       `json:"schedule"`
	TimeZone                string       `json:"timeZone,omitempty"`
	StartingDeadlineSeconds *int64       `json:"startingDeadlineSeconds,omitempty"` // 1-86400, 300
	Job                     ScheduledJob `json:"job"`
}

// ScheduledJob is what a schedule does.
type ScheduledJob struct {
	Type       string                 `json:"type,omitempty"` // as in Job, but for Start and Stop
	Command    string                 `json:"command,omitempty"`
	Parameters map[string]IntOrString `json:"parameters,omitempty"`
}

// Tun asks for a TUN device.
type Tun struct {
	Provider  string   `json:"provider"`           // Tun2socks or Core
	Endpoint  string   `json:"endpoint,omitempty"` // a SOCKS5 one; Tun2socks only
	Remote    []string `json:"remote"`             // 1-16 hosts or addresses
	Device    string   `json:"device"`             // at most 15 bytes
	Addresses []string `json:"addresses"`          // CIDR
	Routes    []string `json:"routes"`             // CIDR
}

// IntOrString is a whole number or a string, whichever the file has.
type IntOrString struct {
	IsString bool
	Int      int64
	String   string
}

// Text is the value as it stands in an argument.
func (v IntOrString) Text() string {
	if v.IsString {
		return v.String
	}
	return strconv.FormatInt(v.Int, 10)
}

// MarshalJSON is a JSON number or string.
func (v IntOrString) MarshalJSON() ([]byte, error) {
	if v.IsString {
		return quoteJSON(v.String), nil
	}
	return strconv.AppendInt(nil, v.Int, 10), nil
}

// UnmarshalJSON takes what MarshalJSON makes: a whole number or a string, nothing else.
func (v *IntOrString) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*v = IntOrString{IsString: true}
		return json.Unmarshal(b, &v.String)
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return errors.New("must be a whole number or a string")
	}
	*v = IntOrString{Int: n}
	return nil
}

// IsZero reports whether nothing was written.
func (v IntOrString) IsZero() bool { return v == IntOrString{} }
