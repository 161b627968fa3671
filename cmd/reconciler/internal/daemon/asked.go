package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/logs"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Log writes the lines of a server's log, read from the keeper over a connection of its own (BP-13).
func (d *daemon) Log(ctx context.Context, q api.LogQuery, w io.Writer) error {
	ask := keeper.LogQuery{Scope: q.Scope, Run: d.lastRun(q.Scope), Previous: q.Previous, Tail: q.Tail, Since: q.Since, Follow: q.Follow}
	switch q.Stream {
	case "stdout":
		ask.Stream = uint8(logs.Stdout)
	case "stderr":
		ask.Stream = uint8(logs.Stderr)
	}
	out := lineWriter{w: w, timestamps: q.Timestamps}
	err := d.readLog(ctx, &ask, out.write)
	check, refused := keeper.IsRefused(err)
	switch {
	case refused && check == keeper.CheckLog || errors.Is(err, keeper.ErrNoLog):
		what := "has written no log yet"
		switch {
		case q.Previous:
			what = "has no log of an earlier run"
		case ask.Run > 1:
			what = fmt.Sprintf("has no log of its last run, number %d: that has written nothing, or it is no longer kept; --previous shows an earlier one", ask.Run)
		}
		return api.Failure(api.ReasonNotFound, "server %q %s", q.Scope.Server, what)
	case err != nil && ctx.Err() == nil && !errors.Is(err, errReaderGone):
		return d.noLog(q.Scope, err)
	}
	return err
}

// lastRun is the number of a scope's last run, so that what an earlier one has written is not taken for its; 0 = none is known.
func (d *daemon) lastRun(s spec.Scope) int64 {
	facts, _ := d.client.Facts()
	for _, f := range facts {
		if f.Scope == s && f.Run != nil {
			return f.Run.Number
		}
	}
	return 0
}

// noLog says that a log cannot be read, and in our own log why.
func (d *daemon) noLog(s spec.Scope, err error) error {
	d.log.Warn("cannot read a log", "scope", s.String(), "error", err)
	return api.Failure(api.ReasonServiceUnavailable, "the keeper, which keeps the logs, does not answer")
}

// Past asks the keeper what the archive has of a server.
func (d *daemon) Past(ctx context.Context, k spec.Key) ([]*observe.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	return d.client.Past(ctx, k)
}

// Written asks the keeper what was delivered to a server's console.
func (d *daemon) Written(ctx context.Context, k spec.Key) ([]observe.Written, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	return d.client.Written(ctx, k)
}

// logPatience is how long a reader waits for a keeper that is being replaced: a moment, or seconds on a busy host.
const logPatience = 15 * time.Second

// errReaderGone is why a log is not read on that nobody takes.
var errReaderGone = errors.New("who reads the log has gone")

// readLog asks for the log, again while no keeper is there, and goes on where the last one was: its death is repaired in a moment. An
// error of emit ends it, as errReaderGone.
func (d *daemon) readLog(ctx context.Context, q *keeper.LogQuery, emit func(logs.Entry) error) error {
	deadline := time.Now().Add(logPatience)
	for {
		err := d.client.Logs(ctx, *q, func(e logs.Entry) error {
			q.After, deadline = &e.Cursor, time.Time{}
			if err := emit(e); err != nil {
				return fmt.Errorf("%w: %w", errReaderGone, err)
			}
			return nil
		})
		_, refused := keeper.IsRefused(err)
		if err == nil || refused || errors.Is(err, keeper.ErrNoLog) || errors.Is(err, errReaderGone) || ctx.Err() != nil {
			return err
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(logPatience)
		}
		if time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(logPause):
		}
	}
}

// logPause is the time between two tries.
const logPause = 20 * time.Millisecond

// lineWriter writes entries as lines.
type lineWriter struct {
	w          io.Writer
	timestamps bool
	buf        []byte
	open       logs.Stream // whose line has no end yet; 0 = none
}

func (l *lineWriter) write(e logs.Entry) error {
	l.buf = l.buf[:0]
	goesOn := l.open == e.Stream
	if l.open != 0 && !goesOn {
		l.buf = append(l.buf, '\n') // the other stream comes between: what it began stays on a line of its own
	}
	if l.timestamps && !goesOn {
		l.buf = e.Time.UTC().AppendFormat(l.buf, time.RFC3339Nano)
		l.buf = append(l.buf, ' ')
	}
	l.buf = append(l.buf, e.Text...)
	l.open = e.Stream
	if !e.Partial {
		l.buf = append(l.buf, '\n')
		l.open = 0
	}
	_, err := l.w.Write(l.buf)
	return err
}

// Prune lets go of what is held.
func (d *daemon) Prune(ctx context.Context) ([]spec.ObjectKey, error) {
	return d.source.ConfirmPrune(ctx)
}

// Retire sets aside what is kept of a server, of each scope that it has or may have had.
func (d *daemon) Retire(ctx context.Context, k spec.Key, by string) error {
	retired, refusals := 0, []error(nil)
	for _, scope := range d.scopesOf(k) {
		err := d.client.Retire(ctx, state.ScopeOrder{Scope: scope, By: by})
		if _, refused := keeper.IsRefused(err); refused {
			refusals = append(refusals, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot retire %s: %w", scope, err)
		}
		retired++
		d.log.Info("retired", "scope", scope.String(), "by", by)
	}
	switch {
	case retired > 0:
		return nil
	case len(refusals) > 0:
		return api.Failure(api.ReasonConflict, "%s", refusals[0])
	}
	return api.NotFound(api.Servers, k.Name)
}

// scopesOf are the scopes of which the keeper has facts, and those that the server would have under each profile that is known:
// of a removed server only the archive tells.
func (d *daemon) scopesOf(k spec.Key) []spec.Scope {
	var scopes []spec.Scope
	seen := map[spec.Scope]bool{}
	add := func(s spec.Scope) {
		if !seen[s] {
			seen[s] = true
			scopes = append(scopes, s)
		}
	}
	snap := d.loop.Snapshot()
	if v := snap.Server(k); v != nil {
		for _, f := range v.Facts {
			add(f.Scope)
		}
	}
	facts, _ := d.client.Facts()
	for _, f := range facts {
		if f.Scope.ServerKey() == k {
			add(f.Scope)
		}
	}
	for _, p := range snap.Profiles {
		if p.Key.Namespace == k.Namespace {
			add(spec.Scope{Namespace: k.Namespace, Server: k.Name, Profile: p.Key.Name})
		}
	}
	return scopes
}

// Versions are of this process and of the keeper that it is connected to.
func (d *daemon) Versions() api.Versions {
	v := api.Versions{Reconciler: d.cfg.Version}
	if d.client.Problem() == nil {
		v.Keeper = d.client.Welcome().Version
	}
	return v
}
