package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/logs"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// Writes refuses a line of an attachment that has not the writer's place.
func (d *daemon) Writes(k spec.Key, attachment string) error { return d.consoles.check(k, attachment) }

// Attach shows a server's log, which is all that an attachment is (EN-9): first what was written, then who writes, and from then on
// both as they change, into later runs, through the deaths of keepers and under another profile.
func (d *daemon) Attach(ctx context.Context, q api.AttachQuery, emit func(api.AttachEvent) error) error {
	changed, end := d.loop.Watch()
	defer end()
	server := d.loop.Snapshot().Server(q.Server)
	if server == nil {
		return api.NotFound(api.Servers, q.Server.Name)
	}
	if q.Keys {
		f := terminalOf(server)
		if f == nil {
			return emit(api.AttachEvent{Type: api.AttachLines, Why: whyLines(server, consoleOf(d.loop.Snapshot(), server))})
		}
		return d.attachTerminal(ctx, q, f, emit)
	}
	if !q.View && !takesLines(server, consoleOf(d.loop.Snapshot(), server)) {
		return api.Failure(api.ReasonConflict, "server %q has no console: declare `spec.console.input` in its profile; --view shows what it prints", q.Server.Name)
	}
	place, err := placeToBegin(q, shownScope(server, spec.Scope{}))
	if err != nil {
		return err
	}
	s := d.consoles.sit(q.Server, q.By, q.View, time.Now())
	defer func() { d.consoles.leave(q.Server, s, time.Now()) }()
	d.log.Info("attached", "server", q.Server.String(), "by", q.By, "views", q.View)
	defer d.log.Info("detached", "server", q.Server.String(), "by", q.By)

	v := &consoleView{d: d, key: q.Server, seat: s, changed: changed, emit: emit, place: place}
	v.lines.w = &v.text
	if err := v.past(ctx, q.Tail); err != nil {
		return err
	}
	if err := emit(api.AttachEvent{Type: api.AttachWriter, Writer: d.consoles.writer(q.Server, s), After: v.place.String()}); err != nil {
		return err
	}
	for {
		next, err := v.live(ctx)
		if err != nil {
			return err
		}
		if err := v.past(ctx, -1); err != nil { // what the old scope's last run has written at its end
			return err
		}
		if next == (spec.Scope{}) {
			return api.Failure(api.ReasonNotFound, "server %q was removed", q.Server.Name)
		}
		v.place = logPlace{scope: next}
	}
}

// consoleOf is the console that the profile of a server declares; known is unset when the profile is not.
func consoleOf(snap *reconcile.Snapshot, v *reconcile.ServerView) declaredConsole {
	p := snap.Profile(spec.Key{Namespace: v.Key.Namespace, Name: v.Profile})
	if p == nil || p.Object == nil {
		return declaredConsole{}
	}
	return declaredConsole{known: true, console: p.Object.Spec.Console}
}

// declaredConsole is what a profile says of its console, as far as there is one.
type declaredConsole struct {
	known   bool
	console *spec.Console
}

// takesLines reports whether a server has a console, by its run or by what its next one will have; where that is not known it may have.
func takesLines(v *reconcile.ServerView, declared declaredConsole) bool {
	for _, f := range v.Facts {
		if !f.Run.Over() && f.Run.Console != nil {
			return true
		}
	}
	return !declared.known || declared.console != nil && declared.console.Input != "" && declared.console.Input != spec.ConsoleNone
}

// whyLines says why there are lines alone where keys were asked for, "" when a terminal is not declared.
func whyLines(v *reconcile.ServerView, declared declaredConsole) string {
	switch {
	case declared.console == nil || declared.console.TTY == nil:
		return ""
	case slices.ContainsFunc(v.Facts, func(f *observe.Facts) bool { return !f.Run.Over() }):
		return "its run has no terminal: that comes with the next one"
	}
	return "it does not run, and its terminal comes with its run"
}

// shownScope is the scope whose log is shown: the one that was, as long as a run lives in it, else that of the live run, or the one
// that the server has now.
func shownScope(v *reconcile.ServerView, was spec.Scope) spec.Scope {
	now := spec.Scope{Namespace: v.Key.Namespace, Server: v.Key.Name, Profile: v.Profile}
	found := false
	for _, f := range v.Facts {
		switch {
		case f.Run.Over():
		case f.Scope == was:
			return was
		case !found:
			now, found = f.Scope, true
		}
	}
	return now
}

// consoleView is one attachment's way along the log.
type consoleView struct {
	d       *daemon
	key     spec.Key
	seat    *seat
	changed <-chan struct{} // the loop's
	emit    func(api.AttachEvent) error

	place logPlace // what was shown; while live runs, it is its follower's
	text  bytes.Buffer
	lines lineWriter // into text
}

