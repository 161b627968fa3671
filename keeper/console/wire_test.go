package console

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// wire is a connection in memory, for bubbles: where a test's outcome depends on how long a server is silent, no other clock will do. Unlike
// [net.Pipe] it keeps what is written until it is read, as sockets do, and its two ways end one by one.
type wire struct{ in, out *way }

func newWire() (a, b net.Conn) {
	ab, ba := &way{changed: make(chan struct{})}, &way{changed: make(chan struct{})}
	return &wire{in: ba, out: ab}, &wire{in: ab, out: ba}
}

func (w *wire) Read(b []byte) (int, error)       { return w.in.read(b) }
func (w *wire) Write(b []byte) (int, error)      { return w.out.write(b) }
func (w *wire) SetDeadline(at time.Time) error   { return w.SetReadDeadline(at) }
func (w *wire) SetWriteDeadline(time.Time) error { return nil } // a flood's end is its reader's
func (w *wire) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (w *wire) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }

func (w *wire) SetReadDeadline(at time.Time) error {
	w.in.change(func() { w.in.deadline = at })
	return nil
}

func (w *wire) CloseWrite() error {
	w.out.change(func() { w.out.ended = true })
	return nil
}

func (w *wire) Close() error {
	w.in.change(func() { w.in.deaf = true })
	return w.CloseWrite()
}

// wireRoom is how much lies unread on a way before its writer waits.
const wireRoom = 256 << 10

// way is one of a wire's two.
type way struct {
	mu       sync.Mutex
	unread   []byte
	ended    bool // nothing more comes
	deaf     bool // nobody reads any more
	deadline time.Time
	changed  chan struct{} // closed when any of the above has changed
}

func (w *way) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

// look calls f, and returns what to wait for where f says that there is something to wait for.
func (w *way) look(f func() bool) (changed <-chan struct{}, deadline time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f() {
		return w.changed, w.deadline
	}
	return nil, time.Time{}
}

func (w *way) read(b []byte) (n int, err error) {
	for {
		changed, deadline := w.look(func() bool {
			switch {
			case w.deaf:
				err = net.ErrClosed
			case !w.deadline.IsZero() && !time.Now().Before(w.deadline):
				err = os.ErrDeadlineExceeded
			case len(w.unread) > 0:
				n = copy(b, w.unread)
				w.unread = w.unread[n:]
			case w.ended:
				err = io.EOF
			default:
				return true
			}
			return false
		})
		if changed == nil {
			w.change(func() {}) // there is room
			return n, err
		}
		var late <-chan time.Time
		if !deadline.IsZero() {
			late = time.After(time.Until(deadline))
		}
		select {
		case <-changed:
		case <-late:
		}
	}
}

func (w *way) write(b []byte) (n int, err error) {
	for {
		changed, _ := w.look(func() bool {
			switch {
			case w.ended:
				err = net.ErrClosed
			case w.deaf:
				err = syscall.EPIPE
			case len(w.unread) < wireRoom:
				n = len(b)
				w.unread = append(w.unread, b...)
			default:
				return true
			}
			return false
		})
		if changed == nil {
			w.change(func() {})
			return n, err
		}
		<-changed
	}
}

// endWriting lets a server say that nothing more comes.
func endWriting(t *testing.T, c net.Conn) {
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
}
