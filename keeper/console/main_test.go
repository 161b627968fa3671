package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/faultd"
	"reconciler.dev/reconciler/keeper/secret"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "faultd" {
		os.Exit(faultd.Main(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

const (
	testPassword = "Geheimwort-4711"
	testLine     = "say Zeile mit Inhalt"
)

func password() secret.Value { return secret.New([]byte(testPassword)) }

// patience is far longer than anything here takes; what ends in time does not depend on it.
const patience = time.Minute

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// mustBe checks an outcome, and that it tells nothing that it must not.
func mustBe(t *testing.T, o Outcome, result Result, reason Reason) {
	t.Helper()
	if o.Result != result || o.Reason != reason {
		t.Fatalf("the outcome is %v %s (%v), not %v %s; reply %q", o.Result, o.Reason, o.Err, result, reason, o.Reply)
	}
	if (o.Err != nil) != (o.Reason != "") {
		t.Errorf("reason %q and error %v do not go together", o.Reason, o.Err)
	}
	if o.OK() != (result == Done || result == HandedOver && reason == "") {
		t.Errorf("OK is %v", o.OK())
	}
	text := o.Reply
	if o.Err != nil {
		if text += "\n" + o.Err.Error(); strings.Contains(o.Err.Error(), testLine) {
			t.Errorf("the error tells the line: %v", o.Err)
		}
	}
	for _, secret := range []string{testPassword, "127.0.0.1", "/tmp", "/dev/shm"} {
		if strings.Contains(text, secret) {
			t.Errorf("the outcome tells %q: %q", secret, text)
		}
	}
	if len(o.Reply) > ReplyLimit {
		t.Errorf("%d bytes of the reply are kept", len(o.Reply))
	}
}

// serve lets serve answer one connection after the other, and waits for it at the test's end. The connection ends after the client:
// a socket that is closed with bytes unread, or to which bytes come afterwards, sends a reset, which means something else ([reset]).
func serve(t *testing.T, serve func(net.Conn)) Peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			_ = c.(*net.TCPConn).CloseWrite() // serve may have closed it
			listen(c)
			c.Close()
		}
	})
	t.Cleanup(func() {
		l.Close()
		served.Wait()
	})
	return Peer{Address: l.Addr().(*net.TCPAddr).AddrPort()}
}

// closedPort is a port of loopback on which nobody listens until the test ends: it is taken, where one that was given back may be
// somebody else's by now.
func closedPort(t *testing.T) Peer {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return Peer{Address: netip.AddrPortFrom(loopback, uint16(bind(t, fd)))}
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// bind gives a socket a port of loopback.
func bind(t *testing.T, fd int) int {
	t.Helper()
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: loopback.As4()}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return name.(*unix.SockaddrInet4).Port
}

// arrived waits until bytes lie unread in c's socket.
func arrived(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Error(err)
		return
	}
	if err := raw.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return !errors.Is(err, unix.EAGAIN)
	}); err != nil {
		t.Error(err)
	}
}

// reset waits for bytes and closes the connection without reading them.
func reset(t *testing.T, c net.Conn) {
	arrived(t, c)
	c.Close()
}

// hang reads nothing and ends when the client does.
func hang(t *testing.T, c net.Conn) {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Error(err)
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		return poll(int(fd), unix.POLLRDHUP) == nil
	})
}

// poll waits until a descriptor is as wanted, or broken. A signal to us, such as a child's end, is no end of it.
func poll(fd int, events int16) error {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, int(patience.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && n == 0 {
			err = errors.New("nothing happens")
		}
		return err
	}
}

// overWire is piped in a bubble: no stall of this machine makes the server silent there. What depends on how long a server is silent is
// tested by this alone.
func overWire(t *testing.T, expect string, serve func(net.Conn), talk func(*conversation) Outcome) (o Outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		o = piped(t, ctx, expect, serve, talk)
	})
	return o
}

// piped runs talk with a conversation over a wire in memory, whose clock is the bubble's, and the other end with serve.
func piped(t *testing.T, ctx context.Context, expect string, serve func(net.Conn), talk func(*conversation) Outcome) Outcome {
	t.Helper()
	ours, theirs := newWire()
	var served sync.WaitGroup
	served.Go(func() {
		serve(theirs)
		theirs.Close()
	})
	c := newConversation(ctx, ours, expect)
	if err := c.until(time.Now().Add(approachLimit)); err != nil {
		t.Fatal(err)
	}
	o := talk(c)
	served.Wait()
	return o
}