// past shows what was written until now: behind the place, or the last lines.
func (v *consoleView) past(ctx context.Context, tail int) error {
	q := v.query(tail)
	if tail == 0 {
		q.Tail = 1 // where it ends must be known, not what it says
	}
	mute := tail == 0 && q.After == nil
	err := v.d.readLog(ctx, q, func(e logs.Entry) error {
		event, err := v.shown(e)
		if err != nil || mute {
			v.lines.open = 0
			v.place.at = &e.Cursor
			return err
		}
		v.place.at = &e.Cursor
		return v.emit(event)
	})
	check, refused := keeper.IsRefused(err)
	switch {
	case errors.Is(err, keeper.ErrNoLog), refused && check == keeper.CheckLog:
		return nil
	case errors.Is(err, errReaderGone), ctx.Err() != nil, err == nil:
		return err
	}
	return v.d.noLog(v.place.scope, err)
}

func (v *consoleView) query(tail int) *keeper.LogQuery {
	return &keeper.LogQuery{Scope: v.place.scope, Tail: tail, After: v.place.at}
}

// shown is an entry as it is sent.
func (v *consoleView) shown(e logs.Entry) (api.AttachEvent, error) {
	v.text.Reset()
	if err := v.lines.write(e); err != nil {
		return api.AttachEvent{}, err
	}
	return api.AttachEvent{Type: api.AttachOutput, Text: bytes.Clone(v.text.Bytes()), After: logPlace{v.place.scope, &e.Cursor}.String()}, nil
}

// live shows what is written and who writes, until the server goes on in another scope, which it returns, or in none: the zero
// one.
func (v *consoleView) live(ctx context.Context) (next spec.Scope, err error) {
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan api.AttachEvent)
	done := make(chan error, 1)
	go func() { done <- v.follow(ctx, events) }()
	leave := func() {
		cancel()
		<-done // its end was asked for
	}
	for {
		select {
		case err := <-done:
			cancel()
			return spec.Scope{}, err
		case e := <-events:
			err = v.emit(e)
		case <-v.seat.changed:
			err = v.emit(api.AttachEvent{Type: api.AttachWriter, Writer: v.d.consoles.writer(v.key, v.seat)})
		case <-v.changed:
			if next, moved := v.moved(); moved {
				leave()
				return next, nil
			}
		}
		if err != nil {
			leave()
			return spec.Scope{}, err
		}
	}
}

// moved reports whether the server has gone on in another scope, or in none.
func (v *consoleView) moved() (next spec.Scope, moved bool) {
	server := v.d.loop.Snapshot().Server(v.key)
	if server == nil {
		return spec.Scope{}, true
	}
	next = shownScope(server, v.place.scope)
	return next, next != v.place.scope
}

// followPause is the time between two tries when no keeper was there for some time.
const followPause = time.Second

// follow hands on what is written, until ctx ends. It waits for a keeper as long as that takes: there is nothing to show without one, and
// no reason to go.
func (v *consoleView) follow(ctx context.Context, events chan<- api.AttachEvent) error {
	for {
		q := v.query(-1)
		q.Follow = true
		err := v.d.readLog(ctx, q, func(e logs.Entry) error {
			event, err := v.shown(e)
			if err != nil {
				return err
			}
			select {
			case events <- event:
				v.place.at = &e.Cursor
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		if _, refused := keeper.IsRefused(err); refused {
			return fmt.Errorf("cannot follow the log of %s: %w", v.place.scope, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(followPause):
		}
	}
}

// logPlace is a place in the log of a scope, behind an entry; at nil = before all.
type logPlace struct {
	scope spec.Scope
	at    *logs.Cursor
}

// String is the place as an asker keeps it: profile, run, and the file and offset of its end and of what to read from. "" = before all.
func (p logPlace) String() string {
	if p.at == nil {
		return ""
	}
	c := p.at
	return fmt.Sprintf("%s:%d:%d:%d:%d:%d", p.scope.Profile, c.Run, c.End.Index, c.End.Offset, c.From.Index, c.From.Offset)
}

// placeToBegin is where the asker wants to begin in a scope: behind the place that it kept, if that is of this scope.
func placeToBegin(q api.AttachQuery, scope spec.Scope) (logPlace, error) {
	if q.After == "" {
		return logPlace{scope: scope}, nil
	}
	profile, at, err := parsePlace(q.After)
	if err != nil {
		return logPlace{}, api.Failure(api.ReasonInvalid, "after: Invalid value: %q: must be as an earlier attachment gave it", q.After)
	}
	if profile != scope.Profile {
		return logPlace{scope: scope}, nil
	}
	return logPlace{scope, at}, nil
}

var errNoPlace = errors.New("no place in a log")

// parsePlace reads what [logPlace.String] has written.
func parsePlace(text string) (profile string, at *logs.Cursor, err error) {
	profile, rest, _ := strings.Cut(text, ":")
	parts := strings.Split(rest, ":")
	if !spec.IsLabel(profile) || len(parts) != 5 {
		return "", nil, errNoPlace
	}
	var n [5]int64
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 63)
		if err != nil || p != strconv.FormatUint(v, 10) {
			return "", nil, errNoPlace
		}
		n[i] = int64(v)
	}
	at = &logs.Cursor{Run: n[0], End: logs.Place{Index: int(n[1]), Offset: n[2]}, From: logs.Place{Index: int(n[3]), Offset: n[4]}}
	if at.Run == 0 || int64(at.End.Index) != n[1] || at.From.Index > at.End.Index || at.From.Index == at.End.Index && at.From.Offset > at.End.Offset {
		return "", nil, errNoPlace
	}
	return profile, at, nil
}
