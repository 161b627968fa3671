package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reconciler.dev/reconciler/keeper/secret"
)

// peerOf is where a server of net/http listens.
func peerOf(t *testing.T, s *httptest.Server) Peer {
	t.Helper()
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return Peer{Address: netip.MustParseAddrPort(u.Host)}
}

func header(name, value string) Header { return Header{name, secret.New([]byte(value))} }

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	user, pass, ok := r.BasicAuth()
	fmt.Fprintf(w, "%s %s %s\nauth %v %s:%s\nX=%s\nbody=%s\nerr=%v\nhost=%v\nagent=%s\nlength=%d close=%v", r.Method, r.URL.RequestURI(), r.Proto, ok, user, pass, r.Header.Get("X-Key"), body, err, r.Host != "", r.UserAgent(), r.ContentLength, r.Close)
}

func TestHTTPRequest(t *testing.T) {
	peer := peerOf(t, httptest.NewServer(http.HandlerFunc(echo)))
	encrypted := peerOf(t, httptest.NewTLSServer(http.HandlerFunc(echo)))
	for name, c := range map[string]struct {
		peer    Peer
		request Request
		want    string
	}{
		"the smallest": {peer, Request{}, "GET / HTTP/1.1\nauth false :\nX=\nbody=\nerr=<nil>\nhost=true\nagent=reconciler\nlength=0 close=true"},
		"all of it": {peer, Request{Method: "POST", Path: "/v1/api/shutdown?x=a%20b", Headers: []Header{header("X-Key", "tok-12"), header("User-Agent", "u")}, Body: "{\"größe\": 1}\r\n",
			Username: "admin", Password: password()},
			"POST /v1/api/shutdown?x=a%20b HTTP/1.1\nauth true admin:[secret]\nX=tok-12\nbody={\"größe\": 1}\n\nerr=<nil>\nhost=true\nagent=u\nlength=16 close=true"},
		"no body":             {peer, Request{Method: "PUT", Path: "/x"}, "PUT /x HTTP/1.1\nauth false :\nX=\nbody=\nerr=<nil>\nhost=true\nagent=reconciler\nlength=0 close=true"},
		"a secret in a field": {peer, Request{Headers: []Header{header("X-Key", "Bearer tok")}, Secrets: []secret.Value{secret.New([]byte("tok"))}}, "GET / HTTP/1.1\nauth false :\nX=Bearer [secret]\nbody=\nerr=<nil>\nhost=true\nagent=reconciler\nlength=0 close=true"},
		"encrypted":           {encrypted, Request{TLS: true, Method: "DELETE"}, "DELETE / HTTP/1.1\nauth false :\nX=\nbody=\nerr=<nil>\nhost=true\nagent=reconciler\nlength=0 close=true"},
	} {
		t.Run(name, func(t *testing.T) {
			o := HTTP(within(t, patience), c.peer, c.request)
			mustBe(t, o, Done, "")
			if o.Reply != c.want || o.Status != 200 || o.Truncated {
				t.Errorf("status %d, truncated %v, reply %q, not %q", o.Status, o.Truncated, o.Reply, c.want)
			}
		})
	}
	told := peerOf(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization")) // the client may leave
	})))
	if o := HTTP(within(t, patience), told, Request{Username: "admin", Password: password()}); o.Reply != "Basic [secret]" {
		t.Errorf("the authorization is shown as %q", o.Reply)
	}
	mustBe(t, HTTP(within(t, patience), peer, Request{TLS: true}), Undeliverable, Protocol)
	mustBe(t, HTTP(within(t, patience), encrypted, Request{}), HandedOver, BadStatus) // net/http says 400
}

func TestHTTPStatus(t *testing.T) {
	var status int
	peer := peerOf(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	})))
	for _, status = range []int{200, 201, 204, 299, 300, 302, 304, 399, 400, 401, 404, 499, 500, 503, 599} {
		o := HTTP(within(t, patience), peer, Request{})
		if status < 400 {
			mustBe(t, o, Done, "")
		} else {
			mustBe(t, o, HandedOver, BadStatus)
		}
		if o.Status != status {
			t.Errorf("status %d is read as %d", status, o.Status)
		}
	}
}

