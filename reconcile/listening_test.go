package reconcile

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// endpoints declares one that nothing probes.
func endpoints(p *spec.ProfileSpec) {
	p.Endpoints = []spec.Endpoint{{Name: "game", Port: spec.IntOrString{Int: 4000}}}
}

func (h *host) wantEvent(name, kind, reason string, want bool) {
	h.t.Helper()
	found := slices.ContainsFunc(h.view(name).Events, func(e Event) bool { return e.Type == kind && e.Reason == reason })
	if found != want {
		h.t.Fatalf("an event %s %s of %s: %v, want %v; there are %+v", kind, reason, name, found, want, h.view(name).Events)
	}
}

// EC-11: Ready needs the run's own processes on every endpoint, whatever else says so.
func TestReadyNeedsItsOwnListener(t *testing.T) {
	for _, c := range []struct {
		what           string
		found          observe.Listening
		status, reason string
		ready, why     string
		event          bool
	}{
		{"its own", observe.Listening{By: observe.ListenerOwn}, "True", "Reachable", "True", "NoProbe", false},
		{"nobody", observe.Listening{By: observe.ListenerNobody}, "False", "NotListening", "False", "NotListening", false},
		{"elsewhere", observe.Listening{By: observe.ListenerNobody, Elsewhere: true}, "False", "NotListening", "False", "NotListening", false},
		{"a stranger", observe.Listening{By: observe.ListenerStranger}, "False", "PortConflict", "False", "PortConflict", true},
		{"another run", observe.Listening{By: observe.ListenerStranger, Holder: &spec.Scope{Namespace: "default", Server: "other", Profile: "game"}}, "False", "PortConflict", "False", "PortConflict", true},
		{"wide", observe.Listening{By: observe.ListenerOwn, Wide: true, Public: true}, "True", "AddressTooWide", "True", "NoProbe", true},
		{"shared", observe.Listening{By: observe.ListenerOwn, Shared: true}, "True", "PortShared", "True", "NoProbe", true},
		{"unseen", observe.Listening{By: observe.ListenerUnseen}, "Unknown", "Unseen", "True", "NoProbe", false},
	} {
		t.Run(c.what, func(t *testing.T) {
			h := newHost(t)
			h.heard["game"] = c.found
			h.profile("game", endpoints)
			h.server("town", "game")
			h.settle()
			h.wantCondition("town", spec.ConditionEndpointsReachable, c.status, c.reason)
			h.wantCondition("town", spec.ConditionReady, c.ready, c.why)
			h.wantEvent("town", EventWarning, c.reason, c.event)
			state := spec.StateRunning
			if c.ready == "False" {
				state = spec.StateStarting
			}
			h.wantState("town", state)
			message := conditionOf(h.view("town"), spec.ConditionEndpointsReachable).Message
			if c.found.Holder != nil && !strings.Contains(message, "other/game") {
				t.Errorf("the holder is not named: %q", message)
			}
			// Whatever it was, once the run listens it is Ready, soon.
			delete(h.heard, "game")
			h.pass(lookSeldom)
			h.wantCondition("town", spec.ConditionEndpointsReachable, "True", "Reachable")
			h.wantCondition("town", spec.ConditionReady, "True", "NoProbe")
			if h.view("town").Status.Run.ReadyAt == nil {
				t.Error("the first Ready was not recorded")
			}
		})
	}
}

// A log line does not lie about a port (API.md rule 8), and a probe that another's server answers does not either.
func TestStrangerMakesNothingReady(t *testing.T) {
	h := newHost(t)
	h.heard["game"] = observe.Listening{By: observe.ListenerStranger}
	h.profile("game", logProbe, endpoints)
	h.profile("probed", socketProbe, func(p *spec.ProfileSpec) { p.Endpoints[0].Port.Int = 4001 })
	h.server("town", "game")
	h.server("city", "probed")
	h.settle()
	h.logs("town", "game")
	h.pass(time.Hour)
	h.wantCondition("town", spec.ConditionReady, "False", "PortConflict")
	h.wantCondition("city", spec.ConditionReady, "False", "PortConflict")
	h.wantState("city", spec.StateStarting)
}

