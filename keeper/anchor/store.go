package anchor

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"reconciler.dev/reconciler/observe/proc/wait"
)

// Patience is how long a call of a [Store] waits for the anchor at most.
const Patience = 5 * time.Second

// Why a call of a [Store] came to nothing.
var (
	// ErrAway says that there is no anchor, that it has ended, or that it does not answer. Nothing is known of what it holds; a put or drop may
	// be carried out later, if it wakes up: a late put is taken back then.
	ErrAway = errors.New("the anchor does not answer")
	// ErrNone says that nothing is held by the name.
	ErrNone = errors.New("the anchor holds nothing by this name")
	// ErrFull says that the anchor holds as much as it may.
	ErrFull = errors.New("the anchor holds as many descriptors as it may")
	// ErrStranger says that a process is no child of the anchor, or that it was reaped.
	ErrStranger = errors.New("the process is no child of the anchor")
	// ErrRefused says that a request is against the rules (see [MaxName]), or that the anchor could not carry it out.
	ErrRefused = errors.New("the anchor refused the request")
)

// Store is the keeper's end. A nil Store is one without an anchor: each call answers [ErrAway]. Calls may come from several goroutines, and
// wait for each other; none belongs into an event loop.
//
// A call ends at its context's deadline and within [Patience]; that the context is cancelled before is seen at its start only.
type Store struct {
	patience time.Duration

	mu    sync.Mutex
	conn  int // -1 once it is closed or the anchor has ended
	seq   uint32
	owing *request // was not answered in time
	in    packetReader
}

// NewStore is the Store at the end conn of a SOCK_SEQPACKET socket pair, which it owns from then on.
func NewStore(conn int) *Store { return &Store{patience: Patience, conn: conn} }

// Pair makes a Store and the connection for [Shelf.Serve] that belongs to it, both close-on-exec.
func Pair() (store *Store, conn int, err error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, errors.New("cannot make a socket pair: " + err.Error())
	}
	return NewStore(pair[0]), pair[1], nil
}

// Put gives the anchor a descriptor to hold, in place of any other of this name; the caller keeps its own.
func (s *Store) Put(ctx context.Context, name string, fd int) error {
	_, _, err := s.call(ctx, request{op: opPut, name: name}, fd)
	return err
}

// Get is another descriptor of what is held by this name, close-on-exec and the caller's.
func (s *Store) Get(ctx context.Context, name string) (fd int, err error) {
	_, fd, err = s.call(ctx, request{op: opGet, name: name}, -1)
	return fd, err
}

// Drop closes what is held by this name.
func (s *Store) Drop(ctx context.Context, name string) error {
	_, _, err := s.call(ctx, request{op: opDrop, name: name}, -1)
	return err
}

// Names lists what is held, sorted.
func (s *Store) Names(ctx context.Context) ([]string, error) {
	var all []string
	for after := ""; ; after = all[len(all)-1] {
		body, _, err := s.call(ctx, request{op: opNames, name: after}, -1)
		if err != nil {
			return nil, err
		}
		page, err := decodeNames(body, after)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return all, nil
		}
		all = append(all, page...)
	}
}

// Exit tells how a child of the anchor has ended, and leaves the zombie as it is; false says that it has not.
func (s *Store) Exit(ctx context.Context, pidfd int) (end wait.End, ended bool, err error) {
	body, _, err := s.call(ctx, request{op: opExit}, pidfd)
	if errors.Is(err, ErrNone) {
		return wait.End{}, false, nil
	}
	if err != nil {
		return wait.End{}, false, err
	}
	end, err = decodeEnd(body)
	return end, err == nil, err
}

// Reap lets an ended child of the anchor go: its end is on record. One that has not ended stays, and false is answered.
func (s *Store) Reap(ctx context.Context, pidfd int) (reaped bool, err error) {
	_, _, err = s.call(ctx, request{op: opReap}, pidfd)
	if errors.Is(err, ErrNone) {
		return false, nil
	}
	return err == nil, err
}

