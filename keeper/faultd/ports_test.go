package faultd

import (
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// address is the last word of a line.
func address(line string) string { return line[strings.LastIndex(line, " ")+1:] }

// get asks over a connection of its own.
func get(t *testing.T, addr string) (int, error) {
	t.Helper()
	c := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get("http://" + addr)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return r.StatusCode, err
}

func TestRunServes(t *testing.T) {
	w := start(t, "run", "-addr", "127.0.0.1:0")
	addr := address(w.expect("listening "))
	w.expect("ready")
	if code, err := get(t, addr); code != http.StatusOK {
		t.Errorf("answered %d, %v", code, err)
	}
}

func TestLatePort(t *testing.T) {
	w := start(t, "late-port", "-after", "10ms")
	w.expect("starting")
	if code, err := get(t, address(w.expect("listening tcp "))); code != http.StatusOK {
		t.Errorf("answered %d, %v", code, err)
	}
	w.signal(syscall.SIGTERM)
	w.wantExit(0)

	w = start(t, "late-port", "-after", "1h")
	w.expect("starting")
	w.signal(syscall.SIGTERM)
	w.wantExit(0)
}

func TestLatePortOverUDP(t *testing.T) {
	w := start(t, "late-port", "-udp", "-after", "0s")
	c, err := net.Dial("udp", address(w.expect("listening udp ")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := make([]byte, 16)
	if _, err := c.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(b); err != nil || string(b[:n]) != "ping" {
		t.Errorf("echoed %q, %v", b[:n], err)
	}
}

func TestPortThatIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := start(t, "late-port", "-after", "0s", "-addr", l.Addr().String())
	w.wantExit(ExitFailure)
	if !strings.HasPrefix(w.stderr.String(), "faultd: ") {
		t.Errorf("standard error is %q", w.stderr)
	}
}

func TestUnready(t *testing.T) {
	w := start(t, "unready", "-after", "50ms", "-recover", "50ms")
	addr := address(w.expect("ready "))
	w.expect("unready", "ready again")
	if code, err := get(t, addr); code != http.StatusOK {
		t.Errorf("answered %d, %v", code, err)
	}

	w = start(t, "unready", "-after", "0s")
	addr = address(w.expect("ready "))
	w.expect("unready")
	if code, err := get(t, addr); code != http.StatusServiceUnavailable {
		t.Errorf("answered %d, %v", code, err)
	}

	w = start(t, "unready", "-after", "0s", "-mode", "close")
	addr = address(w.expect("ready "))
	w.expect("unready")
	if code, err := get(t, addr); err == nil {
		t.Errorf("a closed port answered %d", code)
	}

	w = start(t, "unready", "-after", "0s", "-mode", "close", "-recover", "1ms")
	addr = address(w.expect("ready "))
	w.expect("ready again")
	if code, err := get(t, addr); code != http.StatusOK {
		t.Errorf("answered %d, %v", code, err)
	}

	w = start(t, "unready", "-mode", "wrong")
	w.wantExit(ExitFailure)
}

func TestUnreadyHangs(t *testing.T) {
	w := start(t, "unready", "-after", "0s", "-mode", "hang")
	c, err := net.Dial("tcp", address(w.expect("ready ")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w.expect("unready")
	if _, err := io.WriteString(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	w.signal(syscall.SIGTERM)
	w.wantExit(0)
	if b, _ := io.ReadAll(c); len(b) > 0 {
		t.Errorf("answered %q", b)
	}
}

func TestRCON(t *testing.T) {
	w := start(t, "rcon", "-code", "9", "-password", "pw")
	c, err := net.Dial("tcp", address(w.expect("rcon listening ")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func(id, kind int32, body string) rconPacket {
		t.Helper()
		if _, err := c.Write(rconPacket{id, kind, body}.bytes()); err != nil {
			t.Fatal(err)
		}
		p, err := readRCON(c)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, s := range []struct {
		id, kind int32
		body     string
		want     rconPacket
	}{
		{1, rconCommand, "stop", rconPacket{-1, rconLoggedIn, ""}},
		{2, rconLogin, "wrong", rconPacket{-1, rconLoggedIn, ""}},
		{3, rconLogin, "pw", rconPacket{3, rconLoggedIn, ""}},
		{4, rconCommand, "list", rconPacket{4, rconReply, "you said list"}},
		{5, rconCommand, "stop", rconPacket{5, rconReply, "stopping"}},
	} {
		if got := ask(s.id, s.kind, s.body); got != s.want {
			t.Errorf("%q: answered %+v, want %+v", s.body, got, s.want)
		}
	}
	w.expect("stopping")
	w.wantExit(9)
}
