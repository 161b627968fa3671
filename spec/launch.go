package spec

// Launch is a resolved spec: all that one run needs to be started and governed, with every reference
// expanded and every default filled in. It is what the keeper is asked to start, and the run's record keeps
// it whole, so that a run is governed by the spec it was started with (API.md rule 7).
//
// Launch holds secrets of the operator (arguments, environment values, paths): it goes to records and to the
// keeper's socket, never into public output.
type Launch struct {
	Scope Scope `json:"scope"`

	// Restart class: a difference here needs a new run.
	Workspace  string       `json:"workspace"`
	Executable string       `json:"executable"` // relative to the workspace
	Args       []string     `json:"args,omitempty"`
	Env        []LaunchEnv  `json:"env,omitempty"` // declared ones only; the keeper adds the base of API.md rule 9
	Directory  LaunchFolder `json:"directory"`
	User       string       `json:"user,omitempty"` // "" = who runs the keeper
	// Files are written before the run is started. Their paths are of restart class, OnChange is live; what they hold is compared
	// with what the run was given.
	Files []LaunchFile `json:"files,omitempty"`

	// Live class: a difference here applies to the run that is there.
	Stop      []StopStep       `json:"stop"`              // never empty: the default is SIGTERM, 30 s
	Console   *LaunchConsole   `json:"console,omitempty"` // nil = lines have no way to it
	Endpoints []LaunchEndpoint `json:"endpoints,omitempty"`
	Readiness *LaunchProbe     `json:"readiness,omitempty"`
	Liveness  *LaunchProbe     `json:"liveness,omitempty"` // never with Log; nil = nothing is ended for what a probe says
	// StartDeadlineSeconds is by when a run must have been Ready, 1-86400; 0 = whenever.
	StartDeadlineSeconds int64            `json:"startDeadlineSeconds,omitempty"`
	Players              *LaunchPlayers   `json:"players,omitempty"` // nil = nobody counts
	Restart              RestartPolicy    `json:"restart"`
	Disruption           LaunchDisruption `json:"disruption"`
	Commands             []LaunchCommand  `json:"commands,omitempty"`
	Check                *LaunchCheck     `json:"check,omitempty"` // nil = nothing looks at the spec before it is used
	Schedules            []LaunchSchedule `json:"schedules,omitempty"`
	Reload               *LaunchReload    `json:"reload,omitempty"`    // nil = a changed file is a restart
	DependsOn            []Dependency     `json:"dependsOn,omitempty"` // what a start waits for; kind and condition are never empty
}

// LaunchEnv is one declared variable: a value, or Inherit from the host's environment.
type LaunchEnv struct {
	Name    string `json:"name"`
	Value   string `json:"value,omitempty"`
	Inherit bool   `json:"inherit,omitempty"`
}

// LaunchFolder is a directory below a workspace.
type LaunchFolder struct {
	Workspace string `json:"workspace"`
	Path      string `json:"path"` // relative, "." is the workspace itself
}

// StopStep is one step of the stop ladder. The kill of the tree that follows the last step is not declared.
// Exactly one of Signal, Console, HTTP and Exec is set.
type StopStep struct {
	Signal      *SignalAction  `json:"signal,omitempty"`
	Console     *ConsoleAction `json:"console,omitempty"`
	HTTP        *HTTPAction    `json:"http,omitempty"`
	Exec        *LaunchExec    `json:"exec,omitempty"`
	WaitFor     WaitFor        `json:"waitFor"`
	WaitSeconds int64          `json:"waitSeconds"` // 1-86400
}

// LaunchConsole is the one rail by which lines reach the run.
type LaunchConsole struct {
	Input string `json:"input"`          // Stdin, FIFO, RCON, QuakeRCON, WebRCON or Telnet
	Path  string `json:"path,omitempty"` // of the FIFO, relative to the directory
	// Endpoint is the one of the launch's endpoints that a network rail talks to.
	Endpoint string `json:"endpoint,omitempty"`
	Password string `json:"password,omitempty"` // of a network rail: the mark of one secret ([MarkSecret]); "" = none
	// TTY gives the run a terminal instead of pipes. It is with Stdin alone, and part of what a run is started with.
	TTY *LaunchTTY `json:"tty,omitempty"`
}

