package pump

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"reconciler.dev/reconciler/observe/logs"
)

// tapRoom is how much of a run's output waits for whoever listens to it, in bytes. What comes while it is full is counted and lost to him alone.
const tapRoom = 256 << 10

// Tap is what a run prints, every byte as it comes. It delays neither the run nor its log, which goes on beside it.
type Tap struct {
	seam chan Seam     // one slot
	more chan struct{} // one slot: there may be something to take

	mu    sync.Mutex
	buf   []byte
	lost  int64 // bytes, after those in buf
	ended bool
}

// Seam is where a log ends that the first byte of a [Tap] goes on from.
type Seam struct {
	// Run and End are the place in the log; Run 0 = nothing was written, or it cannot be told where.
	Run int64
	End logs.Place
	// Return says that a terminal's carriage return comes next, which the log does not have yet.
	Return bool
}

// Tap begins to listen to a run's output. stop ends it and is always called. It fails with [ErrUnknownRun].
func (p *Pump) Tap(id logs.Run) (t *Tap, stop func(), err error) {
	r, err := p.lookup(id)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot listen: %w", err)
	}
	t = &Tap{seam: make(chan Seam, 1), more: make(chan struct{}, 1)}
	p.loop.Post(func() { p.reader.beginTap(r, t) })
	return t, func() {
		p.loop.Post(func() { r.taps = slices.DeleteFunc(r.taps, func(other *Tap) bool { return other == t }) })
	}, nil
}

// beginTap listens from here on: what was read before is in the writer's queue.
func (rd *reader) beginTap(r *run, t *Tap) {
	if slices.ContainsFunc(r.streams, func(s *source) bool { return s.closed }) {
		t.end()
	} else {
		r.taps = append(r.taps, t)
	}
	rd.pump.queue.push(work{do: func(w *writer) { t.seam <- w.seam(r) }})
}

// endTaps says that no more comes.
func (r *run) endTaps() {
	for _, t := range r.taps {
		t.end()
	}
	r.taps = nil
}

// seam is where what was written of a run ends.
func (w *writer) seam(r *run) Seam {
	end, err := w.end(r)
	if err != nil {
		w.pump.log.Warn("cannot tell where a log ends", "run", r.id, "error", err)
		return Seam{}
	}
	if end.Index == 0 && end.Size == 0 {
		return Seam{}
	}
	return Seam{Run: end.Run, End: logs.Place{Index: end.Index, Offset: end.Size}, Return: r.file.ends[terminalStream].held}
}

// end is the file that a run's log ends in, and its size, which is that of an earlier keeper when this one has written nothing.
func (w *writer) end(r *run) (logs.File, error) {
	f := &r.file
	end := logs.File{Run: r.id.Number, Index: f.index, Size: f.size}
	if f.known {
		return end, nil
	}
	files, err := logs.Files(filepath.Join(w.pump.dir, r.id.Scope))
	if err != nil {
		return end, err
	}
	for _, file := range files {
		if file.Run == end.Run {
			end = file
		}
	}
	return end, nil
}

func (t *Tap) add(b []byte) {
	t.mu.Lock()
	if t.lost > 0 || len(t.buf)+len(b) > tapRoom {
		t.lost += int64(len(b))
	} else {
		t.buf = append(t.buf, b...)
	}
	t.mu.Unlock()
	t.ring()
}

func (t *Tap) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.ring()
}

func (t *Tap) ring() {
	select {
	case t.more <- struct{}{}:
	default: // he has not looked since the last time
	}
}

// Seam waits until the log is written up to where the tap begins.
func (t *Tap) Seam(ctx context.Context) (Seam, error) {
	select {
	case s := <-t.seam:
		return s, nil
	case <-ctx.Done():
		return Seam{}, context.Cause(ctx)
	}
}

// Next waits for what was printed since the last call, and for how many bytes of what came after it are lost. It fails with [io.EOF] when
// the run prints no more and all was taken, or as ctx ends.
func (t *Tap) Next(ctx context.Context) (b []byte, lost int64, err error) {
	for {
		b, lost, ended := t.take()
		switch {
		case len(b) > 0 || lost > 0:
			return b, lost, nil
		case ended:
			return nil, 0, io.EOF
		}
		select {
		case <-t.more:
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		}
	}
}

func (t *Tap) take() (b []byte, lost int64, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, lost, ended = t.buf, t.lost, t.ended
	t.buf, t.lost = nil, 0
	return b, lost, ended
}
