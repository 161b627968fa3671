package faultd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// dial connects to what a workload says it listens on.
func dial(t *testing.T, w *workload, network, kind string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, address(w.expect(kind+" listening ")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestTelnet(t *testing.T) {
	w := start(t, "telnet", "-password", "pw", "-code", "4")
	c := dial(t, w, "tcp", "telnet")
	in := bufio.NewReader(c)
	for _, s := range []struct{ say, want string }{
		{"", "Enter password:"}, {"no", "Wrong password 1/3."}, {"", "Enter password:"}, {"pw", "Authentication successful. External console access granted."},
		{"status", "you said status"}, {"stop", "stopping"},
	} {
		if s.say != "" {
			fmt.Fprintf(c, "%s\r\n", s.say)
		}
		if got, err := in.ReadString('\n'); err != nil || trimNewline(got) != s.want {
			t.Fatalf("to %q it says %q, %v", s.say, got, err)
		}
	}
	w.expect("telnet refused a login", "telnet logged in", `telnet was told "status"`, `telnet was told "stop"`, "stopping")
	w.wantExit(4)
}

func TestQuake(t *testing.T) {
	w := start(t, "quakercon", "-password", "pw")
	c := dial(t, w, "udp", "quakercon")
	for _, s := range []struct{ say, want string }{{"no status", "Bad rconpassword."}, {"pw say a b", "you said say a b"}, {"pw stop", "stopping"}} {
		fmt.Fprintf(c, "%s%s", quakeAsks, s.say)
		b := make([]byte, 1000)
		if n, err := c.Read(b); err != nil || string(b[:n]) != quakePrints+s.want+"\n" {
			t.Fatalf("to %q it says %q, %v", s.say, b[:n], err)
		}
	}
	w.wantExit(0)
}

// masked is a client's frame whose mask is zero.
func masked(opcode byte, payload []byte) []byte {
	b := append([]byte{0x80 | opcode, 0x80 | byte(len(payload))}, 0, 0, 0, 0)
	return append(b, payload...)
}

func TestWebRCON(t *testing.T) {
	w := start(t, "webrcon", "-password", "pw")
	c := dial(t, w, "tcp", "webrcon")
	fmt.Fprint(c, "GET /pw HTTP/1.1\r\nHost: x\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	in := bufio.NewReader(c)
	r, err := http.ReadResponse(in, nil)
	// The key and its answer are RFC 6455's own example.
	if err != nil || r.StatusCode != 101 || r.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := c.Write(append(masked(wsPing, []byte("p")), masked(wsText, []byte(`{"Identifier":7,"Message":"stop"}`))...)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 3)
	if _, err := io.ReadFull(in, b); err != nil || !bytes.Equal(b, []byte{0x80 | wsPong, 1, 'p'}) {
		t.Fatalf("the pong is %v, %v", b, err)
	}
	b = make([]byte, 2)
	if _, err := io.ReadFull(in, b); err != nil {
		t.Fatal(err)
	}
	var said webRCONText
	if err := json.NewDecoder(io.LimitReader(in, int64(b[1]))).Decode(&said); err != nil || said.Identifier != 7 || said.Message != "stopping" {
		t.Fatalf("it says %+v, %v", said, err)
	}
	w.wantExit(0)

	w = start(t, "webrcon", "-password", "pw")
	c = dial(t, w, "tcp", "webrcon")
	fmt.Fprint(c, "GET /no HTTP/1.1\r\nHost: x\r\n\r\n")
	if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
		t.Errorf("a wrong password is answered with %q, %v", b, err)
	}
}

func FuzzReadWSFrame(f *testing.F) {
	f.Add(masked(wsText, []byte("x")))
	f.Add([]byte{0x81, 0xFE, 0xFF, 0xFF, 0, 0, 0, 0})
	f.Add([]byte{0x81, 0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 7})
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, payload, err := readWSFrame(bytes.NewReader(b)); err == nil && len(payload) > wsLimit {
			t.Errorf("%d bytes", len(payload))
		}
	})
}

func TestREST(t *testing.T) {
	w := start(t, "rest", "-password", "pw")
	base := "http://" + address(w.expect("rest listening "))
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, s := range []struct {
		path, password, line string
		status               int
		want                 string
	}{{"/say", "no", "x", 401, "unauthorized\n"}, {"/other", "pw", "x", 404, "404 page not found\n"}, {"/say", "pw", "hello", 200, "you said hello"}, {"/say", "pw", "stop", 200, "stopping"}} {
		q, err := http.NewRequest("POST", base+s.path, strings.NewReader(s.line))
		if err != nil {
			t.Fatal(err)
		}
		q.SetBasicAuth("admin", s.password)
		r, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, len(s.want))
		_, err = io.ReadFull(r.Body, b) // it may end before the end of the body is written
		r.Body.Close()
		if err != nil || r.StatusCode != s.status || string(b) != s.want {
			t.Errorf("%+v: %d %q, %v", s, r.StatusCode, b, err)
		}
	}
	w.wantExit(0)
}

// What every server does in each mode, before anybody has logged in.
func TestRemoteModes(t *testing.T) {
	for _, kind := range []string{"rcon", "telnet", "webrcon", "rest"} {
		w := start(t, kind, "-mode", modeLockout)
		if n, err := dial(t, w, "tcp", kind).Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("%s: a client that is locked out reads %d, %v", kind, n, err)
		}
		w = start(t, kind, "-mode", modeGarbage)
		b := make([]byte, 4)
		if _, err := io.ReadFull(dial(t, w, "tcp", kind), b); err != nil || string(b) != "\xde\xad\xbe\xef" {
			t.Errorf("%s: garbage is %q, %v", kind, b, err)
		}
		w = start(t, kind, "-mode", modeSilent)
		c := dial(t, w, "tcp", kind)
		fmt.Fprint(c, "hello")
		c.Close()
		w.expect(kind + " was sent 5 bytes")
	}
	w := start(t, "telnet", "-mode", "no-such-mode")
	w.wantExit(ExitFailure)
}

// A line can be answered for ever, by the end of the connection, or not at all.
func TestRemoteAnswers(t *testing.T) {
	for mode, want := range map[string]string{modeHuge: "xxxx", modeHangUp: ""} {
		w := start(t, "telnet", "-password", "", "-mode", mode)
		c := dial(t, w, "tcp", "telnet")
		fmt.Fprint(c, "hello\r\n")
		b := make([]byte, 4)
		n, err := io.ReadFull(c, b)
		if string(b[:n]) != want || want == "" && err == nil {
			t.Errorf("%s: %q, %v", mode, b[:n], err)
		}
	}
	w := start(t, "telnet", "-password", "", "-mode", modeMute)
	fmt.Fprint(dial(t, w, "tcp", "telnet"), "hello\r\nstop\r\n")
	w.expect(`telnet was told "hello"`, "stopping")
	w.wantExit(0)
}
