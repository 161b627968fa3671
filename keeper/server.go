package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/pump"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/logs"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// helloPatience is how long a new connection may take to say who it is.
const helloPatience = 5 * time.Second

// The most connections and requests under way.
const (
	maxConnections = 256
	maxStrangers   = 32   // who may not give orders, at the same time; more are not even told so
	maxRequests    = 4096 // a connection
)

// server answers on the socket.
type server struct {
	core    *Core
	version string
	layout  state.Layout
	ownHost bool // the keeper has a host configuration of its own
	bell    *logs.Bell
	written func(context.Context) error // returns when what was read of servers is in their logs
	listen  func(logs.Run) (*pump.Tap, func(), error)
	starts  chan struct{} // starts carried out at the same time
	others  chan struct{} // other orders carried out at the same time
	setHost func(*Host)
	usage   func() ([]Usage, error)
	// listening tells who listens on the endpoints of those of the runs that live.
	listening func(context.Context, []observe.RunName) ([]observe.RunListening, error)
	past      func(spec.Key) ([]*observe.Facts, error)
	writtenTo func(spec.Key) ([]observe.Written, error)
	status    func(*Status)
	inside    func(peer) (Place, bool) // the run that a process is part of
	note      func(Place, Notice)      // hears what a run says of itself
	inbox     func(Place) (Mail, error)
	quit      func() // ends the keeper
	log       *slog.Logger

	trying    sync.Mutex    // held while the store is tried
	strangers chan struct{} // those who may not give orders

	mu        sync.Mutex
	session   uint64 // of the newest control connection
	sessionBy int    // the process that has it, as the kernel says
	conns     map[*serverConn]struct{}

	wg sync.WaitGroup
}

// serverConn is one connection.
type serverConn struct {
	srv     *server
	link    *link
	peer    peer
	hello   Hello
	session uint64
	leave   func() // gives a stranger's place back

	mu    sync.Mutex
	armed bool                       // the peer has listed since its last notice
	typed map[DeliveryRef]spec.Scope // what its attachments type, and has not ended
}

// serve accepts until the listener is closed. The connections stay.
func (s *server) serve(l *net.UnixListener) {
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.log.Warn("cannot accept a connection", "error", err)
			time.Sleep(acceptPause) // out of descriptors: they come back as others end
			continue
		}
		s.wg.Go(func() { s.handle(conn) })
	}
}

const acceptPause = 100 * time.Millisecond

// end closes every connection and waits for what is under way. serve must have returned.
func (s *server) end() {
	s.mu.Lock()
	for c := range s.conns {
		c.link.close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *server) handle(conn *net.UnixConn) {
	c := &serverConn{srv: s, link: newLink(conn), leave: func() {}}
	defer func() { c.leave() }()
	defer c.link.wait()
	defer c.link.close()
	if err := c.greet(conn); err != nil {
		s.log.Debug("a connection was refused", "error", err)
		return
	}
	defer c.peer.close()
	if !s.add(c) {
		return
	}
	defer s.drop(c)
	defer c.endTyping()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err := c.answerAll(ctx, newReceiver(conn), cancel)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, unix.ECONNRESET) &&
		!errors.Is(err, os.ErrDeadlineExceeded) {
		s.log.Warn("a connection was dropped", "error", err)
	}
}

