package spec

import (
	"strings"
	"testing"
)

// probeOf is one of the probes of a launch, with nothing to ask yet.
func probeOf(l *Launch, at string) *LaunchProbe {
	p := l.Readiness
	if at == "spec.livenessProbe" {
		p = l.Liveness
	}
	p.Log, p.Socket, p.HTTP, p.Exec = nil, nil, nil, nil
	return p
}

func socketOf(l *Launch, at string) *SocketProbe {
	p := probeOf(l, at)
	p.Socket = &SocketProbe{Endpoint: "a"}
	return p.Socket
}

func queryOf(l *Launch, at string) *Query {
	p := probeOf(l, at)
	p.Query = &Query{Protocol: "OpenTTD", Endpoint: "a"}
	return p.Query
}

func proxyOf(l *Launch, at string) *ProxyProbe {
	p := probeOf(l, at)
	p.Proxy = &ProxyProbe{Endpoint: "a"}
	return p.Proxy
}

func probeExecOf(l *Launch, at string) *LaunchExec {
	p := probeOf(l, at)
	p.Exec = &LaunchExec{Workspace: "usr", Executable: "bin/b"}
	return p.Exec
}

func requestOf(l *Launch, at string) *HTTPAction {
	if at == "spec.players" {
		l.Players.Query, l.Players.HTTP, l.Players.Field = nil, goodRequest(), "a"
		return l.Players.HTTP
	}
	p := probeOf(l, at)
	p.HTTP = goodRequest()
	return p.HTTP
}

// Both probes and the counting of players in the tables of launchcheck_test.go.
func init() {
	for _, at := range []string{"spec.readinessProbe", "spec.livenessProbe"} {
		timed := func(l *Launch) *LaunchProbe {
			if at == "spec.livenessProbe" {
				return l.Liveness
			}
			return l.Readiness
		}
		for row, set := range map[string]func(l *Launch, s string, n int64){
			"log.contains":    func(l *Launch, s string, _ int64) { probeOf(l, at).Log = []string{s} },
			"socket.endpoint": func(l *Launch, s string, _ int64) { socketOf(l, at).Endpoint = s },
			"socket.send":     func(l *Launch, s string, _ int64) { socketOf(l, at).Send = []byte(s) },
			"socket.expect":   func(l *Launch, s string, _ int64) { socketOf(l, at).Expect = []byte(s) },
			"exec.workspace":  func(l *Launch, s string, _ int64) { probeExecOf(l, at).Workspace = s },
			"exec.executable": func(l *Launch, s string, _ int64) { probeExecOf(l, at).Executable = s },
			"exec.args":       func(l *Launch, s string, _ int64) { probeExecOf(l, at).Args = []string{s} },
			"query.protocol":  func(l *Launch, s string, _ int64) { queryOf(l, at).Protocol = s },
			"query.endpoint":  func(l *Launch, s string, _ int64) { queryOf(l, at).Endpoint = s },
			"proxy.endpoint":  func(l *Launch, s string, _ int64) { proxyOf(l, at).Endpoint = s },
			"proxy.url":       func(l *Launch, s string, _ int64) { proxyOf(l, at).URL = s },
			"proxy.basicAuth.username": func(l *Launch, s string, _ int64) {
				proxyOf(l, at).BasicAuth = &HTTPBasicAuth{Username: s, Password: MarkSecret("a/b")}
			},
			"proxy.basicAuth.password": func(l *Launch, s string, _ int64) {
				proxyOf(l, at).BasicAuth = &HTTPBasicAuth{Username: "a", Password: s}
			},
			"periodSeconds":    func(l *Launch, _ string, n int64) { timed(l).PeriodSeconds = n },
			"timeoutSeconds":   func(l *Launch, _ string, n int64) { timed(l).TimeoutSeconds = n },
			"failureThreshold": func(l *Launch, _ string, n int64) { timed(l).FailureThreshold = n },
			"successThreshold": func(l *Launch, _ string, n int64) { timed(l).SuccessThreshold = n },
		} {
			launchSetters[at+"."+row] = set
		}
		launchLists[at+".log.contains"] = func(l *Launch, n int) { probeOf(l, at).Log = make([]string, n) }
		launchLists[at+".exec.args"] = func(l *Launch, n int) { probeExecOf(l, at).Args = make([]string, n) }
		notInLaunch = append(notInLaunch, at, at+".exec", at+".log", at+".socket", at+".socket.encoding", at+".query", at+".proxy", at+".proxy.basicAuth", at+".notify")
		for _, row := range []string{".socket.send", ".socket.expect"} {
			emptyIsAbsent[at+row], isBytes[at+row] = true, true
		}
		emptyIsAbsent[at+".proxy.url"] = true
	}
	for _, at := range []string{"spec.readinessProbe", "spec.livenessProbe", "spec.players"} {
		for row, set := range map[string]func(a *HTTPAction, s string){
			"endpoint":           func(a *HTTPAction, s string) { a.Endpoint = s },
			"scheme":             func(a *HTTPAction, s string) { a.Scheme = s },
			"method":             func(a *HTTPAction, s string) { a.Method = s },
			"path":               func(a *HTTPAction, s string) { a.Path = s },
			"body":               func(a *HTTPAction, s string) { a.Body = s },
			"headers[].name":     func(a *HTTPAction, s string) { a.Headers[0].Name = s },
			"headers[].value":    func(a *HTTPAction, s string) { a.Headers[0].Value = s },
			"basicAuth.username": func(a *HTTPAction, s string) { a.BasicAuth.Username = s },
			"basicAuth.password": func(a *HTTPAction, s string) { a.BasicAuth.Password = s },
		} {
			launchSetters[at+".http."+row] = func(l *Launch, s string, _ int64) { set(requestOf(l, at), s) }
		}
		launchLists[at+".http.headers"] = func(l *Launch, n int) { requestOf(l, at).Headers = make([]HTTPHeader, n) }
		notInLaunch = append(notInLaunch, at+".http", at+".http.basicAuth")
	}
	launchSetters["spec.players.field"] = func(l *Launch, s string, _ int64) {
		requestOf(l, "spec.players")
		l.Players.Field = s
	}
	launchSetters["spec.startDeadlineSeconds"] = func(l *Launch, _ string, n int64) { l.StartDeadlineSeconds = n }
	launchSetters["spec.players.query.protocol"] = func(l *Launch, s string, _ int64) { l.Players.Query.Protocol = s }
	launchSetters["spec.players.query.endpoint"] = func(l *Launch, s string, _ int64) { l.Players.Query.Endpoint = s }
	launchSetters["spec.players.periodSeconds"] = func(l *Launch, _ string, n int64) { l.Players.PeriodSeconds = n }
	notInLaunch = append(notInLaunch, "spec.players", "spec.players.query")
}

