package console

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/secret"
)

const (
	// approachLimit is how long connecting and logging in may take together. Servers answer a login within a tick of their
	// main loop; one that hangs must not use up the time of the ladder's step.
	approachLimit = 5 * time.Second
	// settle is how long a reply is waited for when none is expected. The line is read meanwhile, so that closing the
	// connection cannot overtake it.
	settle = time.Second
	// quiet is how long a server that does not tell where its reply ends must be silent for the reply to be over.
	quiet = 100 * time.Millisecond
	// drainLimit is how long the server may take to end the connection after us.
	drainLimit = 250 * time.Millisecond
)

// Peer is the server's end of a network rail.
type Peer struct {
	// Address is where it listens. An unspecified address means the loopback of its family.
	Address netip.AddrPort
	// Vet, if any, looks at the connection before the first byte goes out, and refuses one that does not lead to the
	// server's own processes: [Stranger], or what [ErrNobody], [ErrEnded] and [ErrUntold] stand for. Its error may hold no address.
	Vet func(local, remote netip.AddrPort) error
}

// ErrNobody is how [Peer.Vet] says that a connection leads to nobody: a socket of UDP is connected all the same.
var ErrNobody = errors.New("nobody listens there: see whether the server is up")

// ErrEnded is how [Peer.Vet] says that the peer has ended the connection already.
var ErrEnded = errors.New("the server ended the connection at once: see whether it takes no more of them, or none for now")

// ErrUntold is wrapped by an error of [Peer.Vet] that says that it cannot be told where a connection leads.
var ErrUntold = errors.New("who listens there cannot be told")

func (p Peer) dialable() netip.AddrPort {
	switch a := p.Address.Addr(); {
	case !a.IsValid(), a == netip.IPv4Unspecified():
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), p.Address.Port())
	case a.IsUnspecified():
		return netip.AddrPortFrom(netip.IPv6Loopback(), p.Address.Port())
	}
	return p.Address
}

// conversation is one connection to a peer and what comes of it. It ends with its context.
type conversation struct {
	ctx     context.Context
	conn    net.Conn
	base    net.Conn // what conn goes over: conn itself, or the connection below TLS
	release func()   // ends the watch of ctx

	reply    reply
	expected bool // something is awaited
	answered bool // the peer has answered the line itself
}

// converse connects and vets. Reads and writes fail from approachLimit on until [conversation.until] says otherwise.
func converse(ctx context.Context, network string, p Peer, expect string) (*conversation, error) {
	approach, cancel := context.WithTimeout(ctx, approachLimit)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(approach, network, p.dialable().String())
	if err != nil {
		if ctx.Err() != nil {
			return nil, &fault{NoAnswer, errNoAnswer}
		}
		return nil, err
	}
	if p.Vet != nil {
		if err := p.vet(conn); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	deadline, _ := approach.Deadline()
	c := newConversation(ctx, conn, expect)
	if err := c.until(deadline); err != nil {
		c.close(false)
		return nil, err
	}
	return c, nil
}

// Talk connects to a peer over TCP, vets it, and lets talk speak with it until the context ends. It is [Done] when talk has no error; one
// of its own is told as it is, which must hold nothing that an [Outcome] may not.
func Talk(ctx context.Context, peer Peer, talk func(net.Conn) error) Outcome {
	c, err := converse(ctx, "tcp", peer, "")
	if err != nil {
		return undeliverable(err)
	}
	defer c.close(false)
	if err := c.until(time.Time{}); err != nil {
		return undeliverable(err)
	}
	err = talk(c.conn)
	var ofConnection *net.OpError
	switch {
	case err == nil:
		return Outcome{Result: Done}
	case errors.As(err, &ofConnection):
		return Outcome{Result: HandedOver, Reason: reasonOf(err), Err: bare(err)}
	}
	return Outcome{Result: HandedOver, Reason: Protocol, Err: err}
}

func (p Peer) vet(conn net.Conn) error {
	err := p.Vet(addrPort(conn.LocalAddr()), addrPort(conn.RemoteAddr()))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNobody):
		return &fault{NotListening, err}
	case errors.Is(err, ErrEnded):
		return &fault{Closed, err}
	case errors.Is(err, ErrUntold):
		return &fault{Unverified, err}
	}
	return &fault{Stranger, err}
}

func newConversation(ctx context.Context, conn net.Conn, expect string) *conversation {
	c := &conversation{ctx: ctx, conn: conn, base: conn, reply: newReply(expect), expected: expect != ""}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = conn.SetDeadline(past) // fails only when it is closed
	})
	c.release = func() {
		if !stop() {
			<-done
		}
	}
	return c
}

var past = time.Unix(1, 0)

func addrPort(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort()
	case *net.UDPAddr:
		return a.AddrPort()
	}
	return netip.AddrPort{}
}

// until lets reads and writes fail from t on, and from the context's end on if that is earlier. The zero t means the latter.
func (c *conversation) until(t time.Time) error {
	if d, ok := c.ctx.Deadline(); ok && (t.IsZero() || d.Before(t)) {
		t = d
	}
	if err := c.conn.SetDeadline(t); err != nil {
		return err
	}
	if c.ctx.Err() != nil { // it may have ended just before, and its deadline been overwritten
		return c.conn.SetDeadline(past)
	}
	return nil
}

