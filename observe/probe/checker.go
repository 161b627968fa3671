package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"

	"reconciler.dev/reconciler/observe/probe/query"
	"reconciler.dev/reconciler/spec"
)

// Checker carries out probes of endpoints, and counts players.
type Checker struct{}

// notRun says that a probe could not be carried out.
type notRun struct{ cause error }

func (e *notRun) Error() string { return "the probe could not be carried out: " + e.cause.Error() }
func (e *notRun) Unwrap() error { return e.cause }

// CannotRun says that a probe could not be carried out; see [NotRun].
func CannotRun(cause error) error { return &notRun{cause} }

// NotRun reports whether err says that a probe could not be carried out, which counts neither as success nor as failure.
func NotRun(err error) bool {
	var n *notRun
	return errors.As(err, &n)
}

// Check asks an endpoint what the probe asks: a socket, a game's own protocol, or a proxy; which endpoint that is says
// [spec.LaunchProbe.Endpoint]. What needs a secret is asked by whoever has it, with [ViaProxy]. nil is success. It returns when ctx ends, which is a failure if it was ctx's deadline, and a probe
// that was not carried out if ctx was cancelled.
func (Checker) Check(ctx context.Context, endpoint spec.LaunchEndpoint, p *spec.LaunchProbe) error {
	network := networkOf(endpoint)
	var talk func(net.Conn) error
	switch {
	case p.Socket != nil && network == "udp" && len(p.Socket.Send) == 0:
		return &notRun{errors.New("a probe of a UDP endpoint must send something")}
	case p.Socket != nil:
		talk = func(c net.Conn) error { return ask(c, network, p.Socket) }
	case p.Query != nil:
		talk = func(c net.Conn) error {
			_, err := query.Ask(c, network, p.Query.Protocol)
			return err
		}
	case p.Proxy != nil && p.Proxy.BasicAuth == nil:
		talk = func(c net.Conn) error { return ViaProxy(c, endpoint.AppProtocol, p.Proxy.URL, nil) }
	default:
		return &notRun{errors.New("the probe asks no endpoint")}
	}
	return converse(ctx, network, endpoint, talk)
}

// ErrUntold is the error of [Checker.Count] when the server answers and does not tell how many play.
var ErrUntold = errors.New("the server does not tell how many play")

// Count asks how many play on a server. Bots are left out where the game tells them from people. Any error means that
// nobody knows.
func (Checker) Count(ctx context.Context, endpoint spec.LaunchEndpoint, p *spec.LaunchPlayers) (int, error) {
	network := networkOf(endpoint)
	var a query.Answer
	err := converse(ctx, network, endpoint, func(c net.Conn) (err error) {
		a, err = query.Ask(c, network, p.Query.Protocol)
		return err
	})
	if err == nil && !a.Told {
		err = ErrUntold
	}
	return a.Players, err
}

func networkOf(e spec.LaunchEndpoint) string {
	if e.Protocol == "" {
		return "tcp"
	}
	return strings.ToLower(e.Protocol)
}

// converse connects to an endpoint and lets talk speak with it. The end of ctx ends talk by closing the connection.
func converse(ctx context.Context, network string, endpoint spec.LaunchEndpoint, talk func(net.Conn) error) error {
	address, err := Address(endpoint)
	if err != nil {
		return &notRun{err}
	}
	err = connect(ctx, network, address, talk)
	switch {
	case err == nil:
		return nil
	case context.Cause(ctx) == context.Canceled, ours(err):
		return &notRun{err}
	}
	return fmt.Errorf("endpoint %s: %w", endpoint.Name, err)
}

func connect(ctx context.Context, network, address string, talk func(net.Conn) error) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return context.DeadlineExceeded // the socket has ctx's deadline too while it connects, and may be the first to see it
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	return orEnded(ctx, talk(conn))
}

// Address is where an endpoint is probed: its address, or the loopback of its family when that is unspecified.
func Address(e spec.LaunchEndpoint) (string, error) {
	host := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if e.Address != "" {
		parsed, err := netip.ParseAddr(e.Address)
		if err != nil {
			return "", fmt.Errorf("endpoint %s: the address is not an IP address", e.Name)
		}
		host = parsed
	}
	if host.IsUnspecified() {
		if host.Is6() {
			host = netip.IPv6Loopback()
		} else {
			host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
	}
	if e.Port < 1 || e.Port > 65535 {
		return "", fmt.Errorf("endpoint %s: the port %d is not from 1 to 65535", e.Name, e.Port)
	}
	return net.JoinHostPort(host.String(), strconv.Itoa(e.Port)), nil
}

// orEnded prefers the end of the context as the reason of a failure.
func orEnded(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// ours reports whether it was this process that ran out of something.
func ours(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
