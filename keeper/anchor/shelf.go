package anchor

import (
	"runtime"
	"slices"
	"sync"
	"syscall"

	"reconciler.dev/reconciler/observe/proc/wait"
)

// Shelf holds descriptors by name, and serves them. It may be served to one keeper after the other, and to two at the same time.
type Shelf struct {
	limit int

	mu    sync.Mutex
	held  map[string]int
	asked int // requests, over all
	ups   int // keepers that have come up
}

// tidyEvery is after how many requests what they have left behind is collected: some 100 kB.
const tidyEvery = 256

// cameUp is how many keepers have come up.
func (s *Shelf) cameUp() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ups
}

// NewShelf is an empty shelf for so many descriptors, at most [MaxHeld].
func NewShelf(limit int) *Shelf {
	return &Shelf{limit: min(max(limit, 0), MaxHeld), held: map[string]int{}}
}

// Close closes all that is held.
func (s *Shelf) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, fd := range s.held {
		_ = syscall.Close(fd) // what it led to is given up
		delete(s.held, name)
	}
}

// Serve answers requests until the other side is closed, or conn is shut down; then it closes conn, which is its own. What is held stays.
// It never waits for a keeper that does not read: one that asks on and on without reading is given up.
func (s *Shelf) Serve(conn int) {
	defer syscall.Close(conn)
	var in packetReader
	for {
		packet, fd, err := in.read(conn, 0)
		if err != nil && err != errMalformed {
			return
		}
		if s.serve(conn, packet, fd) != nil {
			return
		}
	}
}

// serve holds the shelf until the answer is sent, so that nobody closes a descriptor on its way out.
func (s *Shelf) serve(conn int, packet []byte, fd int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked++; s.asked%tidyEvery == 0 {
		runtime.GC() // the anchor is too small for the collector to come by itself before it has doubled
	}
	answer, out := s.answer(packet, fd)
	if out >= 0 {
		if sendPacket(conn, answer.encode(), out) == nil {
			return nil
		}
		answer.status = statusBad // too many descriptors are on their way, say
	}
	return sendPacket(conn, answer.encode())
}

// answer carries a request out. The descriptor that came with it (-1 = none) is taken over; the one that goes with the answer, -1 for
// none, stays the shelf's. The caller holds the shelf.
func (s *Shelf) answer(packet []byte, fd int) (reply, int) {
	r, err := decodeRequest(packet)
	if err != nil || r.op.brings() != (fd >= 0) {
		closeIf(fd)
		return reply{status: statusBad, seq: r.seq}, -1
	}
	switch r.op {
	case opPut:
		return reply{status: s.put(r.name, fd), seq: r.seq}, -1
	case opGet:
		if held, ok := s.held[r.name]; ok {
			return reply{status: statusOK, seq: r.seq}, held
		}
		return reply{status: statusNone, seq: r.seq}, -1
	case opDrop:
		return reply{status: s.drop(r.name), seq: r.seq}, -1
	case opNames:
		return reply{status: statusOK, seq: r.seq, body: appendNames(nil, s.namesAfter(r.name))}, -1
	case opUp:
		s.ups++
		return reply{status: statusOK, seq: r.seq}, -1
	}
	defer syscall.Close(fd)
	st, body := child(r.op, fd)
	return reply{status: st, seq: r.seq, body: body}, -1
}

func (s *Shelf) put(name string, fd int) status {
	old, replaces := s.held[name]
	if !replaces && len(s.held) >= s.limit {
		closeIf(fd)
		return statusFull
	}
	if replaces {
		closeIf(old)
	}
	s.held[name] = fd
	return statusOK
}

func (s *Shelf) drop(name string) status {
	fd, ok := s.held[name]
	if !ok {
		return statusNone
	}
	closeIf(fd)
	delete(s.held, name)
	return statusOK
}

// namesAfter are the names behind this one, sorted.
func (s *Shelf) namesAfter(after string) []string {
	var names []string
	for n := range s.held {
		if n > after {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

// child tells the end of a child, or lets it go.
func child(o op, pidfd int) (status, []byte) {
	options := wait.Exited | wait.NoHang
	if o == opExit {
		options |= wait.NoWait
	}
	end, ended, err := wait.Pidfd(pidfd, options)
	switch {
	case err == syscall.ECHILD:
		return statusStranger, nil
	case err != nil: // EBADF: it is no pidfd
		return statusBad, nil
	case !ended:
		return statusNone, nil
	}
	return statusOK, appendEnd(nil, end)
}

func closeIf(fd int) {
	if fd >= 0 {
		_ = syscall.Close(fd) // nothing is written through it here
	}
}
