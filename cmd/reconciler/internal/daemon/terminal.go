package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/logs"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// keyboard is what an attachment to a terminal types on, nil for one to a log.
type keyboard struct {
	id    string // of what is typed, on record
	scope spec.Scope
	runID string

	mu    sync.Mutex
	taken int64 // bytes
	lost  bool  // nobody knows whether the last were: nothing may follow them
	ended bool  // the attachment has; keys may still come, which were on their way
}

// terminalOf is the run of a server that lives on a terminal, nil without one.
func terminalOf(v *reconcile.ServerView) *observe.Facts {
	for _, f := range v.Facts {
		if !f.Run.Over() && f.Run.Console != nil && f.Run.Console.TTY != nil {
			return f
		}
	}
	return nil
}

// attachTerminal shows a run's terminal until the run is over: its last lines, and what it prints as it does.
func (d *daemon) attachTerminal(ctx context.Context, q api.AttachQuery, f *observe.Facts, emit func(api.AttachEvent) error) error {
	board := &keyboard{id: strings.ToLower(rand.Text()), scope: f.Scope, runID: f.Run.ID}
	s := d.consoles.sitAt(q.Server, q.By, q.View, board, time.Now())
	defer func() { d.consoles.leave(q.Server, s, time.Now()) }()
	defer d.endKeys(board)
	d.log.Info("attached to a terminal", "server", q.Server.String(), "by", q.By, "views", q.View)
	defer d.log.Info("detached from a terminal", "server", q.Server.String(), "by", q.By)

	if err := emit(api.AttachEvent{Type: api.AttachTerminal, Writer: d.consoles.writer(q.Server, s)}); err != nil {
		return err
	}
	showing, cancel := context.WithCancel(ctx)
	events := make(chan api.AttachEvent)
	done := make(chan error, 1)
	go func() {
		done <- d.showTerminal(showing, f, q.Tail, func(e keeper.LogEntry) error {
			event := printed(e)
			if len(event.Text) == 0 && event.Lost == 0 {
				return nil
			}
			select {
			case events <- event:
				return nil
			case <-showing.Done():
				return context.Cause(showing)
			}
		})
	}()
	for {
		var err error
		select {
		case err := <-done:
			cancel()
			return d.endOfTerminal(ctx, q.Server, err, emit)
		case e := <-events:
			err = emit(e)
		case <-s.changed:
			err = emit(api.AttachEvent{Type: api.AttachWriter, Writer: d.consoles.writer(q.Server, s)})
		}
		if err != nil {
			cancel()
			<-done // its end was asked for
			return err
		}
	}
}

// showTerminal asks for a terminal, again while no keeper is there: one that has died is replaced in a moment. What was shown in part is not
// shown again.
func (d *daemon) showTerminal(ctx context.Context, f *observe.Facts, tail int, emit func(keeper.LogEntry) error) error {
	deadline := time.Now().Add(logPatience)
	for {
		begun := false
		err := d.client.Live(ctx, f.Scope, f.Run.Number, tail, func(e keeper.LogEntry) error {
			begun = true
			return emit(e)
		})
		_, refused := keeper.IsRefused(err)
		if err == nil || begun || refused || errors.Is(err, keeper.ErrNoLive) || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(logPause):
		}
	}
}

// endOfTerminal says why there is nothing more to show.
func (d *daemon) endOfTerminal(ctx context.Context, k spec.Key, err error, emit func(api.AttachEvent) error) error {
	check, refused := keeper.IsRefused(err)
	switch {
	case err == nil, refused && check == keeper.CheckRun:
		return emit(api.AttachEvent{Type: api.AttachEnded})
	case refused:
		return api.Failure(api.ReasonConflict, "%s", err)
	case ctx.Err() != nil:
		return err
	case errors.Is(err, keeper.ErrNoLive):
		return api.Failure(api.ReasonServiceUnavailable, "%s: attach with --lines, or end the keeper, which is started anew", err)
	}
	d.log.Warn("the terminal of a server is not shown any more", "server", k.String(), "error", err)
	return api.Failure(api.ReasonServiceUnavailable, "the keeper, which holds the terminal, has ended or does not answer; the server goes on: attach again")
}

// printed is what a terminal shows of an entry: of a line of the log its text alone, as its controls were meant for a screen that is not
// there any more.
func printed(e keeper.LogEntry) api.AttachEvent {
	if e.Live {
		return api.AttachEvent{Type: api.AttachOutput, Text: e.Text, Lost: e.Lost}
	}
	line := bytes.TrimRight(e.Text, "\r")
	line = line[bytes.LastIndexByte(line, '\r')+1:] // what was written over is not seen
	text := logs.Plain(line)
	if !e.Partial {
		text += "\r\n"
	}
	return api.AttachEvent{Type: api.AttachOutput, Text: []byte(text)}
}

// typePatience is how long keys may be on their way to the keeper, which types them at once.
const typePatience = 10 * time.Second

// Type hands keys to the keeper, in their order and once: what is not known to have been taken ends an attachment's typing.
func (d *daemon) Type(ctx context.Context, k spec.Key, keys api.Keys, by string) (api.Typed, error) {
	board, err := d.consoles.boardOf(k, keys.Attachment)
	if err != nil {
		return api.Typed{}, err
	}
	board.mu.Lock()
	defer board.mu.Unlock()
	switch {
	case board.ended:
		return api.Typed{}, api.Failure(api.ReasonConflict, "the attachment to server %q that these keys come from has ended: attach again", k.Name)
	case board.lost:
		return api.Typed{}, api.Failure(api.ReasonConflict, "nobody knows whether earlier keys were taken: attach again")
	case keys.Offset != board.taken:
		return api.Typed{}, api.Failure(api.ReasonConflict, "offset: %d bytes of this attachment were taken so far, not %d", board.taken, keys.Offset)
	case d.client.Problem() != nil:
		return api.Typed{}, api.Failure(api.ReasonServiceUnavailable, "the keeper, which holds the terminal, does not answer: nothing was typed")
	}
	o := state.KeysOrder{Scope: board.scope, RunID: board.runID, ID: board.id, By: by, Keys: keys.Keys}
	if keys.Rows > 0 {
		o.Size = &spec.LaunchTTY{Rows: keys.Rows, Columns: keys.Columns}
	}
	// Who goes away while they are on their way leaves them there.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), typePatience)
	defer cancel()
	taken, err := d.client.Type(ctx, o)
	if _, refused := keeper.IsRefused(err); refused {
		return api.Typed{}, api.Failure(api.ReasonConflict, "%s", err)
	}
	if err != nil {
		d.log.Warn("it is not known whether keys were typed", "server", k.String(), "by", by, "error", err)
		board.lost = len(keys.Keys) > 0
		return api.Typed{Unknown: board.lost}, nil
	}
	board.taken += int64(taken)
	return api.Typed{Taken: taken}, nil
}

// endPatience is how long the keeper is waited for at the end. One that does not hear of it ends what was typed with the connection.
const endPatience = 2 * time.Second

// endKeys says that no more is typed.
func (d *daemon) endKeys(board *keyboard) {
	board.mu.Lock()
	defer board.mu.Unlock()
	board.ended = true
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	_, err := d.client.Type(ctx, state.KeysOrder{Scope: board.scope, RunID: board.runID, ID: board.id, End: true})
	if err != nil {
		d.log.Debug("the keeper is not told that nobody types any more", "scope", board.scope.String(), "error", err)
	}
}
