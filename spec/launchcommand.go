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

// LaunchCheck is a program that says of a launch, before it is used, whether its files are good. It is run as the launch's user,
// in a shadow of its directory that has the new files, with links to all else.
type LaunchCheck struct {
	Exec           LaunchExec `json:"exec"`
	TimeoutSeconds int64      `json:"timeoutSeconds"` // 1-3600
}

// LaunchReload has a run that goes on read its files anew.
type LaunchReload struct {
	LaunchAction
	Disruptive     bool  `json:"disruptive,omitempty"` // it disturbs people as a restart does
	TimeoutSeconds int64 `json:"timeoutSeconds"`       // 1-86400: by then it is done, and the run Ready again
}

// Requires says what a server has to do while a command runs.
type Requires string

// What may be required.
const (
	RequiresAny     Requires = "Any"
	RequiresRunning Requires = "Running"
	RequiresStopped Requires = "Stopped"
)
