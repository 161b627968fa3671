package probe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
)

// scripted answers the nth thing that it reads with the nth word.
func scripted(words ...string) func(net.Conn) {
	return func(c net.Conn) {
		buffer := make([]byte, 4096)
		for _, w := range words {
			if _, err := c.Read(buffer); err != nil {
				return
			}
			if _, err := io.WriteString(c, w); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, c) // until the asker goes
	}
}

const (
	agrees  = "\x05\x00"
	refuses = "\x05\xff"
	way     = "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
)

func TestProxy(t *testing.T) {
	const (
		plain  = "http://far.example/generate_204?x=1"
		secure = "https://far.example:8443/"
	)
	for _, c := range []struct {
		what, app, url string
		talk           func(net.Conn)
		fails          string // part of the error; "" = none
	}{
		{"SOCKS5 greets", spec.AppSOCKS5, "", scripted(agrees), ""},
		{"Mixed greets", spec.AppMixed, "", scripted(agrees), ""},
		{"SOCKS5 that wants credentials greets", spec.AppSOCKS5, "", scripted(refuses), ""},
		{"SOCKS4", spec.AppSOCKS5, "", scripted("\x04\x00"), "no SOCKS5"},
		{"a method that was not offered", spec.AppSOCKS5, "", scripted("\x05\x02"), "no SOCKS5"},
		{"HTTP where SOCKS5 is awaited", spec.AppSOCKS5, "", scripted("HTTP/1.1 400 Bad Request\r\n\r\n"), "no SOCKS5"},
		{"half a greeting", spec.AppSOCKS5, "", func(c net.Conn) { _, _ = c.Write([]byte{5}) }, "ended early"},
		{"no greeting", spec.AppSOCKS5, "", func(net.Conn) {}, "ended early"},

		{"bytes through SOCKS5", spec.AppSOCKS5, plain, scripted(agrees, way, "HTTP/1.1 204 No Content\r\n\r\n"), ""},
		{"a redirect through it", spec.AppSOCKS5, plain, scripted(agrees, way, "HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n"), ""},
		{"a way with a name", spec.AppSOCKS5, plain, scripted(agrees, "\x05\x00\x00\x03\x03abc\x00\x50", "HTTP/1.0 200\r\n\r\n"), ""},
		{"a way with an IPv6 address", spec.AppSOCKS5, plain, scripted(agrees, "\x05\x00\x00\x04"+strings.Repeat("\x00", 18), "HTTP/1.1 200 OK\r\n\r\n"), ""},
		{"a failure behind it", spec.AppSOCKS5, plain, scripted(agrees, way, "HTTP/1.1 503 Service Unavailable\r\n\r\n"), "status 503"},
		{"no way", spec.AppSOCKS5, plain, scripted(agrees, "\x05\x04\x00\x01\x00\x00\x00\x00\x00\x00"), "host unreachable"},
		{"no way for another reason", spec.AppSOCKS5, plain, scripted(agrees, "\x05\x77\x00\x01\x00\x00\x00\x00\x00\x00"), "code 119"},
		{"a way that wants credentials", spec.AppSOCKS5, plain, scripted(refuses), "credentials"},
		{"a way of another version", spec.AppSOCKS5, plain, scripted(agrees, "\x04\x00\x00\x01\x00\x00\x00\x00\x00\x00"), "no SOCKS5"},
		{"a way with an address of no kind", spec.AppSOCKS5, plain, scripted(agrees, "\x05\x00\x00\x09\x00\x00\x00\x00\x00\x00"), "no SOCKS5"},
		{"a way that answers no HTTP", spec.AppSOCKS5, plain, scripted(agrees, way, "SSH-2.0-x\r\n"), "no HTTP"},
		{"a head without an end", spec.AppSOCKS5, plain, scripted(agrees, way, "HTTP/1.1 200 OK\r\n"+strings.Repeat("a: b\r\n", headLimit)), "longer than"},
		{"a line without an end", spec.AppSOCKS5, plain, scripted(agrees, way, strings.Repeat("a", 4*headLimit)), "no HTTP"},

		{"HTTP greets", spec.AppHTTP, "", scripted("HTTP/1.1 200 OK\r\n\r\n"), ""},
		{"HTTP refuses, and greets", spec.AppHTTP, "", scripted("HTTP/1.1 400 Bad Request\r\n\r\n"), ""},
		{"HTTP wants credentials, and greets", spec.AppHTTP, "", scripted("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"), ""},
		{"SOCKS5 where HTTP is awaited", spec.AppHTTP, "", scripted("\x05\xff\r\n"), "no HTTP"},
		{"bytes through HTTP", spec.AppHTTP, plain, scripted("HTTP/1.1 204 No Content\r\n\r\n"), ""},
		{"HTTP without an upstream", spec.AppHTTP, plain, scripted("HTTP/1.1 502 Bad Gateway\r\n\r\n"), "status 502"},
		{"CONNECT that wants credentials", spec.AppHTTP, secure, scripted("HTTP/1.1 407 X\r\n\r\n"), "credentials"},
		{"CONNECT that is refused", spec.AppHTTP, secure, scripted("HTTP/1.1 403 Forbidden\r\n\r\n"), "CONNECT with status 403"},
		{"no TLS behind CONNECT", spec.AppHTTP, secure, scripted("HTTP/1.1 200 OK\r\n\r\n", "hello, I speak no TLS at all\r\n"), "TLS with"},

		{"a port that is none", spec.AppSOCKS5, "http://a:99999/", scripted(), "port"},
		{"a host that is too long", spec.AppSOCKS5, "http://" + strings.Repeat("a", 256) + "/", scripted(), "255"},
	} {
		t.Run(c.what, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			e := serve(t, c.talk)
			e.AppProtocol = c.app
			err := Checker{}.Check(ctx, e, &spec.LaunchProbe{Proxy: &spec.ProxyProbe{Endpoint: e.Name, URL: c.url}})
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("got %v, want %q", err, c.fails)
			}
		})
	}
}

