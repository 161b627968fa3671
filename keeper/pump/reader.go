package pump

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/logs"
)

// reader is the loop's half: FIFOs into slots. Everything here runs on the loop's goroutine but watch (before the source
// is known there) and wakeStarved.
//
// A source on the ready list may have bytes. It is taken off when FIONREAD says none, so an edge that epoll reports is
// enough and a pool without a free slot costs no turning. One that is written to in many small pieces is hot: it is not
// watched but looked at once a millisecond, which saves a wake for every piece.
type reader struct {
	pump     *Pump
	ready    []*source
	spare    []*source // memory for the next ready list
	hot      []*source
	drains   []*draining
	scratch  []byte // what is dropped is read into it
	matchBuf []byte // for watches
	seq      uint64
	lookAt   time.Time // when the hot ones are looked at next

	starved      atomic.Bool // a slot is wanted: the writer wakes the loop when it frees one
	starvedSince time.Time   // zero = there were slots at the last try

	began   time.Time
	arrived [maxSlots]time.Duration // since began, by slot: when it was handed to the writer
	head    atomic.Int64            // arrived of the slot that the writer is at, 0 = none
}

// source is the read end of one FIFO, or the master side of a terminal.
type source struct {
	run      *run
	fd       int
	stream   logs.Stream
	live     atomic.Bool // attached: both streams are watched
	listed   bool        // on the ready list
	hot      bool        // on the hot list, and not watched
	closed   bool
	terminal bool
	gap      uint8 // flags for the next slot: output was dropped since the last one
	capacity int32
	small    int8  // small reads in a row, each soon after the one before; when hot, the looks that may find nothing
	last     int64 // time of the last read, Unix nanoseconds
}

const (
	smallRead  = 4 << 10
	soon       = 2 * time.Millisecond
	hotAfter   = 8 // small reads in a row
	coolAfter  = 5 // looks at a hot source that found nothing
	hotEvery   = time.Millisecond
	watchFlags = unix.EPOLLIN | unix.EPOLLET
	pauseFlags = unix.EPOLLET // an end of file comes nevertheless, once
)

func (rd *reader) init(p *Pump) {
	rd.pump = p
	rd.began = time.Now()
	rd.seq = p.pool.lastSeq()
}

// watch registers a FIFO with the loop, paused: enable begins to read it. Neither touches anything of the reader, so
// they may be called from any goroutine.
func (rd *reader) watch(r *run, fd int, stream logs.Stream) (*source, error) {
	capacity, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: not a FIFO: %w", stream, err)
	}
	return rd.add(&source{run: r, fd: fd, stream: stream, capacity: int32(capacity)})
}

func (rd *reader) add(s *source) (*source, error) {
	if err := rd.pump.loop.Add(s.fd, pauseFlags, func(uint32) { rd.list(s) }); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", s.stream, err)
	}
	return s, nil
}

func (rd *reader) enable(s *source) {
	s.live.Store(true)
	rd.pump.loop.modify(s.fd, watchFlags)
}

func (rd *reader) list(s *source) {
	if s.listed || s.closed || !s.live.Load() {
		return
	}
	s.listed = true
	rd.ready = append(rd.ready, s)
}

// turn ends a turn of the loop: one read of every ready source. It returns for how many milliseconds the loop may wait.
func (rd *reader) turn() int {
	now := time.Now()
	if len(rd.hot) > 0 && !now.Before(rd.lookAt) {
		for _, s := range rd.hot {
			rd.list(s)
		}
		rd.lookAt = now.Add(hotEvery)
	}
	rd.starvedSince = rd.sinceStarved(now)
	more := rd.readReady(now)
	rd.turnDrains(now)
	if more {
		return 0
	}
	return rd.wait(now)
}