func (s *server) add(c *serverConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) >= maxConnections {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *server) drop(c *serverConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// greet looks at the peer and shakes hands.
func (c *serverConn) greet(conn *net.UnixConn) error {
	p, err := peerOf(conn)
	if err != nil {
		return err
	}
	c.peer = p
	mayAsk := mayConnect(p.uid, c.srv.ownHost, c.srv.layout.Reconciler())
	if !mayAsk {
		select {
		case c.srv.strangers <- struct{}{}:
			c.leave = func() { <-c.srv.strangers }
		default:
			p.close()
			return errors.New("too many strangers")
		}
	}
	id, err := c.admit(conn, mayAsk)
	if err == nil {
		return nil
	}
	p.close()
	_ = c.link.send(Message{ID: id, Op: OpHello, Error: failureOf(err)}, nil) // it hears why, if it is still there
	c.link.end()
	c.link.wait()
	return err
}

func (c *serverConn) admit(conn *net.UnixConn, mayAsk bool) (id uint64, err error) {
	s := c.srv
	if err := conn.SetReadDeadline(time.Now().Add(helloPatience)); err != nil {
		return 0, err
	}
	// Also of a stranger: what is unread at the close would take the answer with it.
	m, err := newReceiver(conn).receive()
	if err != nil {
		return 0, fmt.Errorf("cannot read a hello: %w", err)
	}
	if m.Op != OpHello {
		return m.ID, refuse(CheckMessage, "a connection begins with hello, not with %q", m.Op)
	}
	if err := decodeBody(m, &c.hello); err != nil {
		return m.ID, err
	}
	if !mayAsk && c.hello.Purpose != PurposeInside {
		return m.ID, refuse(CheckPeer, "user %d may not give orders to this keeper", c.peer.uid)
	}
	if c.hello.Protocol != Protocol {
		return m.ID, refuse(CheckVersion, "the keeper (%s) speaks protocol %d, the other side (%s) %d: run both from the same version",
			s.version, Protocol, c.hello.Version, c.hello.Protocol)
	}
	var until time.Time // whoever may give orders stays as long as it likes
	if c.hello.Purpose == PurposeInside {
		until = time.Now().Add(insidePatience)
	}
	if err := conn.SetReadDeadline(until); err != nil {
		return m.ID, err
	}
	return m.ID, c.welcome(m.ID)
}

func (c *serverConn) welcome(id uint64) error {
	s := c.srv
	w := Welcome{Protocol: Protocol, Version: s.version}
	switch c.hello.Purpose {
	case PurposeControl:
		if err := c.checkLock(); err != nil {
			return err
		}
		w.Session = s.newSession(c.peer.pid)
		c.session = w.Session
		w.HostUsed = c.hello.Host != nil && c.useHost(*c.hello.Host) == nil
		s.core.Compare() // BP-6: before any new work
	case PurposeJobs:
		if err := s.joins(c); err != nil {
			return err
		}
		w.Session, c.session = c.hello.Session, c.hello.Session
	case PurposeQuery, PurposeLogs, PurposeInside:
	default:
		return refuse(CheckMessage, "no connection is for %q", c.hello.Purpose)
	}
	return c.link.send(Message{ID: id, Op: OpHello, Session: w.Session}, w)
}

// checkLock refuses a reconciler whose lock another one has taken: it was stopped or cut off, and goes on. The lock's file names its
// holder by what the kernel calls it, so that neither a new connection nor a new keeper lets an old one in (BP-12).
func (c *serverConn) checkLock() error {
	disk := state.LinuxDisk{}
	boot, err := disk.BootID()
	if err != nil {
		return err
	}
	if state.ReadHolder(disk, c.srv.layout.ReconcilerLock()).IsNot(c.peer.pidfd, boot) {
		return refuse(CheckLock, "another process has taken the reconciler's lock: this one is not to give orders any more")
	}
	return nil
}

// newSession fences every older control connection.
func (s *server) newSession(by int) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session++
	s.sessionBy = by
	return s.session
}

// joins refuses a connection for jobs that is not of the newest control session, or of another process.
func (s *server) joins(c *serverConn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.hello.Session == 0 || c.hello.Session != s.session:
		return refuse(CheckSession, "the connection is for jobs of session %d, the newest is session %d", c.hello.Session, s.session)
	case c.peer.pid != s.sessionBy:
		return refuse(CheckPeer, "session %d is another process's", s.session)
	}
	return nil
}

func (s *server) currentSession() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

// notify tells everybody who has listed that there is something new. It never blocks.
func (s *server) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.mu.Lock()
		if c.armed {
			c.armed = false
			_ = c.link.send(Message{Op: OpChanged}, nil) // a peer that is gone needs no notice
		}
		c.mu.Unlock()
	}
}

func (c *serverConn) arm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = true
}

// answerAll reads requests and answers each beside the others.
func (c *serverConn) answerAll(ctx context.Context, r *receiver, cancel func()) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	under := make(chan struct{}, maxRequests)
	for {
		m, err := r.receive()
		if err != nil {
			return err
		}
		received := time.Now()
		under <- struct{}{}
		wg.Go(func() {
			defer func() { <-under }()
			deepen(false)
			c.answer(ctx, m, received)
		})
	}
}
