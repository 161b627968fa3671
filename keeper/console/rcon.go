package console

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"reconciler.dev/reconciler/keeper/secret"
)

// Source RCON over TCP. A packet is its length in bytes without the length itself, an id, a type, a body that ends with NUL,
// and one more NUL; numbers are 32-bit little endian.
// (https://developer.valvesoftware.com/wiki/Source_RCON_Protocol)
const (
	rconLogin   = 3
	rconCommand = 2
	rconVerdict = 2 // the answer to a login: its id, or -1
	rconValue   = 0 // a reply; and, from us, what marks a reply's end

	rconLoginID   = 1
	rconCommandID = 2
	rconEndID     = 3
	rconRejected  = -1

	rconMin = 10 // id, type and two NULs
	// Minecraft cuts a reply into packets of 4096 characters, each up to three bytes of UTF-8. Source's are of 4096 bytes.
	rconMax = rconMin + 3*4096
)

// RCONLimit is how many bytes a line has at most, and a password: Minecraft takes no request of more than 1460 bytes, 14 of
// which are not the body. (https://minecraft.wiki/w/RCON)
const RCONLimit = 1446

// RCON hands a line to a server that speaks Source RCON: the engine itself, and Minecraft, ARK, Palworld, Factorio and others.
//
// Minecraft reads one packet at a time and hangs up on two in one read, so nothing is sent before the answer to what was sent
// earlier. A reply may be several packets without a mark of the last one: when its first packet has come, an empty packet of
// another type is sent, which servers answer in turn, Source by repeating it, Minecraft by "Unknown request", others by
// refusing it. A server that does not answer it ends the reply by a second of silence, or, while something is expected, by
// the context's end.
//
// A server that ends the connection instead of replying, as many do after their stop command, has taken the line.
func RCON(ctx context.Context, peer Peer, password secret.Value, line Line) Outcome {
	if err := errors.Join(line.check(RCONLimit), checkPassword(password, RCONLimit)); err != nil {
		return undeliverable(err)
	}
	c, err := converse(ctx, "tcp", peer, line.Expect)
	if err != nil {
		return undeliverable(err)
	}
	return c.rcon(password, line)
}

func (c *conversation) rcon(password secret.Value, line Line) Outcome {
	handed := false
	defer func() { c.close(handed) }()
	if err := c.rconLogin(password); err != nil {
		return undeliverable(err)
	}
	var o Outcome
	if handed, o = c.handOver(rconBytes(rconCommandID, rconCommand, []byte(line.Text))); !handed {
		return o
	}
	err := c.rconReply()
	if errors.Is(err, errNotLoggedIn) {
		return undeliverable(err)
	}
	return c.finish(err, password)
}

func (c *conversation) rconLogin(password secret.Value) error {
	if err := c.send(rconBytes(rconLoginID, rconLogin, password.Reveal())); err != nil {
		return err
	}
	for range 4 { // Source sends an empty value before the verdict
		p, err := readRCON(c.conn)
		if errors.Is(err, io.EOF) {
			return faulty(Rejected, "the server ended the connection at the login: see whether the password is right")
		}
		if err != nil {
			return err
		}
		switch {
		case p.kind == rconVerdict && p.id == rconRejected:
			return faulty(Rejected, "the server rejected the password: correct the secret of `console.password`")
		case p.kind == rconVerdict && p.id == rconLoginID:
			return nil
		case p.kind != rconValue:
			return faulty(Protocol, "the answer to the login is none of RCON")
		}
	}
	return faulty(Protocol, "the server does not answer the login")
}

// errNotLoggedIn says that the server forgot the login between its verdict and the line, which it did not take.
var errNotLoggedIn = faulty(Rejected, "the server asks for another login instead of taking the line")

// rconReply reads until the reply is over.
func (c *conversation) rconReply() error {
	for marked := false; ; {
		p, err := readRCON(c.conn)
		switch {
		case err != nil && marked && isTimeout(err) && !c.expected:
			return nil
		case err != nil:
			return err
		case p.id == rconEndID, p.id == rconRejected && marked:
			return nil
		case p.id == rconRejected:
			return errNotLoggedIn
		case p.id != rconCommandID:
			return faulty(Protocol, "a reply to something that was not asked")
		}
		if err := c.hear(p.body); err != nil || c.reply.seen {
			return err
		}
		if marked {
			continue
		}
		marked = true
		_ = c.send(rconBytes(rconEndID, rconValue, nil)) // if it has left, reading tells, after what it said before
		if !c.expected {
			if err := c.until(time.Now().Add(settle)); err != nil {
				return err
			}
		}
	}
}

type rconPacket struct {
	id, kind int32
	body     []byte
}

func rconBytes(id, kind int32, body []byte) []byte {
	b := make([]byte, 0, 4+rconMin+len(body)) // grows never: no copy of a password is left behind
	b = binary.LittleEndian.AppendUint32(b, uint32(rconMin+len(body)))
	b = binary.LittleEndian.AppendUint32(b, uint32(id))
	b = binary.LittleEndian.AppendUint32(b, uint32(kind))
	b = append(b, body...)
	return append(b, 0, 0)
}

// readRCON reads one packet. It is io.EOF alone where the peer ended between two packets.
func readRCON(r io.Reader) (rconPacket, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return rconPacket{}, err
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n < rconMin || n > rconMax {
		return rconPacket{}, faulty(Protocol, fmt.Sprintf("a packet of %d bytes; RCON has %d to %d", n, rconMin, rconMax))
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return rconPacket{}, err
	}
	if b[n-1] != 0 {
		return rconPacket{}, faulty(Protocol, "a packet without its final NUL")
	}
	body, _, _ := bytes.Cut(b[8:], []byte{0}) // there is one
	return rconPacket{
		id:   int32(binary.LittleEndian.Uint32(b)),
		kind: int32(binary.LittleEndian.Uint32(b[4:])),
		body: body,
	}, nil
}