// LaunchTTY is the size of a run's terminal, in characters.
type LaunchTTY struct {
	Rows    int64 `json:"rows"`    // 1-1000
	Columns int64 `json:"columns"` // 1-1000
}

// ConsoleAction hands a line to the run's console. It is done when the line was handed over and, with Expect, that text was
// seen after it.
type ConsoleAction struct {
	Line   string `json:"line"`             // 1-1024 bytes, without its newline
	Expect string `json:"expect,omitempty"` // 1-256 bytes, literal
}

// HTTPAction is one request to an endpoint of the launch. It is done when it is answered with a status from 200 to 399.
type HTTPAction struct {
	Endpoint string       `json:"endpoint"` // of protocol TCP
	Scheme   string       `json:"scheme"`   // HTTP or HTTPS
	Method   string       `json:"method"`   // GET, POST, PUT, PATCH or DELETE
	Path     string       `json:"path"`     // path and query as they go onto the wire
	Headers  []HTTPHeader `json:"headers,omitempty"`
	Body     string       `json:"body,omitempty"` // at most 8192 bytes
	// BasicAuth is sent as basic authentication; nil = none.
	BasicAuth *HTTPBasicAuth `json:"basicAuth,omitempty"`
}

// HTTPHeader is one header field of a request.
type HTTPHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"` // may hold marks of secrets
}

// HTTPBasicAuth is a user's name and password.
type HTTPBasicAuth struct {
	Username string `json:"username"`
	Password string `json:"password"` // may hold marks of secrets
}

// Endpoint finds an endpoint of the launch by its name; nil = there is none. It points into the launch.
func (l *Launch) Endpoint(name string) *LaunchEndpoint {
	for i := range l.Endpoints {
		if l.Endpoints[i].Name == name {
			return &l.Endpoints[i]
		}
	}
	return nil
}

// SignalAction sends a signal to the main process or to every process of the run.
type SignalAction struct {
	Name string   `json:"name"` // SIG*, known to Linux, not SIGKILL or SIGSTOP
	To   SignalTo `json:"to"`
}

// SignalTo is the addressee of a signal.
type SignalTo string

// The addressees.
const (
	ToMain SignalTo = "Main"
	ToTree SignalTo = "Tree"
)

// WaitFor says when a stop step is over before its time is.
type WaitFor string

// The two ways.
const (
	WaitForExit WaitFor = "Exit" // the run's end
	WaitForDone WaitFor = "Done" // the action is done
)

// LaunchEndpoint is a declared endpoint with its port known.
type LaunchEndpoint struct {
	Name        string `json:"name"`
	Port        int    `json:"port"`
	Protocol    string `json:"protocol"` // TCP or UDP
	Address     string `json:"address,omitempty"`
	AppProtocol string `json:"appProtocol,omitempty"`
}

// Purpose is what a run is asked for.
type Purpose string

// The purposes. What a failure of each leads to is not a matter of the asking: readiness only tells, liveness acts, players are
// counted.
const (
	ForReadiness Purpose = "Readiness"
	ForLiveness  Purpose = "Liveness"
	ForPlayers   Purpose = "Players"
)

// LaunchProbe is a resolved probe; exactly one of Exec, HTTP, Log, Socket, Query, Proxy and Notify is set.
type LaunchProbe struct {
	Exec             *LaunchExec  `json:"exec,omitempty"` // it succeeds when it ends with exit code 0
	HTTP             *HTTPAction  `json:"http,omitempty"`
	Log              []string     `json:"log,omitempty"` // literals, any of which latches until the run ends
	Socket           *SocketProbe `json:"socket,omitempty"`
	Query            *Query       `json:"query,omitempty"`
	Proxy            *ProxyProbe  `json:"proxy,omitempty"`
	Notify           bool         `json:"notify,omitempty"` // the server says so itself (sd_notify(3)): READY=1, and stays Ready until the run ends; for liveness WATCHDOG=1 in each period
	PeriodSeconds    int64        `json:"periodSeconds"`
	TimeoutSeconds   int64        `json:"timeoutSeconds"`
	FailureThreshold int64        `json:"failureThreshold"`
	SuccessThreshold int64        `json:"successThreshold"`
}

