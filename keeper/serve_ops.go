package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/logs"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// answer carries out one request.
func (c *serverConn) answer(ctx context.Context, m Message, received time.Time) {
	if m.Op == OpLogs {
		c.answerLogs(ctx, m)
		return
	}
	body, err := c.do(ctx, m, received)
	if sendErr := c.link.send(Message{ID: m.ID, Op: m.Op, Error: failureOf(err)}, body); sendErr != nil {
		c.srv.log.Debug("an answer was lost", "op", m.Op, "error", sendErr)
		c.link.close()
	}
}

func (c *serverConn) do(ctx context.Context, m Message, received time.Time) (body any, err error) {
	if c.hello.Purpose == PurposeInside {
		return c.answerInside(m)
	}
	switch m.Op {
	case OpPing:
		return nil, nil
	case OpTry:
		return nil, c.srv.try()
	case OpList:
		return c.list(m)
	case OpUsage:
		return c.srv.usage()
	case OpListening:
		var asked []observe.RunName
		if err := decodeBody(m, &asked); err != nil {
			return nil, err
		}
		return c.srv.listening(ctx, asked)
	case OpPast:
		var server spec.Key
		if err := decodeBody(m, &server); err != nil {
			return nil, err
		}
		return c.srv.past(server)
	case OpWritten:
		var server spec.Key
		if err := decodeBody(m, &server); err != nil {
			return nil, err
		}
		return c.srv.writtenTo(server)
	case OpStatus:
		st := Status{Version: c.srv.version, Protocol: Protocol, OwnHost: c.srv.ownHost, Rev: c.srv.core.Rev()}
		c.srv.status(&st)
		return st, nil
	case OpSend:
		return c.send(ctx, m, received)
	case OpDo:
		return c.command(ctx, m, received)
	case OpProbe:
		return c.probe(ctx, m, received)
	case OpType:
		return c.typeKeys(ctx, m, received)
	case OpStart, OpStop, OpStep, OpApplyLive, OpMarkReady, OpReload, OpArchive, OpRetire, OpHost, OpShutdown:
		return nil, c.order(ctx, m, received)
	}
	return nil, refuse(CheckMessage, "%q is nothing that can be asked for", m.Op)
}

// order carries out what changes something.
func (c *serverConn) order(ctx context.Context, m Message, received time.Time) error {
	return c.orderAs(ctx, m, received, func(g Guard) error { return c.carryOut(ctx, m, g) })
}

// orderAs calls do for an order on a control connection of the newest session, in time.
func (c *serverConn) orderAs(ctx context.Context, m Message, received time.Time, do func(Guard) error) error {
	jobs := c.hello.Purpose == PurposeJobs && (m.Op == OpDo || m.Op == OpSend || m.Op == OpProbe || m.Op == OpType)
	if c.hello.Purpose != PurposeControl && !jobs {
		return refuse(CheckSession, "orders need a control connection")
	}
	if m.Session != c.session {
		return refuse(CheckSession, "the order is of session %d, this is session %d", m.Session, c.session)
	}
	places := c.srv.others
	if m.Op == OpStart || m.Op == OpDo { // both fork
		places = c.srv.starts
	}
	turn := &turn{check: c.check(m, received), places: places}
	defer turn.leave()
	if err := turn.check(); err != nil {
		return err
	}
	return do(func() error { return turn.take(ctx) })
}

// check refuses an order whose session was fenced, or whose asker waits no more.
func (c *serverConn) check(m Message, received time.Time) func() error {
	return func() error {
		if now := c.srv.currentSession(); now != c.session {
			return refuse(CheckSession, "session %d has taken over from session %d", now, c.session)
		}
		if m.Within > 0 && time.Since(received) > time.Duration(m.Within)*time.Millisecond {
			if m.Op == OpStart {
				return ErrCancelled
			}
			return refuse(CheckDeadline, "the order was not carried out in the %d ms that it had", m.Within)
		}
		return nil
	}
}

// turn is one order's place among those that are carried out at the same time. It is taken when the order has its scope, so
// that orders that wait for a scope take no place from others (I12).
type turn struct {
	check  func() error
	places chan struct{}
	taken  bool
}

// take is the order's [Guard].
func (t *turn) take(ctx context.Context) error {
	if !t.taken {
		select {
		case t.places <- struct{}{}:
			t.taken = true
		case <-ctx.Done():
			return ErrCancelled
		}
	}
	return t.check()
}

func (t *turn) leave() {
	if t.taken {
		<-t.places
	}
}

