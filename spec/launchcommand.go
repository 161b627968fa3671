package spec

// LaunchCommand is a declared command of a launch: every reference is expanded but those to its own parameters, which its
// caller gives.
type LaunchCommand struct {
	Name string `json:"name"`
	LaunchAction
	Parameters     []Parameter `json:"parameters,omitempty"` // without descriptions
	Requires       Requires    `json:"requires"`
	Before         []string    `json:"before,omitempty"` // names of commands, in order
	After          []string    `json:"after,omitempty"`  // likewise; they run whatever came of it
	TimeoutSeconds int64       `json:"timeoutSeconds"`   // 1-86400
}

// LaunchAction is one thing to do; exactly one member is set.
type LaunchAction struct {
	Exec    *LaunchExec    `json:"exec,omitempty"`
	Console *ConsoleAction `json:"console,omitempty"`
	HTTP    *HTTPAction    `json:"http,omitempty"`
	Signal  *SignalAction  `json:"signal,omitempty"`
}

// LaunchExec is a program that is run beside a run: as its user, in its directory and environment, in a cgroup of its own.
// It is done when it has ended with exit code 0.
type LaunchExec struct {
	Workspace  string   `json:"workspace"`
	Executable string   `json:"executable"` // relative to the workspace
	Args       []string `json:"args,omitempty"`
}

// Requires says what a server has to do while a command runs.
type Requires string

// What may be required.
const (
	RequiresAny     Requires = "Any"
	RequiresRunning Requires = "Running"
	RequiresStopped Requires = "Stopped"
)
