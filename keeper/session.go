package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/state"
)

// welcomePatience is how long a keeper may take to answer a hello.
const welcomePatience = 10 * time.Second

// session is one connection of the asking side.
type session struct {
	link    *link
	welcome Welcome
	notice  chan struct{} // one slot: something has changed
	ended   chan struct{} // closed when nothing can be heard any more
	reader  sync.WaitGroup

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan Message
	err     error
}

// dial connects to a keeper's socket.
func dial(ctx context.Context, l state.Layout) (*net.UnixConn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unixpacket", l.KeeperSocket())
	if err != nil {
		return nil, fmt.Errorf("cannot reach the keeper: %w", err)
	}
	return conn.(*net.UnixConn), nil
}

// isAbsent reports whether a dial failed because nobody listens.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}

// shakeHands makes a session of a connection, which it owns from then on.
func shakeHands(ctx context.Context, conn *net.UnixConn, h Hello, patience time.Duration) (*session, error) {
	if patience == 0 {
		patience = welcomePatience
	}
	s := &session{
		link: newLink(conn), notice: make(chan struct{}, 1), ended: make(chan struct{}), waiting: map[uint64]chan Message{},
	}
	r := newReceiver(conn)
	r.gather = gatherer()
	s.reader.Go(func() { s.readAll(r) })
	greet, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := s.ask(greet, OpHello, h, &s.welcome)
	if err == nil {
		return s, nil
	}
	s.close()
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%w (no welcome within %s)", ErrUnresponsive, patience)
	}
	return nil, err
}

// close ends the session and waits for its goroutines.
func (s *session) close() {
	s.link.close()
	s.link.wait()
	s.reader.Wait()
}

func (s *session) readAll(r *receiver) {
	for {
		m, err := r.receive()
		if err != nil {
			s.fail(err)
			return
		}
		s.deliver(m)
	}
}

// deliver hands an answer to who waits for it; a notice, or the answer that nobody waits for any more, only rings.
func (s *session) deliver(m Message) {
	if m.ID == 0 {
		select {
		case s.notice <- struct{}{}:
		default:
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.waiting[m.ID]; ok {
		w <- m // one slot a request
		delete(s.waiting, m.ID)
	}
}

func (s *session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, unix.ECONNRESET) {
		err = fmt.Errorf("%w: the connection ended", ErrNoKeeper)
	}
	s.err = err
	close(s.ended)
}

func (s *session) problem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// ask sends a request and waits for its answer. An error of the context says that nobody knows what became of it.
func (s *session) ask(ctx context.Context, op Op, body, answer any) error {
	deepen(false)
	id, wait := s.expect()
	defer s.forget(id)
	m := Message{ID: id, Op: op, Session: s.welcome.Session}
	if deadline, ok := ctx.Deadline(); ok {
		m.Within = max(time.Until(deadline).Milliseconds(), 1)
	}
	if err := s.link.send(m, body); err != nil {
		return err
	}
	select {
	case m := <-wait:
		return read(m, answer)
	case <-s.ended:
		select {
		case m := <-wait: // it came just before the end
			return read(m, answer)
		default:
			return s.problem()
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

func read(m Message, answer any) error {
	if err := m.Error.Err(); err != nil || answer == nil {
		return err
	}
	return decodeBody(m, answer)
}

func (s *session) expect() (uint64, chan Message) {
	wait := make(chan Message, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.waiting[s.last] = wait
	return s.last, wait
}

func (s *session) forget(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, id)
}