// A port that is lost makes Ready False when three looks in a row say so, and restarts nothing (EC-13).
func TestLostPort(t *testing.T) {
	h := newHost(t)
	h.profile("game", endpoints)
	h.server("town", "game")
	h.settle()
	h.wantCondition("town", spec.ConditionReady, "True", "NoProbe")
	h.took()
	h.heard["game"] = observe.Listening{By: observe.ListenerNobody}
	h.pass(lookSeldom + lookAgain/2) // one look, or two
	h.wantCondition("town", spec.ConditionReady, "True", "NoProbe")
	delete(h.heard, "game") // Armagetron closes its socket for a second
	h.pass(time.Minute)
	h.wantCondition("town", spec.ConditionEndpointsReachable, "True", "Reachable")
	h.heard["game"] = observe.Listening{By: observe.ListenerNobody}
	h.pass(lookSeldom + 4*lookAgain)
	h.wantCondition("town", spec.ConditionEndpointsReachable, "False", "NotListening")
	h.wantCondition("town", spec.ConditionReady, "False", "NotListening")
	h.wantEvent("town", EventWarning, "NotListening", true)
	h.wantState("town", spec.StateRunning)
	h.pass(time.Hour)
	h.wantOrders()
	h.restart() // and it stays so over our restart
	h.settle()
	h.wantCondition("town", spec.ConditionReady, "False", "NotListening")
	delete(h.heard, "game")
	h.pass(2 * lookLast)
	h.wantCondition("town", spec.ConditionReady, "True", "NoProbe")
}

// Ready does not flap over our restart: neither before the first look, nor by one that fails.
func TestListeningOverOurRestart(t *testing.T) {
	h := newHost(t)
	h.profile("game", endpoints)
	h.server("town", "game")
	h.settle()
	ready := conditionOf(h.view("town"), spec.ConditionReady).LastTransitionTime
	h.pass(time.Hour)
	h.restart()
	h.blind = true
	h.settle()
	h.wantCondition("town", spec.ConditionEndpointsReachable, "True", "LastKnown")
	h.wantCondition("town", spec.ConditionReady, "True", "NoProbe")
	h.pass(time.Minute)
	h.wantCondition("town", spec.ConditionEndpointsReachable, "True", "LastKnown")
	h.blind = false
	h.pass(2 * time.Second)
	h.wantCondition("town", spec.ConditionEndpointsReachable, "True", "Reachable")
	if after := conditionOf(h.view("town"), spec.ConditionReady).LastTransitionTime; !after.Equal(ready) {
		t.Errorf("Ready since %v, before our restart since %v", after, ready)
	}

	// A run that never was Ready is not taken to be: it is looked at first.
	h.blind = true
	h.profile("next", endpoints, func(p *spec.ProfileSpec) { p.Endpoints[0].Port.Int = 4001 })
	h.server("city", "next")
	h.pass(time.Minute)
	h.wantCondition("city", spec.ConditionReady, "False", "EndpointsPending")
	h.wantState("city", spec.StateStarting)
	h.blind = false
	h.pass(2 * time.Second)
	h.wantCondition("city", spec.ConditionReady, "True", "NoProbe")
}

// A start deadline is judged by what was looked at, not by a look that failed.
func TestDeadlineOfAPort(t *testing.T) {
	h := newHost(t)
	h.heard["game"], h.blind = observe.Listening{By: observe.ListenerNobody}, true
	deadline := int64(60)
	h.profile("game", endpoints, func(p *spec.ProfileSpec) { p.StartDeadlineSeconds = &deadline })
	h.server("town", "game")
	h.pass(2 * time.Minute)
	h.wantOrders("Start town/game Wanted")
	h.blind = false
	h.pass(2 * time.Second)
	if got := h.took(); len(got) == 0 || got[0] != "Stop town/game StartDeadlineExceeded" {
		t.Errorf("orders %q", got)
	}
}