// SocketProbe connects to an endpoint of the launch and, with Send, talks.
type SocketProbe struct {
	Endpoint string `json:"endpoint"`
	Send     []byte `json:"send,omitempty"`   // decoded by its declared encoding
	Expect   []byte `json:"expect,omitempty"` // awaited anywhere in the reply
}

// Endpoint is the name of the endpoint that is asked; "" = none is.
func (p *LaunchProbe) Endpoint() string {
	switch {
	case p == nil:
	case p.HTTP != nil:
		return p.HTTP.Endpoint
	case p.Socket != nil:
		return p.Socket.Endpoint
	case p.Query != nil:
		return p.Query.Endpoint
	case p.Proxy != nil:
		return p.Proxy.Endpoint
	}
	return ""
}

// ProxyProbe greets a proxy of the launch or, with URL, fetches something through it.
type ProxyProbe struct {
	Endpoint  string         `json:"endpoint"` // with AppProtocol
	URL       string         `json:"url,omitempty"`
	BasicAuth *HTTPBasicAuth `json:"basicAuth,omitempty"` // what the proxy wants to know; nil = nothing
}

// LaunchPlayers says how the players are counted; exactly one of Query and HTTP is set.
type LaunchPlayers struct {
	Query *Query `json:"query,omitempty"`
	// HTTP is answered by a JSON document that has their number at Field: names of members, joined by dots.
	HTTP          *HTTPAction `json:"http,omitempty"`
	Field         string      `json:"field,omitempty"`
	PeriodSeconds int64       `json:"periodSeconds"`
}

// Endpoint is the name of the endpoint that is asked.
func (p *LaunchPlayers) Endpoint() string {
	switch {
	case p.HTTP != nil:
		return p.HTTP.Endpoint
	case p.Query != nil:
		return p.Query.Endpoint
	}
	return ""
}

// RestartPolicy is when and how fast an ended run is followed by the next.
type RestartPolicy struct {
	Policy         string `json:"policy"` // Always, OnFailure or Never: what is done where no rule of Exits matches
	InitialSeconds int64  `json:"initialSeconds"`
	MaxSeconds     int64  `json:"maxSeconds"`
	ResetSeconds   int64  `json:"resetSeconds"`
	// Exits are asked in their order before Policy is; codes and signals are sorted.
	Exits []ExitRule `json:"exits,omitempty"`
}

// The restart policies.
const (
	RestartAlways    = "Always"
	RestartOnFailure = "OnFailure"
	RestartNever     = "Never"
)

// LaunchDisruption bounds the restarts that a changed spec needs.
type LaunchDisruption struct {
	MaxUnavailable int64 `json:"maxUnavailable"` // copies restarted at once; 0 = no limit
	// MaxPlayers is with how many people at most a run is restarted, 0-100000; nil = nobody is asked.
	MaxPlayers *int64         `json:"maxPlayers,omitempty"`
	Windows    []LaunchWindow `json:"windows,omitempty"` // in which a run may be restarted; none = at any time
	// Announce is what is done before a run is replaced, in any order; at most 8.
	Announce []Announcement `json:"announce,omitempty"`
	// DeadlineSeconds is how long a change waits for people and windows at most, 60-2592000; 0 = for good. Then OnDeadline counts.
	DeadlineSeconds int64  `json:"deadlineSeconds,omitempty"`
	OnDeadline      string `json:"onDeadline,omitempty"` // DeadlineHold or DeadlineForce; "" without a deadline
}

// What becomes of a change that has waited for people and windows until its deadline.
const (
	DeadlineHold  = "Hold"  // it waits on
	DeadlineForce = "Force" // it waits no more
)