func (c *serverConn) carryOut(ctx context.Context, m Message, g Guard) error {
	core := c.srv.core
	switch m.Op {
	case OpStart:
		return decoded(m, func(o state.StartOrder) error {
			if err := c.permitStart(); err != nil {
				return err
			}
			return c.tell(o.Launch.Scope, core.Start(o, g))
		})
	case OpStop:
		return decoded(m, func(o state.StopOrder) error { return core.Stop(o, g) })
	case OpStep:
		return decoded(m, func(o state.StepOrder) error { return core.Step(o, g) })
	case OpApplyLive:
		return decoded(m, func(o state.LiveOrder) error { return core.ApplyLive(o, g) })
	case OpMarkReady:
		return decoded(m, func(o state.ReadyOrder) error { return core.MarkReady(o, g) })
	case OpReload:
		return decoded(m, func(o state.ReloadOrder) error { return core.Reload(o, g) })
	case OpArchive:
		return decoded(m, func(o state.ScopeOrder) error { return core.Archive(o, g) })
	case OpRetire:
		return decoded(m, func(o state.ScopeOrder) error { return core.Retire(ctx, o, g) })
	case OpHost:
		return decoded(m, c.useHost)
	case OpShutdown:
		return c.srv.shutdown()
	}
	return refuse(CheckMessage, "%q is no order", m.Op)
}

// receiptPatience is how long after its limit the end of a delivery may be waited for: it has to reach the record.
const receiptPatience = 5 * time.Second

// send hands a line over and waits for what becomes of it, without a place among the orders: a console that hangs holds up
// nobody else's (I12).
func (c *serverConn) send(ctx context.Context, m Message, received time.Time) (any, error) {
	var o state.SendOrder
	told := make(chan state.Receipt, 1)
	err := c.orderAs(ctx, m, received, func(g Guard) error {
		return decoded(m, func(decoded state.SendOrder) error {
			o = decoded
			return c.srv.core.Send(o, g, func(d state.Delivery, out Outcome) {
				told <- state.Receipt{Delivery: d, Detail: out.Detail, Reply: out.Reply}
			})
		})
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, sendLimit+receiptPatience)
	defer cancel()
	select {
	case r := <-told:
		return r, nil
	case <-ctx.Done():
		return state.Receipt{Delivery: state.Delivery{ID: o.ID, RunID: o.RunID, By: o.By, Result: state.Indeterminate}}, nil
	}
}

// command carries a command out and waits for its end as long as the asker does. It goes on without.
func (c *serverConn) command(ctx context.Context, m Message, received time.Time) (any, error) {
	told := make(chan state.Receipt, 1)
	err := c.orderAs(ctx, m, received, func(g Guard) error {
		return decoded(m, func(o state.DoOrder) error {
			if !o.Recall {
				if err := c.permitStart(); err != nil {
					return err
				}
			}
			return c.srv.core.Do(o, g, func(d state.Delivery, out Outcome) {
				told <- state.Receipt{Delivery: d, Detail: out.Detail, Reply: out.Reply, Cut: out.Cut}
			})
		})
	})
	if err != nil {
		return nil, err
	}
	if m.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(received.Add(time.Duration(m.Within)*time.Millisecond)))
		defer cancel()
	}
	select {
	case r := <-told:
		return r, nil
	case <-ctx.Done():
		return nil, errors.New("the command has not ended yet: its id tells what becomes of it")
	}
}

// probe asks a run and waits for what comes of it, without a place among the orders.
func (c *serverConn) probe(ctx context.Context, m Message, received time.Time) (any, error) {
	told := make(chan observe.Probed, 1)
	err := c.orderAs(ctx, m, received, func(g Guard) error {
		return decoded(m, func(o state.ProbeOrder) error {
			return c.srv.core.Probe(o, g, func(p observe.Probed) { told <- p })
		})
	})
	if err != nil {
		return nil, err
	}
	select {
	case p := <-told:
		return p, nil
	case <-ctx.Done(): // nobody listens any more
		return nil, ctx.Err()
	}
}

// useHost takes what a reconciler of the same user says that the host allows, unless this keeper was told itself.
func (c *serverConn) useHost(h Host) error {
	if c.srv.ownHost || c.peer.uid != os.Geteuid() {
		return refuse(CheckPeer, "this keeper goes by its own host configuration")
	}
	c.srv.setHost(&h)
	return nil
}

func decoded[O any](m Message, do func(O) error) error {
	var o O
	if err := decodeBody(m, &o); err != nil {
		return err
	}
	return do(o)
}

// tell writes to our own log what a failed start does not say in public.
func (c *serverConn) tell(scope spec.Scope, err error) error {
	if failed := new(StartFailedError); errors.As(err, &failed) {
		c.srv.log.Warn("a start failed", "scope", scope.String(), "error", failed.Cause)
	}
	return err
}

// permitStart refuses to start anything as root for a reconciler that is not root, unless the host's configuration names
// who may be run as (API.md: root only if listed).
func (c *serverConn) permitStart() error {
	if c.peer.uid == 0 || c.peer.uid == os.Geteuid() || len(c.srv.core.Host().Users) > 0 {
		return nil
	}
	return refuse(CheckUser, "this keeper runs as another user: name who servers may be run as in the host's configuration (users)")
}

