package keeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"reconciler.dev/reconciler/observe/logs"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Ask looks at a keeper without giving orders: it neither fences a reconciler nor starts a keeper.
func Ask(ctx context.Context, l state.Layout, version string) (Status, error) {
	conn, err := dial(ctx, l)
	if err != nil {
		return Status{}, err
	}
	s, err := shakeHands(ctx, conn, Hello{Protocol: Protocol, Version: version, Purpose: PurposeQuery}, 0)
	if err != nil {
		return Status{}, err
	}
	defer s.close()
	var st Status
	return st, s.ask(ctx, OpStatus, nil, &st)
}

// ErrNoLog says that a scope has written no log.
var ErrNoLog = errors.New("it has written no log")

// ErrNoLive says that the keeper shows no terminals.
var ErrNoLive = errors.New("the keeper is of an older version, which shows whole lines only")

// Logs calls emit with every line that the query asks for, on a connection of its own. It returns at the end, when ctx
// ends, or with emit's first error; [ErrNoLog] when nothing was ever written.
func (c *Client) Logs(ctx context.Context, q LogQuery, emit func(logs.Entry) error) error {
	return c.stream(ctx, q, func(e LogEntry) error {
		return emit(logs.Entry{Run: e.Cursor.Run, Time: e.Time, Stream: logs.Stream(e.Stream), Partial: e.Partial, Text: e.Text, Cursor: e.Cursor})
	})
}

// Live calls emit with the last lines of a run, tail of them or, when that is negative, all, and behind them with everything that it prints as it
// does; the first of that is empty or goes on with the last line. It returns at the end of the run, or as Logs does. See [LogQuery.Live].
func (c *Client) Live(ctx context.Context, s spec.Scope, run int64, tail int, emit func(LogEntry) error) error {
	live := false
	err := c.stream(ctx, LogQuery{Scope: s, Run: run, Tail: tail, Live: true}, func(e LogEntry) error {
		live = live || e.Live
		return emit(e)
	})
	if err == nil && !live {
		return ErrNoLive
	}
	return err
}

// stream asks for a log on a connection of its own.
func (c *Client) stream(ctx context.Context, q LogQuery, emit func(LogEntry) error) error {
	conn, err := dial(ctx, c.cfg.Layout)
	if err != nil {
		return err
	}
	l := newLink(conn)
	defer l.wait()
	defer l.close()
	stop := context.AfterFunc(ctx, l.close)
	defer stop()
	patience := c.cfg.Patience
	if patience == 0 {
		patience = welcomePatience
	}
	err = streamLogs(l, conn, Hello{Protocol: Protocol, Version: c.cfg.Version, Purpose: PurposeLogs}, patience, q, emit)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func streamLogs(l *link, conn *net.UnixConn, hello Hello, patience time.Duration, q LogQuery, emit func(LogEntry) error) error {
	if err := l.send(Message{ID: 1, Op: OpHello}, hello); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	r := newReceiver(conn)
	m, err := r.receive()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w (no welcome within %s)", ErrUnresponsive, patience)
	}
	// From here on it is silent as long as nothing is written.
	if err := errors.Join(err, m.Error.Err(), conn.SetReadDeadline(time.Time{})); err != nil {
		return err
	}
	if err := l.send(Message{ID: 2, Op: OpLogs}, q); err != nil {
		return err
	}
	for {
		m, err := r.receive()
		if err != nil {
			return fmt.Errorf("the keeper stopped sending: %w", err)
		}
		if m.Error != nil || len(m.Body) == 0 {
			return endOfLogs(m.Error.Err())
		}
		var e LogEntry
		if err := decodeBody(m, &e); err != nil {
			return err
		}
		if err := emit(e); err != nil {
			return err
		}
	}
}

func endOfLogs(err error) error {
	if check, refused := IsRefused(err); refused && check == CheckLog {
		return ErrNoLog
	}
	return err
}
