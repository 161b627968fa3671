package spec

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// HostView is what resolving needs to know of the host.
type HostView struct {
	Workspaces map[string]string // name -> absolute path
	InheritAny bool              // any name may be inherited: there is no host configuration
	InheritEnv []string          // else these
	// How many servers may be Starting at once, and how many crash restarts there may be in a minute; 0 = no limit.
	StartConcurrency, RestartsPerMinute int64
	Users                               []string // the first is the default; empty = who runs the keeper, and no other may be named
}

// The defaults that a launch has and no field of a manifest shows by itself.
const (
	defaultStopSignal     = "SIGTERM"
	defaultStopSeconds    = 30
	defaultWorkspace      = "usr"
	defaultDirectory      = "data"
	defaultInitialSeconds = 1
	defaultMaxSeconds     = 300
	defaultResetSeconds   = 600
	defaultMaxUnavailable = 1
	defaultRows           = 24
	defaultColumns        = 80
	defaultCheckSeconds   = 30
	defaultReloadSeconds  = 30
)

// Resolve makes the launch of a server: parameters checked, defaults filled in, references expanded, once. The faults
// carry fields of the Server where its parameters are at fault, else of the Profile; they have no file or line. The
// launch is of use only without faults.
func Resolve(s *Server, p *Profile, h HostView) (Launch, []Fault) {
	r := resolver{server: s, profile: &p.Spec, host: h}
	r.parameters()
	l := Launch{Scope: s.Scope()}
	start := &p.Spec.Actions.Start
	l.Workspace = or(start.Workspace, defaultWorkspace)
	r.workspace(l.Workspace, "spec.actions.start.workspace")
	l.Executable = filepath.Clean(start.Executable)
	l.User = r.user()
	l.Directory = r.directory() // before anything that may say $(server.directory)
	for i, a := range start.Args {
		l.Args = append(l.Args, r.expand(a, func() string { return fmt.Sprintf("spec.actions.start.args[%d]", i) }))
	}
	l.Env = r.env()
	l.Console = r.console()
	l.Stop = r.stop()
	l.Endpoints = r.endpoints()
	l.Readiness = r.probe(p.Spec.ReadinessProbe, "spec.readinessProbe")
	l.Liveness = r.probe(p.Spec.LivenessProbe, "spec.livenessProbe")
	l.StartDeadlineSeconds = valueOr(p.Spec.StartDeadlineSeconds, 0)
	l.Players = r.players()
	l.Restart = restartPolicy(p.Spec.Restart)
	l.Commands = r.commands()
	l.Schedules = r.schedules()
	l.DependsOn = dependencies(s.Spec.DependsOn)
	l.Disruption = disruption(&p.Spec)
	l.Files = r.files()
	if a := p.Spec.Actions.Reload; a != nil {
		if action, ok := r.action(&a.Action, "spec.actions.reload"); ok {
			l.Reload = &LaunchReload{LaunchAction: action, Disruptive: a.Disruptive, TimeoutSeconds: valueOr(a.TimeoutSeconds, defaultReloadSeconds)}
		}
	}
	if c := p.Spec.Actions.Check; c != nil {
		l.Check = &LaunchCheck{Exec: *r.exec(c.Exec, "spec.actions.check.exec"), TimeoutSeconds: valueOr(c.TimeoutSeconds, defaultCheckSeconds)}
	}
	if len(r.faults) == 0 {
		// What the expanded references make of a field is judged like the field.
		r.faults = l.Validate()
	}
	return l, r.faults
}

func disruption(p *ProfileSpec) LaunchDisruption {
	l := LaunchDisruption{MaxUnavailable: defaultMaxUnavailable}
	d := p.Disruption
	if d == nil {
		return l
	}
	l.MaxUnavailable = valueOr(d.MaxUnavailable, defaultMaxUnavailable)
	if p.Players != nil {
		most := valueOr(d.MaxPlayers, 0)
		l.MaxPlayers = &most
	}
	for _, w := range d.Windows {
		l.Windows = append(l.Windows, LaunchWindow{Schedule: w.Schedule, TimeZone: or(w.TimeZone, "UTC"), DurationSeconds: w.DurationSeconds})
	}
	l.Announce = slices.Clone(d.Announce)
	if d.DeadlineSeconds != nil {
		l.DeadlineSeconds, l.OnDeadline = *d.DeadlineSeconds, or(d.OnDeadline, DeadlineHold)
	}
	return l
}

