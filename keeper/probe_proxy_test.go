package keeper_test

import (
	"fmt"
	"strings"
	"testing"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// A proxy that wants to know who asks is told by the keeper, which has the secret; nobody else is, and it stands nowhere.
func TestProxyProbeWithCredentials(t *testing.T) {
	r := newRig(t)
	r.writeSecret("town/password", canary, 0o600)
	r.writeSecret("town/other", "not it", 0o600)
	proxy := func(username, ref string) *spec.LaunchProbe {
		p := get("/")
		p.HTTP, p.Proxy = nil, &spec.ProxyProbe{Endpoint: "door", BasicAuth: &spec.HTTPBasicAuth{Username: username, Password: spec.MarkSecret(ref)}}
		return p
	}
	launch := func(name string, args ...string) spec.Launch {
		port := freePort(t)
		l := r.launch(name, append([]string{"socks", "-addr", fmt.Sprintf("127.0.0.1:%d", port)}, args...)...)
		l.Env = []spec.LaunchEnv{{Name: "PASSWORD", Value: spec.MarkSecret("town/password")}}
		l.Readiness.Log = []string{"socks listening"}
		l.Endpoints = []spec.LaunchEndpoint{{Name: "door", Port: port, Protocol: spec.ProtocolTCP, AppProtocol: spec.AppSOCKS5}}
		return l
	}
	l := launch("town", "-password-env", "PASSWORD")
	run := r.ready(l).Run
	var told []string
	asked := func(what string, l spec.Launch, run *observe.RunFacts, p *spec.LaunchProbe, want observe.ProbeResult, detail string) {
		t.Helper()
		got := r.asked(r.probing(l, run, nil, p, nil), run, spec.ForLiveness)
		if got.Result != want || !strings.Contains(got.Detail, detail) {
			t.Errorf("%s: %+v, want %s with %q", what, got, want, detail)
		}
		told = append(told, got.Detail)
	}
	asked("the right password", l, run, proxy("admin", "town/password"), observe.ProbePassed, "")
	asked("another", l, run, proxy("admin", "town/other"), observe.ProbeFailed, "endpoint door: the proxy refuses the credentials")
	asked("another user", l, run, proxy("root", "town/password"), observe.ProbeFailed, "endpoint door: the proxy refuses the credentials")
	asked("none", l, run, proxy("admin", "town/missing"), observe.ProbeNotRun, "town/missing")
	r.writeSecret("town/long", strings.Repeat("a", 256), 0o600)
	asked("one that is too long", l, run, proxy("admin", "town/long"), observe.ProbeNotRun, "255")

	open := launch("open")
	asked("a proxy that asks for nothing", open, r.ready(open).Run, proxy("admin", "town/password"), observe.ProbeFailed, "endpoint door: the proxy takes no user name and password")

	lost := launch("lost")
	lost.Args = []string{"faultd", "run"}
	lost.Readiness.Log = []string{"ready"}
	run = r.ready(lost).Run
	read := eavesdrop(t, spec.ProtocolTCP, lost.Endpoints[0].Port)
	asked("a stranger", lost, run, proxy("admin", "town/password"), observe.ProbeFailed, "another process")
	if b := read(); b != "" {
		t.Errorf("the stranger was sent %q", b)
	}
	r.noCanary(append(told, r.log(l.Scope))...)
}