// readReady reads once from every ready source while there are slots, and reports whether it is worth to do that again at
// once. Who was left out comes first the next time: a run that floods takes no other's turn.
func (rd *reader) readReady(now time.Time) (more bool) {
	ready := rd.ready
	rd.ready, rd.spare = rd.spare[:0], nil
	again := 0 // of those at the front of ready that were looked at already
	for i, s := range ready {
		if rd.starved.Load() && rd.pump.pool.free.Load() == 0 && !rd.stalled(now) {
			rd.ready = append(rd.ready, ready[i:]...)
			break
		}
		switch _, next := rd.read(s, now); next {
		case readSome:
			ready[again] = s
			again++
			more = more || !s.hot
		case readLater:
			rd.ready = append(rd.ready, s)
		default:
			s.listed = false
		}
	}
	rd.ready = append(rd.ready, ready[:again]...)
	clear(ready)
	rd.spare = ready
	return more
}

// wait is how long the loop may sleep when no source can be read on.
func (rd *reader) wait(now time.Time) int {
	var next time.Time
	earlier := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if len(rd.hot) > 0 {
		earlier(rd.lookAt)
	}
	if rd.starved.Load() && !rd.stalled(now) {
		earlier(rd.stallTime())
	}
	for _, d := range rd.drains {
		earlier(d.deadline)
	}
	if next.IsZero() {
		return -1
	}
	return int(max(0, (next.Sub(now)+time.Millisecond-1)/time.Millisecond))
}

// sinceStarved clears the mark of a starved pool when a slot has come free.
func (rd *reader) sinceStarved(now time.Time) time.Time {
	if rd.pump.pool.free.Load() != 0 {
		rd.starved.Store(false)
		return time.Time{}
	}
	return rd.starvedSince
}

// stallTime is when output begins to be dropped: the oldest that waits for the disk has then waited for the pump's patience.
func (rd *reader) stallTime() time.Time {
	if head := rd.head.Load(); head != 0 {
		return rd.began.Add(time.Duration(head) + rd.pump.patience)
	}
	return rd.starvedSince.Add(rd.pump.patience)
}

// stalled reports whether the disk is so slow that workloads would wait for it.
func (rd *reader) stalled(now time.Time) bool {
	return rd.starved.Load() && !now.Before(rd.stallTime())
}

// freed is the writer's word that a slot is free again.
func (rd *reader) freed() {
	if rd.starved.Load() {
		rd.pump.loop.wake()
	}
}

type outcome int

const (
	readNothing outcome = iota // it is empty, or gone
	readSome                   // there may be more
	readLater                  // there is more, and no slot
)

// read moves what a source has, up to one slot, and says how many bytes that were.
func (rd *reader) read(s *source, now time.Time) (int, outcome) {
	if s.closed {
		return 0, readNothing
	}
	n := s.available()
	if n == 0 {
		rd.miss(s)
		return 0, readNothing
	}
	slot := rd.pump.pool.take()
	if slot < 0 {
		return rd.starve(s, n, now)
	}
	n = rd.fill(slot, s, min(n, slotSize), now)
	if n == 0 {
		rd.pump.pool.release(slot)
		return 0, readNothing
	}
	rd.warm(s, n, now)
	rd.arrived[slot] = now.Sub(rd.began)
	rd.pump.queue.push(work{run: s.run, slot: slot})
	if s.hot {
		return n, readNothing // until the next look
	}
	return n, readSome
}

// fill reads n bytes into a slot in such a way that the slot tells whether they were read (see doc.go).
func (rd *reader) fill(slot int, s *source, n int, now time.Time) int {
	p := rd.pump
	h, data := p.pool.header(slot), p.pool.data(slot)
	rd.seq++
	h.n, h.stream, h.flags = uint32(n), s.stream, s.gap
	if s.terminal {
		h.flags |= flagTerminal
	}
	h.seq, h.nanos, h.number = rd.seq, now.UnixNano(), s.run.id.Number
	h.length = uint8(copy(h.scope[:], s.run.id.Scope))
	setCanaries(data[:n])
	p.at("marked")
	h.state.Store(reading)
	p.at("reading")
	got := readNow(s.fd, data[:n])
	p.at("read")
	if got == 0 {
		return 0
	}
	h.n = uint32(got) // fewer only if somebody else reads the FIFO
	h.state.Store(have)
	p.at("have")
	s.gap = 0
	rd.scan(s, data[:got])
	return got
}

