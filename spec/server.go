package spec

// Server is what should run, by name.
type Server struct {
	Meta    `json:"metadata"`
	Spec    ServerSpec `json:"spec"`
	Written []byte     `json:"-"` // as in [Profile]
}

// ServerSpec is Server.spec of API.md.
type ServerSpec struct {
	Profile    string                 `json:"profile"`
	State      string                 `json:"state,omitempty"` // Running (default) or Stopped
	Parameters map[string]IntOrString `json:"parameters,omitempty"`
	DependsOn  []Dependency           `json:"dependsOn,omitempty"`
}

// The states that a manifest or a hold may wish for.
const (
	WishRunning = "Running"
	WishStopped = "Stopped"
)

// Wish is the state that the manifest asks for, the default filled in.
func (s *Server) Wish() string {
	if s.Spec.State == "" {
		return WishRunning
	}
	return s.Spec.State
}

// Scope is the scope that the server's manifest selects.
func (s *Server) Scope() Scope {
	k := s.Key()
	return Scope{Namespace: k.Namespace, Server: k.Name, Profile: s.Spec.Profile}
}

// ProfileKey is the key of the profile that the server's manifest selects.
func (s *Server) ProfileKey() Key { return Key{Namespace: s.Key().Namespace, Name: s.Spec.Profile} }

// Dependency is something that a start waits for.
type Dependency struct {
	Kind      string `json:"kind,omitempty"` // Server (default) or Job
	Name      string `json:"name"`
	Condition string `json:"condition,omitempty"` // Ready (default) or Running; Job: Succeeded
}
