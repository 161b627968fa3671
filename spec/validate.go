package spec

import (
	"encoding/hex"
	"slices"
	"strings"
)

// The rules between fields. Those of one field by itself are in the table. A rule is silent about a field that has a
// fault already.

// rules collects what the rules between fields find.
type rules struct {
	report func(at *path, kind, shown, detail string)
}

const noConsole = "needs `spec.console.input`: there is no console to write to"

const besideAuthorization = "must not stand beside a header 'Authorization'"

const needsExec = "needs 'exec': a console, a request or a signal needs a server that runs"

const notItself = "'$(server.directory)' must not be used to say where the directory is"

// rulesOf reports into a decoder, where a field has no fault yet.
func (d *decoder) rulesOf() rules {
	return rules{report: func(at *path, kind, shown, detail string) {
		field := d.shown(at)
		if slices.ContainsFunc(d.faults, func(f Fault) bool { return f.Field == field }) {
			return
		}
		d.fault(at, kind, shown, detail)
	}}
}

func (d *decoder) profile(p *Profile) { d.rulesOf().profile(&p.Spec) }

func (d *decoder) server(s *Server) { d.rulesOf().server(s) }

func (d *decoder) job(j *Job) { d.rulesOf().job(&j.Spec) }

func (r rules) profile(p *ProfileSpec) {
	at := (*path)(nil).field("spec")
	r.parameters(p.Parameters, at.field("parameters"))
	for i, e := range p.Env {
		if (e.Value != nil) == e.Inherit {
			r.report(at.field("env").item(i), FaultInvalid, "", "must have either 'value' or 'inherit: true'")
		}
	}
	r.references(p, at)
	if p.Directory != nil {
		references(p.Directory.Path, func(string) {}, func(name string) {
			if name == refServerDirectory {
				r.report(at.field("directory").field("path"), FaultForbidden, "", notItself)
			}
		})
	}
	r.actions(p, at.field("actions"))
	r.console(p, at.field("console"))
	r.probe(p, p.ReadinessProbe, at.field("readinessProbe"), false)
	r.probe(p, p.LivenessProbe, at.field("livenessProbe"), true)
	r.players(p, p.Players, at.field("players"))
	for i, f := range p.Files {
		if f.Content == nil && f.Write != "" {
			r.report(at.field("files").item(i).field("write"), FaultForbidden, "", "needs 'content': without it the file is somebody else's")
		}
	}
	r.restart(p.Restart, at.field("restart"))
	r.disruption(p, at)
	r.tun(p, at.field("tun"))
}

func (r rules) actions(p *ProfileSpec, at *path) {
	if p.Actions.Stop != nil {
		for i := range p.Actions.Stop.Steps {
			r.action(p, &p.Actions.Stop.Steps[i].Action, at.field("stop").field("steps").item(i))
		}
	}
	if p.Actions.Reload != nil {
		r.action(p, &p.Actions.Reload.Action, at.field("reload"))
	}
	for i := range p.Actions.Commands {
		r.command(p, &p.Actions.Commands[i], at.field("commands").item(i))
	}
}

func (r rules) action(p *ProfileSpec, a *Action, at *path) {
	if a.Console != nil && (p.Console == nil || or(p.Console.Input, ConsoleNone) == ConsoleNone) {
		r.report(at.field("console"), FaultInvalid, "", noConsole)
	}
	r.http(p, a.HTTP, at.field("http"))
}

func (r rules) command(p *ProfileSpec, c *Command, at *path) {
	r.action(p, &c.Action, at)
	r.parameters(c.Parameters, at.field("parameters"))
	for i, q := range c.Parameters {
		if q.Name != "" && findParameter(p.Parameters, q.Name) != nil {
			r.report(at.field("parameters").item(i).field("name"), FaultDuplicate, q.Name, "must not be the name of a parameter of the profile")
		}
	}
	if c.Requires == string(RequiresStopped) && c.Exec == nil {
		r.report(at.field("requires"), FaultInvalid, c.Requires, needsExec)
	}
	for i, name := range c.Before {
		r.commandName(p, name, at.field("before").item(i))
	}
	for i, name := range c.After {
		r.commandName(p, name, at.field("after").item(i))
	}
}

func (r rules) commandName(p *ProfileSpec, name string, at *path) {
	if name == "" {
		return
	}
	var names []string
	for _, c := range p.Actions.Commands {
		names = append(names, c.Name)
	}
	if !slices.Contains(names, name) {
		r.report(at, FaultNotFound, name, noSuchCommand+didYouMean(name, names))
	}
}

// endpoint finds a declared endpoint; a name that is none is a fault.
func (r rules) endpoint(p *ProfileSpec, name string, at *path) *Endpoint {
	if name == "" {
		return nil
	}
	var names []string
	for i := range p.Endpoints {
		if p.Endpoints[i].Name == name {
			return &p.Endpoints[i]
		}
		names = append(names, p.Endpoints[i].Name)
	}
	r.report(at, FaultNotFound, name, "there is no such endpoint in `spec.endpoints`"+didYouMean(name, names))
	return nil
}

