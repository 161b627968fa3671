package query

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a conversation of a test may take when nothing ends it.
const patience = time.Minute

// udpServer answers every datagram with answer's datagrams until the test ends, and returns a connection to it.
func udpServer(t *testing.T, answer func(request []byte) [][]byte) net.Conn {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 2048)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			for _, reply := range answer(bytes.Clone(buffer[:n])) {
				_, _ = server.WriteTo(reply, from)
			}
		}
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return dial(t, server.LocalAddr())
}

// tcpServer lets talk speak with whoever connects first, ends the connection after the asker, and returns a connection to it. A socket
// that is closed with bytes unread, or to which bytes come afterwards, would send a reset, and take with it what the asker has not read yet.
func tcpServer(t *testing.T, talk func(net.Conn)) net.Conn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		talk(conn)
		_ = conn.(*net.TCPConn).CloseWrite() // the asker may be gone
		_, _ = io.Copy(io.Discard, conn)
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return dial(t, listener.Addr())
}

func dial(t *testing.T, to net.Addr) net.Conn {
	t.Helper()
	conn, err := net.Dial(to.Network(), to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// The answers of good servers, as each protocol makes them of a request.

func goodPong(request []byte, text string) []byte {
	b := append([]byte{0x1c}, request[1:9]...)
	b = append(b, "serverid"...)
	b = append(b, offlineMagic...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(text)))
	return append(b, text...)
}

func sourceInfo(players, bots byte) []byte {
	b := append(bytes.Clone(a2sHead), 'I', 17)
	b = append(b, "name\x00map\x00folder\x00game\x00"...)
	return append(b, 0xd2, 0x04, players, 32, bots, 'd', 'l', 0, 1)
}

func goldInfo(players, bots byte, mod bool) []byte {
	b := append(bytes.Clone(a2sHead), "m127.0.0.1:27015\x00name\x00map\x00folder\x00game\x00"...)
	b = append(b, players, 32, 47, 'd', 'l', 0)
	if mod {
		b = append(b, 1)
		b = append(b, "http://a\x00http://b\x00"...)
		b = append(b, make([]byte, 1+4+4+2)...)
	} else {
		b = append(b, 0)
	}
	return append(b, 1, bots)
}

// gameInfo is the content of OpenTTD's answer in one of its versions.
func gameInfo(version, form, clients byte) []byte {
	b := []byte{version}
	if version >= 7 {
		b = append(b, make([]byte, 8)...)
	}
	if version >= 6 {
		b = append(b, form)
	}
	if version >= 5 {
		b = append(append(b, 1, 0, 0, 0), "script\x00"...)
	}
	if version >= 4 {
		b = append(b, 2)
		for range 2 {
			switch form {
			case grfByLookup:
				b = append(b, 1, 2, 3, 4)
			case grfByName:
				b = append(append(b, make([]byte, 20)...), "grf\x00"...)
			default:
				b = append(b, make([]byte, 20)...)
			}
		}
	}
	if version >= 3 {
		b = append(b, make([]byte, 8)...)
	}
	if version >= 2 {
		b = append(b, 15, 1, 10)
	}
	b = append(b, "town\x0013.0\x00"...)
	if version < 6 {
		b = append(b, 0)
	}
	b = append(b, 0, 25, clients, 1)
	if version < 3 {
		b = append(b, 0, 0, 0, 0)
	}
	if version < 6 {
		b = append(b, "map\x00"...)
	}
	return append(b, 0, 1, 0, 1, 0, 1)
}

func openttdPacket(kind byte, content []byte) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(3+len(content)))
	return append(append(b, kind), content...)
}

func mumblePong(request []byte, users uint32) []byte {
	b := append([]byte{0, 1, 3, 4}, request[4:]...)
	b = binary.BigEndian.AppendUint32(b, users)
	return append(b, 0, 0, 0, 100, 0, 0, 0, 0)
}

func statusPacket(text string) []byte {
	body := append([]byte{0x00}, binary.AppendUvarint(nil, uint64(len(text)))...)
	body = append(body, text...)
	return append(binary.AppendUvarint(nil, uint64(len(body))), body...)
}

