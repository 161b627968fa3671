package reconcile

import (
	"slices"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// The reasons of EndpointsReachable that are asked for.
const (
	portConflict     = "PortConflict"
	endpointsPending = "EndpointsPending"
	noEndpoints      = "NoEndpoints"
)

// How often it is looked who listens: with growing delays from the first to the last while that is not as it should be, and seldom
// once it is. A run that was Ready has lost an endpoint when so many looks in a row say so: some close one for a moment.
const (
	lookFirst   = 32 * time.Millisecond
	lookLast    = 2048 * time.Millisecond
	lookAgain   = time.Second
	lookSeldom  = 10 * time.Second
	lookDenials = 3
)

// listening is what the loop knows of who listens on the endpoints of the live run. It is forgotten with us, as what was asked
// is ([probing]): a run that was Ready then is taken to be listened to until looks deny it.
type listening struct {
	runID     string
	endpoints []spec.LaunchEndpoint
	probes    [2]*spec.LaunchProbe // they may say that an endpoint is a proxy, and who may use it
	found     []observe.Listening
	looked    bool
	renewed   bool          // a look that began after since did not deny them
	since     time.Duration // the newest reload was seen then, on the uptime clock
	ready     bool          // it has been Ready
	verdict   verdict
	denials   int           // looks in a row that denied what the verdict says
	wait      time.Duration // the delay that next was made with
	next      time.Duration // look again by then, on the uptime clock
}

// follow begins to look at a run, or at other endpoints of it.
func (p *listening) follow(run *observe.RunFacts, unready string, now state.Moment) {
	p.ready, p.probes = !run.ReadyAt.IsZero(), [2]*spec.LaunchProbe{run.Readiness, run.Liveness}
	if p.runID == run.ID && slices.Equal(p.endpoints, run.Endpoints) {
		return
	}
	before := p.verdict
	other := p.runID != run.ID
	*p = listening{runID: run.ID, ready: p.ready, endpoints: run.Endpoints, probes: p.probes, next: now.Uptime}
	switch {
	case len(run.Endpoints) == 0:
		p.verdict = verdict{conditionTrue, "NoEndpoints", "no endpoints are declared"}
	case run.ReadyAt.IsZero():
		p.verdict = verdict{conditionUnknown, "EndpointsPending", "who listens on its endpoints was not looked at yet"}
	case !other:
		p.verdict = before
	case unready == run.ID:
		p.verdict = verdict{conditionFalse, "LastKnown", "it was not Ready; the first look at its endpoints since is pending"}
	default:
		p.verdict = verdict{conditionTrue, "LastKnown", "it was Ready; the first look at its endpoints since is pending"}
	}
}

// of is what is known of a run.
func (p *listening) of(run *observe.RunFacts) verdict {
	if p.runID == run.ID {
		return p.verdict
	}
	var fresh listening
	fresh.follow(run, "", state.Moment{})
	return fresh.verdict
}

// note takes what was found, and reports whether that changes anything.
func (p *listening) note(found []observe.Listening, asked time.Duration, now state.Moment) (changed bool) {
	next, first := p.judge(found), !p.looked
	p.found, p.looked = found, true
	denied := next.status == conditionFalse
	if !denied && asked >= p.since && !p.renewed {
		p.renewed = true
		defer func() { changed = true }()
	}
	if denied && p.ready && p.verdict.status != conditionFalse {
		if p.denials++; p.denials < lookDenials {
			p.again(lookAgain, now)
			return first
		}
	}
	p.denials = 0
	switch {
	case !denied:
		p.again(lookSeldom, now)
	case p.wait < lookFirst || p.wait > lookLast:
		p.again(lookFirst, now)
	default:
		p.again(min(2*p.wait, lookLast), now)
	}
	changed = first || next != p.verdict
	p.verdict = next
	return changed
}

// again asks for the next look. Those that wait as long are looked at together.
func (p *listening) again(wait time.Duration, now state.Moment) {
	p.wait = wait
	p.next = (now.Uptime+wait/2)/wait*wait + wait
}

// judge makes one verdict of what was found of every endpoint: the worst counts.
func (p *listening) judge(found []observe.Listening) verdict {
	said := map[string]observe.Listening{}
	for _, l := range found {
		said[l.Endpoint] = l
	}
	worst, rank := verdict{conditionTrue, "Reachable", "its own processes listen on every endpoint"}, 0
	for i := range p.endpoints {
		e := &p.endpoints[i]
		l, there := said[e.Name]
		if !there {
			l.By = observe.ListenerUnseen
		}
		if v, r := judgeOne(e, l, p.isOpenProxy(e)); r > rank {
			worst, rank = v, r
		}
	}
	return worst
}

// judgeOne is the verdict on one endpoint, and how bad it is; 0 = all is well.
func judgeOne(e *spec.LaunchEndpoint, l observe.Listening, openProxy bool) (verdict, int) {
	of := "endpoint " + e.Name + ": "
	switch {
	case l.By == observe.ListenerStranger && l.Holder != nil:
		return verdict{conditionFalse, "PortConflict", of + "a process of " + l.Holder.String() + " listens on its port"}, 7
	case l.By == observe.ListenerStranger:
		return verdict{conditionFalse, "PortConflict", of + "a process that is none of the run's listens on its port: end that, or declare another port"}, 6
	case l.By == observe.ListenerNobody && l.Elsewhere:
		return verdict{conditionFalse, "NotListening", of + "the run listens on its port at another address than the declared one"}, 5
	case l.By == observe.ListenerNobody:
		return verdict{conditionFalse, "NotListening", of + "nobody listens on its port"}, 5
	case l.By == observe.ListenerUnseen:
		return verdict{conditionUnknown, "Unseen", of + "the keeper may not see who listens on its port, so it does not count: see guarantees"}, 4
	case l.Public && openProxy:
		return verdict{conditionTrue, "OpenProxy", of + "a proxy of which no credentials are known listens for other networks: declare and use an address of this host alone, or one that asks for a password, and say so with `basicAuth` in a probe of it"}, 3
	case l.Wide:
		return verdict{conditionTrue, "AddressTooWide", of + "the run listens on every address, not on the declared one alone"}, 2
	case l.Shared:
		return verdict{conditionTrue, "PortShared", of + "others listen on its port too: who gets what is the kernel's choice"}, 1
	}
	return verdict{}, 0
}

// isOpenProxy reports whether an endpoint is that of a proxy, of which no probe says that it wants to know who asks. HTTP may be anything
// that speaks it, unless it is probed as one.
func (p *listening) isOpenProxy(e *spec.LaunchEndpoint) bool {
	is := e.AppProtocol == spec.AppSOCKS5 || e.AppProtocol == spec.AppMixed
	for _, with := range p.probes {
		if with == nil || with.Proxy == nil || with.Proxy.Endpoint != e.Name {
			continue
		}
		if with.Proxy.BasicAuth != nil {
			return false
		}
		is = true
	}
	return is
}

// address is an endpoint with the address where its run listens, if none is declared and it is another than the usual one.
func (p *listening) address(e spec.LaunchEndpoint) spec.LaunchEndpoint {
	i := slices.IndexFunc(p.found, func(l observe.Listening) bool { return l.Endpoint == e.Name })
	if i >= 0 && e.Address == "" && p.found[i].By == observe.ListenerOwn {
		e.Address = p.found[i].At
	}
	return e
}

// reachableOf is the condition EndpointsReachable.
func reachableOf(s *standing, o *outlook, d *decision) verdict {
	switch d.sit {
	case vacant:
		switch {
		case !o.keeper:
			return verdict{conditionUnknown, "KeeperPending", "the keeper has not been heard yet"}
		case d.gate == gatePort:
			return verdict{conditionFalse, "PortConflict", s.contest.message()}
		}
		return verdict{conditionFalse, "NotRunning", "nothing runs"}
	case blocked, unverified:
		return verdict{conditionUnknown, "Unverified", "what runs here cannot be told"}
	case launching:
		return verdict{conditionFalse, "Starting", "the run is being started"}
	case draining, ending, stopping:
		return verdict{conditionFalse, "Stopping", "the run is ending"}
	}
	return s.listening.of(runOf(d))
}
