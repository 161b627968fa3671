package console

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"reconciler.dev/reconciler/keeper/secret"
	"reconciler.dev/reconciler/spec"
)

// HTTPReplyLimit is how much of a response's body is read, in bytes.
const HTTPReplyLimit = 64 << 10

// Request is one HTTP request.
type Request struct {
	TLS     bool   // HTTPS. The certificate is not checked when the peer is on loopback, else against the host's authorities
	Method  string // GET, POST, PUT, PATCH or DELETE; "" is GET
	Path    string // path and query, encoded, as it goes onto the wire; "" is /
	Headers []Header
	Body    string
	// Username and Password are sent as basic authentication (RFC 7617) when either is there.
	Username string
	Password secret.Value
	// Secrets are those that stand in Headers, so that a reply does not show them. Password is taken out anyway.
	Secrets []secret.Value
}

// Header is one header field. Its value may hold a secret, so it is treated as one.
type Header struct {
	Name  string
	Value secret.Value
}

// HTTP sends a request (HTTP/1.1, RFC 9112) and reads the response: a status from 200 to 399 is [Done], any other
// [HandedOver] with [BadStatus]. Redirects are not followed, and what the response's body says is not judged. The whole
// request is one write.
//
// It does not use net/http: that costs a process 2 MiB and more before its first request, dials on a goroutine that outlives
// a cancelled context, and does not tell whether the request was written.
func HTTP(ctx context.Context, peer Peer, r Request) Outcome {
	o, _ := HTTPBody(ctx, peer, r)
	return o
}

// HTTPBody is [HTTP], and the response's body as it came, of any bytes and at most [HTTPReplyLimit]; it may hold what must not be shown.
func HTTPBody(ctx context.Context, peer Peer, r Request) (Outcome, []byte) {
	if err := r.check(); err != nil {
		return undeliverable(err), nil
	}
	c, err := converse(ctx, "tcp", peer, "")
	if err != nil {
		return undeliverable(err), nil
	}
	return c.http(peer.dialable().String(), peer.dialable().Addr().IsLoopback(), r)
}

func (c *conversation) http(host string, loopback bool, r Request) (Outcome, []byte) {
	defer c.close(false)
	if r.TLS {
		if err := c.encrypt(host, loopback); err != nil {
			return undeliverable(err), nil
		}
	}
	// A response is always awaited, up to the context's end.
	c.expected = true
	if handed, o := c.handOver(r.bytes(host)); !handed {
		return o, nil
	}
	in := bufio.NewReaderSize(c.conn, 4096)
	h, err := readResponseHead(in)
	if err != nil {
		return c.finish(err, r.secrets()...), nil
	}
	c.answered = true
	body, more, err := readBody(in, h, HTTPReplyLimit)
	if err != nil && reasonOf(err) == Protocol {
		o := c.finish(err, r.secrets()...)
		o.Status = h.status
		return o, nil
	}
	c.reply.kept, c.reply.total = body, len(body)
	o := Outcome{Result: Done, Status: h.status}
	if h.status < 200 || h.status > 399 {
		o = Outcome{Result: HandedOver, Reason: BadStatus, Status: h.status, Err: fmt.Errorf("the server answers with status %d; 200 to 399 is success", h.status)}
	}
	o = c.reply.into(o, r.secrets()...)
	o.Truncated = o.Truncated || more || err != nil // a body that ended early: the status stands
	return o, body
}

// encrypt wraps the connection in TLS.
func (c *conversation) encrypt(host string, loopback bool) error {
	name := host[:strings.LastIndexByte(host, ':')]
	t := tls.Client(c.conn, &tls.Config{
		ServerName:         strings.Trim(name, "[]"),
		InsecureSkipVerify: loopback, // a server's own certificate, seen by nobody on the way
		NextProtos:         []string{"http/1.1"},
		MinVersion:         tls.VersionTLS12,
	})
	if err := t.Handshake(); err != nil { // ends with the connection's deadline
		var bad *tls.CertificateVerificationError
		var record tls.RecordHeaderError
		switch {
		case errors.As(err, &bad):
			return faulty(Stranger, "the server's certificate is not valid: correct it, or use an endpoint on loopback")
		case errors.As(err, &record):
			return faulty(Protocol, "the server does not speak TLS: use `scheme: HTTP`")
		case reasonOf(err) == Failed:
			return faulty(Protocol, "the TLS handshake failed")
		}
		return err
	}
	c.conn = t
	return nil
}

func (r *Request) check() error {
	switch r.Method {
	case "", "GET", "POST", "PUT", "PATCH", "DELETE":
	default:
		return faulty(BadLine, "the method is none of GET, POST, PUT, PATCH and DELETE")
	}
	if r.Path != "" && r.Path[0] != '/' {
		return faulty(BadLine, "the path does not begin with '/'")
	}
	for i := range len(r.Path) {
		if r.Path[i] <= ' ' || r.Path[i] >= 0x7f || r.Path[i] == '#' {
			return faulty(BadLine, "the path holds a sign that must be encoded: write it as %XX")
		}
	}
	if strings.ContainsRune(r.Username, ':') || !fieldValue([]byte(r.Username)) {
		return faulty(BadLine, "the user name holds a colon or a control character")
	}
	for _, h := range r.Headers {
		if err := h.check(); err != nil {
			return err
		}
	}
	return nil
}

