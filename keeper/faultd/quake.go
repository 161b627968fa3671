package faultd

import (
	"bytes"
	"net"
)

// The remote console of Quake III: a datagram of four bytes 0xFF, "rcon", the password and the line; what the line prints
// comes back behind "print" and a newline. (ioquake3, code/server/sv_main.c, SVC_RemoteCommand)
var (
	quakeAsks   = []byte("\xff\xff\xff\xffrcon ")
	quakePrints = "\xff\xff\xff\xffprint\n"
)

func serveQuake(r *remote) error {
	c, err := net.ListenPacket("udp", r.addr)
	if err != nil {
		return err
	}
	say("%s listening %s", r.kind, c.LocalAddr())
	go func() {
		b := make([]byte, 64<<10)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				r.end(err)
				return
			}
			r.quake(c, b[:n], from)
		}
	}()
	return nil
}

// quakeReplies bounds an answer without an end: datagrams are lost and nobody is hung up on.
const quakeReplies = 64

func (r *remote) quake(c net.PacketConn, datagram []byte, from net.Addr) {
	left := quakeReplies
	write := func(text string) error {
		if left--; left < 0 {
			return errHangUp
		}
		_, err := c.WriteTo([]byte(quakePrints+text+"\n"), from)
		return err
	}
	switch r.mode {
	case modeSilent, modeLockout:
		say("%s was sent %d bytes", r.kind, len(datagram))
		return
	case modeGarbage:
		_, _ = c.WriteTo(garbled(1000), from) // who asked may be gone
		return
	}
	rest, ok := bytes.CutPrefix(datagram, quakeAsks)
	if !ok {
		return
	}
	password, line, _ := bytes.Cut(rest, []byte(" "))
	if string(password) != r.password {
		r.loggedIn(false)
		_ = write("Bad rconpassword.") // who asked may be gone
		return
	}
	_ = r.answer(string(line), write) // who asked may be gone
}
