package keeper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/console"
	"reconciler.dev/reconciler/keeper/secret"
	"reconciler.dev/reconciler/observe/proc"
	"reconciler.dev/reconciler/spec"
)

// toNetwork hands a line over a network rail.
func (k *linux) toNetwork(ctx context.Context, p Place, d Delivery, line console.Line) console.Outcome {
	c := d.Launch.Console
	password, err := d.Host.Secrets().Fill(c.Password)
	if err != nil {
		return console.Outcome{Result: console.Undeliverable, Reason: console.BadPassword, Err: err}
	}
	defer password.Zero()
	return k.converse(ctx, p, d.Launch.Endpoint(c.Endpoint), func(ctx context.Context, peer console.Peer) console.Outcome {
		switch c.Input {
		case spec.ConsoleRCON:
			return console.RCON(ctx, peer, password.Value, line)
		case spec.ConsoleQuakeRCON:
			return console.QuakeRCON(ctx, peer, password.Value, line)
		case spec.ConsoleWebRCON:
			return console.WebRCON(ctx, peer, password.Value, line)
		default:
			return console.Telnet(ctx, peer, password.Value, line)
		}
	})
}

// toHTTP makes a request.
func (k *linux) toHTTP(ctx context.Context, p Place, d Delivery) console.Outcome {
	r, zero, err := requestOf(d.HTTP, d.Host.Secrets())
	defer zero()
	if err != nil {
		return console.Outcome{Result: console.Undeliverable, Reason: console.BadPassword, Err: err}
	}
	return k.converse(ctx, p, d.Launch.Endpoint(d.HTTP.Endpoint), func(ctx context.Context, peer console.Peer) console.Outcome {
		return console.HTTP(ctx, peer, r)
	})
}

// requestOf fills the secrets into a request. zero overwrites them and is always called.
func requestOf(a *spec.HTTPAction, store secret.Store) (r console.Request, zero func(), err error) {
	var filled []secret.Text
	zero = func() {
		for _, t := range filled {
			t.Zero()
		}
	}
	fill := func(text string) (secret.Value, error) {
		t, err := store.Fill(text)
		filled = append(filled, t)
		r.Secrets = append(r.Secrets, t.Parts...)
		return t.Value, err
	}
	r.TLS, r.Method, r.Path, r.Body = a.Scheme == spec.SchemeHTTPS, a.Method, a.Path, a.Body
	for _, h := range a.Headers {
		value, err := fill(h.Value)
		if err != nil {
			return r, zero, err
		}
		r.Headers = append(r.Headers, console.Header{Name: h.Name, Value: value})
	}
	if a.BasicAuth != nil {
		r.Username = a.BasicAuth.Username
		r.Password, err = fill(a.BasicAuth.Password)
	}
	return r, zero, err
}

// converse lets talk speak to an endpoint of a run: in the run's network, with nobody but the run's own processes, and not for long
// after its main process has ended.
func (k *linux) converse(ctx context.Context, p Place, e *spec.LaunchEndpoint, talk func(context.Context, console.Peer) console.Outcome) console.Outcome {
	refused := func(reason console.Reason, err error) console.Outcome {
		return console.Outcome{Result: console.Undeliverable, Reason: reason, Err: err}
	}
	if e == nil || p.Main == nil {
		return refused(console.Failed, errors.New("the endpoint is not declared")) // no valid launch is without it
	}
	address, err := netip.ParseAddr(e.Address)
	if err != nil && e.Address != "" {
		return refused(console.Failed, fmt.Errorf("endpoint %s has an address that is none", e.Name))
	}
	main, err := k.proc.Open(*p.Main)
	var o console.Outcome
	if err == nil {
		defer main.Close() // a handle of its own: nothing is lost
		ctx, leave := k.whileRunning(ctx, main)
		defer leave()
		peer := console.Peer{Address: netip.AddrPortFrom(address, uint16(e.Port)), Vet: k.vet(ctx, p, e)}
		err = main.InNetwork(func() { o = talk(ctx, peer) })
	}
	switch {
	case err == nil:
		return o
	case errors.Is(err, proc.ErrGone), errors.Is(err, proc.ErrOtherProcess), errors.Is(err, proc.ErrOtherBoot):
		return refused(console.NotListening, errNoAddressee)
	case errors.Is(err, proc.ErrUnverifiable):
		return refused(console.Unverified, errors.New("the main process cannot be verified"))
	case errors.Is(err, proc.ErrUnseen):
		return refused(console.Unverified, unseen(e))
	}
	k.log.Warn("the network of a run cannot be entered", "scope", p.Scope.String(), "run", p.Number, "error", err)
	return refused(console.Failed, errors.New("the server is in a network of its own, which the keeper cannot enter: run the keeper as root"))
}

