package console

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"reconciler.dev/reconciler/keeper/secret"
)

// TelnetLimit is how many bytes a line has at most: Teeworlds has 1400 for a line that is on its way.
// (teeworlds, src/engine/shared/network_console_conn.cpp)
const TelnetLimit = 1390

// Telnet hands a line to a console that is text over TCP, as Teeworlds and 7 Days to Die have it. Lines end with CR LF, which
// both understand. They send no telnet commands; should another server do so, they are taken out of what it says (RFC 854) and
// not answered.
//
// With a password the server must ask for it: text that holds "password" and then ':' ("Enter password:" in Teeworlds, "Please
// enter password:" in 7 Days to Die). The next words are its verdict: again a word of that kind ("Wrong password 1/3.",
// "Password incorrect, please enter password:") is a rejection, any other line welcomes us. It is told the password once:
// both lock clients out that guess. Without a password the server must not ask for one; it may greet.
//
// The server's output comes on the same connection and has no end: it is over when the server is silent.
func Telnet(ctx context.Context, peer Peer, password secret.Value, line Line) Outcome {
	if err := line.check(TelnetLimit); err != nil {
		return undeliverable(err)
	}
	if password.Set() {
		if err := checkPassword(password, TelnetLimit); err != nil {
			return undeliverable(err)
		}
	}
	c, err := converse(ctx, "tcp", peer, line.Expect)
	if err != nil {
		return undeliverable(err)
	}
	return c.telnet(password, line)
}

// telnetConversation is a conversation and the place in the stream of telnet commands.
type telnetConversation struct {
	*conversation
	strip telnetStripper
	buf   []byte
}

func (c *conversation) telnet(password secret.Value, line Line) Outcome {
	handed := false
	defer func() { c.close(handed) }()
	t := &telnetConversation{conversation: c, buf: make([]byte, 4096)}
	if err := t.login(password); err != nil {
		return undeliverable(err)
	}
	var o Outcome
	if handed, o = c.handOver(append([]byte(line.Text), '\r', '\n')); !handed {
		return o
	}
	return c.finish(t.listen(), password)
}

// greetingLimit is how long a server without a password may take to greet, or with one to ask for it.
const greetingLimit = settle

// greetingSize is how much a server may say before it asks for a password, and before its verdict.
const greetingSize = 16 << 10

func (t *telnetConversation) login(password secret.Value) error {
	approach := time.Now().Add(approachLimit)
	asked, err := t.greeting(password.Set(), approach)
	switch {
	case err != nil:
		return err
	case asked && !password.Set():
		return faulty(BadPassword, "the server asks for a password: set `console.password`")
	case !password.Set():
		return t.until(approach)
	case !asked:
		return faulty(NoAnswer, "the server does not ask for the password: leave `console.password` out, or see whether the server is hung")
	}
	p := password.Reveal()
	if err := t.send(append(append(make([]byte, 0, len(p)+2), p...), '\r', '\n')); err != nil {
		return err
	}
	return t.verdict()
}

// greeting reads until the server asks for a password. One that does not is done when it is silent: a moment after it said
// something, else greetingLimit.
func (t *telnetConversation) greeting(wanted bool, approach time.Time) (asked bool, err error) {
	if !wanted {
		if err := t.until(time.Now().Add(greetingLimit)); err != nil {
			return false, err
		}
	}
	var text []byte
	for len(text) < greetingSize {
		b, err := t.read()
		text = append(text, b...)
		switch {
		case asksPassword(text):
			return true, t.until(approach)
		case isTimeout(err) && t.ctx.Err() == nil:
			return false, nil
		case err != nil:
			return false, err
		case len(bytes.TrimSpace(b)) > 0 && !wanted:
			if err := t.until(time.Now().Add(quiet)); err != nil {
				return false, err
			}
		}
	}
	return false, faulty(Protocol, "the server's greeting has no end")
}

