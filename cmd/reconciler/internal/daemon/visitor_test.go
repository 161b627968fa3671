package daemon

import (
	"io"
	"net"
	"net/http"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/state"
)

// A connection over which somebody has passed sockets that take an hour to close can be ended, and its peer is known like any other's.
func TestPassedDescriptorsHoldUpNoEnd(t *testing.T) {
	dir := t.TempDir()
	s, err := bind(state.Layout{State: dir, Runtime: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, count := range []int{1, 253} {
		to, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: s.Addr().String(), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := s.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := api.PeerUser(conn); err != nil {
			t.Error(err)
		}
		slow := slowToClose(t)
		if _, _, err := to.WriteMsgUnix([]byte("GET"), unix.UnixRights(slices.Repeat([]int{slow}, count)...), nil); err != nil {
			t.Fatal(err)
		}
		if err := unix.Close(slow); err != nil {
			t.Fatal(err)
		}
		to.Close()
		if text, err := io.ReadAll(conn); err != nil || string(text) != "GET" {
			t.Errorf("read %q, %v", text, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The socket answers as any HTTP server does.
func TestVisitorsAreServed(t *testing.T) {
	dir := t.TempDir()
	s, err := bind(state.Layout{State: dir, Runtime: dir})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ConnContext: api.ConnContext, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = w.Write(body)
		}
		if err != nil {
			t.Error(err)
		}
	})}
	ended := make(chan error)
	go func() { ended <- server.Serve(s) }()
	transport := &http.Transport{Dial: func(string, string) (net.Conn, error) { return net.Dial("unix", s.Addr().String()) }}
	client := &http.Client{Transport: transport}
	for range 2 { // over one connection
		body, in := io.Pipe()
		go func() {
			for range 100 {
				_, _ = in.Write(make([]byte, 1000))
			}
			_ = in.Close()
		}()
		answer, err := client.Post("http://reconciler/", "", body)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err != nil || len(text) != 100_000 {
			t.Errorf("%d bytes, %v", len(text), err)
		}
		answer.Body.Close()
	}
	transport.CloseIdleConnections()
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	<-ended // it was shut down
}

// slowToClose is a socket that lingers at its close for an hour: nobody reads what it has sent.
func slowToClose(t *testing.T) int {
	t.Helper()
	there, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { there.Close() })
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: there.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	for err == nil {
		_, err = unix.Write(fd, make([]byte, 1<<16))
	}
	if err != unix.EAGAIN {
		t.Fatal(err)
	}
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 3600}); err != nil {
		t.Fatal(err)
	}
	return fd
}
