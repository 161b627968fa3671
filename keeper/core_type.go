package keeper

import (
	"errors"
	"slices"

	"reconciler.dev/reconciler/keeper/terminal"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// maxKeys is how much may be typed at once, in bytes.
const maxKeys = 16 << 10

// typing is somebody at a run's terminal. What he types is one delivery: it is on record before the first key is typed, and how much it was
// when he has left.
type typing struct {
	ref      DeliveryRef
	bytes    int64
	recorded bool
	resized  bool
	line     typedLine
	lines    []typedLine // that have ended, and are not on record yet
	earlier  int64       // more of them, which never come there
}

// Type types keys on the terminal of a run, and changes its size. It answers how many of the bytes the terminal took: fewer only where the run
// leaves thousands unread. What it refuses has changed nothing. Whoever types ends it with an order that says so; the terminal has its declared
// size then.
func (c *Core) Type(o state.KeysOrder, g Guard) (taken int, err error) {
	s := c.find(o.Scope)
	if s == nil {
		return 0, refuse(CheckRun, "%s has no run", o.Scope)
	}
	defer c.release(s)
	if err := s.check(o.RunID, g); err != nil {
		return 0, err
	}
	c.settle(s)
	ref := DeliveryRef{RunID: o.RunID, ID: o.ID}
	if o.End {
		if s.typing != nil && s.typing.ref == ref {
			c.endTyping(s)
		}
		return 0, nil
	}
	if err := s.checkKeys(o); err != nil {
		return 0, err
	}
	if s.typing != nil && s.typing.ref != ref {
		c.endTyping(s)
	}
	if s.typing == nil {
		s.typing = &typing{ref: ref}
	}
	if o.Size != nil {
		if err := c.resizeFor(s, o.Size); err != nil {
			return 0, err
		}
	}
	if len(o.Keys) == 0 {
		return 0, nil
	}
	if err := c.recordTyping(s, o); err != nil {
		return 0, err
	}
	shown := c.kernel.Echoes(s.place()) // before: a prompt for a password comes when the echo is off, and these keys may ask for one
	taken, err = c.kernel.Type(s.place(), o.Keys)
	s.typing.bytes += int64(taken)
	c.noteKeys(s, o.Keys[:taken], shown)
	if taken > 0 {
		return taken, nil // what is wrong, if anything, is said of the rest
	}
	return 0, terminalRefusal(s.name, err)
}

// terminalRefusal says why nothing was typed.
func terminalRefusal(name spec.Scope, err error) error {
	if errors.Is(err, terminal.ErrGone) {
		return refuse(CheckConsole, "%s has closed its terminal, or it is not at hand", name)
	}
	return err
}

// checkKeys refuses what must not be typed. Nothing was changed by then.
func (s *scope) checkKeys(o state.KeysOrder) error {
	run := s.live()
	switch {
	case o.ID == "":
		return refuse(CheckMessage, "keys without an id")
	case len(o.Keys) > maxKeys:
		return refuse(CheckMessage, "%d bytes of keys: %d are the most at once", len(o.Keys), maxKeys)
	case o.Size != nil && !validSize(*o.Size):
		return refuse(CheckMessage, "a terminal of %d rows and %d columns", o.Size.Rows, o.Size.Columns)
	case run == nil:
		return refuse(CheckRun, "%s does not run", s.name)
	case run.Launch.Console == nil || run.Launch.Console.TTY == nil:
		return refuse(CheckConsole, "%s has no terminal: declare `spec.console.tty` in its profile", s.name)
	}
	return s.checkAddressee()
}

func validSize(t spec.LaunchTTY) bool {
	return t.Rows >= 1 && t.Rows <= 1000 && t.Columns >= 1 && t.Columns <= 1000
}

// resizeFor gives the terminal the size of the one before whom somebody sits. When he begins, the run is told in any case: it draws its
// screen anew for him.
func (c *Core) resizeFor(s *scope, size *spec.LaunchTTY) error {
	if err := c.kernel.Resize(s.place(), *size, !s.typing.resized); err != nil {
		return terminalRefusal(s.name, err)
	}
	s.typing.resized = true
	return nil
}

// recordTyping puts on record who begins to type.
func (c *Core) recordTyping(s *scope, o state.KeysOrder) error {
	if s.typing.recorded {
		return nil
	}
	if s.rec.Delivery(o.ID) != nil {
		return refuse(CheckMessage, "keys of an attachment that has ended")
	}
	run := s.rec.Run
	d := state.Delivery{ID: o.ID, RunID: run.ID, Run: run.Number, Rail: run.Launch.Console.Input, By: o.By, At: c.kernel.Now().Wall, Keys: &state.Keys{}}
	if err := c.journal(s, d); err != nil {
		return err
	}
	s.fly(s.typing.ref)
	s.typing.recorded = true
	c.publish(s)
	return nil
}

// endTyping puts on record how much was typed, and gives the terminal of a run that goes on the size that was declared. When the record cannot
// be written it says later that nobody knows. The caller holds the scope.
func (c *Core) endTyping(s *scope) {
	t := s.typing
	s.typing = nil
	if run := s.live(); run != nil && run.ID == t.ref.RunID && t.resized {
		_ = c.kernel.Resize(s.place(), *run.Launch.Console.TTY, false) // of a terminal that is closed there is no size
	}
	if !t.recorded {
		return
	}
	delete(s.flying, t.ref)
	i := slices.IndexFunc(s.rec.Deliveries, func(d state.Delivery) bool { return d.ID == t.ref.ID && d.Result == "" })
	if i < 0 {
		return
	}
	ended := s.rec.Deliveries[i]
	ended.Result, ended.Keys = state.Sent, &state.Keys{Bytes: t.bytes, Until: c.kernel.Now().Wall}
	if t.bytes == 0 {
		ended.Result = state.Undeliverable
	}
	if !t.line.empty() {
		t.end(c.kernel.Now().Wall)
	}
	lines := c.typedOf(s, t)
	err := c.edit(s, func(r *state.Record) {
		r.Deliveries = slices.Clone(r.Deliveries)
		r.Deliveries[i] = ended
		r.Wrote(lines...)
	})
	if err != nil {
		s.again = true
		return
	}
	c.publish(s)
}

// settleTyping ends what was typed to a run that is over.
func (c *Core) settleTyping(s *scope) {
	if s.typing == nil {
		return
	}
	if run := s.live(); run == nil || run.ID != s.typing.ref.RunID {
		c.endTyping(s)
	}
}
