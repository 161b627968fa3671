package daemon

import (
	"log/slog"
	"net"
	"net/http"
	"sync"
)

// How many connections a door has at most, and how many of them one user other than root and us.
const (
	maxConnections = 256
	maxOfOneUser   = 64
)

// crowd bounds the connections of a server, whoever makes them: each costs a descriptor, and one without any can start nothing. Who comes when
// there is no room takes the place of the one that has waited longest without a request, and is turned away when none waits. A user's
// own connections make room for that user first, and all who have a share leave one to the others: nobody can keep those out who may
// change something.
type crowd struct {
	max, share int
	user       func(net.Conn) (uid int, shares bool) // shares = the user has no more than a share
	log        *slog.Logger

	mu     sync.Mutex
	guests map[net.Conn]*guest
	came   uint64
	full   bool // it was told
}

type guest struct {
	since  uint64 // its place in the order of those who began to wait
	waits  bool   // no request is being answered
	uid    int
	shares bool
}

// state is the server's ConnState hook.
func (c *crowd) state(conn net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		for _, leaves := range c.enter(conn) {
			_ = leaves.Close() // its server notices and tells
		}
	case http.StateActive:
		c.wait(conn, false)
	case http.StateIdle:
		c.wait(conn, true)
	case http.StateHijacked, http.StateClosed:
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.guests, conn)
	}
}

func (c *crowd) wait(conn net.Conn, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.guests[conn]
	if g == nil {
		return // it was asked to leave
	}
	c.came++
	g.waits, g.since = waits, c.came
}

// enter takes in a connection and returns those that must leave, maybe itself.
func (c *crowd) enter(conn net.Conn) (leave []net.Conn) {
	uid, shares := c.user(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.guests == nil {
		c.guests = map[net.Conn]*guest{}
	}
	room := func(most int, among func(*guest) bool) bool {
		n, longest := c.count(among)
		if n >= most && longest != nil {
			delete(c.guests, longest)
			leave = append(leave, longest)
		}
		return n < most || longest != nil
	}
	ofUser := func(g *guest) bool { return g.shares && g.uid == uid }
	ofSharers := func(g *guest) bool { return g.shares }
	ofAll := func(*guest) bool { return true }
	if shares && (!room(c.share, ofUser) || !room(c.max-c.share, ofSharers)) || !room(c.max, ofAll) {
		c.tell()
		return append(leave, conn)
	}
	c.full = c.full && len(c.guests) >= c.max/2
	c.came++
	c.guests[conn] = &guest{since: c.came, waits: true, uid: uid, shares: shares}
	return leave
}

// count is how many there are, and the one that has waited longest.
func (c *crowd) count(among func(*guest) bool) (n int, longest net.Conn) {
	var since uint64
	for conn, g := range c.guests {
		if !among(g) {
			continue
		}
		n++
		if g.waits && (longest == nil || g.since < since) {
			longest, since = conn, g.since
		}
	}
	return n, longest
}

// tell says that somebody was turned away, once until it is better.
func (c *crowd) tell() {
	if !c.full {
		c.log.Warn("too many connections are being answered; others are turned away until some end", "most", c.max, "most of one user", c.share)
	}
	c.full = true
}
