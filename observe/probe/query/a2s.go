package query

import (
	"bytes"
	"net"
)

// a2sHead is before every message that comes in one piece; one in pieces has a2sPieces.
var (
	a2sHead   = []byte{0xff, 0xff, 0xff, 0xff}
	a2sPieces = []byte{0xfe, 0xff, 0xff, 0xff}
)

// a2sInfo is the question A2S_INFO.
var a2sInfo = append(append([]byte{}, a2sHead...), "TSource Engine Query\x00"...)

// a2sChallenges is how many challenges in a row are answered: a server may take a new one in between, but not for ever.
const a2sChallenges = 4

// a2s asks a server of Source, GoldSrc or any of the many that speak like them: A2S_INFO ('T' and a text), answered by 'I' (Source), 'm'
// (GoldSrc), or a challenge: 'A' and 4 bytes, which are to stand at the end of the same question, asked again. The number of players has the
// bots in it, which have a number of their own; the difference is who plays. After 'I' come: protocol (1 byte), name, map, folder, game
// (texts up to a zero byte), an id (2 bytes), players, most players, bots (1 byte each). After 'm': address, name, map, folder, game (texts),
// players, most players (1 byte each); then protocol, kind, system, visibility (1 byte each), whether a mod follows (1 byte; if so: two
// texts, a zero byte, version and size of 4 bytes each, two bytes), security, bots (1 byte each). An answer in pieces, which no info needs in
// practice, is not put together.
//
// Source: https://developer.valvesoftware.com/wiki/Server_queries
func a2s(conn net.Conn) (a Answer, err error) {
	challenges := 0
	err = exchange(conn, a2sInfo, func(b []byte) (bool, error) {
		if bytes.HasPrefix(b, a2sPieces) {
			return true, malformed("an answer in pieces")
		}
		f := fields{rest: b}
		head, kind := f.take(len(a2sHead)), f.byte()
		if !f.ok() || !bytes.Equal(head, a2sHead) {
			return false, nil
		}
		switch kind {
		case 'I':
			a, err = parseSource(&f)
			return true, err
		case 'm':
			a, err = parseGoldSource(&f)
			return true, err
		case 'A':
			challenge := f.take(4)
			if challenges++; !f.ok() || challenges > a2sChallenges {
				return true, malformed("a challenge that leads nowhere")
			}
			_, err := conn.Write(append(bytes.Clone(a2sInfo), challenge...))
			return false, err
		}
		return false, nil
	})
	return a, err
}

func parseSource(f *fields) (Answer, error) {
	f.byte()
	for range 4 {
		f.text()
	}
	f.uint16()
	players, _, bots := f.byte(), f.byte(), f.byte()
	if !f.ok() {
		return Answer{}, malformed("an info that ends early")
	}
	return people(players, bots)
}

func parseGoldSource(f *fields) (Answer, error) {
	for range 5 {
		f.text()
	}
	players, _ := f.byte(), f.byte()
	f.take(4)
	if f.byte() == 1 {
		f.text()
		f.text()
		f.take(1 + 4 + 4 + 2)
	}
	_, bots := f.byte(), f.byte()
	if !f.ok() {
		return Answer{}, malformed("an info that ends early")
	}
	return people(players, bots)
}

// people are the players without the bots. Some servers leave the bots out of the players: then nobody is taken off.
func people(players, bots byte) (Answer, error) {
	if bots > players {
		bots = 0
	}
	return told(int(players - bots))
}
