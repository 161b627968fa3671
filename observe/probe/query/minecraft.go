package query

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
)

// statusLimit is how long a status may be, in bytes: the protocol's strings have at most 32767 letters of at most 3 bytes.
const statusLimit = 3*32767 + 16

// minecraft asks a Java server, or a proxy like Velocity, for its status: a handshake (packet 0x00: protocol version, address, port,
// next state 1), a request (packet 0x00, empty), and the answer (packet 0x00: a text of JSON). Every packet has its length before
// it; lengths are VarInts: 7 bits a byte, lowest first, the highest bit says that more follow, at most 5 bytes. The version -1
// asks without being a client of any. `players.online` may be missing (`hide-online-players` empties the sample alone; proxies
// and plugins may leave the whole out). A server with `enable-status=false` closes without an answer.
//
// Source: https://minecraft.wiki/w/Java_Edition_protocol/Server_List_Ping
func minecraft(conn net.Conn) (Answer, error) {
	if _, err := conn.Write(statusRequest(conn.RemoteAddr())); err != nil {
		return Answer{}, err
	}
	body, err := readPacket(bufio.NewReader(conn))
	if err != nil {
		return Answer{}, err
	}
	return parseStatus(body)
}

// statusRequest is handshake and request in one write.
func statusRequest(to net.Addr) []byte {
	host, port := "localhost", uint16(25565)
	if a, ok := to.(*net.TCPAddr); ok {
		host, port = a.IP.String(), uint16(a.Port)
	}
	handshake := []byte{0x00}
	handshake = binary.AppendUvarint(handshake, 0xffffffff) // -1
	handshake = binary.AppendUvarint(handshake, uint64(len(host)))
	handshake = append(handshake, host...)
	handshake = binary.BigEndian.AppendUint16(handshake, port)
	handshake = append(handshake, 1)
	b := binary.AppendUvarint(nil, uint64(len(handshake)))
	return append(append(b, handshake...), 1, 0x00)
}

// readPacket reads a packet without its length. It grows with what comes, not with what is announced.
func readPacket(in *bufio.Reader) ([]byte, error) {
	size, err := readVarInt(in)
	if err != nil {
		return nil, err
	}
	if size < 1 || size > statusLimit {
		return nil, malformed("a packet of a length that no status has")
	}
	body, err := io.ReadAll(io.LimitReader(in, int64(size)))
	if err == nil && len(body) < size {
		err = malformed("it ends within the packet")
	}
	return body, err
}

func readVarInt(in io.ByteReader) (int, error) {
	var v uint32
	for i := range 5 {
		b, err := in.ReadByte()
		if errors.Is(err, io.EOF) {
			return 0, malformed("it ends before the packet: `enable-status` may be off")
		}
		if err != nil {
			return 0, err
		}
		v |= uint32(b&0x7f) << (7 * i)
		if b < 0x80 {
			return int(int32(v)), nil
		}
	}
	return 0, malformed("a VarInt of more than 5 bytes")
}

func parseStatus(body []byte) (Answer, error) {
	in := bytes.NewReader(body)
	if kind, err := readVarInt(in); err != nil || kind != 0 {
		return Answer{}, malformed("another packet than a status")
	}
	size, err := readVarInt(in)
	if err != nil || size != in.Len() {
		return Answer{}, malformed("the status has another length than its packet")
	}
	var status struct {
		Players *struct {
			Online *int `json:"online"`
		} `json:"players"`
	}
	if err := json.Unmarshal(body[len(body)-size:], &status); err != nil {
		return Answer{}, malformed("the status is no JSON of the known form")
	}
	if status.Players == nil || status.Players.Online == nil {
		return Answer{}, nil
	}
	return told(*status.Players.Online)
}

// told is an answer with a count.
func told(players int) (Answer, error) {
	if players < 0 {
		return Answer{}, malformed("fewer than no players")
	}
	return Answer{Players: players, Told: true}, nil
}