// try looks whether records can be written. A disk that hangs is tried once: who asks meanwhile is told so.
func (s *server) try() error {
	if !s.trying.TryLock() {
		return refuse(CheckRecord, "an earlier write has not ended yet: the disk hangs")
	}
	defer s.trying.Unlock()
	if err := state.Try(state.LinuxDisk{}, s.layout.Keeper()); err != nil {
		return refuse(CheckRecord, "%v", err)
	}
	return nil
}

// shutdown ends the keeper when nothing is live.
func (s *server) shutdown() error {
	facts, _, _ := s.core.Facts(0)
	for _, f := range facts {
		if !f.Run.Over() {
			return refuse(CheckLive, "%s still runs: stop every run first", f.Scope)
		}
		if len(f.Programs()) > 0 {
			return refuse(CheckLive, "a command of %s still runs: wait until it has ended", f.Scope)
		}
	}
	s.quit()
	return nil
}

// list answers a page of facts.
func (c *serverConn) list(m Message) (any, error) {
	var req ListRequest
	if err := decodeBody(m, &req); err != nil {
		return nil, err
	}
	c.arm() // before looking: what changes from here on is worth a notice
	facts, rev, whole := c.srv.core.Facts(req.Since)
	return page(facts, rev, whole)
}

// page is a [ListPage] of as many of the facts as fit into a packet, at least one.
func page(facts []*observe.Facts, rev uint64, whole bool) (encoded, error) {
	b := make([]byte, 0, 1024)
	b = append(b, `{"facts":[`...)
	more := false
	for i, f := range facts {
		one, err := json.Marshal(f)
		if err != nil {
			return nil, err
		}
		if i > 0 && len(b)+len(one) > maxInline-pageTail {
			more, rev = true, facts[i-1].Rev
			break
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, one...)
	}
	return fmt.Appendf(b, `],"rev":%d,"whole":%t,"more":%t}`, rev, whole, more), nil
}

// pageTail is what may follow the facts of a page.
const pageTail = 64

// answerLogs streams lines. It writes by itself, so that a reader who takes its time is waited for by nobody else.
func (c *serverConn) answerLogs(ctx context.Context, m Message) {
	err := c.streamLogs(ctx, m)
	if ctx.Err() != nil {
		return
	}
	if c.link.send(Message{ID: m.ID, Op: OpLogs, Error: failureOf(err)}, nil) != nil {
		c.link.close()
	}
}

func (c *serverConn) streamLogs(ctx context.Context, m Message) error {
	if c.hello.Purpose != PurposeLogs {
		return refuse(CheckMessage, "logs need a connection of their own")
	}
	var q LogQuery
	if err := decodeBody(m, &q); err != nil {
		return err
	}
	if !isScope(q.Scope) {
		return refuse(CheckMessage, "%q is no scope", q.Scope.String())
	}
	if q.Live {
		return c.streamLive(ctx, m.ID, q)
	}
	c.awaitWritten(ctx)
	w := &entryWriter{link: c.link, id: m.ID}
	err := logs.Read(ctx, logs.Query{
		Dir: c.srv.layout.Logs(), Scope: q.Scope.ID(), Run: q.Run, Previous: q.Previous, Tail: q.Tail, Since: q.Since,
		Stream: logs.Stream(q.Stream), Follow: q.Follow, After: q.After, Bell: c.srv.bell,
	}, w.emit)
	if errors.Is(err, logs.ErrNoLog) {
		return refuse(CheckLog, "%s has written no log", q.Scope)
	}
	return err
}

// writtenLimit is how long a log's reader waits for what is on its way to the disk, which may hang.
const writtenLimit = time.Second

// awaitWritten waits until what was read of servers is in their logs: whoever was told that a line was seen, by a server that is Ready or a
// command that is done, finds it there. What does not come to be written is left out.
func (c *serverConn) awaitWritten(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, writtenLimit)
	defer cancel()
	_ = c.srv.written(ctx) // the log is read all the same
}

// logPatience is how long a reader of logs may look at something else.
const logPatience = 10 * time.Minute

// entryWriter sends one packet a line, and waits for the peer.
type entryWriter struct {
	link *link
	id   uint64
}

func (w *entryWriter) emit(e logs.Entry) error {
	return w.send(LogEntry{Time: e.Time, Stream: uint8(e.Stream), Partial: e.Partial, Text: e.Text, Cursor: e.Cursor})
}

func (w *entryWriter) send(e LogEntry) error {
	packet, beside, err := encodeMessage(Message{ID: w.id, Op: OpLogs}, e)
	if err != nil {
		return err
	}
	return w.link.write([]outgoing{{packet, beside}}, logPatience)
}
