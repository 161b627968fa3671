package spec

import "strings"

// Key names an object of one kind: namespace and name, both DNS labels.
type Key struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String is "name" in the default namespace, else "namespace/name".
func (k Key) String() string {
	if k.Namespace == DefaultNamespace {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// DefaultNamespace is the namespace of an object that names none.
const DefaultNamespace = "default"

// Scope is where at most one run lives: a Server under one of its Profiles.
type Scope struct {
	Namespace string `json:"namespace"`
	Server    string `json:"server"`
	Profile   string `json:"profile"`
}

// ServerKey is the key of the Server that the scope belongs to.
func (s Scope) ServerKey() Key { return Key{Namespace: s.Namespace, Name: s.Server} }

// String is "server/profile", with the namespace in front when it is not the default one.
func (s Scope) String() string {
	if s.Namespace == DefaultNamespace {
		return s.Server + "/" + s.Profile
	}
	return s.Namespace + "/" + s.Server + "/" + s.Profile
}

// ID is the scope as one file name: the three DNS labels joined by dots, which no label contains.
func (s Scope) ID() string { return s.Namespace + "." + s.Server + "." + s.Profile }

// ParseScopeID is the reverse of [Scope.ID]. It reports false for anything that ID cannot have made.
func ParseScopeID(id string) (Scope, bool) {
	parts := strings.Split(id, ".")
	if len(parts) != 3 {
		return Scope{}, false
	}
	for _, p := range parts {
		if !IsLabel(p) {
			return Scope{}, false
		}
	}
	return Scope{Namespace: parts[0], Server: parts[1], Profile: parts[2]}, true
}

// IsLabel reports whether s is a DNS label (RFC 1123): 1 to 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit.
func IsLabel(s string) bool {
	if len(s) == 0 || len(s) > 63 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !alnum && (c != '-' || i == 0 || i == len(s)-1) {
			return false
		}
	}
	return true
}