func TestProxyThatIsSilent(t *testing.T) {
	hold := make(chan struct{})
	e := serve(t, func(net.Conn) { <-hold })
	t.Cleanup(func() { close(hold) })
	for _, app := range []string{spec.AppHTTP, spec.AppSOCKS5} {
		e.AppProtocol = app
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := Checker{}.Check(ctx, e, &spec.LaunchProbe{Proxy: &spec.ProxyProbe{}})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || NotRun(err) {
			t.Errorf("%s: %v, want a failure: its time was over", app, err)
		}
	}
}

// relay is a SOCKS5 and CONNECT proxy for one connection at a time, whose every way leads to one place.
func relay(t *testing.T, to string, asked chan<- string) func(net.Conn) {
	return func(c net.Conn) {
		in := bufio.NewReader(c)
		first, err := in.Peek(1)
		if err != nil {
			return
		}
		if first[0] == socksVersion {
			head := make([]byte, 3+4)
			if _, err := io.ReadFull(in, head[:3]); err != nil {
				return
			}
			_, _ = io.WriteString(c, agrees)
			if _, err := io.ReadFull(in, head[3:]); err != nil {
				return
			}
			rest := map[byte]int{socksIPv4: 4, socksIPv6: 16}[head[6]]
			if head[6] == socksName {
				n, err := in.ReadByte()
				if err != nil {
					return
				}
				rest = int(n)
			}
			address := make([]byte, rest+2)
			if _, err := io.ReadFull(in, address); err != nil {
				return
			}
			asked <- string(address[:rest])
			_, _ = io.WriteString(c, way)
		} else {
			request, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			asked <- request.Method + " " + request.RequestURI
			_, _ = io.WriteString(c, "HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n")
		}
		far, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer far.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(far, in)
			far.Close()
		}()
		_, _ = io.Copy(c, far)
		_ = c.(*net.TCPConn).CloseWrite() // the asker may be gone
		<-done
	}
}

