package spec

import (
	"fmt"
	"slices"
)

func (r rules) restart(p *Restart, at *path) {
	if p == nil {
		return
	}
	initial, most := int64(defaultInitialSeconds), int64(defaultMaxSeconds)
	if p.InitialSeconds != nil {
		initial = *p.InitialSeconds
	}
	if p.MaxSeconds != nil {
		most = *p.MaxSeconds
	}
	if most < initial {
		r.report(at.field("maxSeconds"), FaultInvalid, "", fmt.Sprintf("must be at least `initialSeconds` (%d)", initial))
	}
}

const noSuchCommand = "there is no such command"

const needsPlayers = "needs `spec.players`: nobody counts"

func (r rules) disruption(p *ProfileSpec, at *path) {
	for i, s := range p.Schedules {
		in := at.field("schedules").item(i).field("job")
		kind := s.Job.Type
		if kind == "" {
			kind = "Command"
		}
		r.jobCommand(kind, s.Job.Command, len(s.Job.Parameters), in)
		r.call(p, s.Job.Command, s.Job.Parameters, in)
	}
	d := p.Disruption
	if d == nil {
		return
	}
	at = at.field("disruption")
	if d.MaxPlayers != nil && p.Players == nil {
		r.report(at.field("maxPlayers"), FaultInvalid, "", needsPlayers)
	}
	if d.OnDeadline != "" && d.DeadlineSeconds == nil {
		r.report(at.field("onDeadline"), FaultInvalid, d.OnDeadline, "needs `deadlineSeconds`")
	}
	for i, a := range d.Announce {
		r.call(p, a.Command, a.Parameters, at.field("announce").item(i))
	}
}

// call holds a command that a profile itself calls to what it declares.
func (r rules) call(p *ProfileSpec, name string, given map[string]IntOrString, at *path) {
	r.commandName(p, name, at.field("command"))
	i := slices.IndexFunc(p.Actions.Commands, func(c Command) bool { return c.Name == name })
	if i < 0 {
		return
	}
	settle(p.Actions.Commands[i].Parameters, given, "command '"+name+"'", func(name, kind, shown, detail string) {
		r.report(at.field("parameters").entry(name), kind, shown, detail)
	})
}

// jobCommand holds command and parameters to the type Command.
func (r rules) jobCommand(kind, command string, parameters int, at *path) {
	if kind == "Command" && command == "" {
		r.report(at.field("command"), FaultRequired, "", "must be given with type Command")
	}
	if kind != "Command" && command != "" {
		r.report(at.field("command"), FaultForbidden, command, "is for type Command alone")
	}
	if kind != "Command" && parameters > 0 {
		r.report(at.field("parameters"), FaultForbidden, "", "is for type Command alone")
	}
}

func (r rules) tun(p *ProfileSpec, at *path) {
	if p.Tun == nil {
		return
	}
	in := at.field("endpoint")
	switch {
	case p.Tun.Provider == "Core" && p.Tun.Endpoint != "":
		r.report(in, FaultForbidden, p.Tun.Endpoint, "is for provider Tun2socks alone")
	case p.Tun.Provider == "Tun2socks" && p.Tun.Endpoint == "":
		r.report(in, FaultRequired, "", "must be given with provider Tun2socks")
	case p.Tun.Provider == "Tun2socks":
		if e := r.endpoint(p, p.Tun.Endpoint, in); e != nil && e.AppProtocol != "SOCKS5" && e.AppProtocol != "Mixed" {
			r.report(in, FaultInvalid, p.Tun.Endpoint, "must name an endpoint of appProtocol SOCKS5 or Mixed")
		}
	}
}

func (r rules) console(p *ProfileSpec, at *path) {
	c := p.Console
	if c == nil {
		return
	}
	network := slices.Contains([]string{ConsoleRCON, ConsoleQuakeRCON, ConsoleWebRCON, ConsoleTelnet}, c.Input)
	need := func(name string, given, wanted bool, with string) {
		switch {
		case wanted && !given:
			r.report(at.field(name), FaultRequired, "", "must be given with input "+c.Input)
		case !wanted && given:
			r.report(at.field(name), FaultForbidden, "", "is for input "+with+" alone")
		}
	}
	need("endpoint", c.Endpoint != "", network, "RCON, QuakeRCON, WebRCON or Telnet")
	need("path", c.Path != "", c.Input == "FIFO", "FIFO")
	switch {
	case c.Password != "" && !network:
		r.report(at.field("password"), FaultForbidden, "", "is for input RCON, QuakeRCON, WebRCON or Telnet alone")
	case c.Password == "" && network && c.Input != ConsoleTelnet:
		r.report(at.field("password"), FaultRequired, "", "must be given with input "+c.Input)
	case c.Password != "":
		r.secret(p, c.Password, at.field("password"))
	}
	if c.TTY != nil && c.Input != "Stdin" {
		r.report(at.field("tty"), FaultForbidden, "", "is for input Stdin alone")
	}
	if !network {
		return
	}
	want := ProtocolTCP
	if c.Input == ConsoleQuakeRCON {
		want = ProtocolUDP
	}
	if e := r.endpoint(p, c.Endpoint, at.field("endpoint")); e != nil && or(e.Protocol, ProtocolTCP) != want {
		r.report(at.field("endpoint"), FaultInvalid, c.Endpoint, "must name an endpoint of protocol "+want+" with input "+c.Input)
	}
}

// secret holds a reference to a parameter of type Secret.
func (r rules) secret(p *ProfileSpec, text string, at *path) {
	name, ok := wholeReference(text)
	if !ok {
		return
	}
	if found := findParameter(p.Parameters, name); found != nil && found.typeName() != ParameterSecret {
		r.report(at, FaultInvalid, "", showName(name)+" must be a parameter of type Secret")
	}
}