// send writes what is not the line: a login, for example. b may hold the password and is cleared.
func (c *conversation) send(b []byte) error {
	_, err := c.conn.Write(b)
	clear(b)
	return err
}

// handOver writes the line, in one write. It returns whether the line was written; if not, the outcome. b is cleared.
func (c *conversation) handOver(b []byte) (bool, Outcome) {
	if err := c.ended(); err != nil {
		return false, undeliverable(err)
	}
	n, err := c.conn.Write(b)
	clear(b)
	switch {
	case err == nil:
		err = c.until(c.patience())
		if err != nil {
			return false, Outcome{Result: Indeterminate, Reason: reasonOf(err), Err: bare(err)}
		}
		return true, Outcome{}
	case n == 0:
		return false, undeliverable(err)
	}
	return false, Outcome{Result: Indeterminate, Reason: reasonOf(err), Err: errors.New("the connection failed while the line was written")}
}

// patience is when to stop waiting for a reply: with the context if something is expected.
func (c *conversation) patience() time.Time {
	if c.expected {
		return time.Time{}
	}
	return time.Now().Add(settle)
}

// hear takes a part of the server's answer.
func (c *conversation) hear(b []byte) error {
	c.answered = true
	return c.reply.add(b)
}

// finish is the outcome of a line that was handed over, when no more is read: what was expected was seen, the reply is over
// (nil), or reading failed.
func (c *conversation) finish(err error, secrets ...secret.Value) Outcome {
	o := Outcome{Result: HandedOver}
	var f *fault
	switch {
	case c.reply.seen:
		o.Result = Done
	case err != nil && !c.answered && c.unproven(err):
		o = Outcome{Result: Indeterminate, Reason: reasonOf(err), Err: bare(err)}
	case errors.As(err, &f) && c.expected: // else it does not matter what came behind the answer
		o.Reason, o.Err = f.reason, f.err
	case c.expected && c.reply.total == 0:
		o.Reason, o.Err = NoReply, errors.New("the line was handed over; no reply came")
	case c.expected:
		o.Reason, o.Err = NotSeen, errors.New("the line was handed over; the expected text did not come")
	}
	return c.reply.into(o, secrets...)
}

// unproven reports whether err leaves open that the peer took the line. A reply that does not come is none; an end of the
// connection is proof, unless our bytes met a closed socket.
func (c *conversation) unproven(err error) bool {
	switch {
	case isTimeout(err), errors.Is(err, errEndless):
		return false
	case errors.Is(err, io.EOF):
		return c.refused() != nil
	}
	return true
}

// raw calls f with the connection's descriptor; without one (a test's pipe) it does nothing.
func (c *conversation) raw(f func(fd int)) error {
	s, ok := c.base.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { f(int(fd)) })
}

// ended reports that the peer has closed its end already: what is written now would be lost.
func (c *conversation) ended() (err error) {
	controlErr := c.raw(func(fd int) {
		for {
			n, _, e := unix.Recvfrom(fd, make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
			switch {
			case errors.Is(e, unix.EINTR):
				continue
			case e == nil && n == 0:
				err = io.EOF
			case e != nil && !errors.Is(e, unix.EAGAIN):
				err = e
			}
			return
		}
	})
	return errors.Join(err, controlErr)
}

// refused is the socket's pending error: after an end, EPIPE says that the peer's reset came for bytes of ours.
func (c *conversation) refused() (err error) {
	controlErr := c.raw(func(fd int) {
		no, e := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if e == nil && no != 0 {
			e = unix.Errno(no)
		}
		err = e
	})
	return errors.Join(err, controlErr)
}

// close ends the conversation. After a line without an answer it says first that nothing more comes and lets the server end
// the connection: closing on bytes that we have not read would be a reset, which some servers take for an error before they
// look at the line.
//
// A server that has ended the connection before us, as most do that obey a stop, gets a reset instead of our end: Linux keeps an
// address for a minute whose connection was ended properly (TIME_WAIT, RFC 9293 3.6.1), and a server that does not ask for
// SO_REUSEADDR has no console when it starts again meanwhile (Teeworlds).
func (c *conversation) close(handed bool) {
	if tcp, ok := c.base.(*net.TCPConn); ok && errors.Is(c.ended(), io.EOF) {
		_ = tcp.SetLinger(0) // else it ends as usual
		handed = false
	}
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok && handed && !c.answered && c.ctx.Err() == nil {
		if half.CloseWrite() == nil && c.until(time.Now().Add(drainLimit)) == nil {
			c.drain()
		}
	}
	c.release()
	_ = c.base.Close() // nothing depends on it any more; TLS would take five seconds for its farewell
}

func (c *conversation) drain() {
	buf := make([]byte, 4096)
	for total := 0; total < readLimit; {
		n, err := c.conn.Read(buf)
		if err != nil {
			return
		}
		total += n
	}
}
