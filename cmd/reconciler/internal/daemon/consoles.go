package daemon

import (
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/spec"
)

// consoles knows who is attached to which server, and who of them writes: of those that want to, the one that came first. It has the
// place until it leaves, then the next one has it. Nothing of this is kept: it ends with the connections.
type consoles struct {
	mu sync.Mutex
	at map[spec.Key][]*seat // in the order in which they came
}

// seat is one attachment.
type seat struct {
	id      string // known to nobody but its holder
	by      string
	view    bool          // never writes
	since   time.Time     // has the writer's place; zero = has not
	changed chan struct{} // rings when another writes, or nobody
	board   *keyboard     // at a terminal; nil = at a log
}

// sit adds an attachment, whose leave must be called.
func (c *consoles) sit(k spec.Key, by string, view bool, now time.Time) *seat {
	return c.sitAt(k, by, view, nil, now)
}

// sitAt is sit at a terminal.
func (c *consoles) sitAt(k spec.Key, by string, view bool, board *keyboard, now time.Time) *seat {
	s := &seat{id: strings.ToLower(rand.Text()), by: by, view: view, changed: make(chan struct{}, 1), board: board}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.at = map[spec.Key][]*seat{}
	}
	c.at[k] = append(c.at[k], s)
	c.settle(k, now)
	return s
}

// leave ends an attachment.
func (c *consoles) leave(k spec.Key, s *seat, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at[k] = slices.DeleteFunc(c.at[k], func(other *seat) bool { return other == s })
	if len(c.at[k]) == 0 {
		delete(c.at, k)
		return
	}
	if !s.since.IsZero() {
		c.settle(k, now)
		c.ring(k)
	}
}

// settle gives the writer's place to the first that wants it, if nobody has it.
func (c *consoles) settle(k spec.Key, now time.Time) {
	if c.writerOf(k) != nil {
		return
	}
	for _, s := range c.at[k] {
		if !s.view {
			s.since = now
			c.ring(k)
			return
		}
	}
}

func (c *consoles) ring(k spec.Key) {
	for _, s := range c.at[k] {
		select {
		case s.changed <- struct{}{}:
		default: // it has not looked since the last time
		}
	}
}

func (c *consoles) writerOf(k spec.Key) *seat {
	for _, s := range c.at[k] {
		if !s.since.IsZero() {
			return s
		}
	}
	return nil
}

// writer is who writes, as an attachment may know it; nil = nobody.
func (c *consoles) writer(k spec.Key, asker *seat) *api.ConsoleWriter {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.writerOf(k)
	if s == nil {
		return nil
	}
	w := &api.ConsoleWriter{By: s.by, Since: s.since}
	if s == asker {
		w.Attachment = s.id
	}
	return w
}

// check refuses a line of an attachment that does not write.
func (c *consoles) check(k spec.Key, id string) error {
	_, err := c.seatOf(k, id)
	return err
}

// boardOf is the keyboard of an attachment that writes.
func (c *consoles) boardOf(k spec.Key, id string) (*keyboard, error) {
	s, err := c.seatOf(k, id)
	if err == nil && s.board == nil {
		err = api.Failure(api.ReasonConflict, "the attachment to server %q is at no terminal", k.Name)
	}
	if err != nil {
		return nil, err
	}
	return s.board, nil
}

// seatOf is the attachment of an id, which must be the one that writes.
func (c *consoles) seatOf(k spec.Key, id string) (*seat, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s := c.writerOf(k); {
	case s == nil:
		return nil, api.Failure(api.ReasonConflict, "the attachment to server %q that this line comes from has ended: attach again", k.Name)
	case s.id != id:
		return nil, api.Failure(api.ReasonConflict, "%s writes to the console of server %q since %s: wait until that attachment has ended", s.by, k.Name, s.since.UTC().Format(time.RFC3339))
	default:
		return s, nil
	}
}