// Through a real way, TLS included: the name goes to the proxy, and a certificate that nobody vouches for is refused unless the
// host is this one.
func TestProxyToARealHost(t *testing.T) {
	seen := make(chan string, 4)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Host + r.URL.RequestURI()
		w.WriteHeader(http.StatusNoContent)
	})
	plain := httptest.NewServer(handler)
	secure := httptest.NewUnstartedServer(handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	for _, c := range []struct {
		what, app, url, to string
		asked, seen, fails string
	}{
		{"SOCKS5", spec.AppSOCKS5, "http://far.example/a?b=c", plain.Listener.Addr().String(), "far.example", "far.example:80/a?b=c", ""},
		{"SOCKS5 to an address", spec.AppMixed, "http://192.0.2.1/", plain.Listener.Addr().String(), "\xc0\x00\x02\x01", "192.0.2.1:80/", ""},
		{"SOCKS5 with TLS", spec.AppSOCKS5, "https://127.0.0.1/x", secure.Listener.Addr().String(), "\x7f\x00\x00\x01", "127.0.0.1:443/x", ""},
		{"CONNECT with TLS", spec.AppHTTP, "https://[::1]:8443", secure.Listener.Addr().String(), "CONNECT [::1]:8443", "[::1]:8443/", ""},
		{"a stranger's certificate", spec.AppSOCKS5, "https://far.example/", secure.Listener.Addr().String(), "far.example", "", "certificate"},
	} {
		t.Run(c.what, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			asked := make(chan string, 1)
			e := serve(t, relay(t, c.to, asked))
			e.AppProtocol = c.app
			err := Checker{}.Check(ctx, e, &spec.LaunchProbe{Proxy: &spec.ProxyProbe{URL: c.url}})
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Fatalf("got %v, want %q", err, c.fails)
			}
			if got := <-asked; got != c.asked {
				t.Errorf("the proxy was asked for %q, want %q", got, c.asked)
			}
			got := ""
			if c.seen != "" {
				got = <-seen
			}
			if got != c.seen || len(seen) > 0 {
				t.Errorf("the host was asked for %q, want %q, and %d more", got, c.seen, len(seen))
			}
		})
	}
}

func FuzzProxy(f *testing.F) {
	f.Add([]byte(agrees+way+"HTTP/1.1 204 No Content\r\n\r\n"), true, "http://far.example/", "")
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n\x16\x03\x01"), false, "https://far.example/", "")
	f.Add([]byte("HTTP/1.1 400 \r\n"), false, "", "")
	f.Add([]byte(wants+"\x01\x00"+way+"HTTP/1.1 204 No Content\r\n\r\n"), true, "http://far.example/", "secret")
	f.Add([]byte(wants+"\x01"), true, "", "secret")
	f.Add([]byte("HTTP/1.1 407 X\r\n\r\n"), false, "http://far.example/", "secret")
	f.Fuzz(func(t *testing.T, data []byte, socks bool, url, password string) {
		var who *Credentials
		if password != "" {
			who = &Credentials{"admin", []byte(password)}
		}
		app := spec.AppHTTP
		if socks {
			app = spec.AppSOCKS5
		}
		_ = ViaProxy(&tape{in: bytes.NewReader(data)}, app, url, who) // it ends, and nothing panics
	})
}

// tape is a connection that plays what is on it and takes whatever is written.
type tape struct {
	net.Conn
	in  io.Reader
	out bytes.Buffer
}

func (c *tape) Read(b []byte) (int, error)       { return c.in.Read(b) }
func (c *tape) Write(b []byte) (int, error)      { return c.out.Write(b) }
func (c *tape) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (c *tape) Close() error                     { return nil }
func (c *tape) SetDeadline(time.Time) error      { return nil }
func (c *tape) SetWriteDeadline(time.Time) error { return nil }

func TestCount(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	mumble := &spec.LaunchPlayers{Query: &spec.Query{Protocol: "Mumble"}}
	pong := func(b []byte) [][]byte {
		return [][]byte{append(append([]byte{0, 1, 2, 3}, b[4:]...), 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 0)}
	}
	if n, err := (Checker{}).Count(ctx, serveUDP(t, pong), mumble); n != 5 || err != nil {
		t.Errorf("got %d, %v; want 5", n, err)
	}
	full := serve(t, scripted("\x03\x00\x00"))
	if _, err := (Checker{}).Count(ctx, full, &spec.LaunchPlayers{Query: &spec.Query{Protocol: "OpenTTD"}}); !errors.Is(err, ErrUntold) {
		t.Errorf("got %v, want a server that does not tell", err)
	}
	if _, err := (Checker{}).Count(ctx, full, mumble); err == nil {
		t.Error("Mumble was asked over TCP")
	}
	if err := (Checker{}).Check(ctx, serve(t, scripted("\x03\x00\x00")), &spec.LaunchProbe{Query: &spec.Query{Protocol: "OpenTTD"}}); err != nil {
		t.Errorf("a full server is there: %v", err)
	}
}
