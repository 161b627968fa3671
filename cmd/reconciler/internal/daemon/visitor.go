package daemon

import (
	"errors"
	"io"
	"net"

	"reconciler.dev/reconciler/keeper"
)

// visitor is a connection of the Unix socket. Whatever descriptors come over it are closed as they do: where nobody takes them the kernel closes
// them itself within the read, and one that its sender has made slow to close would hold up whoever ends the connection.
type visitor struct {
	*net.UnixConn
	control [keeper.RightsRoom]byte
}

// Accept waits for the next connection.
func (s *socket) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &visitor{UnixConn: conn.(*net.UnixConn)}, nil // bind made it
}

// Read implements [net.Conn].
func (v *visitor) Read(b []byte) (int, error) {
	n, m, _, _, err := v.ReadMsgUnix(b, v.control[:])
	if m > 0 {
		keeper.DismissPassed(v.control[:m])
	}
	if errors.Is(err, io.EOF) {
		err = io.EOF // as [net.UnixConn.Read] says it
	}
	return max(n, 0), err // an error may come with -1
}