const probed = `
apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: p}
spec:
  parameters: [{name: password, type: Secret}]
  actions: {start: {executable: bin/a}}
  endpoints: [{name: game, port: 1}, {name: lan, port: 1, protocol: UDP}, {name: socks, port: 2, appProtocol: SOCKS5}]
  readinessProbe: {query: {protocol: OpenTTD, endpoint: game}}
  livenessProbe: {proxy: {endpoint: socks, url: "http://example.org/"}}
  startDeadlineSeconds: 600
  players: {query: {protocol: OpenTTD, endpoint: game}}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: s}
spec: {profile: p, parameters: {password: a/b}}
`

// Probes, the deadline and the players are live: each changes the live hash and no other, and a default written out neither.
func TestProbesInHashes(t *testing.T) {
	base, faults := resolveText(t, probed, smallHost)
	if len(faults) > 0 {
		t.Fatal(faultLines(faults))
	}
	for _, c := range []struct {
		what, from, to string
		changes        bool
	}{
		{"the protocol of a query", "{query: {protocol: OpenTTD, endpoint: game}}\n  liveness", "{query: {protocol: Minecraft, endpoint: game}}\n  liveness", true},
		{"its endpoint", "{query: {protocol: OpenTTD, endpoint: game}}\n  liveness", "{query: {protocol: OpenTTD, endpoint: lan}}\n  liveness", true},
		{"a url", "http://example.org/", "http://example.org/a", true},
		{"no url", `, url: "http://example.org/"`, "", true},
		{"what the proxy wants to know", `example.org/"}}`, `example.org/", basicAuth: {username: a, password: $(password)}}}`, true},
		{"which probe it is", "livenessProbe: {proxy: {endpoint: socks, url: \"http://example.org/\"}}", "", true},
		{"the deadline", "600", "601", true},
		{"no deadline", "  startDeadlineSeconds: 600\n", "", true},
		{"a program", "readinessProbe: {query: {protocol: OpenTTD, endpoint: game}}", "readinessProbe: {exec: {args: [b]}}", true},
		{"a request", "readinessProbe: {query: {protocol: OpenTTD, endpoint: game}}", "readinessProbe: {http: {endpoint: game}}", true},
		{"a request for the number of players", "players: {query: {protocol: OpenTTD, endpoint: game}}", "players: {http: {endpoint: game}, field: a}", true},
		{"no players", "  players: {query: {protocol: OpenTTD, endpoint: game}}\n", "", true},
		{"how often they are counted", "endpoint: game}}\n---", "endpoint: game}, periodSeconds: 16}\n---", true},
		{"the defaults", "http://example.org/\"}}", "http://example.org/\"}, periodSeconds: 10, timeoutSeconds: 1, failureThreshold: 3, successThreshold: 1}", false},
		{"the default of the players", "endpoint: game}}\n---", "endpoint: game}, periodSeconds: 15}\n---", false},
	} {
		t.Run(c.what, func(t *testing.T) {
			if !strings.Contains(probed, c.from) {
				t.Fatal("the case is not about the text")
			}
			l, faults := resolveText(t, strings.Replace(probed, c.from, c.to, 1), smallHost)
			if len(faults) > 0 {
				t.Fatal(faultLines(faults))
			}
			if l.SpecHash() != base.SpecHash() {
				t.Error("it needs a new run")
			}
			if changed := l.LiveHash() != base.LiveHash(); changed != c.changes {
				t.Errorf("the live hash changed: %v, want %v", changed, c.changes)
			}
		})
	}
}

