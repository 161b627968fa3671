package console

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reconciler.dev/reconciler/keeper/secret"
)

// rust is the server's half of a websocket at Rust's path. Its errors show in the client's outcome.
type rust struct {
	t  *testing.T
	c  net.Conn
	in *bufio.Reader
}

// webServer accepts the handshake at the right path and hands the connection to then.
func webServer(t *testing.T, then func(*rust)) func(net.Conn) {
	return func(c net.Conn) {
		r := &rust{t, c, bufio.NewReader(c)}
		request, err := http.ReadRequest(r.in)
		if err != nil {
			return
		}
		h := request.Header
		if request.Method != "GET" || h.Get("Upgrade") != "websocket" || h.Get("Connection") != "Upgrade" || h.Get("Sec-WebSocket-Version") != "13" ||
			len(h.Get("Sec-WebSocket-Key")) != 24 || request.Host == "" {
			t.Errorf("the handshake is %v", h)
		}
		if request.URL.Path != "/"+testPassword {
			return // as Rust does
		}
		r.write([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Accept: " + acceptOf(h.Get("Sec-WebSocket-Key")) + "\r\n\r\n"))
		then(r)
	}
}

func (r *rust) write(b []byte) { _, _ = r.c.Write(b) } // the client may be gone

// frame is a server's frame: not masked.
func serverFrame(first byte, payload []byte) []byte {
	masked := appendFrame(nil, 0, payload)
	head := len(masked) - len(payload)
	b := append([]byte{first}, masked[1]&0x7f)
	return append(append(b, masked[2:head-4]...), payload...)
}

func (r *rust) say(id int32, text string) {
	b, err := json.Marshal(map[string]any{"Message": text, "Identifier": id, "Type": "Generic", "Stacktrace": ""})
	if err != nil {
		r.t.Error(err)
	}
	r.write(serverFrame(0x80|wsText, b))
}

// next reads a client's frame, which must be masked, and answers pings unless mute.
func (r *rust) next(mute bool) (webRCONMessage, bool) {
	for {
		var head [2]byte
		if _, err := io.ReadFull(r.in, head[:]); err != nil {
			return webRCONMessage{}, false
		}
		if head[1]&0x80 == 0 || head[0]&0x80 == 0 {
			r.t.Errorf("a frame begins with %x", head)
			return webRCONMessage{}, false
		}
		n, err := readFrameLength(r.in, uint64(head[1]&0x7f))
		b := make([]byte, 4+n)
		if err == nil {
			_, err = io.ReadFull(r.in, b)
		}
		if err != nil {
			return webRCONMessage{}, false
		}
		for i := range b[4:] {
			b[4+i] ^= b[i%4]
		}
		switch b = b[4:]; head[0] & 0xf {
		case wsPing:
			if !mute {
				r.write(serverFrame(0x80|wsPong, b))
			}
		case wsClose:
			return webRCONMessage{}, false
		case wsText:
			var m webRCONMessage
			if err := json.Unmarshal(b, &m); err != nil {
				r.t.Errorf("the client says %q: %v", b, err)
			}
			return m, true
		}
	}
}

// afterLine lets the server answer the line, and waits then for the client's farewell.
func afterLine(f func(r *rust, m webRCONMessage)) func(*rust) {
	return func(r *rust) {
		m, ok := r.next(false)
		if !ok {
			return
		}
		if m.Message != testLine || m.Name == "" || m.Identifier <= 0 {
			r.t.Errorf("the client says %+v", m)
		}
		f(r, m)
		r.next(false)
	}
}

func TestWebRCON(t *testing.T) {
	end := func(r *rust) { endWriting(t, r.c); r.next(false) }
	text := func(id int32, s string) []byte {
		b, err := json.Marshal(webRCONMessage{Identifier: id, Message: s})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, c := range map[string]struct {
		expect string
		then   func(*rust)
		result Result
		reason Reason
		text   string
	}{
		"a reply":          {then: afterLine(func(r *rust, m webRCONMessage) { r.say(m.Identifier, "ok") }), result: HandedOver, text: "ok\n"},
		"an expected one":  {expect: "ok", then: afterLine(func(r *rust, m webRCONMessage) { r.say(m.Identifier, "it is ok") }), result: Done, text: "it is ok\n"},
		"output before it": {then: afterLine(func(r *rust, m webRCONMessage) { r.say(-1, "noise"); r.say(0, "more"); r.say(m.Identifier, "ok") }), result: HandedOver, text: "ok\n"},
		"expected in output": {expect: "Saving complete", then: afterLine(func(r *rust, m webRCONMessage) {
			r.say(m.Identifier, "")
			r.say(m.Identifier%1000+2_000_000_000, "Saving complete, said to another")
			r.say(-1, "Saving complete")
		}), result: Done, text: "\nSaving complete\n"},
		"expected before the line": {expect: "hello", then: func(r *rust) {
			r.say(-1, "hello")
			afterLine(func(r *rust, m webRCONMessage) { r.say(m.Identifier, "ok"); end(r) })(r)
		}, result: HandedOver, reason: NotSeen, text: "ok\n"},
		"in fragments, with a ping between": {expect: "ok", then: afterLine(func(r *rust, m webRCONMessage) {
			b := text(m.Identifier, "ok")
			r.write(serverFrame(wsText, b[:5]))
			r.write(serverFrame(0x80|wsPing, []byte("?")))
			r.write(serverFrame(0x80|wsPong, nil))
			r.write(serverFrame(wsContinuation, b[5:9]))
			r.write(serverFrame(0x80|wsContinuation, b[9:]))
		}), result: Done, text: "ok\n"},
		"a byte at a time": {expect: "ok", then: afterLine(func(r *rust, m webRCONMessage) {
			for _, b := range serverFrame(0x80|wsText, text(m.Identifier, "ok")) {
				r.write([]byte{b})
			}
		}), result: Done, text: "ok\n"},
		"a long one":        {expect: "end", then: afterLine(func(r *rust, m webRCONMessage) { r.say(m.Identifier, strings.Repeat("x", 200_000)+"end") }), result: Done, text: strings.Repeat("x", ReplyLimit)},
		"a middling one":    {expect: "end", then: afterLine(func(r *rust, m webRCONMessage) { r.say(m.Identifier, strings.Repeat("x", 300)+"end") }), result: Done, text: strings.Repeat("x", 300) + "end\n"},
		"the password":      {expect: "is", then: afterLine(func(r *rust, m webRCONMessage) { r.say(m.Identifier, testPassword+" is") }), result: Done, text: "[secret] is\n"},
		"an end":            {then: afterLine(func(r *rust, m webRCONMessage) { end(r) }), result: HandedOver},
		"a close":           {then: afterLine(func(r *rust, m webRCONMessage) { r.write(serverFrame(0x80|wsClose, []byte{3, 232})) }), result: HandedOver},
		"a close, expected": {expect: "x", then: afterLine(func(r *rust, m webRCONMessage) { r.write(serverFrame(0x80|wsClose, nil)) }), result: HandedOver, reason: NoReply},
		"an end in the middle": {then: afterLine(func(r *rust, m webRCONMessage) {
			r.write(serverFrame(0x80|wsText, text(m.Identifier, "ok"))[:9])
			end(r)
		}), result: Indeterminate, reason: Closed},
		"no JSON":         {then: afterLine(func(r *rust, m webRCONMessage) { r.write(serverFrame(0x80|wsText, []byte("ok"))) }), result: Indeterminate, reason: Protocol},
		"a masked frame":  {then: afterLine(func(r *rust, m webRCONMessage) { r.write(appendFrame(nil, wsText, text(m.Identifier, "ok"))) }), result: Indeterminate, reason: Protocol},
		"a reserved bit":  {then: afterLine(func(r *rust, m webRCONMessage) { r.write(serverFrame(0xc0|wsText, text(m.Identifier, "ok"))) }), result: Indeterminate, reason: Protocol},
		"an unknown kind": {then: afterLine(func(r *rust, m webRCONMessage) { r.write(serverFrame(0x83, nil)) }), result: Indeterminate, reason: Protocol},
		"a ping in parts": {then: afterLine(func(r *rust, m webRCONMessage) { r.write(serverFrame(wsPing, nil)) }), result: Indeterminate, reason: Protocol},
		"a long ping":     {then: afterLine(func(r *rust, m webRCONMessage) { r.write(serverFrame(0x80|wsPing, make([]byte, 126))) }), result: Indeterminate, reason: Protocol},
		"a beginning twice": {then: afterLine(func(r *rust, m webRCONMessage) {
			r.write(append(serverFrame(wsText, nil), serverFrame(wsText, nil)...))
		}), result: Indeterminate, reason: Protocol},
		"no beginning":    {then: afterLine(func(r *rust, m webRCONMessage) { r.write(serverFrame(0x80, nil)) }), result: Indeterminate, reason: Protocol},
		"a padded length": {then: afterLine(func(r *rust, m webRCONMessage) { r.write([]byte{0x81, 126, 0, 5, '"', 'a', 'b', 'c', '"'}) }), result: Indeterminate, reason: Protocol},
		"a huge frame":    {then: afterLine(func(r *rust, m webRCONMessage) { r.write([]byte{0x81, 127, 0x7f, 0, 0, 0, 0, 0, 0, 0}) }), result: Indeterminate, reason: Protocol},
		"a message too long": {then: afterLine(func(r *rust, m webRCONMessage) {
			r.write(serverFrame(wsText, nil))
			flood(r.c, serverFrame(0, make([]byte, 64<<10)))
		}), result: Indeterminate, reason: Protocol},
		"output without an end":   {expect: "never", then: afterLine(func(r *rust, m webRCONMessage) { flood(r.c, serverFrame(0x81, text(-1, strings.Repeat("x", 64<<10)))) }), result: HandedOver, reason: Protocol, text: strings.Repeat("x", ReplyLimit)},
		"an end at the pong":      {then: func(*rust) {}, result: Undeliverable, reason: Rejected},
		"a close at the pong":     {then: func(r *rust) { r.write(serverFrame(0x88, []byte{3, 240})); r.next(true) }, result: Undeliverable, reason: Rejected},
		"greeting without an end": {then: func(r *rust) { flood(r.c, serverFrame(0x81, text(-1, strings.Repeat("x", 64<<10)))) }, result: Undeliverable, reason: Protocol},
	} {
		t.Run(name, func(t *testing.T) {
			line := Line{Text: testLine, Expect: c.expect}
			check := func(o Outcome) {
				t.Helper()
				mustBe(t, o, c.result, c.reason)
				if o.Reply != c.text {
					t.Errorf("the reply is %.200q, not %.200q", o.Reply, c.text)
				}
			}
			check(overWire(t, c.expect, webServer(t, c.then), func(c *conversation) Outcome { return c.webRCON("127.0.0.1:1", password(), line) }))
			if c.expect != "" && c.reason != Protocol { // without a time, and without megabytes
				check(WebRCON(within(t, patience), serve(t, webServer(t, c.then)), password(), line))
			}
		})
	}
}

func TestWebRCONReset(t *testing.T) {
	peer := serve(t, webServer(t, func(r *rust) {
		r.in = bufio.NewReaderSize(r.c, 16) // the pong, and then nothing is read
		var ping [2 + 4 + 7]byte
		if _, err := io.ReadFull(r.c, ping[:]); err != nil {
			t.Error(err)
			return
		}
		r.write(serverFrame(0x80|wsPong, []byte("welcome")))
		reset(t, r.c)
	}))
	mustBe(t, WebRCON(within(t, patience), peer, password(), Line{Text: testLine, Expect: "x"}), Indeterminate, Closed)
}

func TestWebRCONPassword(t *testing.T) {
	peer := serve(t, webServer(t, func(r *rust) { t.Error("the wrong password was taken") }))
	mustBe(t, WebRCON(within(t, patience), peer, secret.New([]byte("wrong")), Line{Text: testLine}), Undeliverable, Rejected)
	for _, p := range []string{"", "a b", "a/b", "a#b", "a?b", "a%41b", "größe", "a\r\nb"} {
		mustBe(t, WebRCON(within(t, patience), peer, secret.New([]byte(p)), Line{Text: testLine}), Undeliverable, BadPassword)
	}
	mustBe(t, WebRCON(within(t, patience), peer, password(), Line{Text: strings.Repeat("x", WebRCONLimit+1)}), Undeliverable, BadLine)
}

func TestWebSocketHandshake(t *testing.T) {
	// RFC 6455 1.3 has this pair.
	const key, accept = "dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
	good := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + "\r\n"
	for text, reason := range map[string]Reason{
		good + "\r\n":                       "",
		"HTTP/1.1 401 Unauthorized\r\n\r\n": Rejected,
		"HTTP/1.1 403 Forbidden\r\n\r\n":    Rejected,
		"HTTP/1.1 200 OK\r\n\r\n":           Protocol,
		"SSH-2.0-OpenSSH_9.2\r\n":           Protocol,
		"":                                  Closed,
		good:                                Closed,
		good + "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n":                 Protocol,
		good + "Sec-WebSocket-Protocol: x\r\n\r\n":                                    Protocol,
		good + "Upgrade: websocket\r\n\r\n":                                           Protocol,
		strings.Replace(good, accept, "AAAA"+accept[4:], 1) + "\r\n":                  Protocol,
		strings.Replace(good, "Upgrade: websocket", "Upgrade: h2c", 1) + "\r\n":       Protocol,
		strings.Replace(good, "Connection: Upgrade", "Connection: close", 1) + "\r\n": Protocol,
		good + "X: " + strings.Repeat("x", webSocketHeader) + "\r\n\r\n":              Protocol,
		"HTTP/1.1 101 " + strings.Repeat("x", 2*webSocketHeader):                      Protocol,
	} {
		err := readHandshake(bufio.NewReader(strings.NewReader(text)), key)
		if (err == nil) != (reason == "") || err != nil && reasonOf(err) != reason {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

// A server that answers no pings gets the line all the same; one that falls silent within a frame does not.
func TestWebRCONTimes(t *testing.T) {
	for name, c := range map[string]struct {
		then   func(r *rust)
		result Result
		reason Reason
		takes  time.Duration
	}{
		"answers no pings": {func(r *rust) {
			if m, ok := r.next(true); ok {
				r.say(m.Identifier, "ok")
			}
			r.next(true)
		}, HandedOver, "", settle},
		"half a frame": {func(r *rust) { r.write([]byte{0x81, 5, 'a'}); listen(r.c) }, Undeliverable, NoAnswer, approachLimit},
		"no reply":     {func(r *rust) { r.next(false); r.next(false) }, HandedOver, "", settle},
		"no handshake": {nil, Undeliverable, NoAnswer, approachLimit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				server := listen
				if c.then != nil {
					server = webServer(t, c.then)
				}
				began := time.Now()
				var took time.Duration
				o := piped(t, ctx, "", server, func(conv *conversation) Outcome {
					o := conv.webRCON("127.0.0.1:1", password(), Line{Text: testLine})
					took = time.Since(began)
					return o
				})
				mustBe(t, o, c.result, c.reason)
				if took != c.takes {
					t.Errorf("it took %v, not %v", took, c.takes)
				}
			})
		})
	}
}

func FuzzWebSocket(f *testing.F) {
	f.Add(serverFrame(0x81, []byte(`{"Identifier":1,"Message":"ok"}`)))
	f.Add(append(serverFrame(1, []byte("a")), append(serverFrame(0x89, []byte("p")), serverFrame(0x80, []byte("b"))...)...))
	f.Add(serverFrame(0x88, []byte{3, 232}))
	f.Add(serverFrame(0x82, make([]byte, 300)))
	f.Add([]byte{0x81, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0x81, 126, 0, 1, 'a'})
	f.Add([]byte("HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = readHandshake(bufio.NewReader(bytes.NewReader(b)), handshakeKey()) // must only not fail badly
		var out bytes.Buffer
		w := &webSocket{in: bufio.NewReader(bytes.NewReader(b)), out: &out}
		total := 0
		for {
			m, err := w.read()
			if err != nil {
				if reason := reasonOf(err); reason != Closed && reason != Protocol {
					t.Fatalf("%v is of reason %s", err, reason)
				}
				break
			}
			if total += len(m.payload); total > len(b) || len(m.payload) > webSocketLimit {
				t.Fatalf("%d bytes of messages come of %d", total, len(b))
			}
			_, _ = parseWebRCON(m.payload) // must only not fail badly
		}
		for r := bytes.NewReader(out.Bytes()); r.Len() > 0; { // what we answer is well formed, and masked
			head := make([]byte, 2)
			if _, err := io.ReadFull(r, head); err != nil || head[1]&0x80 == 0 || head[1]&0x7f > 125 {
				t.Fatalf("we answer %x, %v", head, err)
			}
			if _, err := r.Seek(int64(head[1]&0x7f)+4, io.SeekCurrent); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func BenchmarkWebSocket(b *testing.B) {
	message := serverFrame(0x81, bytes.Repeat([]byte("x"), 4000))
	r := bytes.NewReader(nil)
	w := &webSocket{in: bufio.NewReader(r), out: io.Discard}
	b.SetBytes(int64(len(message)))
	for b.Loop() {
		r.Reset(message)
		w.in.Reset(r)
		if _, err := w.read(); err != nil {
			b.Fatal(err)
		}
	}
}
