package keeper

import (
	"context"
	"strings"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Inside is what a process is told of the run that it belongs to.
type Inside struct {
	Scope      spec.Scope `json:"scope"`
	UID        string     `json:"uid"`
	Run        int64      `json:"run"`
	Generation int64      `json:"generation"`
	StartedAt  time.Time  `json:"startedAt,omitzero"`
}

// Notice is what a run says of itself in the words of sd_notify(3): assignments, a line each.
type Notice struct {
	Text string `json:"text"`
}

// maxNotice is the longest notice that is read, in bytes.
const maxNotice = 4096

// ready reports whether a notice says that the run is ready.
func (n Notice) ready() bool { return n.says("READY") }

// lives reports whether a notice says that the run lives.
func (n Notice) lives() bool { return n.says("WATCHDOG") }

// says reports whether a notice assigns 1 to a name. Of two assignments of a name the last counts.
func (n Notice) says(name string) bool {
	yes := false
	for line := range strings.Lines(n.Text) {
		if value, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), name+"="); ok {
			yes = value == "1"
		}
	}
	return yes
}

// insidePatience is how long a process of a run may take to ask what it wants.
const insidePatience = 5 * time.Second

// answerInside answers a process that may be part of a run, and proves it first.
func (c *serverConn) answerInside(m Message) (any, error) {
	place, ok := c.srv.inside(c.peer)
	if !ok {
		return nil, refuse(CheckInside, "NotARun: this process belongs to no run of this keeper")
	}
	switch m.Op {
	case OpSelf:
		return c.srv.core.insideOf(place)
	case OpInbox:
		if !c.srv.core.hasMailbox(place) {
			return nil, refuse(CheckConsole, "the server has no mailbox: its profile declares no `console: {input: Mailbox}`")
		}
		return c.srv.inbox(place)
	case OpNotify:
		return nil, decoded(m, func(n Notice) error {
			c.srv.note(place, n)
			return nil
		})
	}
	return nil, refuse(CheckMessage, "%q is nothing that a run can ask for", m.Op)
}

// insideOf is what a run may know of itself.
func (c *Core) insideOf(p Place) (Inside, error) {
	s := c.lookup(p.Scope)
	if s == nil {
		return Inside{}, refuse(CheckInside, "NotARun: the run has ended")
	}
	s.mu.Lock()
	defer c.release(s)
	run := s.live()
	if run == nil || run.Number != p.Number {
		return Inside{}, refuse(CheckInside, "NotARun: the run has ended")
	}
	return Inside{Scope: s.name, UID: s.rec.UID, Run: run.Number, Generation: run.Generation, StartedAt: run.StartedAt}, nil
}

// hasMailbox reports whether lines for a run wait for it.
func (c *Core) hasMailbox(p Place) bool {
	s := c.lookup(p.Scope)
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer c.release(s)
	run := s.live()
	return run != nil && run.Number == p.Number && run.Launch.Console != nil && run.Launch.Console.Input == spec.ConsoleMailbox
}

// Self asks the keeper which run this process is part of. A [Refused] says that it is none.
func Self(ctx context.Context, l state.Layout, version string) (Inside, error) {
	var in Inside
	return in, askInside(ctx, l, version, OpSelf, nil, &in)
}

// Notify tells the keeper what this process's run says of itself. When it returns, the keeper has heard it.
func Notify(ctx context.Context, l state.Layout, version string, n Notice) error {
	return askInside(ctx, l, version, OpNotify, n, nil)
}

// Mail is lines that were sent to a run, oldest first.
type Mail struct {
	Lines []string `json:"lines,omitempty"`
}

// Inbox takes the lines out of the mailbox of this process's run, as many as fit into a message. They are given once.
func Inbox(ctx context.Context, l state.Layout, version string) (Mail, error) {
	var m Mail
	return m, askInside(ctx, l, version, OpInbox, nil, &m)
}

func askInside(ctx context.Context, l state.Layout, version string, op Op, body, answer any) error {
	conn, err := dial(ctx, l)
	if err != nil {
		return err
	}
	s, err := shakeHands(ctx, conn, Hello{Protocol: Protocol, Version: version, Purpose: PurposeInside}, 0)
	if err != nil {
		return err
	}
	defer s.close()
	return s.ask(ctx, op, body, answer)
}