// listen reads and drops what comes until the other end is gone.
func listen(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func TestDialable(t *testing.T) {
	for from, want := range map[string]string{
		"0.0.0.0:7": "127.0.0.1:7", "[::]:7": "[::1]:7", "127.0.0.2:7": "127.0.0.2:7", "192.0.2.1:7": "192.0.2.1:7",
	} {
		if got := (Peer{Address: netip.MustParseAddrPort(from)}).dialable().String(); got != want {
			t.Errorf("%s is dialled as %s, not %s", from, got, want)
		}
	}
	if got := (Peer{Address: netip.AddrPortFrom(netip.Addr{}, 7)}).dialable().String(); got != "127.0.0.1:7" {
		t.Errorf("no address is dialled as %s", got)
	}
}

// What holds for every network rail, told by name.
func TestEveryRail(t *testing.T) {
	rails := map[string]func(context.Context, Peer) Outcome{
		"RCON":    func(ctx context.Context, p Peer) Outcome { return RCON(ctx, p, password(), Line{Text: testLine}) },
		"WebRCON": func(ctx context.Context, p Peer) Outcome { return WebRCON(ctx, p, password(), Line{Text: testLine}) },
		"Telnet":  func(ctx context.Context, p Peer) Outcome { return Telnet(ctx, p, password(), Line{Text: testLine}) },
		"HTTPS": func(ctx context.Context, p Peer) Outcome {
			return HTTP(ctx, p, Request{TLS: true, Password: password()})
		},
	}
	for name, deliver := range rails {
		t.Run(name, func(t *testing.T) {
			mustBe(t, deliver(within(t, patience), closedPort(t)), Undeliverable, NotListening)

			hung := serve(t, func(c net.Conn) { hang(t, c) })
			mustBe(t, deliver(within(t, 20*time.Millisecond), hung), Undeliverable, NoAnswer)
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			mustBe(t, deliver(ctx, hung), Undeliverable, NoAnswer)

			garbage := serve(t, func(c net.Conn) {
				_, _ = c.Write([]byte(strings.Repeat("\xde\xad\xbe\xef garbage\n", 10_000))) // the client may leave
				listen(c)
			})
			o := deliver(within(t, patience), garbage)
			if o.Result != Undeliverable {
				t.Errorf("garbage before the login makes %v %s", o.Result, o.Reason)
			}
			mustBe(t, o, Undeliverable, o.Reason)

			got := make(chan int, 1)
			stranger := serve(t, func(c net.Conn) {
				n, _ := c.Read(make([]byte, 1)) // the end is meant
				got <- n
			})
			stranger.Vet = func(local, remote netip.AddrPort) error {
				if remote != stranger.Address || !local.Addr().IsLoopback() {
					t.Errorf("the connection is said to be from %v to %v", local, remote)
				}
				return errors.New("another process listens there")
			}
			mustBe(t, deliver(within(t, patience), stranger), Undeliverable, Stranger)
			if n := <-got; n > 0 {
				t.Error("a stranger got a byte")
			}
			for err, reason := range map[error]Reason{ErrNobody: NotListening, fmt.Errorf("%w: it is hidden", ErrUntold): Unverified} {
				stranger.Vet = func(netip.AddrPort, netip.AddrPort) error { return err }
				mustBe(t, deliver(within(t, patience), stranger), Undeliverable, reason)
				<-got
			}
		})
	}
}

func TestLineCheck(t *testing.T) {
	for text, ok := range map[string]bool{
		"save": true, "a\tb": true, "größe": true, strings.Repeat("x", 100): true,
		"": false, "a\nb": false, "a\rb": false, "a\x00b": false, "\x1b[2J": false, "\xff": false, strings.Repeat("x", 101): false, "a\u0085b": false,
	} {
		err := Line{Text: text}.check(100)
		if (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && reasonOf(err) != BadLine {
			t.Errorf("%q: reason %s", text, reasonOf(err))
		}
	}
}

func TestReplyIsBoundedAndRedacted(t *testing.T) {
	r := newReply("needle")
	for _, part := range []string{strings.Repeat("a", ReplyLimit-8), testPassword, strings.Repeat("b", 3*ReplyLimit), "nee", "\x1b[1mdle"} {
		if err := r.add([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	o := r.into(Outcome{}, password())
	if !r.seen || !o.Truncated || !strings.HasSuffix(o.Reply, "[secret]") || len(o.Reply) != ReplyLimit {
		t.Errorf("seen %v, truncated %v, %d bytes ending in %q", r.seen, o.Truncated, len(o.Reply), o.Reply[len(o.Reply)-20:])
	}
	r = newReply("")
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = r.add(make([]byte, 1<<20))
	}
	if reasonOf(err) != Protocol {
		t.Error("a reply without an end is read for ever")
	}
}

// flood writes without an end until the client is gone.
func flood(c net.Conn, b []byte) {
	for {
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}
