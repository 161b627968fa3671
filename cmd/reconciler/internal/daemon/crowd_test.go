package daemon

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"reconciler.dev/reconciler/observe/proc/proctest"
)

// party is a server with a crowd, on a Unix socket. A request of /stay is answered when the party is over.
type party struct {
	t       *testing.T
	path    string
	states  chan http.ConnState
	staying chan struct{}
	over    chan struct{}
}

// newParty has room for so many; all connections are one user's that has a share of so many.
func newParty(t *testing.T, most, share int) *party {
	dir := proctest.Place(t) // t.TempDir is too long a path for a socket
	p := &party{t: t, path: filepath.Join(dir, "s"), states: make(chan http.ConnState, 1000), staying: make(chan struct{}), over: make(chan struct{})}
	c := &crowd{max: most, share: share, log: slog.New(slog.DiscardHandler), user: func(net.Conn) (int, bool) { return 7, share > 0 }}
	l, err := net.Listen("unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		ConnState: func(conn net.Conn, s http.ConnState) { c.state(conn, s); p.states <- s },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/stay" {
				p.staying <- struct{}{}
				<-p.over
			}
			io.WriteString(w, "ok")
		}),
	}
	var serving sync.WaitGroup
	serving.Go(func() { s.Serve(l) })
	t.Cleanup(func() {
		p.end()
		s.Close()
		serving.Wait()
	})
	return p
}

func (p *party) end() {
	select {
	case <-p.over:
	default:
		close(p.over)
	}
}

func (p *party) dial() net.Conn {
	p.t.Helper()
	c, err := net.Dial("unix", p.path)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	return c
}

// until waits for a connection to get to a state.
func (p *party) until(want http.ConnState) {
	for s := range p.states {
		if s == want {
			return
		}
	}
}

// ask asks and returns when the answer is read and its connection waits again.
func (p *party) ask(c net.Conn) error {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return err
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return err
	}
	p.until(http.StateIdle)
	return nil
}

// stay asks for what is answered at the end.
func (p *party) stay(c net.Conn) {
	p.t.Helper()
	if _, err := io.WriteString(c, "GET /stay HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		p.t.Fatal(err)
	}
	<-p.staying
}

// closed waits for the other end to close.
func closed(c net.Conn) bool {
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// gone reports whether an asker was turned away.
func gone(err error) bool {
	return err != nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "closed"))
}

func TestCrowdMakesRoomByTheOneThatHasWaitedLongest(t *testing.T) {
	p := newParty(t, 3, 0)
	var conns []net.Conn
	for range 3 {
		c := p.dial()
		if err := p.ask(c); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	if err := p.ask(conns[0]); err != nil { // now the second one has waited longest
		t.Fatal(err)
	}
	silent := p.dial() // it never asks
	if !closed(conns[1]) {
		t.Error("the one that has waited longest is there")
	}
	for _, c := range []net.Conn{conns[2], conns[0]} {
		if err := p.ask(c); err != nil {
			t.Errorf("one that has waited less: %v", err)
		}
	}
	if err := p.ask(p.dial()); err != nil {
		t.Errorf("a new one: %v", err)
	}
	if !closed(silent) {
		t.Error("the silent one is there")
	}
}

func TestCrowdTurnsAwayWhenAllAreBeingAnswered(t *testing.T) {
	for name, bounds := range map[string][2]int{"all": {2, 0}, "one user's share": {9, 2}} {
		t.Run(name, func(t *testing.T) {
			p := newParty(t, bounds[0], bounds[1])
			first, second := p.dial(), p.dial()
			p.stay(first)
			p.stay(second)
			for range 3 {
				if err := p.ask(p.dial()); !gone(err) {
					t.Errorf("one too many: %v", err)
				}
			}
			first.Close() // its answer is of no use any more
			p.end()
			second.Close()
			for range 5 { // both, and the three that were turned away
				p.until(http.StateClosed)
			}
			if err := p.ask(p.dial()); err != nil {
				t.Errorf("when there is room again: %v", err)
			}
		})
	}
}

// A share is of one user: another's connections are no reason to turn anybody away, and none makes room for another below the whole bound.
func TestCrowdShares(t *testing.T) {
	uids := map[net.Conn]int{}
	c := &crowd{max: 5, share: 2, log: slog.New(slog.DiscardHandler), user: func(conn net.Conn) (int, bool) { return uids[conn], uids[conn] != 0 }}
	enter := func(uid int) (conn net.Conn, leave []net.Conn) {
		conn, other := net.Pipe()
		t.Cleanup(func() { conn.Close(); other.Close() })
		uids[conn] = uid
		return conn, c.enter(conn)
	}
	own, leave := enter(0)
	a, leaveA := enter(1)
	_, leaveB := enter(1)
	_, leaveC := enter(2)
	if leave != nil || leaveA != nil || leaveB != nil || leaveC != nil {
		t.Fatal("somebody had to leave while there was room")
	}
	if _, leave := enter(1); len(leave) != 1 || leave[0] != a {
		t.Errorf("a third of one user: %d leave, want the user's first", len(leave))
	}
	if _, leave := enter(3); len(leave) != 1 || uids[leave[0]] == 0 {
		t.Error("the fourth of all who have a share must take the place of another of them")
	}
	if _, leave := enter(0); leave != nil {
		t.Error("the fifth of all must not make anybody leave")
	}
	if _, leave := enter(0); len(leave) != 1 || leave[0] != own {
		t.Errorf("the sixth of all: %d leave, want the one that has waited longest", len(leave))
	}
}
