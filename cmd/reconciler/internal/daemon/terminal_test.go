package daemon

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Of the log a terminal shows the text that was seen there, and of what is live every byte.
func TestPrinted(t *testing.T) {
	for _, c := range []struct {
		e    keeper.LogEntry
		want string
	}{
		{keeper.LogEntry{Text: []byte("a line")}, "a line\r\n"},
		{keeper.LogEntry{Text: []byte("prompt> "), Partial: true}, "prompt> "},
		{keeper.LogEntry{Text: []byte("\x1b[2J\x1b[31mred\x1b[0m\a")}, "red\r\n"},
		{keeper.LogEntry{Text: []byte("50 %\r60 %\r")}, "60 %\r\n"},
		{keeper.LogEntry{Text: []byte{}}, "\r\n"},
		{keeper.LogEntry{Text: []byte("\xff")}, "\uFFFD\r\n"},
		{keeper.LogEntry{Live: true, Text: []byte("\x1b[2J\n\r\xff"), Lost: 3}, "\x1b[2J\n\r\xff"},
	} {
		if got := printed(c.e); string(got.Text) != c.want || got.Lost != c.e.Lost {
			t.Errorf("%q: %q, %d lost", c.e.Text, got.Text, got.Lost)
		}
	}
}

// The terminal is that of the run that lives.
func TestTerminalOf(t *testing.T) {
	run := func(phase state.Phase, tty *spec.LaunchTTY) *observe.Facts {
		return &observe.Facts{Run: &observe.RunFacts{Phase: phase, Console: &spec.LaunchConsole{TTY: tty}}}
	}
	tty := &spec.LaunchTTY{Rows: 24, Columns: 80}
	live := run(state.Started, tty)
	for name, c := range map[string]struct {
		facts []*observe.Facts
		want  *observe.Facts
	}{
		"none": {}, "over": {[]*observe.Facts{run(state.Exited, tty)}, nil}, "pipes": {[]*observe.Facts{run(state.Started, nil)}, nil},
		"no console": {[]*observe.Facts{{Run: &observe.RunFacts{Phase: state.Started}}, {}}, nil}, "one": {[]*observe.Facts{run(state.Exited, tty), live}, live},
	} {
		if got := terminalOf(&reconcile.ServerView{Facts: c.facts}); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A keyboard is that of the attachment that writes, if it is at a terminal.
func TestBoardOf(t *testing.T) {
	var c consoles
	k := spec.Key{Namespace: "default", Name: "town"}
	board := &keyboard{}
	line := c.sit(k, "ann", false, time.Now())
	keys := c.sitAt(k, "bob", false, board, time.Now())
	for id, why := range map[string]string{line.id: "it is at no terminal", keys.id: "another writes", "x": "nobody"} {
		if got, err := c.boardOf(k, id); err == nil || got != nil {
			t.Errorf("%s, and it types", why)
		}
	}
	c.leave(k, line, time.Now())
	if got, err := c.boardOf(k, keys.id); err != nil || got != board {
		t.Errorf("%v, %v", got, err)
	}
}

// Keys that were on their way when their attachment ended are not typed: nobody would say any more that they have come to an end.
func TestNoKeysAfterTheEnd(t *testing.T) {
	d := &daemon{log: slog.New(slog.DiscardHandler), client: keeper.NewClient(keeper.ClientConfig{Layout: state.Layout{State: t.TempDir(), Runtime: t.TempDir()}})}
	k, board := spec.Key{Namespace: "default", Name: "town"}, &keyboard{id: "of-a-delivery"}
	s := d.consoles.sitAt(k, "ann", false, board, time.Now())
	keys := api.Keys{Attachment: s.id, Keys: []byte("x")}
	for _, step := range []struct {
		does string
		do   func()
		want api.StatusReason
	}{
		{"attached, and there is no keeper", func() {}, api.ReasonServiceUnavailable},
		{"it ends", func() { d.endKeys(board) }, api.ReasonConflict},
		{"it has left", func() { d.consoles.leave(k, s, time.Now()) }, api.ReasonConflict},
	} {
		step.do()
		var status *api.Status
		if _, err := d.Type(t.Context(), k, keys, "ann"); !errors.As(err, &status) || status.Reason != step.want {
			t.Errorf("%s: %v, want %s", step.does, err, step.want)
		}
	}
}