// A proxy that listens for other networks, and of which no credentials are known, is warned of; one of this host alone is not.
func TestOpenProxy(t *testing.T) {
	for _, c := range []struct {
		app    string
		public bool
		want   string
	}{
		{spec.AppSOCKS5, true, "OpenProxy"}, {spec.AppMixed, true, "OpenProxy"}, {spec.AppHTTP, true, "Reachable"}, {"", true, "Reachable"}, {spec.AppSOCKS5, false, "Reachable"},
	} {
		h := newHost(t)
		h.heard["game"] = observe.Listening{By: observe.ListenerOwn, Public: c.public}
		h.profile("game", endpoints, func(p *spec.ProfileSpec) { p.Endpoints[0].AppProtocol = c.app })
		h.server("town", "game")
		h.settle()
		h.wantCondition("town", spec.ConditionEndpointsReachable, "True", c.want)
		h.wantEvent("town", EventWarning, "OpenProxy", c.want == "OpenProxy")
	}
	h := newHost(t)
	h.heard["game"] = observe.Listening{By: observe.ListenerOwn, Public: true}
	h.profile("game", endpoints, func(p *spec.ProfileSpec) {
		p.Endpoints[0].AppProtocol = spec.AppHTTP
		p.ReadinessProbe = &spec.Probe{Proxy: &spec.ProxyCheck{Endpoint: "game"}}
	})
	h.server("town", "game")
	h.settle()
	h.wantCondition("town", spec.ConditionEndpointsReachable, "True", "OpenProxy")

	// Which of the probes says that it wants to know who asks does not matter, and when: it may be told later.
	for _, liveness := range []bool{false, true} {
		with := &spec.Probe{Proxy: &spec.ProxyCheck{Endpoint: "game", BasicAuth: &spec.BasicAuth{Username: "admin", Password: "$(password)"}}}
		h := newHost(t)
		h.heard["game"] = observe.Listening{By: observe.ListenerOwn, Public: true}
		h.profile("game", endpoints, func(p *spec.ProfileSpec) { p.Endpoints[0].AppProtocol = spec.AppSOCKS5 })
		h.server("town", "game")
		h.settle()
		h.wantCondition("town", spec.ConditionEndpointsReachable, "True", "OpenProxy")
		h.profile("game", endpoints, func(p *spec.ProfileSpec) {
			p.Endpoints[0].AppProtocol = spec.AppSOCKS5
			p.Parameters = []spec.Parameter{{Name: "password", Type: spec.ParameterSecret, Default: &spec.IntOrString{IsString: true, String: "town/password"}}}
			if liveness {
				p.LivenessProbe = with
			} else {
				p.ReadinessProbe = with
			}
		})
		h.pass(time.Minute)
		h.wantCondition("town", spec.ConditionEndpointsReachable, "True", "Reachable")
	}
}

// Where no address is declared, a probe goes where the run listens.
func TestProbeGoesWhereItListens(t *testing.T) {
	h := newHost(t)
	h.heard["game"] = observe.Listening{By: observe.ListenerOwn, At: "10.0.0.1"}
	h.checks["game"] = errors.New("not yet")
	h.profile("game", socketProbe)
	h.server("town", "game")
	h.pass(time.Minute)
	if h.asked["game"] != "10.0.0.1" {
		t.Errorf("it was asked at %q", h.asked["game"])
	}
}

// One look is enough for all who are due together, and runs that are fine are looked at seldom.
func TestOneLookForAll(t *testing.T) {
	h := newHost(t)
	h.profile("game", on)
	for i, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		h.server(name, "game", withPort(int64(4000+i), "1"))
	}
	h.settle()
	h.pass(lookSeldom)
	h.looked = 0
	h.pass(10 * lookSeldom)
	if h.looked < 9 || h.looked > 11 {
		t.Errorf("%d looks", h.looked)
	}
}
