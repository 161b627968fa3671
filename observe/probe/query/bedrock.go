package query

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"net"
	"strconv"
	"strings"
)

// offlineMagic is in every RakNet message outside a connection.
var offlineMagic = []byte{0x00, 0xff, 0xff, 0x00, 0xfe, 0xfe, 0xfe, 0xfe, 0xfd, 0xfd, 0xfd, 0xfd, 0x12, 0x34, 0x56, 0x78}

// bedrock pings a Bedrock server: RakNet's Unconnected Ping (0x01, a time of 8 bytes, the magic, the asker's GUID of 8 bytes), answered by
// Unconnected Pong (0x1c, the same time, the server's GUID, the magic, a text with its length of 2 bytes, big-endian). The text is
// `MCPE;motd;protocol;version;online;max;...`; a backslash takes the next sign's meaning away. The time is ours to choose, so it is what
// ties an answer to its question.
//
// Source: https://minecraft.wiki/w/RakNet, sections Unconnected Ping and Unconnected Pong; https://wiki.bedrock.dev/servers/raknet
func bedrock(conn net.Conn) (a Answer, err error) {
	challenge := make([]byte, 8)
	_, _ = rand.Read(challenge) // never fails
	challenge[0] &= 0x7f        // some servers read a signed time
	ping := append([]byte{0x01}, challenge...)
	ping = append(ping, offlineMagic...)
	ping = append(ping, challenge...) // the GUID: any
	err = exchange(conn, ping, func(b []byte) (bool, error) {
		if len(b) < 9 || b[0] != 0x1c || !bytes.Equal(b[1:9], challenge) {
			return false, nil
		}
		a, err = parsePong(b)
		return true, err
	})
	return a, err
}

func parsePong(b []byte) (Answer, error) {
	f := fields{rest: b}
	f.take(1 + 8 + 8)
	magic := f.take(len(offlineMagic))
	size := f.take(2)
	if !f.ok() || !bytes.Equal(magic, offlineMagic) {
		return Answer{}, malformed("a pong without its magic")
	}
	text := f.take(int(binary.BigEndian.Uint16(size)))
	if !f.ok() {
		return Answer{}, malformed("a pong that is shorter than it says")
	}
	parts := splitEscaped(string(text))
	if parts[0] != "MCPE" && parts[0] != "MCEE" {
		return Answer{}, malformed("the pong of another game")
	}
	if len(parts) < 5 {
		return Answer{}, nil
	}
	n, err := strconv.Atoi(parts[4])
	if err != nil {
		return Answer{}, malformed("a number of players that is none")
	}
	return told(n)
}

// splitEscaped splits at each semicolon that no backslash stands before.
func splitEscaped(text string) (parts []string) {
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			part.WriteByte(text[i])
		case c == ';':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(c)
		}
	}
	return append(parts, part.String())
}