func (r rules) http(p *ProfileSpec, h *HTTP, at *path) {
	if h == nil {
		return
	}
	if e := r.endpoint(p, h.Endpoint, at.field("endpoint")); e != nil && e.Protocol == ProtocolUDP {
		r.report(at.field("endpoint"), FaultInvalid, h.Endpoint, "must name an endpoint of protocol TCP")
	}
	if h.BasicAuth != nil && slices.ContainsFunc(h.Headers, func(x Header) bool { return strings.EqualFold(x.Name, "Authorization") }) {
		r.report(at.field("basicAuth"), FaultForbidden, "", besideAuthorization)
	}
}

func (r rules) query(p *ProfileSpec, q *Query, at *path) {
	if q == nil {
		return
	}
	e := r.endpoint(p, q.Endpoint, at.field("endpoint"))
	networks := queryNetworks[q.Protocol]
	if e != nil && len(networks) > 0 && !slices.Contains(networks, or(e.Protocol, ProtocolTCP)) {
		r.report(at.field("endpoint"), FaultInvalid, q.Endpoint, "must name an endpoint of protocol "+networks[0]+": "+q.Protocol+" is asked over that")
	}
}

func (r rules) players(p *ProfileSpec, players *Players, at *path) {
	if players == nil {
		return
	}
	r.query(p, players.Query, at.field("query"))
	r.http(p, players.HTTP, at.field("http"))
	if (players.HTTP != nil) != (players.Field != "") {
		r.report(at.field("field"), FaultInvalid, "", "must be given with 'http', and only then")
	}
}

func (r rules) probe(p *ProfileSpec, probe *Probe, at *path, liveness bool) {
	if probe == nil {
		return
	}
	if liveness && probe.Log != nil {
		r.report(at.field("log"), FaultForbidden, "", "a line once printed says nothing of life: use another probe")
	}
	if liveness && probe.SuccessThreshold != nil && *probe.SuccessThreshold != 1 {
		r.report(at.field("successThreshold"), FaultInvalid, "", "must be 1 in a liveness probe")
	}
	r.http(p, probe.HTTP, at.field("http"))
	r.query(p, probe.Query, at.field("query"))
	if probe.Proxy != nil {
		in := at.field("proxy").field("endpoint")
		if e := r.endpoint(p, probe.Proxy.Endpoint, in); e != nil && (e.AppProtocol == "" || e.Protocol == ProtocolUDP) {
			r.report(in, FaultInvalid, probe.Proxy.Endpoint, "must name an endpoint of protocol TCP with an `appProtocol`")
		}
	}
	r.socket(p, probe.Socket, at.field("socket"))
}

func (r rules) socket(p *ProfileSpec, s *SocketCheck, at *path) {
	if s == nil {
		return
	}
	e := r.endpoint(p, s.Endpoint, at.field("endpoint"))
	if e != nil && e.Protocol == ProtocolUDP && s.Send == "" {
		r.report(at.field("send"), FaultRequired, "", "must be given for an endpoint of protocol UDP: without a datagram there is no answer")
	}
	if s.Encoding != "Hex" {
		return
	}
	r.hex(s.Send, at.field("send"))
	r.hex(s.Expect, at.field("expect"))
}

func (r rules) hex(text string, at *path) {
	if _, err := hex.DecodeString(text); err != nil {
		r.report(at, FaultInvalid, text, "must be pairs of hexadecimal digits, as `encoding: Hex` says")
	}
}

func (r rules) server(s *Server) { r.dependencies(s.Spec.DependsOn, s.Name) }

// dependencies judges what a server's start waits for.
func (r rules) dependencies(list []Dependency, server string) {
	at := (*path)(nil).field("spec")
	for i, d := range list {
		in := at.field("dependsOn").item(i)
		kind := d.Kind
		if kind == "" {
			kind = KindServer
		}
		if d.Condition != "" && (kind == KindJob) != (d.Condition == DependSucceeded) {
			r.report(in.field("condition"), FaultUnsupported, d.Condition, "must be 'Ready' or 'Running' for a Server, 'Succeeded' for a Job")
		}
		if kind == KindServer && d.Name == server {
			r.report(in.field("name"), FaultInvalid, d.Name, "must not be the server itself")
		}
	}
}

func (r rules) job(j *JobSpec) {
	at := (*path)(nil).field("spec")
	kind := j.Kind()
	if kind == JobStart || kind == JobStop {
		r.report(at.field("type"), FaultForbidden, string(kind), "must not be in a source: set `spec.state` of the Server")
	}
	r.jobCommand(string(kind), j.Command, len(j.Parameters), at)
}

// directJob is job for one that is asked for directly.
func (r rules) directJob(j *JobSpec) {
	at := (*path)(nil).field("spec")
	if j.Attempts() != 1 {
		r.report(at.field("attempt"), FaultForbidden, "", "is raised in a source alone: ask for another job")
	}
	if j.Cancel {
		r.report(at.field("cancel"), FaultForbidden, "", "withdraws a job that is there")
	}
	r.jobCommand(string(j.Kind()), j.Command, len(j.Parameters), at)
}

// The log budgets of a host that names none, in bytes.
const (
	DefaultLogsPerServer = 64 << 20
	DefaultLogsTotal     = 2 << 30
)
