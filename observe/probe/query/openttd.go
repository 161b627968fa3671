package query

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
)

// The packets, and the newest version of the game info that is known.
const (
	openttdFind     = 0 // PACKET_UDP_CLIENT_FIND_SERVER
	openttdResponse = 1 // PACKET_UDP_SERVER_RESPONSE

	openttdFull    = 0 // PACKET_SERVER_FULL
	openttdBanned  = 1 // PACKET_SERVER_BANNED
	openttdInfo    = 6 // PACKET_SERVER_GAME_INFO
	openttdAskInfo = 7 // PACKET_CLIENT_GAME_INFO

	openttdNewest = 7 // NETWORK_GAME_INFO_VERSION of OpenTTD 14 and 15
)

// openttd asks a server of OpenTTD 12 and later for its game info, over TCP. A packet is its length in bytes (2, little-endian, itself included), its
// type (1 byte) and its content. The game info is a version (1 byte), then what each version has added, the newest first. Its clients are
// people, those who only watch too; the server itself is none of them. A server that is full or has banned us answers with another packet:
// it is there, and does not tell how many play. So does one of a version that is not known yet: what it added stands before all else.
//
// Source: OpenTTD src/network/core/tcp_game.h (PacketGameType) and game_info.cpp (network_game_info.cpp in later ones),
// SerializeNetworkGameInfo; seen of 13.0.
func openttd(conn net.Conn) (Answer, error) {
	if _, err := conn.Write([]byte{3, 0, openttdAskInfo}); err != nil {
		return Answer{}, err
	}
	var head [3]byte
	if err := readFull(conn, head[:]); err != nil {
		return Answer{}, err
	}
	size := int(binary.LittleEndian.Uint16(head[:]))
	switch {
	case head[2] == openttdFull || head[2] == openttdBanned:
		return Answer{}, nil
	case head[2] != openttdInfo || size < len(head):
		return Answer{}, malformed("another packet than a game info")
	}
	content := make([]byte, size-len(head)) // less than 64 KiB
	if err := readFull(conn, content); err != nil {
		return Answer{}, err
	}
	return parseGameInfo(content)
}

// readFull fills b.
func readFull(conn net.Conn, b []byte) error {
	_, err := io.ReadFull(conn, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return malformed("it ends within the packet")
	}
	return err
}

// openttdFound looks for a server over UDP. The packets are like those over TCP. One before version 12 answers with its game info, a later
// one with nothing: that it is there.
//
// Source: OpenTTD src/network/network_udp.cpp, Receive_CLIENT_FIND_SERVER; seen of 13.0.
func openttdFound(conn net.Conn) (a Answer, err error) {
	err = exchange(conn, []byte{3, 0, openttdFind}, func(b []byte) (bool, error) {
		if len(b) < 3 || int(binary.LittleEndian.Uint16(b)) != len(b) || b[2] != openttdResponse {
			return false, nil
		}
		if len(b) > 3 {
			a, err = parseGameInfo(b[3:])
		}
		return true, err
	})
	return a, err
}

func parseGameInfo(b []byte) (Answer, error) {
	f := fields{rest: b}
	version := f.byte()
	switch {
	case version == 0:
		return Answer{}, malformed("a game info of version 0")
	case version > openttdNewest:
		return Answer{}, nil
	}
	if version >= 7 {
		f.take(8) // how long it was played
	}
	named := byte(0)
	if version >= 6 {
		named = f.byte()
	}
	if version >= 5 {
		f.take(4) // version and name of the game script
		f.text()
	}
	if version >= 4 {
		skipNewGRFs(&f, named)
	}
	if version >= 3 {
		f.take(4 + 4) // today and the first day
	}
	if version >= 2 {
		f.take(3) // companies, and as many as there may be; spectators that there may be
	}
	f.text() // name and revision
	f.text()
	if version < 6 {
		f.byte() // language
	}
	f.take(1 + 1) // a password is needed; clients that there may be
	clients := f.byte()
	f.byte() // spectators, who are clients too
	if !f.ok() {
		return Answer{}, malformed("a game info that ends early")
	}
	return told(int(clients))
}

// The ways to write a NewGRF.
const (
	grfByID     = 0 // id and MD5
	grfByName   = 1 // and its name
	grfByLookup = 2 // by its place in a table that we have not
)

func skipNewGRFs(f *fields, form byte) {
	for range f.byte() {
		switch form {
		case grfByID:
			f.take(4 + 16)
		case grfByName:
			f.take(4 + 16)
			f.text()
		case grfByLookup:
			f.take(4)
		default:
			f.short = true
		}
	}
}
