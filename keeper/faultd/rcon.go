package faultd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// Source RCON as Valve describes it: a packet is its length in bytes, an id, a type, a body that ends with NUL, and one more
// NUL; numbers are 32-bit little endian. (https://developer.valvesoftware.com/wiki/Source_RCON_Protocol)
const (
	rconLogin    = 3
	rconCommand  = 2
	rconLoggedIn = 2 // with the login's id, or -1 when it is refused
	rconReply    = 0

	rconMin = 10   // id, type and two NULs
	rconMax = 4106 // the same with a body of 4096
)

func serveRCON(r *remote) error { return r.listen(r.rcon) }

func (r *remote) rcon(c net.Conn) error {
	for loggedIn := false; ; {
		p, err := readRCON(c)
		if err != nil {
			return err
		}
		write := func(p rconPacket) error { _, err := c.Write(p.bytes()); return err }
		switch {
		case p.kind == rconLogin:
			loggedIn = r.loggedIn(p.body == r.password)
			verdict := rconPacket{id: p.id, kind: rconLoggedIn}
			if !loggedIn {
				verdict.id = -1
			}
			err = write(verdict)
		case !loggedIn:
			err = write(rconPacket{id: -1, kind: rconLoggedIn})
		case p.kind != rconCommand:
			err = write(p) // what marks the end of a reply comes back
		default:
			err = r.answer(p.body, func(text string) error { return write(rconPacket{id: p.id, kind: rconReply, body: text}) })
		}
		if err != nil {
			return err
		}
	}
}

type rconPacket struct {
	id, kind int32
	body     string
}

func (p rconPacket) bytes() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(rconMin+len(p.body)))
	b = binary.LittleEndian.AppendUint32(b, uint32(p.id))
	b = binary.LittleEndian.AppendUint32(b, uint32(p.kind))
	b = append(b, p.body...)
	return append(b, 0, 0)
}

func readRCON(r io.Reader) (rconPacket, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return rconPacket{}, err
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n < rconMin || n > rconMax {
		return rconPacket{}, fmt.Errorf("a packet of %d bytes; %d to %d are allowed", n, rconMin, rconMax)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return rconPacket{}, err
	}
	if b[n-1] != 0 || b[n-2] != 0 {
		return rconPacket{}, errors.New("a packet without its two NULs")
	}
	return rconPacket{
		id:   int32(binary.LittleEndian.Uint32(b)),
		kind: int32(binary.LittleEndian.Uint32(b[4:])),
		body: string(b[8 : n-2]),
	}, nil
}
