package console

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"reconciler.dev/reconciler/keeper/secret"
)

// WebRCONLimit is how many bytes a line has at most.
const WebRCONLimit = 4096

// webRCONMessage is a message of Rust's web console: {"Identifier": 1, "Message": "save", "Name": "..."} from us, and from the
// server the reply with the same Identifier, or console output with one of 0 or less. The password is the path of the
// websocket's address: ws://ADDRESS/PASSWORD. (https://github.com/Facepunch/webrcon, js/rcon.js)
type webRCONMessage struct {
	Identifier int32
	Message    string
	Name       string `json:",omitempty"`
}

// WebRCON hands a line to a Rust server. What is expected is looked for in the reply and in console output that comes after
// the line.
//
// A server that rejects a password just ends the connection, before or after the websocket's handshake. So a ping goes
// before the line, which every websocket answers (RFC 6455 5.5.2): an end instead of the pong is a rejection, and nothing was
// handed over. A server that answers no pings is given the line after a second.
//
// The password must be of letters, digits and -._~!$&'()*+,;=:@ (RFC 3986 pchar), as others would have to be encoded and the
// server compares without decoding.
func WebRCON(ctx context.Context, peer Peer, password secret.Value, line Line) Outcome {
	if err := checkWebRCON(password, line); err != nil {
		return undeliverable(err)
	}
	c, err := converse(ctx, "tcp", peer, line.Expect)
	if err != nil {
		return undeliverable(err)
	}
	return c.webRCON(peer.dialable().String(), password, line)
}

func checkWebRCON(password secret.Value, line Line) error {
	if err := errors.Join(line.check(WebRCONLimit), checkPassword(password, 1024)); err != nil {
		return err
	}
	for _, c := range password.Reveal() {
		if !isAlnum(c) && !strings.ContainsRune("-._~!$&'()*+,;=:@", rune(c)) {
			return faulty(BadPassword, "the password holds a sign that a web address cannot carry: use letters and digits")
		}
	}
	return nil
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func (c *conversation) webRCON(host string, password secret.Value, line Line) Outcome {
	handed := false
	defer func() { c.close(handed) }()
	w, err := c.openWebSocket(host, password)
	if err == nil {
		err = c.webRCONWelcome(w)
	}
	if err != nil {
		return undeliverable(err)
	}
	id := 1 + rand.Int32N(1<<30)
	b, err := json.Marshal(webRCONMessage{Identifier: id, Message: line.Text, Name: "reconciler"})
	if err != nil {
		return undeliverable(err)
	}
	var o Outcome
	if handed, o = c.handOver(appendFrame(nil, wsText, b)); !handed {
		return o
	}
	o = c.finish(c.webRCONReply(w, id), password)
	_, _ = c.conn.Write(appendFrame(nil, wsClose, []byte{1000 >> 8, 1000 & 0xff})) // a courtesy (RFC 6455 7.1.1)
	return o
}

func (c *conversation) openWebSocket(host string, password secret.Value) (*webSocket, error) {
	key := handshakeKey()
	rest := " HTTP/1.1\r\nHost: " + host + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: " + key + "\r\nSec-WebSocket-Version: 13\r\n\r\n"
	request := append(make([]byte, 0, 8+len(password.Reveal())+len(rest)), "GET /"...)
	request = append(append(request, password.Reveal()...), rest...)
	if err := c.send(request); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(c.conn, 4096)
	if err := readHandshake(in, key); err != nil {
		return nil, endIsRejection(err)
	}
	return &webSocket{in: in, out: c.conn}, nil
}

// endIsRejection names what a server means that ends the connection before it took the line.
func endIsRejection(err error) error {
	if reasonOf(err) == Closed {
		return faulty(Rejected, "the server ended the connection, as it does for a wrong password: correct the secret of `console.password`")
	}
	return err
}

// webRCONWelcome waits until the server has answered a ping.
func (c *conversation) webRCONWelcome(w *webSocket) error {
	if _, err := w.out.Write(appendFrame(nil, wsPing, []byte("welcome"))); err != nil {
		return endIsRejection(err)
	}
	approach := time.Now().Add(approachLimit)
	for total := 0; total < readLimit; {
		if err := c.until(time.Now().Add(settle)); err != nil {
			return err
		}
		if _, err := w.in.Peek(1); isTimeout(err) && c.ctx.Err() == nil { // silence, between two frames
			return c.until(approach)
		}
		if err := c.until(approach); err != nil {
			return err
		}
		m, err := w.read()
		if err != nil {
			return endIsRejection(err)
		}
		if m.opcode == wsPong && string(m.payload) == "welcome" {
			return nil
		}
		total += len(m.payload) + 2
	}
	return faulty(Protocol, "the server's greeting has no end")
}

func (c *conversation) webRCONReply(w *webSocket, id int32) error {
	for {
		m, err := w.read()
		if err != nil {
			return err
		}
		if m.opcode != wsText {
			if c.reply.total += len(m.payload) + 2; c.reply.total > readLimit {
				return errEndless
			}
			continue
		}
		said, err := parseWebRCON(m.payload)
		if err != nil {
			return err
		}
		mine := said.Identifier == id
		if mine {
			c.answered = true
		}
		if !mine && said.Identifier > 0 {
			continue // another client's reply
		}
		if !mine && !c.expected {
			continue // output, while the reply is waited for
		}
		if err := c.reply.add([]byte(said.Message + "\n")); err != nil || c.reply.seen {
			return err
		}
		if mine && !c.expected {
			return nil // a reply is one message
		}
	}
}

func parseWebRCON(b []byte) (webRCONMessage, error) {
	var m webRCONMessage
	if err := json.Unmarshal(b, &m); err != nil {
		return m, faulty(Protocol, "a message that is no WebRCON one")
	}
	return m, nil
}