// Up says that the keeper serves now: from then on the anchor starts another when it dies, however it does.
func (s *Store) Up(ctx context.Context) error {
	_, _, err := s.call(ctx, request{op: opUp}, -1)
	return err
}

// Answers reports whether the anchor has answered whatever it was asked last, and is not known to have ended. It waits for nothing that
// was not answered in time before.
func (s *Store) Answers() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn >= 0 && s.catchUp(time.Now().Add(s.patience)) == nil
}

// Close ends the Store. What the anchor holds, it goes on holding.
func (s *Store) Close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.close()
}

func (s *Store) close() error {
	if s.conn < 0 {
		return nil
	}
	err := syscall.Close(s.conn)
	s.conn = -1
	return err
}

// call asks and waits for the answer. The body is a copy; fd is -1 when none came.
func (s *Store) call(ctx context.Context, r request, give int) (body []byte, fd int, err error) {
	if s == nil {
		return nil, -1, ErrAway
	}
	if err := ctx.Err(); err != nil {
		return nil, -1, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	until := time.Now().Add(s.patience)
	if d, ok := ctx.Deadline(); ok && d.Before(until) {
		until = d
	}
	if err := s.catchUp(until); err != nil {
		return nil, -1, err
	}
	return s.exchange(r, give, until)
}

// catchUp takes the answer that is owed to us, if it has come. A put that was given up when it was not answered is taken back.
func (s *Store) catchUp(until time.Time) error {
	if s.owing == nil {
		return nil
	}
	late := *s.owing
	answer, fd, err := s.receive(late.seq, time.Time{})
	if err != nil {
		return err
	}
	closeIf(fd)
	s.owing = nil
	if late.op != opPut || answer.status != statusOK {
		return nil
	}
	_, _, err = s.exchange(request{op: opDrop, name: late.name}, -1, until)
	if errors.Is(err, ErrNone) {
		return nil
	}
	return err
}

func (s *Store) exchange(r request, give int, until time.Time) (body []byte, fd int, err error) {
	if s.conn < 0 {
		return nil, -1, ErrAway
	}
	s.seq++
	r.seq = s.seq
	switch err := s.send(r, give); {
	case err == syscall.EAGAIN, err == syscall.ENOBUFS, err == syscall.EPIPE, err == syscall.ECONNRESET:
		return nil, -1, ErrAway
	case err != nil:
		return nil, -1, errors.New("cannot ask the anchor: " + err.Error())
	}
	answer, fd, err := s.receive(r.seq, until)
	if err != nil {
		s.owing = &r
		return nil, -1, err
	}
	if err := answer.status.err(); err != nil || (r.op == opGet) != (fd >= 0) {
		closeIf(fd)
		return nil, -1, cmpErr(err)
	}
	return append([]byte(nil), answer.body...), fd, nil
}

// cmpErr is the error of an answer; one that is none but came with the wrong descriptors is against the protocol.
func cmpErr(err error) error {
	if err == nil {
		return errMalformed
	}
	return err
}

func (s *Store) send(r request, give int) error {
	if r.op.brings() {
		return sendPacket(s.conn, r.encode(), give)
	}
	return sendPacket(s.conn, r.encode())
}

// receive waits for the answer of this number and passes over those of others, whose askers have gone. A zero until does not wait.
func (s *Store) receive(seq uint32, until time.Time) (reply, int, error) {
	for {
		packet, fd, err := s.in.read(s.conn, syscall.MSG_DONTWAIT)
		if err == syscall.EAGAIN {
			if err := readable(s.conn, until); err != nil {
				return reply{}, -1, err
			}
			continue
		}
		if err != nil && err != errMalformed {
			_ = s.close() // it has ended, and is not coming back
			return reply{}, -1, ErrAway
		}
		answer, err := decodeReply(packet)
		if err != nil || answer.seq != seq {
			closeIf(fd)
			continue
		}
		return answer, fd, nil
	}
}

func (st status) err() error {
	switch st {
	case statusOK:
		return nil
	case statusNone:
		return ErrNone
	case statusFull:
		return ErrFull
	case statusStranger:
		return ErrStranger
	}
	return ErrRefused
}
