package spec

// Actions are the typed things that can be done to a server.
type Actions struct {
	Start    Exec      `json:"start"`
	Stop     *Stop     `json:"stop,omitempty"`
	Reload   *Reload   `json:"reload,omitempty"`
	Check    *Check    `json:"check,omitempty"`
	Commands []Command `json:"commands,omitempty"`
}

// Exec is a program, no shell: workspace, relative path and arguments, each by itself.
type Exec struct {
	Workspace  string   `json:"workspace,omitempty"`  // that of actions.start; there: usr
	Executable string   `json:"executable,omitempty"` // that of actions.start, required there
	Args       []string `json:"args,omitempty"`
}

// Action is one thing to do; exactly one member is set.
type Action struct {
	Exec    *Exec       `json:"exec,omitempty"`
	Console *Line       `json:"console,omitempty"`
	HTTP    *HTTP       `json:"http,omitempty"`
	Signal  *SignalRule `json:"signal,omitempty"`
}

// Line is a line for the console and what to await.
type Line struct {
	Line   string `json:"line"`             // 1-1024 bytes
	Expect string `json:"expect,omitempty"` // 1-256 bytes, literal
}

// SignalRule is a signal as the file has it.
type SignalRule struct {
	Name string `json:"name"`         // SIG*, known to Linux, not SIGKILL or SIGSTOP
	To   string `json:"to,omitempty"` // Main (default) or Tree
}

// HTTP is a request to an endpoint of the server.
type HTTP struct {
	Endpoint  string     `json:"endpoint"`
	Scheme    string     `json:"scheme,omitempty"` // HTTP (default) or HTTPS
	Method    string     `json:"method,omitempty"` // GET (default), POST, PUT, PATCH or DELETE
	Path      string     `json:"path,omitempty"`   // /
	Headers   []Header   `json:"headers,omitempty"`
	Body      string     `json:"body,omitempty"`
	BasicAuth *BasicAuth `json:"basicAuth,omitempty"`
}

// Header is one header field of a request.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// BasicAuth is a user name and a reference to a Secret.
type BasicAuth struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// Query asks a game in its own protocol.
type Query struct {
	Protocol string `json:"protocol"` // Minecraft, Bedrock, A2S, Quake3, OpenTTD or Mumble
	Endpoint string `json:"endpoint"`
}

// Stop is the stop ladder. The kill of the tree that follows it is not declared.
type Stop struct {
	Steps []Step `json:"steps"` // 1-16
}

// Step is one step of the stop ladder.
type Step struct {
	Action
	WaitFor     string `json:"waitFor,omitempty"` // Exit (default) or Done
	WaitSeconds int64  `json:"waitSeconds"`       // 1-86400
}

// Reload brings a changed configuration to a run that goes on.
type Reload struct {
	Action
	Disruptive     bool   `json:"disruptive,omitempty"`
	TimeoutSeconds *int64 `json:"timeoutSeconds,omitempty"` // 1-86400, 30
}

// Check proves a configuration before it is used.
type Check struct {
	Exec           *Exec  `json:"exec"`
	TimeoutSeconds *int64 `json:"timeoutSeconds,omitempty"` // 1-3600, 30
}

// Command is a declared action that people and jobs may ask for by its name.
type Command struct {
	Name string `json:"name"`
	Action
	Parameters     []Parameter `json:"parameters,omitempty"`
	Requires       string      `json:"requires,omitempty"` // Any (default), Running or Stopped
	Before         []string    `json:"before,omitempty"`
	After          []string    `json:"after,omitempty"`
	TimeoutSeconds *int64      `json:"timeoutSeconds,omitempty"` // 1-86400, 60
}

// Probe is a question to a server that is asked again and again; exactly one of the members that ask is set.
type Probe struct {
	Exec             *Exec        `json:"exec,omitempty"`
	HTTP             *HTTP        `json:"http,omitempty"`
	Socket           *SocketCheck `json:"socket,omitempty"`
	Log              *LogCheck    `json:"log,omitempty"`
	Query            *Query       `json:"query,omitempty"`
	Proxy            *ProxyCheck  `json:"proxy,omitempty"`
	Notify           *Notify      `json:"notify,omitempty"`
	PeriodSeconds    *int64       `json:"periodSeconds,omitempty"`    // 1-3600, 10
	TimeoutSeconds   *int64       `json:"timeoutSeconds,omitempty"`   // 1-300, 1
	FailureThreshold *int64       `json:"failureThreshold,omitempty"` // 1-1000, 3
	SuccessThreshold *int64       `json:"successThreshold,omitempty"` // 1-1000, 1
}

// SocketCheck connects to an endpoint and, with Send, talks.
type SocketCheck struct {
	Endpoint string `json:"endpoint"`
	Send     string `json:"send,omitempty"`
	Expect   string `json:"expect,omitempty"`
	Encoding string `json:"encoding,omitempty"` // Text (default) or Hex
}

// LogCheck waits for any of some literals in the output.
type LogCheck struct {
	Contains []string `json:"contains"` // 1-8
}

// ProxyCheck talks through a proxy endpoint.
type ProxyCheck struct {
	Endpoint  string     `json:"endpoint"`
	URL       string     `json:"url,omitempty"`
	BasicAuth *BasicAuth `json:"basicAuth,omitempty"`
}

// Notify listens to what the server says of itself.
type Notify struct{}