func TestHTTPResponses(t *testing.T) {
	big := strings.Repeat("x", HTTPReplyLimit)
	for name, c := range map[string]struct {
		response  string
		result    Result
		reason    Reason
		status    int
		text      string
		truncated bool
	}{
		"with a length":           {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokmore", Done, "", 200, "ok", false},
		"to the end":              {"HTTP/1.0 200\r\n\r\nok", Done, "", 200, "ok", false},
		"bare newlines":           {"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", Done, "", 200, "ok", false},
		"chunked":                 {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n", Done, "", 200, "ok0123456789", false},
		"no content":              {"HTTP/1.1 204 No Content\r\n\r\n", Done, "", 204, "", false},
		"interim ones before":     {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", Done, "", 201, "", false},
		"a redirect":              {"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", Done, "", 302, "", false},
		"not allowed":             {"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno", HandedOver, BadStatus, 401, "no", false},
		"a body too large":        {"HTTP/1.1 200 OK\r\n\r\n" + big + "x", Done, "", 200, big[:ReplyLimit], true},
		"a length too large":      {"HTTP/1.1 200 OK\r\nContent-Length: 9000000000\r\n\r\n" + big + big, Done, "", 200, big[:ReplyLimit], true},
		"an end in the body":      {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", Done, "", 200, "ok", true},
		"an end in a chunk":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok", Done, "", 200, "ok", true},
		"an end before the last":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", Done, "", 200, "ok", true},
		"an end instead":          {"", HandedOver, NoReply, 0, "", false},
		"an end in the status":    {"HTTP/1.1 20", Indeterminate, Closed, 0, "", false},
		"an end in the header":    {"HTTP/1.1 200 OK\r\nContent-", Indeterminate, Closed, 0, "", false},
		"no HTTP":                 {"SSH-2.0-x\r\n", Indeterminate, Protocol, 0, "", false},
		"HTTP/2":                  {"HTTP/2 200\r\n\r\n", Indeterminate, Protocol, 0, "", false},
		"a status of two digits":  {"HTTP/1.1 20 OK\r\n\r\n", Indeterminate, Protocol, 0, "", false},
		"a status of four":        {"HTTP/1.1 2000 OK\r\n\r\n", Indeterminate, Protocol, 0, "", false},
		"a status of 999":         {"HTTP/1.1 999 OK\r\n\r\n", Indeterminate, Protocol, 0, "", false},
		"another protocol":        {"HTTP/1.1 101 Switching\r\n\r\n", Indeterminate, Protocol, 0, "", false},
		"interim ones for ever":   {strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20), Indeterminate, Protocol, 0, "", false},
		"a header too long":       {"HTTP/1.1 200 OK\r\nX: " + big + "\r\n\r\n", Indeterminate, Protocol, 0, "", false},
		"a field without a colon": {"HTTP/1.1 200 OK\r\nfoo\r\n\r\n", Indeterminate, Protocol, 0, "", false},
		"a field that goes on":    {"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", Indeterminate, Protocol, 0, "", false},
		"two lengths":             {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", HandedOver, Protocol, 200, "", false},
		"a length and chunks":     {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", HandedOver, Protocol, 200, "", false},
		"a negative length":       {"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", HandedOver, Protocol, 200, "", false},
		"an unknown coding":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok", HandedOver, Protocol, 200, "", false},
		"a bad chunk":             {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+2\r\nok\r\n", HandedOver, Protocol, 200, "", false},
		"a chunk too long":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n", HandedOver, Protocol, 200, "", false},
		"a chunk of 2^64":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\nok", HandedOver, Protocol, 200, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			peer := serve(t, func(conn net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					t.Error(err)
				}
				_, _ = io.WriteString(conn, c.response) // the client may be gone
			})
			o := HTTP(within(t, patience), peer, Request{})
			mustBe(t, o, c.result, c.reason)
			if o.Status != c.status || o.Reply != c.text || o.Truncated != c.truncated {
				t.Errorf("status %d, truncated %v, reply %.100q", o.Status, o.Truncated, o.Reply)
			}
		})
	}
}

func TestHTTPReset(t *testing.T) {
	peer := serve(t, func(c net.Conn) { reset(t, c) })
	mustBe(t, HTTP(within(t, patience), peer, Request{}), Indeterminate, Closed)
}

func TestHTTPTimes(t *testing.T) {
	for name, c := range map[string]struct {
		response string
		result   Result
		reason   Reason
	}{
		"no response":     {"", HandedOver, NoReply},
		"half a header":   {"HTTP/1.1 200 OK\r\n", HandedOver, NoReply},
		"half a body":     {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", Done, ""},
		"half a bad body": {"HTTP/1.1 500 X\r\nContent-Length: 5\r\n\r\nok", HandedOver, BadStatus},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				began := time.Now()
				o := piped(t, ctx, "", func(conn net.Conn) {
					if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
						t.Error(err)
					}
					_, _ = io.WriteString(conn, c.response) // the client may be gone
					listen(conn)
				}, func(conv *conversation) Outcome {
					o, _ := conv.http("127.0.0.1:1", true, Request{})
					return o
				})
				mustBe(t, o, c.result, c.reason)
				if took := time.Since(began); took != 10*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestHTTPRefuses(t *testing.T) {
	peer := serve(t, func(c net.Conn) {
		if b, _ := io.ReadAll(c); len(b) > 0 { // its end is meant
			t.Errorf("the server gets %q", b)
		}
	})
	for name, r := range map[string]Request{
		"a method":            {Method: "TRACE"},
		"a method with more":  {Method: "GET / HTTP/1.1\r\nX:"},
		"a relative path":     {Path: "x"},
		"a space":             {Path: "/a b"},
		"a line end":          {Path: "/a\r\nX: y"},
		"a fragment":          {Path: "/a#b"},
		"no ASCII":            {Path: "/größe"},
		"a colon in the user": {Username: "a:b"},
		"a line in the user":  {Username: "a\nb"},
		"a name that is none": {Headers: []Header{header("X Y", "1")}},
		"a name of nothing":   {Headers: []Header{header("", "1")}},
		"a name with a line":  {Headers: []Header{header("X\r\nY", "1")}},
		"a value with a line": {Headers: []Header{header("X", testPassword+"\r\nY: 1")}},
		"a value with NUL":    {Headers: []Header{header("X", "\x00")}},
		"a length":            {Headers: []Header{header("content-length", "1")}},
		"a coding":            {Headers: []Header{header("Transfer-Encoding", "chunked")}},
		"a connection":        {Headers: []Header{header("Connection", "keep-alive")}},
	} {
		t.Run(name, func(t *testing.T) { mustBe(t, HTTP(within(t, patience), peer, r), Undeliverable, BadLine) })
	}
}

// A certificate is checked where others may be on the way.
func TestHTTPCertificate(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(echo))
	t.Cleanup(s.Close)
	deliver := func(loopback bool) Outcome {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		o, _ := newConversation(within(t, patience), conn, "").http(s.Listener.Addr().String(), loopback, Request{TLS: true})
		return o
	}
	mustBe(t, deliver(true), Done, "")
	mustBe(t, deliver(false), Undeliverable, Stranger)
}

func FuzzHTTP(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.0 200\r\n\r\nok", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 X\n\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nT: x\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\nok", "HTTP/1.1 302 Found\r\nContent-Length: 99999999999999999999\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bufio.NewReader(strings.NewReader(string(b)))
		h, err := readResponseHead(in)
		if err == nil {
			var body []byte
			if body, _, err = readBody(in, h, 1000); len(body) > 1000 || len(body) > len(b) || h.status < 200 || h.status > 599 {
				t.Fatalf("status %d, a body of %d bytes of %d", h.status, len(body), len(b))
			}
		}
		if err != nil {
			if reason := reasonOf(err); reason != Closed && reason != Protocol {
				t.Fatalf("%v is of reason %s", err, reason)
			}
			return
		}
		// What we take, net/http takes too, with the same status.
		all := bufio.NewReader(strings.NewReader(string(b)))
		for {
			theirs, err := http.ReadResponse(all, nil)
			if err != nil {
				return // it may be stricter: our reading cannot smuggle anything, as a connection has one response
			}
			if theirs.StatusCode >= 200 {
				if theirs.StatusCode != h.status {
					t.Fatalf("status %d is read as %d", theirs.StatusCode, h.status)
				}
				return
			}
		}
	})
}

func BenchmarkHTTPHead(b *testing.B) {
	const response = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Mon, 30 Nov 2026 10:00:00 GMT\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
	r := strings.NewReader("")
	in := bufio.NewReader(r)
	b.SetBytes(int64(len(response)))
	for b.Loop() {
		r.Reset(response)
		in.Reset(r)
		h, err := readResponseHead(in)
		if err == nil {
			_, _, err = readBody(in, h, HTTPReplyLimit)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
