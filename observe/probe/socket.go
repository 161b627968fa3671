package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"

	"reconciler.dev/reconciler/spec"
)

// ReplyLimit is how many bytes of a reply are read in search of what is expected.
const ReplyLimit = 64 << 10

// ask sends what is to be sent, and awaits what is expected anywhere in the first [ReplyLimit] bytes of the reply. Without
// both, TCP is a connect; with send alone, TCP is done when it is written, and UDP awaits any datagram.
func ask(conn net.Conn, network string, p *spec.SocketProbe) error {
	if len(p.Send) > 0 {
		if _, err := conn.Write(p.Send); err != nil {
			return err
		}
	}
	if len(p.Expect) == 0 && network == "tcp" {
		return nil
	}
	return await(conn, p.Expect, network == "udp")
}

// await reads until what is expected was seen, also across the borders of reads. Every datagram is looked at by itself.
func await(conn io.Reader, expect []byte, datagrams bool) error {
	size := max(4096, 2*len(expect))
	if datagrams {
		size = ReplyLimit
	}
	buffer := make([]byte, 0, size)
	for read := 0; read < ReplyLimit; {
		switch {
		case datagrams:
			buffer = buffer[:0]
		case len(buffer) == size:
			tail := max(len(expect)-1, 0) // may be the beginning of what is expected
			buffer = buffer[:copy(buffer, buffer[size-tail:])]
		}
		n, err := conn.Read(buffer[len(buffer):size])
		buffer = buffer[:len(buffer)+n]
		read += n
		if n > 0 && bytes.Contains(buffer, expect) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return errors.New("the reply ended without what is expected")
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("the first %d bytes of the reply do not have what is expected", ReplyLimit)
}
