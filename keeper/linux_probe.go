package keeper

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"

	"reconciler.dev/reconciler/keeper/console"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/probe"
	"reconciler.dev/reconciler/spec"
)

// maxProbes is how many runs are asked at the same time. Who comes then waits, for as long as the answer might take.
const maxProbes = 512

// probes is what is being asked of runs.
type probes struct {
	places chan struct{}

	mu    sync.Mutex
	asked map[probeKey]context.CancelFunc
}

// probeKey names a question: one of a kind is under way at a time.
type probeKey struct {
	runID string
	why   spec.Purpose
}

func newProbes() probes {
	return probes{places: make(chan struct{}, maxProbes), asked: map[probeKey]context.CancelFunc{}}
}

// begin reports whether a question is not under way already, and notes how it is ended.
func (p *probes) begin(key probeKey, cancel context.CancelFunc) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked[key] != nil {
		return false
	}
	p.asked[key] = cancel
	return true
}

func (p *probes) end(key probeKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, key)
}

// endOf ends what is asked of a run.
func (p *probes) endOf(runID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, why := range []spec.Purpose{spec.ForReadiness, spec.ForLiveness, spec.ForPlayers} {
		if cancel := p.asked[probeKey{runID, why}]; cancel != nil {
			cancel()
		}
	}
}

// Probe implements [Kernel].
func (k *linux) Probe(p Place, q Probing, told func(observe.Probed)) {
	ctx, cancel := context.WithTimeout(k.ctx, q.Within)
	key := probeKey{p.RunID, q.For}
	if !k.probes.begin(key, cancel) {
		cancel()
		told(observe.NotRun("the question before it has no answer yet"))
		return
	}
	k.late.Go(func() {
		defer cancel()
		a := k.probe(ctx, p, q)
		k.probes.end(key)
		told(a)
	})
}

// EndProbes implements [Kernel].
func (k *linux) EndProbes(p Place) { k.probes.endOf(p.RunID) }

// probe asks one question, when there is a place.
func (k *linux) probe(ctx context.Context, p Place, q Probing) observe.Probed {
	select {
	case k.probes.places <- struct{}{}:
		defer func() { <-k.probes.places }()
	case <-ctx.Done():
		return observe.NotRun("too many servers are being asked at the same time")
	}
	ask := k.askHTTP
	if q.Proxy != nil {
		ask = k.askProxy
	}
	a := ask(ctx, p, q)
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return observe.NotRun("the run ends, or the keeper does")
	}
	return a
}

// askHTTP makes the request of a probe, or asks how many play.
func (k *linux) askHTTP(ctx context.Context, p Place, q Probing) observe.Probed {
	r, zero, err := requestOf(q.HTTP, q.Host.Secrets())
	defer zero()
	if err != nil {
		return observe.NotRun(err.Error())
	}
	var body []byte
	o := k.converse(ctx, p, q.asked(), func(ctx context.Context, peer console.Peer) (o console.Outcome) {
		if len(r.Secrets) == 0 {
			peer.Vet = unlessUntold(peer.Vet)
		}
		o, body = console.HTTPBody(ctx, peer, r)
		return o
	})
	return judgeAnswer(o, body, q)
}

// askProxy speaks with a proxy that wants to know who asks.
func (k *linux) askProxy(ctx context.Context, p Place, q Probing) observe.Probed {
	password, err := q.Host.Secrets().Fill(q.Proxy.BasicAuth.Password)
	defer password.Zero()
	if err != nil {
		return observe.NotRun(err.Error())
	}
	endpoint := q.asked()
	who := &probe.Credentials{Username: q.Proxy.BasicAuth.Username, Password: password.Reveal()}
	var said error
	o := k.converse(ctx, p, endpoint, func(ctx context.Context, peer console.Peer) console.Outcome {
		return console.Talk(ctx, peer, func(conn net.Conn) error {
			said = probe.ViaProxy(conn, endpoint.AppProtocol, q.Proxy.URL, who)
			return said
		})
	})
	if probe.NotRun(said) {
		return observe.NotRun("endpoint " + endpoint.Name + ": " + said.Error())
	}
	return judgeAnswer(o, nil, q)
}

// asked is the endpoint that is asked, at the address where it is.
func (q *Probing) asked() *spec.LaunchEndpoint {
	endpoint := *q.Launch.Endpoint(q.endpoint()) // a valid launch has it
	if endpoint.Address == "" {
		endpoint.Address = q.At
	}
	return &endpoint
}

// unlessUntold lets a question go where it cannot be told who listens: without a secret it does no harm there.
func unlessUntold(vet func(local, remote netip.AddrPort) error) func(local, remote netip.AddrPort) error {
	return func(local, remote netip.AddrPort) error {
		err := vet(local, remote)
		if errors.Is(err, console.ErrUntold) {
			return nil
		}
		return err
	}
}

// judgeAnswer makes of what came of a conversation what came of the question.
func judgeAnswer(o console.Outcome, body []byte, q Probing) observe.Probed {
	failed := func(why error) observe.Probed {
		return observe.Probed{Result: observe.ProbeFailed, Detail: "endpoint " + q.endpoint() + ": " + why.Error()}
	}
	switch o.Reason {
	case console.Failed, console.Unverified, console.BadPassword, console.BadLine: // of this host, or of what it was told
		return observe.NotRun("endpoint " + q.endpoint() + ": " + o.Err.Error())
	}
	if o.Result != console.Done {
		return failed(o.Err)
	}
	if q.Field == "" {
		return observe.Probed{Result: observe.ProbePassed}
	}
	n, err := probe.NumberAt(body, q.Field)
	if err != nil {
		return failed(err)
	}
	return observe.Probed{Result: observe.ProbePassed, Count: n}
}
