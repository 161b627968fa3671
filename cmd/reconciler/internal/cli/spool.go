package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// spool stands between a log and where it goes, so that whoever logs never waits: a terminal that was stopped with ^S, or a
// pipe that nobody reads, must hold up no server (I12). What does not fit is dropped in whole writes, and how many were is
// said when there is room again.
type spool struct {
	to   io.Writer
	more chan struct{}
	full chan struct{} // one slot: what waits is too much to gather more; closed with the spool
	done chan struct{} // closed when everything was written after close

	mu      sync.Mutex
	text    []byte
	dropped int
	closed  bool
}

// spoolSize is how much may wait, in bytes; closePatience is how long close waits for it to be written.
const (
	spoolSize     = 256 << 10
	closePatience = time.Second
)

// While much is logged it is written every spoolEvery, or when spoolFull bytes of it wait: each write wakes whoever watches the file,
// or its directory, as we do ourselves when it lies beside the manifests. A line that follows none is written at once.
const (
	spoolEvery = 10 * time.Millisecond
	spoolFull  = spoolSize / 4
)

// newSpool makes a spool and its writer, which ends with close.
func newSpool(to io.Writer) *spool {
	s := &spool{to: to, more: make(chan struct{}, 1), full: make(chan struct{}, 1), done: make(chan struct{})}
	go s.run()
	return s
}

// Write takes p or drops it. It never fails and never waits.
func (s *spool) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return len(p), nil
	}
	if len(s.text)+len(p) > spoolSize {
		s.dropped++
		return len(p), nil
	}
	s.text = append(s.text, p...)
	fill(s.more)
	if len(s.text) >= spoolFull {
		fill(s.full)
	}
	return len(p), nil
}

// fill fills a slot that may be full.
func fill(slot chan struct{}) {
	select {
	case slot <- struct{}{}:
	default:
	}
}

// run writes what comes until the spool is closed and empty.
func (s *spool) run() {
	defer close(s.done)
	for range s.more {
		for text := s.take(); len(text) > 0; text = s.take() {
			if _, err := s.to.Write(text); err != nil {
				break // there is nobody left to tell
			}
			s.gather()
		}
	}
}

// gather waits for more to write.
func (s *spool) gather() {
	timer := time.NewTimer(spoolEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.full:
	}
}

// take is what waits, with a word about what was dropped after it.
func (s *spool) take() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.text
	s.text = nil
	if s.dropped > 0 {
		text = fmt.Appendf(text, "%d lines of this log were dropped: it was not read in time\n", s.dropped)
		s.dropped = 0
	}
	return text
}

// close ends the spool and gives what waits a moment to be written.
func (s *spool) close() {
	s.mu.Lock()
	s.closed = true
	close(s.more)
	close(s.full)
	s.mu.Unlock()
	select {
	case <-s.done:
	case <-time.After(closePatience):
	}
}
