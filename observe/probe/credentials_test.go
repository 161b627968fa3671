package probe

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
)

// wants is the word of a SOCKS5 proxy that wants to know who asks.
const wants = "\x05\x02"

func TestProxyThatWantsCredentials(t *testing.T) {
	const (
		plain  = "http://far.example/generate_204?x=1"
		secure = "https://far.example:8443/"
	)
	for _, c := range []struct {
		what, app, url string
		words          []string
		fails          string // part of the error; "" = none
	}{
		{"SOCKS5 greets", spec.AppSOCKS5, "", []string{wants, "\x01\x00"}, ""},
		{"Mixed greets", spec.AppMixed, "", []string{wants, "\x01\x00"}, ""},
		{"SOCKS5 refuses them", spec.AppSOCKS5, "", []string{wants, "\x01\x01"}, "refuses the credentials"},
		{"SOCKS5 wants none", spec.AppSOCKS5, "", []string{refuses}, "takes no user name"},
		{"SOCKS5 lets anybody in", spec.AppSOCKS5, "", []string{agrees}, "no SOCKS5"},
		{"SOCKS5 answers them in another version", spec.AppSOCKS5, "", []string{wants, "\x05\x00"}, "no SOCKS5"},
		{"SOCKS5 hangs up on them", spec.AppSOCKS5, "", []string{wants, "\x01"}, "ended early"},
		{"bytes through SOCKS5", spec.AppSOCKS5, plain, []string{wants, "\x01\x00", way, "HTTP/1.1 204 No Content\r\n\r\n"}, ""},
		{"no way for who is refused", spec.AppSOCKS5, plain, []string{wants, "\x01\xff"}, "refuses the credentials"},
		{"no way where none are wanted", spec.AppSOCKS5, plain, []string{refuses}, "takes no user name"},

		{"HTTP greets", spec.AppHTTP, "", []string{"HTTP/1.1 400 Bad Request\r\n\r\n"}, ""},
		{"HTTP refuses them", spec.AppHTTP, "", []string{"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"}, "refuses the credentials"},
		{"bytes through HTTP", spec.AppHTTP, plain, []string{"HTTP/1.1 204 No Content\r\n\r\n"}, ""},
		{"HTTP refuses them for a url", spec.AppHTTP, plain, []string{"HTTP/1.1 407 X\r\n\r\n"}, "refuses the credentials"},
		{"CONNECT refuses them", spec.AppHTTP, secure, []string{"HTTP/1.1 407 X\r\n\r\n"}, "refuses the credentials"},
		{"no TLS behind CONNECT", spec.AppHTTP, secure, []string{"HTTP/1.1 200 OK\r\n\r\n", "hello, I speak no TLS at all\r\n"}, "TLS with"},
	} {
		t.Run(c.what, func(t *testing.T) {
			tape := &tape{in: strings.NewReader(strings.Join(c.words, ""))}
			who := &Credentials{"admin", []byte("hunter2")}
			err := ViaProxy(tape, c.app, c.url, who)
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails) || NotRun(err)) {
				t.Errorf("got %v, want %q", err, c.fails)
			}
			sent := tape.out.String()
			switch {
			case c.app == spec.AppHTTP && strings.Count(sent, "\r\nProxy-Authorization: Basic YWRtaW46aHVudGVyMg==\r\n") != 1:
				t.Errorf("the proxy is not told once who asks: %q", sent)
			case c.app != spec.AppHTTP && !strings.HasPrefix(sent, "\x05\x01\x02"):
				t.Errorf("the proxy is offered another way than with credentials: %q", sent)
			case c.app != spec.AppHTTP && c.words[0] == wants && !strings.HasPrefix(sent[3:], "\x01\x05admin\x07hunter2"):
				t.Errorf("the proxy is told %q", sent[3:])
			case c.app != spec.AppHTTP && c.words[0] != wants && strings.Contains(sent, "hunter2"):
				t.Errorf("a proxy that did not ask is told the password: %q", sent)
			case c.app != spec.AppHTTP && strings.Contains(sent, "Proxy-Authorization"):
				t.Errorf("what is behind the proxy is told who asks: %q", sent)
			}
			if string(who.Password) != "hunter2" {
				t.Errorf("the password was changed to %q", who.Password)
			}
		})
	}
}

// What a proxy cannot be told is no failure of it, and nothing is sent.
func TestCredentialsThatCannotBeTold(t *testing.T) {
	long := []byte(strings.Repeat("a", loginLimit+1))
	for _, c := range []struct {
		who    Credentials
		app    string
		notRun bool
	}{
		{Credentials{"admin", long}, spec.AppSOCKS5, true},
		{Credentials{string(long), []byte("b")}, spec.AppMixed, true},
		{Credentials{"admin", nil}, spec.AppSOCKS5, true},
		{Credentials{"", []byte("b")}, spec.AppSOCKS5, true},
		{Credentials{"admin", long[:loginLimit]}, spec.AppSOCKS5, false},
		{Credentials{"admin", long}, spec.AppHTTP, false},
	} {
		tape := &tape{in: bytes.NewReader(nil)}
		err := ViaProxy(tape, c.app, "", &c.who)
		if NotRun(err) != c.notRun || c.notRun && tape.out.Len() > 0 {
			t.Errorf("%d and %d bytes for %s: %v, and %d were sent", len(c.who.Username), len(c.who.Password), c.app, err, tape.out.Len())
		}
	}
}

// Without the secret nothing is asked here: that is for whoever has it.
func TestCheckHasNoSecrets(t *testing.T) {
	e := serve(t, func(c net.Conn) {
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("%d bytes were sent", n)
		}
	})
	e.AppProtocol = spec.AppSOCKS5
	p := &spec.LaunchProbe{Proxy: &spec.ProxyProbe{Endpoint: e.Name, BasicAuth: &spec.HTTPBasicAuth{Username: "admin", Password: spec.MarkSecret("a/b")}}}
	if err := (Checker{}).Check(t.Context(), e, p); !NotRun(err) {
		t.Errorf("got %v", err)
	}
}

// A password that is refused by a broken connection is told as that, and with no word of it.
func TestProxyThatHangsUp(t *testing.T) {
	near, far := net.Pipe()
	go func() {
		b := make([]byte, 3)
		_, _ = far.Read(b)
		far.Close()
	}()
	defer near.Close()
	if err := near.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	err := ViaProxy(near, spec.AppSOCKS5, "", &Credentials{"admin", []byte("hunter2")})
	if err == nil || errors.Is(err, errRefuses) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}