func (h *Header) check() error {
	if h.Name == "" || strings.ContainsFunc(h.Name, func(c rune) bool { return c > 0x7e || !isTokenByte(byte(c)) }) {
		return faulty(BadLine, "a header's name is no token")
	}
	for _, ours := range spec.ReservedHeaders {
		if strings.EqualFold(h.Name, ours) {
			return faulty(BadLine, fmt.Sprintf("the header %s must not be set: it belongs to the connection", ours))
		}
	}
	if !fieldValue(h.Value.Reveal()) {
		return faulty(BadLine, fmt.Sprintf("the value of the header %s holds a control character", h.Name))
	}
	return nil
}

// isTokenByte is tchar of RFC 9110 5.6.2.
func isTokenByte(c byte) bool {
	return isAlnum(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// fieldValue reports whether b may be a header field's value (RFC 9110 5.5).
func fieldValue(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// bytes is the request as it goes onto the wire. Its array is as large as it needs to be, so that no copy of a secret is left
// behind by growing.
func (r *Request) bytes(host string) []byte {
	method, path := r.Method, r.Path
	if method == "" {
		method = "GET"
	}
	if path == "" {
		path = "/"
	}
	size := 512 + len(path) + len(host) + 2*(len(r.Username)+len(r.Password.Reveal())) + len(r.Body)
	for _, h := range r.Headers {
		size += len(h.Name) + len(h.Value.Reveal()) + 4
	}
	b := fmt.Appendf(make([]byte, 0, size), "%s %s HTTP/1.1\r\n", method, path)
	if !r.sets("Host") {
		b = fmt.Appendf(b, "Host: %s\r\n", host)
	}
	if !r.sets("User-Agent") {
		b = append(b, "User-Agent: reconciler\r\n"...)
	}
	if !r.sets("Accept") {
		b = append(b, "Accept: */*\r\n"...)
	}
	for _, h := range r.Headers {
		b = append(append(b, h.Name...), ": "...)
		b = append(append(b, h.Value.Reveal()...), "\r\n"...)
	}
	b = r.appendAuthorization(b)
	if r.Body != "" || method != "GET" && method != "DELETE" {
		b = strconv.AppendInt(append(b, "Content-Length: "...), int64(len(r.Body)), 10)
		b = append(b, "\r\n"...)
	}
	b = append(b, "Connection: close\r\n\r\n"...)
	return append(b, r.Body...)
}

func (r *Request) appendAuthorization(b []byte) []byte {
	if r.Username == "" && !r.Password.Set() || r.sets("Authorization") {
		return b
	}
	return append(r.appendPair(append(b, "Authorization: Basic "...)), "\r\n"...)
}

// appendPair appends user name and password as RFC 7617 encodes them.
func (r *Request) appendPair(b []byte) []byte {
	pair := append(make([]byte, 0, len(r.Username)+1+len(r.Password.Reveal())), r.Username...)
	pair = append(append(pair, ':'), r.Password.Reveal()...)
	b = base64.StdEncoding.AppendEncode(b, pair)
	clear(pair)
	return b
}

func (r *Request) sets(name string) bool {
	for _, h := range r.Headers {
		if strings.EqualFold(h.Name, name) {
			return true
		}
	}
	return false
}

// secrets are what a reply must not show: some servers answer with what they were asked, the authorization as it was sent.
func (r *Request) secrets() []secret.Value {
	all := append([]secret.Value{r.Password}, r.Secrets...)
	if !r.Password.Set() {
		return all
	}
	return append(all, secret.New(r.appendPair(nil)))
}

// readResponseHead reads up to the final status; interim ones (1xx) are passed over.
func readResponseHead(in *bufio.Reader) (head, error) {
	for range 8 {
		h, err := readHead(in, httpHead)
		if err != nil || h.status >= 200 {
			return h, err
		}
		if h.status == 101 {
			return head{}, faulty(Protocol, "the server switches to another protocol")
		}
	}
	return head{}, faulty(Protocol, "the server sends interim responses without an end")
}

// readBody reads at most limit bytes of the body. more says that there was more; an error which is not of the protocol says
// that it ended early.
func readBody(in *bufio.Reader, h head, limit int) (body []byte, more bool, err error) {
	length, err := h.framing()
	if err != nil {
		return nil, false, err
	}
	if h.status == 204 || h.status == 304 {
		return nil, false, nil
	}
	r := io.Reader(in)
	switch {
	case length == chunked:
		r = &chunks{in: in}
	case length != toTheEnd:
		r = &exactly{in: in, left: length}
	}
	body, err = io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if len(body) > limit {
		return body[:limit], true, nil
	}
	return body, false, err
}

// httpHead is how long a status line and header fields may be together.
const httpHead = 32 << 10