func one(reply func(request []byte) []byte) func([]byte) [][]byte {
	return func(request []byte) [][]byte { return [][]byte{reply(request)} }
}

func always(reply []byte) func([]byte) [][]byte {
	return func([]byte) [][]byte { return [][]byte{reply} }
}

// challenged answers A2S_INFO with a challenge and the same with that challenge with info.
func challenged(info []byte) func([]byte) [][]byte {
	const challenge = "\x01\x02\x03\x04"
	return func(request []byte) [][]byte {
		switch {
		case bytes.Equal(request, a2sInfo):
			return [][]byte{append(append(bytes.Clone(a2sHead), 'A'), challenge...)}
		case bytes.Equal(request, append(bytes.Clone(a2sInfo), challenge...)):
			return [][]byte{info}
		}
		return nil
	}
}

func quakeStatus(request []byte, lines string) []byte {
	challenge, _ := strings.CutPrefix(string(request), "\xff\xff\xff\xffgetstatus ")
	return []byte("\xff\xff\xff\xffstatusResponse\n\\mapname\\oa_dm1\\challenge\\" + challenge + "\\sv_maxclients\\8\n" + lines)
}

func TestDatagrams(t *testing.T) {
	noise := []byte("noise")
	for _, c := range []struct {
		what, protocol string
		server         func([]byte) [][]byte
		want           Answer
		fails          string // part of the error; "" = none
	}{
		{"a pong", Bedrock, one(func(r []byte) []byte { return goodPong(r, "MCPE;Hall;527;1.19.1;7;20;1;w;Survival;1;19132;19133;") }), Answer{7, true}, ""},
		{"a semicolon in the name", Bedrock, one(func(r []byte) []byte { return goodPong(r, `MCPE;a\;b;527;1.19.1;3;20`) }), Answer{3, true}, ""},
		{"an edition for schools", Bedrock, one(func(r []byte) []byte { return goodPong(r, "MCEE;x;1;1;2;20") }), Answer{2, true}, ""},
		{"a pong without a count", Bedrock, one(func(r []byte) []byte { return goodPong(r, "MCPE;x") }), Answer{}, ""},
		{"a pong to another ping", Bedrock, func(r []byte) [][]byte {
			return [][]byte{goodPong(make([]byte, 25), "MCPE;x;1;1;9;9"), noise, goodPong(r, "MCPE;x;1;1;1;9")}
		}, Answer{1, true}, ""},
		{"a pong that is cut", Bedrock, one(func(r []byte) []byte { return goodPong(r, "MCPE;x;1;1;1;9")[:40] }), Answer{}, "shorter than it says"},
		{"a pong of another game", Bedrock, one(func(r []byte) []byte { return goodPong(r, "XXXX;x;1;1;1;9") }), Answer{}, "another game"},
		{"a pong without magic", Bedrock, one(func(r []byte) []byte { return goodPong(r, "MCPE")[:20] }), Answer{}, "magic"},
		{"a count that is none", Bedrock, one(func(r []byte) []byte { return goodPong(r, "MCPE;x;1;1;many;9") }), Answer{}, "number of players"},
		{"fewer than none", Bedrock, one(func(r []byte) []byte { return goodPong(r, "MCPE;x;1;1;-1;9") }), Answer{}, "fewer than no players"},

		{"an info", A2S, always(sourceInfo(9, 4)), Answer{5, true}, ""},
		{"an info behind a challenge", A2S, challenged(sourceInfo(3, 0)), Answer{3, true}, ""},
		{"bots that are no players", A2S, always(sourceInfo(1, 4)), Answer{1, true}, ""},
		{"noise before it", A2S, func([]byte) [][]byte { return [][]byte{noise, {}, {0xff}, sourceInfo(2, 0)} }, Answer{2, true}, ""},
		{"an info of GoldSrc", A2S, always(goldInfo(6, 2, false)), Answer{4, true}, ""},
		{"an info of a mod", A2S, always(goldInfo(6, 1, true)), Answer{5, true}, ""},
		{"challenges for ever", A2S, always(append(bytes.Clone(a2sHead), "A1234"...)), Answer{}, "leads nowhere"},
		{"a cut challenge", A2S, always(append(bytes.Clone(a2sHead), "A12"...)), Answer{}, "leads nowhere"},
		{"an info that ends early", A2S, always(sourceInfo(9, 4)[:20]), Answer{}, "ends early"},
		{"an info of GoldSrc that ends early", A2S, always(goldInfo(6, 1, true)[:60]), Answer{}, "ends early"},
		{"an info in pieces", A2S, always(append(bytes.Clone(a2sPieces), 1, 2, 3)), Answer{}, "in pieces"},

		{"a status", Quake3, one(func(r []byte) []byte { return quakeStatus(r, "5 48 \"ann\"\n0 0 \"Sarge\"\n") }), Answer{2, true}, ""},
		{"a status of nobody", Quake3, one(func(r []byte) []byte { return quakeStatus(r, "") }), Answer{0, true}, ""},
		{"a status to another question", Quake3, func(r []byte) [][]byte {
			return [][]byte{quakeStatus([]byte("x"), "1 1 \"a\"\n"), quakeStatus(r, "")}
		}, Answer{0, true}, ""},
		{"a status without a line", Quake3, always([]byte("\xff\xff\xff\xffstatusResponse\n")), Answer{}, "end of line"},

		{"the game info of version 1", OpenTTD, always(openttdPacket(1, gameInfo(1, 0, 3))), Answer{3, true}, ""},
		{"of version 4", OpenTTD, always(openttdPacket(1, gameInfo(4, 0, 4))), Answer{4, true}, ""},
		{"of version 6", OpenTTD, always(openttdPacket(1, gameInfo(6, grfByID, 6))), Answer{6, true}, ""},
		{"of version 6 with names", OpenTTD, always(openttdPacket(1, gameInfo(6, grfByName, 6))), Answer{6, true}, ""},
		{"of version 7 with a table", OpenTTD, always(openttdPacket(1, gameInfo(7, grfByLookup, 7))), Answer{7, true}, ""},
		{"of a version to come", OpenTTD, always(openttdPacket(1, gameInfo(8, 0, 7))), Answer{}, ""},
		{"another packet first", OpenTTD, func([]byte) [][]byte {
			return [][]byte{openttdPacket(2, gameInfo(6, 0, 1)), noise, {9, 0, 1, 6}, openttdPacket(1, gameInfo(6, 0, 2))}
		}, Answer{2, true}, ""},
		{"that it is there", OpenTTD, always(openttdPacket(1, nil)), Answer{}, ""},
		{"of version 0", OpenTTD, always(openttdPacket(1, []byte{0, 0})), Answer{}, "version 0"},
		{"an unknown form", OpenTTD, always(openttdPacket(1, gameInfo(6, 9, 2))), Answer{}, "ends early"},
		{"a game info that ends early", OpenTTD, always(openttdPacket(1, gameInfo(6, 0, 2)[:50])), Answer{}, "ends early"},

		{"users", Mumble, one(func(r []byte) []byte { return mumblePong(r, 12) }), Answer{12, true}, ""},
		{"another's users", Mumble, func(r []byte) [][]byte {
			return [][]byte{mumblePong(make([]byte, 12), 3), noise, mumblePong(r, 4)}
		}, Answer{4, true}, ""},
		{"too many users", Mumble, one(func(r []byte) []byte { return mumblePong(r, 1<<31) }), Answer{}, "more users"},
	} {
		t.Run(c.protocol+" "+c.what, func(t *testing.T) {
			got, err := Ask(udpServer(t, c.server), "udp", c.protocol)
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails) || !errors.Is(err, ErrMalformed)) {
				t.Fatalf("error %v, want %q", err, c.fails)
			}
			if err == nil && got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// Whoever never answers, answers with garbage for ever or sends more than a datagram holds ends no conversation well, and each ends.
func TestBadServers(t *testing.T) {
	for protocol, c := range clients {
		if c["udp"] == nil {
			continue
		}
		t.Run(protocol+" garbage for ever", func(t *testing.T) {
			flood := func([]byte) (all [][]byte) {
				for range 2 * datagramsLimit {
					all = append(all, []byte("\xff\xff\xff\xffgarbage"))
				}
				return all
			}
			conn := udpServer(t, flood)
			soon(t, conn) // the kernel may drop some of them: then it is silence
			if _, err := Ask(conn, "udp", protocol); !errors.Is(err, ErrMalformed) && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
		t.Run(protocol+" silence", func(t *testing.T) {
			conn := udpServer(t, func([]byte) [][]byte { return nil })
			soon(t, conn)
			if _, err := Ask(conn, "udp", protocol); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("got %v, want the end of its time", err)
			}
		})
		t.Run(protocol+" huge", func(t *testing.T) {
			conn := udpServer(t, always(bytes.Repeat([]byte{0xff}, 60000)))
			soon(t, conn)
			if _, err := Ask(conn, "udp", protocol); err == nil {
				t.Error("60000 bytes of 0xff are no answer")
			}
		})
		t.Run(protocol+" nobody", func(t *testing.T) {
			// A socket that is connected to itself hears nobody else, and keeps its port from being somebody else's.
			deaf, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer deaf.Close()
			toItself(t, deaf.(*net.UDPConn))
			if _, err := Ask(dial(t, deaf.LocalAddr()), "udp", protocol); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("got %v, want that nobody is there", err)
			}
		})
	}
}

func toItself(t *testing.T, conn *net.UDPConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	self := &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: conn.LocalAddr().(*net.UDPAddr).Port}
	if controlErr := raw.Control(func(fd uintptr) { err = syscall.Connect(int(fd), self) }); controlErr != nil || err != nil {
		t.Fatal(controlErr, err)
	}
}

func soon(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
}

func TestMinecraft(t *testing.T) {
	// respond reads the request whole and writes the reply in pieces.
	respond := func(reply []byte, piece int) func(net.Conn) {
		return func(c net.Conn) {
			buffer := make([]byte, 256)
			if _, err := io.ReadFull(c, buffer[:len(statusRequest(c.LocalAddr()))]); err != nil {
				return
			}
			for len(reply) > 0 {
				n := min(piece, len(reply))
				_, _ = c.Write(reply[:n])
				reply = reply[n:]
			}
		}
	}
	long := strings.Repeat("x", 90000)
	for _, c := range []struct {
		what  string
		talk  func(net.Conn)
		want  Answer
		fails string
	}{
		{"a status", respond(statusPacket(`{"version":{"name":"1.20"},"players":{"max":20,"online":3,"sample":[]},"description":"x"}`), 1000), Answer{3, true}, ""},
		{"byte by byte", respond(statusPacket(`{"players":{"online":1}}`), 1), Answer{1, true}, ""},
		{"a long status", respond(statusPacket(`{"players":{"online":1},"favicon":"`+long+`"}`), 4096), Answer{1, true}, ""},
		{"players that are hidden", respond(statusPacket(`{"description":"x"}`), 1000), Answer{}, ""},
		{"a count that is hidden", respond(statusPacket(`{"players":{"max":1}}`), 1000), Answer{}, ""},
		{"fewer than none", respond(statusPacket(`{"players":{"online":-1}}`), 1000), Answer{}, "fewer than no players"},
		{"a count of another type", respond(statusPacket(`{"players":{"online":"3"}}`), 1000), Answer{}, "no JSON"},
		{"no JSON", respond(statusPacket(`hello`), 1000), Answer{}, "no JSON"},
		{"another packet", respond([]byte{3, 1, 1, 'x'}, 1000), Answer{}, "another packet"},
		{"a text that is longer than its packet", respond([]byte{3, 0, 99, 'x'}, 1000), Answer{}, "another length"},
		{"a text that is shorter than its packet", respond([]byte{5, 0, 1, 'x', 'y', 'z'}, 1000), Answer{}, "another length"},
		{"no word", respond(nil, 1), Answer{}, "ends before"},
		{"half a packet", respond(statusPacket(`{"players":{"online":1}}`)[:10], 1000), Answer{}, "ends within"},
		{"a huge length", respond([]byte{0xff, 0xff, 0xff, 0xff, 0x07, 0}, 1000), Answer{}, "of a length"},
		{"a negative length", respond([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}, 1000), Answer{}, "of a length"},
		{"no length at all", respond([]byte{0}, 1000), Answer{}, "of a length"},
		{"a length without an end", respond(bytes.Repeat([]byte{0xff}, 64), 1000), Answer{}, "VarInt"},
		{"another protocol", respond([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), 1000), Answer{}, "ends within"},
	} {
		t.Run(c.what, func(t *testing.T) {
			got, err := Ask(tcpServer(t, c.talk), "tcp", Minecraft)
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails) || !errors.Is(err, ErrMalformed)) {
				t.Fatalf("error %v, want %q", err, c.fails)
			}
			if err == nil && got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestMinecraftOfTheSilent(t *testing.T) {
	hold := make(chan struct{})
	conn := tcpServer(t, func(net.Conn) { <-hold })
	t.Cleanup(func() { close(hold) })
	soon(t, conn)
	if _, err := Ask(conn, "tcp", Minecraft); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want the end of its time", err)
	}
}

// What goes onto the wire, to the byte: the version -1, the address that was dialled, the next state, and the empty request.
func TestStatusRequest(t *testing.T) {
	got := statusRequest(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 25566})
	want := append([]byte{19, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 9}, "127.0.0.1\x63\xde\x01\x01\x00"...)
	if !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

func TestOpenTTDOverTCP(t *testing.T) {
	respond := func(reply []byte, piece int) func(net.Conn) {
		return func(c net.Conn) {
			if _, err := io.ReadFull(c, make([]byte, 3)); err != nil {
				return
			}
			for part := range slices.Chunk(reply, piece) {
				_, _ = c.Write(part)
			}
		}
	}
	seen, err := hex.DecodeString("2a00060601ffffffff000022de0a001fde0a000f0019746573740031332e300000190000800080000001")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what  string
		talk  func(net.Conn)
		want  Answer
		fails string
	}{
		{"what OpenTTD 13.0 sends", respond(seen, 100), Answer{0, true}, ""},
		{"byte by byte", respond(openttdPacket(openttdInfo, gameInfo(6, grfByName, 5)), 1), Answer{5, true}, ""},
		{"of version 7", respond(openttdPacket(openttdInfo, gameInfo(7, grfByLookup, 9)), 100), Answer{9, true}, ""},
		{"a full server", respond(openttdPacket(openttdFull, nil), 3), Answer{}, ""},
		{"a server that has banned us", respond(openttdPacket(openttdBanned, nil), 3), Answer{}, ""},
		{"another packet", respond(openttdPacket(3, []byte{8}), 10), Answer{}, "another packet"},
		{"a length that is none", respond([]byte{1, 0, openttdInfo}, 3), Answer{}, "another packet"},
		{"a length that lies", respond([]byte{0xff, 0xff, openttdInfo, 6}, 4), Answer{}, "ends within"},
		{"no word", respond(nil, 1), Answer{}, "ends within"},
		{"a game info that ends early", respond(openttdPacket(openttdInfo, gameInfo(6, 0, 2)[:50]), 100), Answer{}, "ends early"},
	} {
		t.Run(c.what, func(t *testing.T) {
			got, err := Ask(tcpServer(t, c.talk), "tcp", OpenTTD)
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails) || !errors.Is(err, ErrMalformed)) {
				t.Fatalf("error %v, want %q", err, c.fails)
			}
			if err == nil && got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestProtocolsAndNetworks(t *testing.T) {
	for protocol, c := range clients {
		for _, network := range []string{"tcp", "udp", ""} {
			if c[network] != nil {
				continue
			}
			if _, err := Ask(nil, network, protocol); err == nil {
				t.Errorf("%s was asked over %q", protocol, network)
			}
		}
	}
	if _, err := Ask(nil, "tcp", "Gopher"); err == nil {
		t.Error("Gopher was asked")
	}
}