type resolver struct {
	server    *Server
	profile   *ProfileSpec
	host      HostView
	values    map[string]string // of the parameters, as text; of a Secret its mark
	own       []Parameter       // of the command that is being resolved: its caller gives them
	serverDir string            // $(server.directory)
	faults    []Fault
}

func (r *resolver) fault(field, kind, shown, detail string) {
	r.faults = append(r.faults, Fault{Field: field, Kind: kind, Value: showValue(shown), Detail: detail})
}

// parameters settles every parameter of the profile.
func (r *resolver) parameters() {
	r.values = settle(r.profile.Parameters, r.server.Spec.Parameters, "profile '"+r.server.Spec.Profile+"'", func(name, kind, shown, detail string) {
		r.fault("spec.parameters["+name+"]", kind, shown, detail)
	})
}

func (r *resolver) workspace(name, field string) string {
	dir, ok := r.host.Workspaces[name]
	if !ok {
		r.fault(field, FaultNotFound, name, "this host opens no such workspace"+didYouMean(name, slices.Sorted(maps.Keys(r.host.Workspaces)))+
			": name it with --workspace NAME=DIR or in the host configuration")
	}
	return dir
}

func (r *resolver) user() string {
	name := r.profile.User
	switch {
	case name == "" && len(r.host.Users) > 0:
		return r.host.Users[0]
	case name != "" && !slices.Contains(r.host.Users, name):
		r.fault("spec.user", FaultForbidden, name, "this host does not allow the user: name it in `spec.users` of the host configuration")
	}
	return name
}

func (r *resolver) directory() LaunchFolder {
	folder := LaunchFolder{Workspace: defaultDirectory, Path: r.server.Name}
	if d := r.profile.Directory; d != nil {
		folder.Workspace = or(d.Workspace, defaultDirectory)
		if d.Path != "" {
			folder.Path = r.expand(d.Path, func() string { return "spec.directory.path" })
		}
	}
	if folder.Path != "" && !strings.HasPrefix(folder.Path, "/") && !hasDotDot(folder.Path) {
		folder.Path = filepath.Clean(folder.Path)
	}
	r.serverDir = filepath.Join(r.workspace(folder.Workspace, "spec.directory.workspace"), folder.Path)
	return folder
}

// expand replaces the references of a text, once.
func (r *resolver) expand(text string, field func() string) string {
	return r.expandAs(text, field, func(value string) string { return value })
}

// expandAs is expand with every value written in another way.
func (r *resolver) expandAs(text string, field func() string, as func(string) string) string {
	if !hasReference(text) {
		return text
	}
	var b strings.Builder
	detail := references(text, func(s string) { b.WriteString(s) }, func(name string) {
		b.WriteString(as(r.lookup(name, field)))
	})
	if detail != "" {
		r.fault(field(), FaultInvalid, "", detail)
	}
	return b.String()
}

func (r *resolver) lookup(name string, field func() string) string {
	if v, ok := r.values[name]; ok {
		return v
	}
	if findParameter(r.own, name) != nil {
		return markParameter(name)
	}
	if findParameter(r.profile.Parameters, name) != nil {
		return "" // reported where it has no value
	}
	switch name {
	case refServerName:
		return r.server.Name
	case refServerNamespace:
		return r.server.Key().Namespace
	case refServerDirectory:
		if r.serverDir == "" {
			r.fault(field(), FaultForbidden, "", notItself)
		}
		return r.serverDir
	}
	if workspace, ok := strings.CutPrefix(name, refWorkspace); ok && IsLabel(workspace) {
		return r.workspace(workspace, field())
	}
	r.fault(field(), FaultNotFound, "", unknownReference(name, r.profile.Parameters))
	return ""
}

// env keeps the file's order, so that a fault's index is that of the file; the hash sorts.
func (r *resolver) env() []LaunchEnv {
	var env []LaunchEnv
	for i, e := range r.profile.Env {
		field := func() string { return fmt.Sprintf("spec.env[%d].value", i) }
		v := LaunchEnv{Name: e.Name, Inherit: e.Inherit}
		if e.Inherit && !r.host.InheritAny && !slices.Contains(r.host.InheritEnv, e.Name) {
			r.fault(fmt.Sprintf("spec.env[%d].inherit", i), FaultForbidden, "", "this host does not let '"+e.Name+"' be inherited: name it in `spec.inheritEnv` of the host configuration")
		}
		if e.Value != nil {
			v.Value = r.expand(*e.Value, field)
		}
		env = append(env, v)
	}
	return env
}

