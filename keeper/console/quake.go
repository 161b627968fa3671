package console

import (
	"bytes"
	"context"
	"errors"
	"time"

	"reconciler.dev/reconciler/keeper/secret"
)

// The remote console of Quake III, as ioquake3 has it: a datagram that begins with four bytes 0xFF is outside of a game's
// connection; "rcon PASSWORD LINE" runs the line, and what it prints comes back in datagrams that begin with "print" and a
// newline. (ioquake3, code/server/sv_main.c: SV_ConnectionlessPacket, SVC_RemoteCommand, SV_FlushRedirect)
var (
	quakeMark  = []byte("\xff\xff\xff\xff")
	quakePrint = []byte("\xff\xff\xff\xffprint\n")
)

// quakeRequest is how many bytes of a request the server looks at behind the mark: its MSG_ReadStringLine has
// MAX_STRING_CHARS, 1024, with a NUL. It cuts off the rest without a word.
const quakeRequest = 1023

// QuakeRCON hands a line to an ioquake3 server. UDP tells nothing of a datagram's fate: a line without a reply is
// [HandedOver] to the network, which may have lost it, and the server drops lines silently beyond ten a second of an address.
// Only a host that says that nobody listens there makes it [Undeliverable]. The reply has no mark of its end; it is over
// when the server is silent.
//
// The line must be of printable ASCII without '%', which the server would change into '.' without a word; the password
// also without spaces and quotation marks, at which the server splits it.
func QuakeRCON(ctx context.Context, peer Peer, password secret.Value, line Line) Outcome {
	if err := checkQuake(password, line); err != nil {
		return undeliverable(err)
	}
	c, err := converse(ctx, "udp", peer, line.Expect)
	if err != nil {
		return undeliverable(err)
	}
	return c.quake(password, line)
}

func checkQuake(password secret.Value, line Line) error {
	p := password.Reveal()
	if err := checkPassword(password, quakeRequest-len("rcon  ")-1); err != nil {
		return err
	}
	if err := line.check(quakeRequest - len("rcon  ") - len(p)); err != nil {
		return err
	}
	if bytes.ContainsAny(p, " \"%;\\") || bytes.Contains(p, []byte("//")) || bytes.Contains(p, []byte("/*")) || !ascii(p) {
		return faulty(BadPassword, "the password holds a space or a sign that Quake cannot carry: use letters and digits")
	}
	if !ascii([]byte(line.Text)) || bytes.ContainsRune([]byte(line.Text), '%') {
		return faulty(BadLine, "the line holds '%' or a sign that is not ASCII, which the server would change: leave it out")
	}
	return nil
}

func ascii(b []byte) bool {
	return bytes.IndexFunc(b, func(r rune) bool { return r > 0x7e || r < 0x20 && r != '\t' }) < 0
}

func (c *conversation) quake(password secret.Value, line Line) Outcome {
	handed := false
	defer func() { c.close(handed) }()
	request := append(make([]byte, 0, len(quakeMark)+quakeRequest), quakeMark...)
	request = append(append(append(append(request, "rcon "...), password.Reveal()...), ' '), line.Text...)
	var o Outcome
	if handed, o = c.handOver(request); !handed {
		return o
	}
	err := c.quakeReply()
	switch {
	case errors.Is(err, errQuakePassword):
		return undeliverable(err)
	case err != nil && !c.answered && reasonOf(err) == NotListening: // the host's "port unreachable" for our datagram
		return undeliverable(faulty(NotListening, "nobody listens there"))
	}
	return c.finish(err, password)
}

var errQuakePassword = faulty(Rejected, "the server rejected the password: correct the secret of `console.password`")

func (c *conversation) quakeReply() error {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.conn.Read(buf)
		if err != nil {
			return err
		}
		text, ok := parseQuake(buf[:n])
		if !ok {
			if c.reply.total += n; c.reply.total > readLimit {
				return errEndless
			}
			continue // none of ours: a game's datagram for this port
		}
		if !c.answered && quakeRejects(text) {
			return errQuakePassword
		}
		if err := c.hear(text); err != nil || c.reply.seen {
			return err
		}
		if !c.expected {
			if err := c.until(time.Now().Add(quiet)); err != nil {
				return err
			}
		}
	}
}

// parseQuake returns what a datagram prints.
func parseQuake(b []byte) (text []byte, ok bool) {
	text, ok = bytes.CutPrefix(b, quakePrint)
	if !ok {
		return nil, false
	}
	text, _, _ = bytes.Cut(text, []byte{0})
	return text, true
}

// quakeRejects knows the words of ioquake3 and of the engine it came from.
func quakeRejects(text []byte) bool {
	switch string(bytes.TrimSpace(text)) {
	case "Bad rconpassword.", "Bad rcon_password.", "No rconpassword set on the server.", "No rconpassword set.":
		return true
	}
	return false
}