// starve leaves the bytes in the FIFO until a slot is free. When the disk stands still and the FIFO is half full, they
// are dropped: a workload never waits for a disk.
func (rd *reader) starve(s *source, n int, now time.Time) (int, outcome) {
	if rd.starvedSince.IsZero() {
		rd.starvedSince = now
	}
	rd.starved.Store(true)
	if rd.pump.pool.free.Load() != 0 {
		rd.pump.loop.wake() // freed between the try and the mark
		return 0, readLater
	}
	if !rd.stalled(now) || n < int(s.capacity/2) {
		return 0, readLater
	}
	if rd.scratch == nil {
		rd.scratch = make([]byte, slotSize)
	}
	got := readNow(s.fd, rd.scratch[:min(n, slotSize)])
	if got == 0 {
		return 0, readNothing
	}
	dropped := rd.scratch[:got]
	rd.scan(s, dropped)
	s.run.countDropped(countLines(dropped))
	s.gap = flagGap
	if dropped[got-1] != '\n' {
		s.gap |= flagMid
	}
	return got, readLater
}

// warm makes a source hot that comes in many small pieces.
func (rd *reader) warm(s *source, n int, now time.Time) {
	nanos := now.UnixNano()
	quick := nanos-s.last < int64(soon)
	s.last = nanos
	if s.hot {
		s.small = coolAfter
		if n > int(s.capacity/8*7) {
			rd.cool(s) // too fast to be looked at only now and then
		}
		return
	}
	if n >= smallRead || !quick {
		s.small = 0
		return
	}
	if s.small++; s.small < hotAfter {
		return
	}
	if len(rd.hot) == 0 {
		rd.lookAt = now.Add(hotEvery)
	}
	s.hot, s.small = true, coolAfter
	rd.hot = append(rd.hot, s)
	rd.pump.loop.modify(s.fd, pauseFlags)
}

// miss takes note that a source had nothing.
func (rd *reader) miss(s *source) {
	if !s.hot {
		return
	}
	if s.small--; s.small <= 0 {
		rd.cool(s)
	}
}

// cool watches a source again. Watching reports bytes that are there already.
func (rd *reader) cool(s *source) {
	s.small = 0
	if !s.hot {
		return
	}
	rd.unheat(s)
	rd.pump.loop.modify(s.fd, watchFlags)
}

func (rd *reader) unheat(s *source) {
	s.hot = false
	for i, other := range rd.hot {
		if other == s {
			rd.hot[i] = rd.hot[len(rd.hot)-1]
			rd.hot[len(rd.hot)-1] = nil
			rd.hot = rd.hot[:len(rd.hot)-1]
			return
		}
	}
}

// forget ends the reading of a run.
func (rd *reader) forget(r *run) {
	rd.unwatch(r)
	rd.disappoint(r)
	r.endTaps()
	for _, s := range r.streams {
		if s.closed {
			continue
		}
		rd.unheat(s)
		rd.pump.loop.Remove(s.fd)
		s.closed = true
		_ = unix.Close(s.fd) // a FIFO's read end: there is nothing that could fail
	}
}

// available is how many bytes a FIFO holds (FIONREAD). It asks without telling Go's scheduler: the call never waits.
func available(fd int) int {
	var n int32
	if _, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCINQ, uintptr(unsafe.Pointer(&n))); errno != 0 {
		return 0
	}
	return int(n)
}

// readNow reads from a non-blocking descriptor; 0 = there is nothing.
func readNow(fd int, b []byte) int {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return 0
		}
		return int(n)
	}
}