// A launch whose probe asks two things, or none, is refused: no manifest makes one.
func TestProbeIsAUnion(t *testing.T) {
	for _, c := range []struct {
		what  string
		spoil func(*Launch)
		want  string
	}{
		{"nothing", func(l *Launch) { l.Liveness.Socket = nil }, "spec.livenessProbe"},
		{"two things", func(l *Launch) { l.Readiness.Query = &Query{Protocol: "OpenTTD", Endpoint: "a"} }, "spec.readinessProbe"},
		{"players by nothing", func(l *Launch) { l.Players.Query = nil }, "spec.players"},
		{"players by two things", func(l *Launch) { l.Players.HTTP, l.Players.Field = goodRequest(), "a" }, "spec.players"},
		{"a field of no document", func(l *Launch) { l.Players.Field = "a" }, "spec.players.field"},
		{"a request to nobody", func(l *Launch) { requestOf(l, "spec.readinessProbe").Endpoint = "b" }, "spec.readinessProbe.http.endpoint"},
		{"players of nobody", func(l *Launch) { requestOf(l, "spec.players").Endpoint = "b" }, "spec.players.http.endpoint"},
		{"two authorizations", func(l *Launch) { requestOf(l, "spec.livenessProbe").Headers[0].Name = "AUTHORIZATION" }, "spec.livenessProbe.http.basicAuth"},
		{"a log for liveness", func(l *Launch) { l.Liveness.Socket, l.Liveness.Log = nil, []string{"a"} }, "spec.livenessProbe.log"},
		{"successes for liveness", func(l *Launch) { l.Liveness.SuccessThreshold = 2 }, "spec.livenessProbe.successThreshold"},
		{"a proxy that is none", func(l *Launch) {
			l.Endpoints[0].AppProtocol = ""
			l.Liveness.Socket, l.Liveness.Proxy = nil, &ProxyProbe{Endpoint: "a"}
		}, "spec.livenessProbe.proxy.endpoint"},
	} {
		l := goodLaunch()
		c.spoil(&l)
		faults := l.Validate()
		if len(faults) != 1 || faults[0].Field != c.want {
			t.Errorf("%s: want a fault at %s, got\n%s", c.what, c.want, faultLines(faults))
		}
	}
}
