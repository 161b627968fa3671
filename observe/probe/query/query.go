package query

import (
	"errors"
	"fmt"
	"net"
)

// The protocols, as manifests name them.
const (
	Minecraft = "Minecraft"
	Bedrock   = "Bedrock"
	A2S       = "A2S"
	Quake3    = "Quake3"
	OpenTTD   = "OpenTTD"
	Mumble    = "Mumble"
)

// Answer is what a server says of itself.
type Answer struct {
	// Players is how many play, 0 or more; it means nothing when the server does not tell it.
	Players int
	Told    bool // the server tells how many play
}

// ErrMalformed is in the error of every answer that is not what the protocol says.
var ErrMalformed = errors.New("the answer is not what the protocol says")

func malformed(what string) error { return fmt.Errorf("%w: %s", ErrMalformed, what) }

// clients ask over a connection, by protocol and network.
var clients = map[string]map[string]func(net.Conn) (Answer, error){
	Minecraft: {"tcp": minecraft},
	Bedrock:   {"udp": bedrock},
	A2S:       {"udp": a2s},
	Quake3:    {"udp": quake3},
	OpenTTD:   {"tcp": openttd, "udp": openttdFound},
	Mumble:    {"udp": mumble},
}

// Ask asks once, over a connection of a network ("tcp" or "udp") that the protocol is spoken over. It returns when there is an answer,
// when the server has said something that is none, or when the connection fails, is closed or is past its deadline.
func Ask(conn net.Conn, network, protocol string) (Answer, error) {
	ask, ok := clients[protocol][network]
	if !ok {
		return Answer{}, fmt.Errorf("%s is not spoken over %s", protocol, network)
	}
	return ask(conn)
}

// The bounds of a conversation over datagrams.
const (
	datagramLimit  = 16 << 10 // bytes of one that are looked at; ioquake3's largest message (MAX_MSGLEN)
	datagramsLimit = 64       // looked at in one conversation: more of them that are no answers are a flood
)

// errFlood says that a server sends and sends, and never what it was asked for.
var errFlood = fmt.Errorf("%w: %d datagrams, and none is an answer", ErrMalformed, datagramsLimit)

// exchange sends a request and gives each datagram that comes to take, until that returns true or an error.
func exchange(conn net.Conn, request []byte, take func([]byte) (bool, error)) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	buffer := make([]byte, datagramLimit)
	for range datagramsLimit {
		n, err := conn.Read(buffer)
		if err != nil {
			return err
		}
		if done, err := take(buffer[:n]); done || err != nil {
			return err
		}
	}
	return errFlood
}