// lastWords is how long what a server said last may be on its way to us after its end. A datagram that nobody answers any more
// would be waited for all of the step's time.
const lastWords = time.Second

// whileRunning ends a context lastWords after a process has ended. leave is always called, before the process is closed.
func (k *linux) whileRunning(ctx context.Context, main *proc.Process) (_ context.Context, leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	end := time.AfterFunc(math.MaxInt64, cancel)
	err := k.loop.Add(main.Fd(), unix.EPOLLIN|unix.EPOLLET, func(uint32) { end.Reset(lastWords) })
	if err != nil {
		k.log.Warn("the end of a process cannot be awaited by a delivery", "error", err) // which ends with its own time
	}
	return ctx, func() {
		k.loop.Remove(main.Fd())
		end.Stop()
		cancel()
	}
}

func unseen(e *spec.LaunchEndpoint) error {
	return fmt.Errorf("%w: endpoint %s: run the keeper as root, or as the server's user", console.ErrUntold, e.Name)
}

// vet looks at a connection to an endpoint before anything, above all a password, goes over it: whoever may get it is the run's
// own. A stranger can have the port because the server lost it, or has not opened it yet.
func (k *linux) vet(ctx context.Context, p Place, e *spec.LaunchEndpoint) func(local, remote netip.AddrPort) error {
	return func(local, remote netip.AddrPort) error {
		own, err := ownReceivers(
			func() ([]uint64, error) { return proc.Receivers(strings.ToLower(e.Protocol), local, remote) },
			func(sockets []uint64) (bool, error) { return k.holdsSockets(ctx, p, sockets) },
		)
		switch {
		case err == nil && own:
			return nil
		case errors.Is(err, console.ErrNobody), errors.Is(err, console.ErrEnded):
			return err
		case err == nil:
			return fmt.Errorf("another process than the server's own listens on endpoint %s: nothing was sent; end it, or see why the server is not there", e.Name)
		case errors.Is(err, proc.ErrUnseen):
			return unseen(e)
		}
		k.log.Warn("it cannot be told who listens on an endpoint", "scope", p.Scope.String(), "run", p.Number, "endpoint", e.Name, "error", err)
		return fmt.Errorf("%w: endpoint %s: see the keeper's log", console.ErrUntold, e.Name)
	}
}

// receiverLooks bounds how often receivers that change are looked at.
const receiverLooks = 5

// ownReceivers reports whether all who may get what is sent are a run's own. One that is closed between the look at the sockets and that at
// who has them seems to be a stranger's: whoever is none is looked for again.
func ownReceivers(receivers func() ([]uint64, error), hold func([]uint64) (bool, error)) (bool, error) {
	var strange []uint64
	for range receiverLooks {
		sockets, err := receivers()
		switch {
		case errors.Is(err, proc.ErrEnded):
			return false, console.ErrEnded
		case err != nil:
			return false, err
		case len(sockets) == 0:
			return false, console.ErrNobody
		case slices.Equal(sockets, strange):
			return false, nil
		}
		if own, err := hold(sockets); own || err != nil {
			return own, err
		}
		strange = sockets
	}
	return false, errors.New("who listens changes all the time")
}

// holdsSockets reports whether processes of a run hold all of the sockets.
func (k *linux) holdsSockets(ctx context.Context, p Place, sockets []uint64) (bool, error) {
	if p.Cgroup == "" {
		f, err := k.family(p)
		if err != nil {
			return false, err
		}
		return k.proc.HoldsSockets(ctx, f, sockets)
	}
	g, err := k.cgroup(p)
	if err != nil {
		return false, err
	}
	return g.HoldsSockets(ctx, sockets)
}
