package spec

import (
	"encoding/hex"
	"slices"
)

// The defaults of probes, which are Kubernetes', and of how often players are counted.
const (
	defaultProbePeriod   = 10
	defaultProbeTimeout  = 1
	defaultProbeFailures = 3
	defaultProbeSuccess  = 1
	defaultPlayersPeriod = 15
)

// PlayersSeconds is how long a server may take to say how many play.
const PlayersSeconds = 3

// probe resolves a probe; field is where it stands.
func (r *resolver) probe(p *Probe, field string) *LaunchProbe {
	if p == nil {
		return nil
	}
	l := &LaunchProbe{
		PeriodSeconds:    valueOr(p.PeriodSeconds, defaultProbePeriod),
		TimeoutSeconds:   valueOr(p.TimeoutSeconds, defaultProbeTimeout),
		FailureThreshold: valueOr(p.FailureThreshold, defaultProbeFailures),
		SuccessThreshold: valueOr(p.SuccessThreshold, defaultProbeSuccess),
	}
	switch {
	case p.Exec != nil:
		l.Exec = r.exec(p.Exec, field+".exec")
	case p.HTTP != nil:
		l.HTTP = r.request(p.HTTP, field+".http")
	case p.Log != nil:
		l.Log = slices.Clone(p.Log.Contains)
	case p.Socket != nil:
		in := field + ".socket"
		l.Socket = &SocketProbe{Endpoint: p.Socket.Endpoint, Send: r.bytes(p.Socket, p.Socket.Send, in), Expect: r.bytes(p.Socket, p.Socket.Expect, in)}
	case p.Query != nil:
		q := *p.Query
		l.Query = &q
	case p.Proxy != nil:
		l.Proxy = &ProxyProbe{Endpoint: p.Proxy.Endpoint, URL: p.Proxy.URL, BasicAuth: r.basicAuth(p.Proxy.BasicAuth, field+".proxy.basicAuth")}
	case p.Notify != nil:
		l.Notify = true
	default:
		r.fault(field, FaultForbidden, "", notAvailable)
	}
	return l
}

func (r *resolver) bytes(s *SocketCheck, text, field string) []byte {
	if text == "" {
		return nil
	}
	if s.Encoding != "Hex" {
		return []byte(text)
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		r.fault(field, FaultInvalid, "", "must be pairs of hexadecimal digits, as `encoding: Hex` says")
	}
	return b
}

func (r *resolver) players() *LaunchPlayers {
	p := r.profile.Players
	if p == nil {
		return nil
	}
	l := &LaunchPlayers{PeriodSeconds: valueOr(p.PeriodSeconds, defaultPlayersPeriod)}
	switch {
	case p.HTTP != nil:
		l.HTTP, l.Field = r.request(p.HTTP, "spec.players.http"), p.Field
	case p.Query != nil:
		q := *p.Query
		l.Query = &q
	default:
		r.fault("spec.players", FaultForbidden, "", notAvailable)
		return nil
	}
	return l
}

// The members of a launch's probe by their names, in the order of the union.
func (p *LaunchProbe) members() (names []string) {
	for _, m := range []struct {
		name string
		set  bool
	}{{"exec", p.Exec != nil}, {"http", p.HTTP != nil}, {"socket", p.Socket != nil}, {"log", p.Log != nil}, {"query", p.Query != nil}, {"proxy", p.Proxy != nil}, {"notify", p.Notify}} {
		if m.set {
			names = append(names, m.name)
		}
	}
	return names
}

