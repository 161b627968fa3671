package spec

import (
	"slices"
	"strings"
)

// request resolves an HTTP request. What a reference in its path expands to is percent-encoded, '/' included: a value stays one
// value, whatever signs it has.
func (r *resolver) request(h *HTTP, field string) *HTTPAction {
	at := func(name string) func() string { return func() string { return field + "." + name } }
	a := &HTTPAction{
		Endpoint: h.Endpoint, Scheme: or(h.Scheme, SchemeHTTP), Method: or(h.Method, "GET"),
		Path: r.expandAs(or(h.Path, "/"), at("path"), escapeInPath), Body: r.expand(h.Body, at("body")),
	}
	for i, x := range h.Headers {
		a.Headers = append(a.Headers, HTTPHeader{Name: x.Name, Value: r.expand(x.Value, func() string { return index(field+".headers", i, "value") })})
	}
	a.BasicAuth = r.basicAuth(h.BasicAuth, field+".basicAuth")
	return a
}

// basicAuth resolves a user name and a password; nil of nil.
func (r *resolver) basicAuth(b *BasicAuth, field string) *HTTPBasicAuth {
	if b == nil {
		return nil
	}
	return &HTTPBasicAuth{Username: b.Username, Password: r.expand(b.Password, func() string { return field + ".password" })}
}

// escapeInPath encodes all but the unreserved signs of RFC 3986. The mark of a command's parameter stays: its value is
// encoded when it is known.
func escapeInPath(value string) string {
	if strings.HasPrefix(value, parameterMark) {
		return value
	}
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(value) {
		c := value[i]
		if isAlnum(c) || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + digits[c>>4:c>>4+1] + digits[c&15:c&15+1])
		}
	}
	return b.String()
}

// filled is a request with the values of a command's parameters in it.
func (a *HTTPAction) filled(fill func(text string, escape func(string) string) string) *HTTPAction {
	same := func(s string) string { return s }
	f := *a
	f.Path, f.Body = fill(a.Path, escapeInPath), fill(a.Body, same)
	f.Headers = slices.Clone(a.Headers)
	for i := range f.Headers {
		f.Headers[i].Value = fill(f.Headers[i].Value, same)
	}
	if a.BasicAuth != nil {
		f.BasicAuth = &HTTPBasicAuth{Username: a.BasicAuth.Username, Password: fill(a.BasicAuth.Password, same)}
	}
	return &f
}

// request judges a request; row is its own in the table, field where it stands.
func (c *actionCheck) request(row, field string, a *HTTPAction) {
	c.row(row+".endpoint", field+".endpoint", a.Endpoint)
	c.row(row+".scheme", field+".scheme", a.Scheme)
	c.row(row+".method", field+".method", a.Method)
	c.text(row+".path", field+".path", a.Path)
	if a.Body != "" {
		c.text(row+".body", field+".body", a.Body)
	}
	c.countAt(row+".headers", field+".headers", len(a.Headers))
	seen := map[string]bool{}
	for i, h := range a.Headers {
		c.row(row+".headers[].name", index(field+".headers", i, "name"), h.Name)
		c.distinct(index(field+".headers", i, "name"), h.Name, mustBeUnique, seen)
		c.text(row+".headers[].value", index(field+".headers", i, "value"), h.Value)
	}
	c.basicAuth(row+".basicAuth", field+".basicAuth", a.BasicAuth)
}

func (c *actionCheck) basicAuth(row, field string, b *HTTPBasicAuth) {
	if b != nil {
		c.row(row+".username", field+".username", b.Username)
		c.text(row+".password", field+".password", b.Password)
	}
}

// endpointOf holds a request to an endpoint of the launch.
func (c *launchCheck) endpointOf(l *Launch, field string, a *HTTPAction) {
	var root *path
	c.rules().http(declaredEndpoints(l), a.declared(), root.field(field+".http"))
}

// declared is a request as a manifest would have it, as far as the rules between its fields look at it; nil of nil.
func (a *HTTPAction) declared() *HTTP {
	if a == nil {
		return nil
	}
	h := &HTTP{Endpoint: a.Endpoint}
	for _, x := range a.Headers {
		h.Headers = append(h.Headers, Header{Name: x.Name})
	}
	if a.BasicAuth != nil {
		h.BasicAuth = &BasicAuth{}
	}
	return h
}

// declaredEndpoints is a profile of a launch's endpoints, for the rules that look for one.
func declaredEndpoints(l *Launch) *ProfileSpec {
	p := &ProfileSpec{}
	for _, e := range l.Endpoints {
		p.Endpoints = append(p.Endpoints, Endpoint{Name: e.Name, Protocol: e.Protocol, AppProtocol: e.AppProtocol})
	}
	return p
}

// ReservedHeaders belong to the connection: a request must not set them.
var ReservedHeaders = []string{"connection", "content-length", "expect", "te", "trailer", "transfer-encoding", "upgrade"}
