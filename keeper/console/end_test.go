package console

import (
	"context"
	"io"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/secret"
)

// listenPlainly listens as a server does that does not ask for SO_REUSEADDR.
func listenPlainly(address string) (net.Listener, error) {
	plain := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		controlErr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 0) })
		if controlErr != nil {
			return controlErr
		}
		return err
	}}
	return plain.Listen(context.Background(), "tcp", address)
}

// A server that has ended the connection can have its port again at once.
func TestThePortOfAServerThatEnds(t *testing.T) {
	for name, c := range map[string]struct {
		serve   func(net.Conn)
		deliver func(context.Context, Peer) Outcome
	}{
		"Telnet": {
			func(c net.Conn) {
				_, _ = c.Read(make([]byte, 100)) // the line
				_, _ = io.WriteString(c, "Closing console\r\n")
			},
			func(ctx context.Context, p Peer) Outcome {
				return Telnet(ctx, p, secret.Value{}, Line{Text: "shutdown"})
			},
		},
		"RCON": {
			rconServer(func(net.Conn, rconPacket) {}),
			func(ctx context.Context, p Peer) Outcome { return RCON(ctx, p, password(), Line{Text: "stop"}) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := listenPlainly("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				conn, err := l.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				c.serve(conn)
				conn.Close()
				l.Close()
			}()
			o := c.deliver(within(t, patience), Peer{Address: l.Addr().(*net.TCPAddr).AddrPort()})
			<-ended
			if !o.OK() {
				t.Errorf("the outcome is %+v", o)
			}
			again, err := listenPlainly(l.Addr().String())
			if err != nil {
				t.Fatalf("the server cannot start again: %v", err)
			}
			again.Close()
		})
	}
}
