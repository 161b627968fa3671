package keeper

import (
	"context"
	"errors"
	"io"
	"time"

	"reconciler.dev/reconciler/keeper/pump"
	"reconciler.dev/reconciler/observe/logs"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// livePiece is how many bytes of a run's output go into one packet.
const livePiece = 32 << 10

// streamLive sends the last lines of a run, and goes on where they end with what it prints, until it prints no more.
func (c *serverConn) streamLive(ctx context.Context, id uint64, q LogQuery) error {
	run := logs.Run{Scope: q.Scope.ID(), Number: q.Run}
	tap, stop, err := c.srv.listen(run)
	if err != nil {
		return refuse(CheckRun, "run %d of %s prints nothing more", q.Run, q.Scope)
	}
	defer stop()
	w := &entryWriter{link: c.link, id: id}
	begin := LogEntry{Live: true}
	if q.Tail != 0 {
		if begin, err = c.sendPast(ctx, w, q, tap); err != nil {
			return err
		}
	}
	if err := w.send(begin); err != nil {
		return err
	}
	for {
		text, lost, err := tap.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for len(text) > livePiece {
			if err := w.send(LogEntry{Live: true, Text: text[:livePiece]}); err != nil {
				return err
			}
			text = text[livePiece:]
		}
		if err := w.send(LogEntry{Live: true, Text: text, Lost: lost}); err != nil {
			return err
		}
	}
}

// sendPast sends the last lines up to where a tap begins, and returns the entry that comes there. A log that a disk holds up is left out.
func (c *serverConn) sendPast(ctx context.Context, w *entryWriter, q LogQuery, tap *pump.Tap) (LogEntry, error) {
	begin := LogEntry{Live: true}
	patient, cancel := context.WithTimeout(ctx, writtenLimit)
	defer cancel()
	seam, err := tap.Seam(patient)
	if ctx.Err() != nil {
		return begin, context.Cause(ctx)
	}
	if err != nil || seam.Run == 0 {
		return begin, nil // it has written nothing, or nothing is told for now
	}
	if seam.Return {
		begin.Text = []byte("\r")
	}
	err = logs.Read(ctx, logs.Query{Dir: c.srv.layout.Logs(), Scope: q.Scope.ID(), Run: q.Run, Tail: q.Tail, Until: &seam.End}, w.emit)
	if errors.Is(err, logs.ErrNoLog) {
		err = nil
	}
	return begin, err
}

// typeKeys types on a run's terminal.
func (c *serverConn) typeKeys(ctx context.Context, m Message, received time.Time) (any, error) {
	var typed state.Typed
	err := c.orderAs(ctx, m, received, func(g Guard) error {
		return decoded(m, func(o state.KeysOrder) (err error) {
			typed.Taken, err = c.srv.core.Type(o, g)
			if err == nil {
				c.noteTyping(o)
			}
			return err
		})
	})
	return typed, err
}

// noteTyping remembers what has to be ended when the connection is.
func (c *serverConn) noteTyping(o state.KeysOrder) {
	ref := DeliveryRef{RunID: o.RunID, ID: o.ID}
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.End {
		delete(c.typed, ref)
		return
	}
	if c.typed == nil {
		c.typed = map[DeliveryRef]spec.Scope{}
	}
	c.typed[ref] = o.Scope
}

// endTyping ends what came over this connection, whose other end has gone.
func (c *serverConn) endTyping() {
	c.mu.Lock()
	typed := c.typed
	c.typed = nil
	c.mu.Unlock()
	for ref, scope := range typed {
		if _, err := c.srv.core.Type(state.KeysOrder{Scope: scope, RunID: ref.RunID, ID: ref.ID, End: true}, nil); err != nil {
			c.srv.log.Debug("cannot end what was typed", "scope", scope.String(), "error", err) // its run is over, and so is that
		}
	}
}
