package query

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"math"
	"net"
)

// mumble pings a voice server: four zero bytes and 8 of our choice, answered by 24 bytes: version (4), ours (8), users, most users, bandwidth (4 each),
// numbers big-endian. Mumble 1.5 and later answer it too, for older askers. `allowping=false` silences it.
//
// Source: https://www.mumble.info/documentation/developer/protocol/ping, Mumble src/murmur/Server.cpp (Server::run, handlePing)
func mumble(conn net.Conn) (a Answer, err error) {
	ping := make([]byte, 12)
	_, _ = rand.Read(ping[4:]) // never fails
	err = exchange(conn, ping, func(b []byte) (bool, error) {
		if len(b) != 24 || !bytes.Equal(b[4:12], ping[4:]) {
			return false, nil
		}
		users := binary.BigEndian.Uint32(b[12:])
		if users > math.MaxInt32 {
			return true, malformed("more users than there can be")
		}
		a, err = told(int(users))
		return true, err
	})
	return a, err
}