// verdict reads what the server says to the password.
func (t *telnetConversation) verdict() error {
	rejected := faulty(Rejected, "the server rejected the password: correct the secret of `console.password`")
	var text []byte
	for len(text) < greetingSize {
		b, err := t.read()
		text = append(text, b...)
		switch welcome, known := telnetVerdict(text); {
		case known && welcome:
			return nil
		case known:
			return rejected
		case errors.Is(err, io.EOF):
			return rejected
		case err != nil:
			return err
		}
	}
	return faulty(Protocol, "the server's answer to the password has no end")
}

// asksPassword reports whether text holds "password" and, behind it, ':'.
func asksPassword(text []byte) bool {
	_, behind, found := bytes.Cut(bytes.ToLower(text), []byte("password"))
	return found && bytes.IndexByte(behind, ':') >= 0
}

// telnetVerdict judges what came behind the password. Nothing is known until a line with a letter is whole, as what is left
// of the question may come first.
func telnetVerdict(text []byte) (welcome, known bool) {
	lower := bytes.ToLower(text)
	for _, no := range []string{"wrong password", "password incorrect", "incorrect password", "invalid password", "access denied", "too many"} {
		if bytes.Contains(lower, []byte(no)) {
			return false, true
		}
	}
	if asksPassword(lower) {
		return false, true
	}
	for line := range bytes.Lines(lower) {
		if line[len(line)-1] == '\n' && bytes.ContainsFunc(line, func(r rune) bool { return r >= 'a' && r <= 'z' || r > 0x7f }) {
			return !bytes.Contains(line, []byte("password")), true
		}
	}
	return false, false
}

// listen reads the output behind the line.
func (t *telnetConversation) listen() error {
	latest := time.Now().Add(settle)
	for {
		b, err := t.read()
		if len(b) > 0 {
			// Not hear: output is no answer to the line, so that the end of the conversation stays a gentle one.
			if err := t.reply.add(b); err != nil || t.reply.seen {
				return err
			}
		}
		if err != nil {
			return err
		}
		if !t.expected && len(b) > 0 {
			if err := t.until(earlier(latest, time.Now().Add(quiet))); err != nil {
				return err
			}
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// read returns the next text; what comes with an error counts.
func (t *telnetConversation) read() ([]byte, error) {
	n, err := t.conn.Read(t.buf)
	return t.strip.text(t.buf[:n]), err
}

// telnetStripper takes commands (RFC 854: 0xFF and what follows) and NULs out of a stream.
type telnetStripper struct{ state telnetState }

type telnetState uint8

const (
	telnetText telnetState = iota
	telnetCommand
	telnetOption         // the byte behind WILL, WONT, DO, DONT
	telnetSubnegotiation // up to IAC SE
	telnetSubnegotiationCommand
)

// Bytes of RFC 854.
const (
	telnetIAC  = 255
	telnetWILL = 251
	telnetDONT = 254
	telnetSB   = 250
	telnetSE   = 240
)

// text strips b in place.
func (s *telnetStripper) text(b []byte) []byte {
	out := b[:0]
	for _, c := range b {
		var keep bool
		if s.state, keep = s.state.next(c); keep {
			out = append(out, c)
		}
	}
	return out
}

func (s telnetState) next(c byte) (next telnetState, keep bool) {
	switch s {
	case telnetText:
		if c == telnetIAC {
			return telnetCommand, false
		}
		return telnetText, c != 0
	case telnetCommand:
		switch {
		case c == telnetIAC:
			return telnetText, true // the byte itself
		case c >= telnetWILL && c <= telnetDONT:
			return telnetOption, false
		case c == telnetSB:
			return telnetSubnegotiation, false
		}
		return telnetText, false
	case telnetSubnegotiation:
		if c == telnetIAC {
			return telnetSubnegotiationCommand, false
		}
		return telnetSubnegotiation, false
	case telnetSubnegotiationCommand:
		if c == telnetSE {
			return telnetText, false
		}
		return telnetSubnegotiation, false
	}
	return telnetText, false // telnetOption
}
