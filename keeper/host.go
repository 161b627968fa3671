package keeper

import (
	"fmt"
	"slices"
	"strings"

	"reconciler.dev/reconciler/keeper/secret"
	"reconciler.dev/reconciler/spec"
)

// Host is what this host allows: the part of its configuration that the keeper enforces (API.md, kind Host). A value is
// never changed once it is in use.
type Host struct {
	Workspaces []spec.Workspace `json:"workspaces"`
	// Inherit names the host variables that a launch may inherit; InheritAny allows every name (no host configuration).
	Inherit    []string `json:"inherit,omitempty"`
	InheritAny bool     `json:"inheritAny,omitempty"`
	// Users may be run as; none = only who runs the keeper.
	Users []string `json:"users,omitempty"`
	// SecretsDirectory is where secrets are read, absolute; "" = this host has none.
	SecretsDirectory string `json:"secretsDirectory,omitempty"`
	// LogsPerServer and LogsTotal are log budgets in bytes; 0 = the built-in ones.
	LogsPerServer int64 `json:"logsPerServer,omitempty"`
	LogsTotal     int64 `json:"logsTotal,omitempty"`
}

// Workspace is a root that the host opens.
type Workspace = spec.Workspace

// Workspace finds an opened workspace by its name.
func (h *Host) Workspace(name string) (spec.Workspace, bool) {
	i := slices.IndexFunc(h.Workspaces, func(w spec.Workspace) bool { return w.Name == name })
	if i < 0 {
		return spec.Workspace{}, false
	}
	return h.Workspaces[i], true
}

// Secrets reads this host's secrets. Its Fill is the one way from a text of a launch to what is delivered: it returns the
// text with its secrets in it, and what must be taken out of whatever is answered. Each call looks at the disk: it is not for
// the loop.
func (h *Host) Secrets() secret.Store { return secret.Store{Directory: h.SecretsDirectory} }

// Permit refuses a launch that this host does not allow. It looks at names alone; what they lead to is for [Kernel.Vet].
func (h *Host) Permit(l *spec.Launch) error {
	w, ok := h.Workspace(l.Workspace)
	if !ok {
		return refuse(CheckWorkspace, "spec.actions.start.workspace: this host opens no workspace %q; %s", l.Workspace, h.opened())
	}
	if !mayExecute(w, l.Executable) {
		return refuse(CheckExecutable, "spec.actions.start.executable: this host does not let %q of workspace %s be executed (Host, workspaces[].executables)", l.Executable, w.Name)
	}
	d, ok := h.Workspace(l.Directory.Workspace)
	if !ok {
		return refuse(CheckWorkspace, "spec.directory.workspace: this host opens no workspace %q; %s", l.Directory.Workspace, h.opened())
	}
	if !d.Writable {
		return refuse(CheckDirectory, "spec.directory.workspace: workspace %s is not writable on this host: choose one that is, or set workspaces[].writable in the host's configuration", d.Name)
	}
	for i, f := range l.Files {
		if f.Workspace == "" {
			continue
		}
		w, ok := h.Workspace(f.Workspace)
		if !ok {
			return refuse(CheckWorkspace, "spec.files[%d].workspace: this host opens no workspace %q; %s", i, f.Workspace, h.opened())
		}
		if !w.Writable {
			return refuse(CheckDirectory, "spec.files[%d].workspace: workspace %s is not writable on this host: choose one that is, or set workspaces[].writable in the host's configuration", i, w.Name)
		}
	}
	if l.User != "" && !slices.Contains(h.Users, l.User) {
		return refuse(CheckUser, "spec.user: this host runs nothing as %q (Host, users)", l.User)
	}
	for i, e := range l.Env {
		if e.Inherit && !h.InheritAny && !slices.Contains(h.Inherit, e.Name) {
			return refuse(CheckInherit, "spec.env[%d].inherit: this host lets nothing inherit %s (Host, inheritEnv)", i, e.Name)
		}
	}
	return nil
}

func (h *Host) opened() string {
	names := make([]string, len(h.Workspaces))
	for i, w := range h.Workspaces {
		names[i] = w.Name
	}
	if len(names) == 0 {
		return "it opens none"
	}
	return fmt.Sprintf("it opens %s", strings.Join(names, ", "))
}

// mayExecute matches a workspace's globs; nil allows everything.
func mayExecute(w spec.Workspace, executable string) bool {
	if w.Executables == nil {
		return true
	}
	return slices.ContainsFunc(w.Executables, func(glob string) bool {
		return matchGlob(strings.Split(glob, "/"), strings.Split(executable, "/"))
	})
}

// matchGlob matches a path element by element: ** stands for any number of elements, and within one element * stands for
// any text and ? for one character.
func matchGlob(glob, path []string) bool {
	switch {
	case len(glob) == 0:
		return len(path) == 0
	case glob[0] == "**":
		if matchGlob(glob[1:], path) {
			return true
		}
		return len(path) > 0 && matchGlob(glob, path[1:])
	case len(path) == 0:
		return false
	}
	return matchElement(glob[0], path[0]) && matchGlob(glob[1:], path[1:])
}

// matchElement is linear in time: it goes back to the last star only.
func matchElement(glob, name string) bool {
	g, n, star, mark := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, mark = g, n
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == name[n]):
			g++
			n++
		case star >= 0:
			mark++
			g, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}
