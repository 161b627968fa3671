package spec

// Host is what this host allows. It is read from one root-owned file, never from a source.
type Host struct {
	Meta    `json:"metadata"`
	Spec    HostSpec `json:"spec"`
	Written []byte   `json:"-"` // as in [Profile]
}

// HostSpec is Host.spec of API.md.
type HostSpec struct {
	Workspaces        []Workspace  `json:"workspaces,omitempty"` // absent = usr and data
	Users             []string     `json:"users,omitempty"`
	SecretsDirectory  string       `json:"secretsDirectory,omitempty"`
	InheritEnv        []string     `json:"inheritEnv,omitempty"`
	Capabilities      []string     `json:"capabilities,omitempty"`
	Sources           []HostSource `json:"sources,omitempty"`
	Logs              *LogBudget   `json:"logs,omitempty"`
	StartConcurrency  *int64       `json:"startConcurrency,omitempty"`  // 0-10000, 0 = no limit
	RestartsPerMinute *int64       `json:"restartsPerMinute,omitempty"` // 0-10000, 0 = no limit
	TunEngine         *TunEngine   `json:"tunEngine,omitempty"`
}

// Workspace is a root that the host opens to profiles.
type Workspace struct {
	Name     string `json:"name"`
	Path     string `json:"path"` // absolute
	Writable bool   `json:"writable,omitempty"`
	// Executables are globs of what may be executed, relative to Path. Nil is everything, empty is nothing.
	Executables []string `json:"executables,omitzero"`
}

// HostSource is a directory of manifests.
type HostSource struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Trust string `json:"trust,omitempty"` // Full (default) or ParametersOnly
}

// LogBudget bounds the logs on disk. Absent quantities have their defaults.
type LogBudget struct {
	PerServer *IntOrString `json:"perServer,omitempty"` // 64Mi
	Total     *IntOrString `json:"total,omitempty"`     // 2Gi
}

// TunEngine is the program that carries a TUN device's traffic to a SOCKS endpoint.
type TunEngine struct {
	Workspace  string   `json:"workspace,omitempty"`
	Executable string   `json:"executable"`
	Args       []string `json:"args,omitempty"`
}
