package probe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reconciler.dev/reconciler/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers every connection to a TCP port with talk, until the test ends, and then with an end: never with a reset.
func serve(t *testing.T, talk func(net.Conn)) spec.LaunchEndpoint {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			talk(conn)
			leave(conn)
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return spec.LaunchEndpoint{Name: "game", Port: listener.Addr().(*net.TCPAddr).Port, Protocol: "TCP"}
}

// leave ends a connection after the asker. A socket that is closed with bytes unread, or to which bytes come afterwards, sends a reset
// instead of its end, and takes with it what the asker has not read yet.
func leave(conn net.Conn) {
	_ = conn.(*net.TCPConn).CloseWrite() // talk may have closed it
	_, _ = io.Copy(io.Discard, conn)
	conn.Close()
}

// serveUDP answers every datagram with answer's datagrams, until the test ends.
func serveUDP(t *testing.T, answer func([]byte) [][]byte) spec.LaunchEndpoint {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 2048)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			for _, reply := range answer(buffer[:n]) {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return spec.LaunchEndpoint{Name: "query", Port: conn.LocalAddr().(*net.UDPAddr).Port, Protocol: "UDP"}
}

func socket(send, expect string) *spec.LaunchProbe {
	return &spec.LaunchProbe{Socket: &spec.SocketProbe{Send: []byte(send), Expect: []byte(expect)}}
}

func TestCheckTCP(t *testing.T) {
	echo := func(c net.Conn) {
		buffer := make([]byte, 64)
		n, _ := c.Read(buffer)
		_, _ = c.Write(buffer[:n])
	}
	pieces := func(c net.Conn) {
		// What is expected lies across the border of the reader's buffer.
		_, _ = c.Write(bytes.Repeat([]byte("x"), 4090))
		_, _ = c.Write([]byte("READY to play"))
	}
	flood := func(c net.Conn) { _, _ = c.Write(bytes.Repeat([]byte("x"), 4*ReplyLimit)) }
	for _, c := range []struct {
		what         string
		talk         func(net.Conn)
		send, expect string
		fails        bool
	}{
		{"connect", func(net.Conn) {}, "", "", false},
		{"send alone", func(net.Conn) {}, "hello", "", false},
		{"send and expect", echo, "hello", "ell", false},
		{"a greeting", func(c net.Conn) { _, _ = c.Write([]byte("220 ready\r\n")) }, "", "220", false},
		{"across reads", pieces, "", "READY to play", false},
		{"another reply", echo, "hello", "goodbye", true},
		{"an end without a word", func(net.Conn) {}, "", "x", true},
		{"more than is read", flood, "", "never", true},
	} {
		t.Run(c.what, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := Checker{}.Check(ctx, serve(t, c.talk), socket(c.send, c.expect))
			if (err != nil) != c.fails {
				t.Errorf("got %v, want a failure: %v", err, c.fails)
			}
			if NotRun(err) {
				t.Errorf("it was carried out: %v", err)
			}
		})
	}
}

func TestCheckUDP(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	echo := serveUDP(t, func(b []byte) [][]byte { return [][]byte{[]byte("noise"), bytes.Clone(b)} })
	if err := (Checker{}).Check(ctx, echo, socket("ping", "ping")); err != nil {
		t.Errorf("the second datagram has it: %v", err)
	}
	if err := (Checker{}).Check(ctx, echo, socket("ping", "")); err != nil {
		t.Errorf("any datagram is an answer: %v", err)
	}
	if err := (Checker{}).Check(ctx, echo, socket("", "")); !NotRun(err) {
		t.Errorf("nothing to send: %v", err)
	}
	if err := (Checker{}).Check(ctx, echo, &spec.LaunchProbe{Log: []string{"x"}}); !NotRun(err) {
		t.Errorf("nothing to ask: %v", err)
	}
	// What is expected is not put together of two datagrams.
	halves := serveUDP(t, func([]byte) [][]byte { return [][]byte{[]byte("pi"), []byte("ng")} })
	short, cancelShort := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelShort()
	if err := (Checker{}).Check(short, halves, socket("ping", "ping")); !errors.Is(err, context.DeadlineExceeded) || NotRun(err) {
		t.Errorf("two halves: %v", err)
	}
}

func TestCheckOfNothing(t *testing.T) {
	// The port is ours, and nobody listens on it: one that was given back could be somebody else's by now.
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := bound.(*syscall.SockaddrInet4).Port
	err = Checker{}.Check(t.Context(), spec.LaunchEndpoint{Name: "game", Port: port, Protocol: "TCP"}, socket("", ""))
	if !errors.Is(err, syscall.ECONNREFUSED) || NotRun(err) {
		t.Errorf("got %v, want a failure: connection refused", err)
	}
}

func TestCheckEndsWithItsContext(t *testing.T) {
	hold := make(chan struct{})
	silent := serve(t, func(net.Conn) { <-hold })
	t.Cleanup(func() { close(hold) })
	expect := socket("", "x")

	short, cancelShort := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelShort()
	if err := (Checker{}).Check(short, silent, expect); !errors.Is(err, context.DeadlineExceeded) || NotRun(err) {
		t.Errorf("its time was over: %v, want a failure", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (Checker{}).Check(ended, silent, expect); !NotRun(err) {
		t.Errorf("it was cancelled: %v, want a probe that counts neither way", err)
	}
}

func TestAddress(t *testing.T) {
	for _, c := range []struct{ address, want string }{
		{"", "127.0.0.1:80"}, {"0.0.0.0", "127.0.0.1:80"}, {"::", "[::1]:80"}, {"10.1.2.3", "10.1.2.3:80"}, {"fe80::1", "[fe80::1]:80"},
	} {
		got, err := Address(spec.LaunchEndpoint{Port: 80, Address: c.address})
		if err != nil || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.address, got, err, c.want)
		}
	}
	for _, e := range []spec.LaunchEndpoint{{Port: 0}, {Port: 65536}, {Port: 80, Address: "localhost"}} {
		if got, err := Address(e); err == nil {
			t.Errorf("%+v: %q", e, got)
		}
	}
}

func TestTally(t *testing.T) {
	p := &spec.LaunchProbe{FailureThreshold: 3, SuccessThreshold: 2}
	for _, c := range []struct {
		what    string
		from    bool
		results string // + and -
		want    string // after each
	}{
		{"success takes two in a row", false, "+-++", "---+"},
		{"failure takes three in a row", true, "--+---", "+++++-"},
		{"and back", true, "---++", "++--+"},
	} {
		tally := Tally{Passing: c.from}
		got := ""
		for _, r := range c.results {
			before := tally.Passing
			if changed := tally.Note(r == '+', p); changed != (before != tally.Passing) {
				t.Errorf("%s: Note says changed: %v", c.what, changed)
			}
			got += map[bool]string{true: "+", false: "-"}[tally.Passing]
		}
		if got != c.want {
			t.Errorf("%s: %s gives %s, want %s", c.what, c.results, got, c.want)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	endpoint := spec.LaunchEndpoint{Port: listener.Addr().(*net.TCPAddr).Port, Protocol: "TCP"}
	b.ReportAllocs()
	for b.Loop() {
		if err := (Checker{}).Check(b.Context(), endpoint, socket("", "")); err != nil {
			b.Fatal(err)
		}
	}
	listener.Close()
	<-done
}