func (r *resolver) stop() []StopStep {
	if r.profile.Actions.Stop == nil {
		return []StopStep{{Signal: &SignalAction{Name: defaultStopSignal, To: ToMain}, WaitFor: WaitForExit, WaitSeconds: defaultStopSeconds}}
	}
	var steps []StopStep
	for i, s := range r.profile.Actions.Stop.Steps {
		a, ok := r.action(&s.Action, fmt.Sprintf("spec.actions.stop.steps[%d]", i))
		if !ok {
			continue
		}
		steps = append(steps, StopStep{
			Signal: a.Signal, Console: a.Console, HTTP: a.HTTP, Exec: a.Exec,
			WaitFor: WaitFor(or(s.WaitFor, string(WaitForExit))), WaitSeconds: s.WaitSeconds,
		})
	}
	return steps
}

func (r *resolver) console() *LaunchConsole {
	c := r.profile.Console
	if c == nil {
		return nil
	}
	switch or(c.Input, ConsoleNone) {
	case ConsoleNone:
		return nil
	case ConsoleStdin:
		return &LaunchConsole{Input: c.Input, TTY: r.tty(c.TTY)}
	case ConsoleMailbox:
		return &LaunchConsole{Input: c.Input}
	case ConsoleFIFO:
		return &LaunchConsole{Input: c.Input, Path: filepath.Clean(c.Path)}
	case ConsoleRCON, ConsoleQuakeRCON, ConsoleWebRCON, ConsoleTelnet:
		return &LaunchConsole{Input: c.Input, Endpoint: c.Endpoint, Password: r.expand(c.Password, func() string { return "spec.console.password" })}
	}
	r.fault("spec.console.input", FaultForbidden, c.Input, notAvailable)
	return nil
}

func (r *resolver) tty(t *TTY) *LaunchTTY {
	if t == nil {
		return nil
	}
	return &LaunchTTY{Rows: valueOr(t.Rows, defaultRows), Columns: valueOr(t.Columns, defaultColumns)}
}

func (r *resolver) endpoints() []LaunchEndpoint {
	var endpoints []LaunchEndpoint
	for i, e := range r.profile.Endpoints {
		field := func(name string) string { return fmt.Sprintf("spec.endpoints[%d].%s", i, name) }
		port := e.Port.Int
		if e.Port.IsString {
			port = r.port(e.Port.String, field)
		}
		endpoints = append(endpoints, LaunchEndpoint{
			Name:        e.Name,
			Port:        int(port),
			Protocol:    or(e.Protocol, ProtocolTCP),
			Address:     r.expand(e.Address, func() string { return field("address") }),
			AppProtocol: e.AppProtocol,
		})
	}
	return endpoints
}

// port is the number that exactly one reference gives.
func (r *resolver) port(text string, field func(string) string) int64 {
	value := r.expand(text, func() string { return field("port") })
	var port int64
	if plainScalar(value) != scalarInt {
		if value != "" {
			r.fault(field("port"), FaultInvalid, "", "must be an integer of 1 to 65535 when its reference is expanded")
		}
		return 1
	}
	if _, err := fmt.Sscan(value, &port); err != nil || port < 1 || port > 65535 {
		r.fault(field("port"), FaultInvalid, value, "must be between 1 and 65535, inclusive, when "+shorten(text)+" is expanded")
		return 1
	}
	return port
}

func restartPolicy(p *Restart) RestartPolicy {
	if p == nil {
		p = &Restart{}
	}
	return RestartPolicy{
		Policy:         or(p.Policy, RestartAlways),
		InitialSeconds: valueOr(p.InitialSeconds, defaultInitialSeconds),
		MaxSeconds:     valueOr(p.MaxSeconds, defaultMaxSeconds),
		ResetSeconds:   valueOr(p.ResetSeconds, defaultResetSeconds),
		Exits:          exitRules(p.Exits),
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func valueOr(v *int64, otherwise int64) int64 {
	if v == nil {
		return otherwise
	}
	return *v
}
