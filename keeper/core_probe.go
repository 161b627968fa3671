package keeper

import (
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Probing is what a run is to be asked.
type Probing struct {
	For    spec.Purpose
	Launch *spec.Launch // the run's. It is not changed
	Host   *Host
	HTTP   *spec.HTTPAction
	Proxy  *spec.ProxyProbe // one that wants to know who asks; exactly one of the two is there
	Field  string           // of the document that answers HTTP: how many play; "" = it does not matter what it holds
	At     string           // an IP address; see [state.ProbeOrder]
	Within time.Duration    // what has no answer by then has failed
}

// Probe asks a run what the keeper alone can ask, without a record of it. told is called once, by anybody, with what came of it; it
// must not block, and is never called after an error. An error is a refusal, and nothing was asked.
func (c *Core) Probe(o state.ProbeOrder, g Guard, told func(observe.Probed)) error {
	s := c.find(o.Scope)
	if s == nil {
		return refuse(CheckRun, "%s has no run", o.Scope)
	}
	defer c.release(s)
	if err := s.check(o.RunID, g); err != nil {
		return err
	}
	if err := s.checkAddressee(); err != nil {
		return err
	}
	launch := s.rec.Run.Launch
	if l := launch.Liveness; o.For == spec.ForLiveness && l != nil && l.Notify {
		told(c.askWatchdog(s, time.Duration(l.PeriodSeconds)*time.Second))
		return nil
	}
	if p := probeOf(&launch, o.For); p != nil && p.Exec != nil {
		c.startProbe(s, o.For, p, told)
		return nil
	}
	q := Probing{For: o.For, Launch: &launch, Host: c.Host(), At: o.At}
	if !q.ask() {
		return refuse(CheckCommand, "%s declares nothing that the keeper could ask it for %q", s.name, o.For)
	}
	c.kernel.Probe(s.place(), q, told)
	return nil
}

// ask puts in what the launch says of a probing's purpose. It reports whether that is something for the keeper.
func (q *Probing) ask() bool {
	if p := q.Launch.Players; q.For == spec.ForPlayers && p != nil {
		q.HTTP, q.Field, q.Within = p.HTTP, p.Field, spec.PlayersSeconds*time.Second
		return q.HTTP != nil
	}
	probe := probeOf(q.Launch, q.For)
	if probe == nil {
		return false
	}
	q.HTTP, q.Within = probe.HTTP, time.Duration(probe.TimeoutSeconds)*time.Second
	if p := probe.Proxy; p != nil && p.BasicAuth != nil {
		q.Proxy = p
	}
	return q.HTTP != nil || q.Proxy != nil
}

// endpoint is the name of who is asked.
func (q *Probing) endpoint() string {
	if q.Proxy != nil {
		return q.Proxy.Endpoint
	}
	return q.HTTP.Endpoint
}