// probe judges a probe; at is its row in the table and where it stands.
func (c *launchCheck) probe(at string, p *LaunchProbe, l *Launch, liveness bool) {
	if p == nil {
		return
	}
	if set := p.members(); len(set) != 1 {
		kind := FaultInvalid
		if len(set) == 0 {
			kind = FaultRequired
		}
		c.fault(at, kind, "", "must have exactly one of "+quoted(probeUnion))
	}
	if e := p.Exec; e != nil {
		check := actionCheck{launchCheck: c}
		check.exec(at, at+".exec", e)
		c.weight(at+".exec.args", check.bytes)
	}
	declared := &Probe{SuccessThreshold: &p.SuccessThreshold, HTTP: p.HTTP.declared()}
	if p.HTTP != nil {
		(&actionCheck{launchCheck: c}).request(at+".http", at+".http", p.HTTP)
	}
	if p.Log != nil {
		declared.Log = &LogCheck{Contains: p.Log}
		c.logTexts(at+".log.contains", p.Log)
	}
	if s := p.Socket; s != nil {
		declared.Socket = &SocketCheck{Endpoint: s.Endpoint, Send: string(s.Send)}
		c.row(at+".socket.endpoint", "", s.Endpoint)
		c.bytes(at+".socket.send", s.Send)
		c.bytes(at+".socket.expect", s.Expect)
	}
	if q := p.Query; q != nil {
		declared.Query = q
		c.query(at+".query", q)
	}
	if x := p.Proxy; x != nil {
		declared.Proxy = &ProxyCheck{Endpoint: x.Endpoint}
		c.row(at+".proxy.endpoint", "", x.Endpoint)
		if x.URL != "" {
			c.row(at+".proxy.url", "", x.URL)
		}
		(&actionCheck{launchCheck: c}).basicAuth(at+".proxy.basicAuth", at+".proxy.basicAuth", x.BasicAuth)
	}
	c.number(at+".periodSeconds", "", p.PeriodSeconds)
	c.number(at+".timeoutSeconds", "", p.TimeoutSeconds)
	c.number(at+".failureThreshold", "", p.FailureThreshold)
	c.number(at+".successThreshold", "", p.SuccessThreshold)
	var root *path
	c.rules().probe(declaredEndpoints(l), declared, root.field(at), liveness)
}

func (c *launchCheck) logTexts(list string, texts []string) {
	c.count(list, len(texts))
	seen := map[string]bool{}
	for i, literal := range texts {
		c.row(list+"[]", index(list, i, ""), literal)
		c.distinct(index(list, i, ""), literal, mustBeOnce, seen)
	}
}

func (c *launchCheck) query(at string, q *Query) {
	c.row(at+".protocol", "", q.Protocol)
	c.row(at+".endpoint", "", q.Endpoint)
}

func (c *launchCheck) players(l *Launch) {
	const at = "spec.players"
	p := l.Players
	if p == nil {
		return
	}
	if (p.Query == nil) == (p.HTTP == nil) {
		kind := FaultInvalid
		if p.Query == nil {
			kind = FaultRequired
		}
		c.fault(at, kind, "", "must have exactly one of "+quoted(playersUnion))
	}
	if p.Query != nil {
		c.query(at+".query", p.Query)
	}
	if p.HTTP != nil {
		(&actionCheck{launchCheck: c}).request(at+".http", at+".http", p.HTTP)
	}
	if p.HTTP != nil || p.Field != "" {
		c.row(at+".field", "", p.Field)
	}
	var root *path
	c.rules().players(declaredEndpoints(l), &Players{Query: p.Query, HTTP: p.HTTP.declared(), Field: p.Field}, root.field(at))
	c.number(at+".periodSeconds", "", p.PeriodSeconds)
}

func (h *hasher) probe(name string, p *LaunchProbe) {
	if p == nil {
		return
	}
	h.always(name, "")
	h.exec(p.Exec)
	if p.HTTP != nil {
		h.request(p.HTTP)
	}
	for _, literal := range slices.Sorted(slices.Values(p.Log)) {
		h.always("log", literal)
	}
	if p.Socket != nil {
		h.always("socket", p.Socket.Endpoint)
		h.text("send", string(p.Socket.Send), "")
		h.text("expect", string(p.Socket.Expect), "")
	}
	h.query(p.Query)
	if p.Proxy != nil {
		h.always("proxy", p.Proxy.Endpoint)
		h.text("url", p.Proxy.URL, "")
		if b := p.Proxy.BasicAuth; b != nil {
			h.always("proxy.username", b.Username)
			h.always("proxy.password", b.Password)
		}
	}
	h.number("periodSeconds", p.PeriodSeconds, defaultProbePeriod)
	h.number("timeoutSeconds", p.TimeoutSeconds, defaultProbeTimeout)
	h.number("failureThreshold", p.FailureThreshold, defaultProbeFailures)
	h.number("successThreshold", p.SuccessThreshold, defaultProbeSuccess)
}

func (h *hasher) query(q *Query) {
	if q != nil {
		h.always("query", q.Protocol)
		h.always("query.endpoint", q.Endpoint)
	}
}

func (h *hasher) players(p *LaunchPlayers) {
	if p != nil {
		h.always("players", "")
		h.query(p.Query)
		if p.HTTP != nil {
			h.request(p.HTTP)
			h.always("field", p.Field)
		}
		h.number("periodSeconds", p.PeriodSeconds, defaultPlayersPeriod)
	}
}
