package query

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// tape is a connection that plays: over "udp" each read is a datagram, over "tcp" a read takes what there is.
type tape struct {
	net.Conn
	answers func(request []byte) [][]byte
	waiting [][]byte
	written int
}

func (c *tape) Write(b []byte) (int, error) {
	c.written++
	c.waiting = append(c.waiting, c.answers(b)...)
	return len(b), nil
}

func (c *tape) Read(b []byte) (int, error) {
	if len(c.waiting) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.waiting[0])
	if c.waiting[0] = c.waiting[0][n:]; len(c.waiting[0]) == 0 || len(b) == datagramLimit {
		c.waiting = c.waiting[1:]
	}
	return n, nil
}

func (c *tape) RemoteAddr() net.Addr            { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (c *tape) SetDeadline(time.Time) error     { return nil }
func (c *tape) SetReadDeadline(time.Time) error { return nil }

// fuzz asks a server that answers with the data, put by answer where a server's own words stand.
func fuzz(t *testing.T, network, protocol string, answers func(request []byte) [][]byte) {
	c := &tape{answers: answers}
	a, err := Ask(c, network, protocol)
	if err == nil && a.Told && a.Players < 0 || !a.Told && a.Players != 0 || err != nil && a != (Answer{}) {
		t.Errorf("%+v, %v", a, err)
	}
	if c.written > 1+a2sChallenges {
		t.Errorf("it asked %d times", c.written)
	}
}

// put lays b over data at a place, as far as there is data.
func put(data, b []byte, at int) []byte {
	data = bytes.Clone(data)
	if at < len(data) {
		copy(data[at:], b)
	}
	return data
}

func FuzzMinecraft(f *testing.F) {
	f.Add(statusPacket(`{"players":{"online":3}}`))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, data []byte) { fuzz(t, "tcp", Minecraft, always(data)) })
}

func FuzzBedrock(f *testing.F) {
	f.Add(goodPong(make([]byte, 25), "MCPE;x;1;1;7;20"))
	f.Add(goodPong(make([]byte, 25), `MCEE;\;;\`))
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzz(t, "udp", Bedrock, one(func(r []byte) []byte { return put(data, r[1:9], 1) }))
	})
}

func FuzzA2S(f *testing.F) {
	f.Add(sourceInfo(9, 4), goldInfo(1, 0, true))
	f.Add(append(bytes.Clone(a2sHead), "A1234"...), goldInfo(1, 0, false))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		fuzz(t, "udp", A2S, func([]byte) [][]byte { return [][]byte{first, second} })
	})
}

func FuzzQuake3(f *testing.F) {
	f.Add([]byte("1 1 \"a\"\n\n"))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzz(t, "udp", Quake3, one(func(r []byte) []byte { return quakeStatus(r, string(data)) }))
		fuzz(t, "udp", Quake3, always(append([]byte("\xff\xff\xff\xffstatusResponse\n"), data...)))
	})
}

func FuzzOpenTTD(f *testing.F) {
	for version := byte(1); version <= 8; version++ {
		f.Add(gameInfo(version, grfByID, 3))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzz(t, "udp", OpenTTD, always(openttdPacket(openttdResponse, data)))
		fuzz(t, "udp", OpenTTD, always(data))
		fuzz(t, "tcp", OpenTTD, always(openttdPacket(openttdInfo, data)))
		fuzz(t, "tcp", OpenTTD, always(data))
	})
}

func FuzzMumble(f *testing.F) {
	f.Add(mumblePong(make([]byte, 12), 3))
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzz(t, "udp", Mumble, one(func(r []byte) []byte { return put(data, r[4:], 4) }))
	})
}
