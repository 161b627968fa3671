package pump

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/logs"
)

const (
	bufferSize  = 128 << 10
	flushAt     = 64 << 10
	maxOpen     = 64                     // log files kept open
	retryAfter  = 200 * time.Millisecond // after a failed write of a run's log
	tellEvery   = 10 * time.Second
	maxLineSize = logs.HeaderSize + logs.MaxPiece + 1
)

// buffers are the writers', which have one only while there is something to write.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// writer is the disk's half: slots into log files. Everything here runs on the goroutine of Pump.Run.
//
// Lines are formatted into one buffer, which holds the output of one run at a time. The slots that it holds are WRITING,
// each with the offset where its output begins, and are released in order once the buffer is in the file.
type writer struct {
	pump    *Pump
	stamper logs.Stamper
	disk    disk
	batch   []work
	open    []*run // with a descriptor, the longest open first

	buf     []byte
	run     *run        // whose output buf holds
	slots   []int       // whose output ends in buf
	pending [3]lineEnds // of buf, by stream
	current int         // the slot that is being formatted; -1 = none, or the disk failed under way
	limit   int64       // size of a file

	tellAt  time.Time // when a gap is told of again
	used    int64     // bytes of all log files, -1 = not known yet
	checkAt int64     // used at which the host's budget is looked at again
}

// lineEnds is what a buffer holds of a stream.
type lineEnds struct {
	lines   int64
	text    int64
	some    bool // any piece
	partial bool // the last piece is a P
}

// disk is what the writer does to log files; tests let it fail and wait.
type disk struct {
	open   func(path string) (int, error)
	pwrite func(fd int, b []byte, offset int64) (int, error)
}

func (w *writer) init(p *Pump) {
	*w = writer{pump: p, used: -1, current: -1, disk: disk{
		open: func(path string) (int, error) {
			return unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		},
		pwrite: unix.Pwrite,
	}}
}

func (w *writer) loop(ctx context.Context) error {
	for {
		w.turn()
		select {
		case <-w.pump.queue.wake:
		case <-ctx.Done():
			w.turn()
			return nil
		}
	}
}

// turn does all work that waits.
func (w *writer) turn() {
	rd := &w.pump.reader
	buffer := buffers.Get().(*[bufferSize]byte)
	w.buf = buffer[:0]
	defer func() {
		w.buf = nil
		buffers.Put(buffer)
	}()
	for {
		w.batch = w.pump.queue.take(w.batch)
		if len(w.batch) == 0 {
			break
		}
		for _, item := range w.batch {
			if item.do != nil {
				w.flush()
				item.do(w)
				continue
			}
			rd.head.Store(int64(max(1, rd.arrived[item.slot])))
			w.take(item.run, item.slot)
		}
		w.flush()
		w.run = nil
		clear(w.batch)
		w.checkHost()
	}
	rd.head.Store(0)
}

// take formats a slot's output.
func (w *writer) take(r *run, slot int) {
	if w.run != r {
		w.flush()
		w.run = r
	}
	p := w.pump
	h, data := p.pool.header(slot), p.pool.data(slot)[:p.pool.header(slot).n]
	end := &r.file.ends[h.stream]
	if !w.ready(r) {
		w.drop(r, h.stream, data)
		w.free(slot)
		return
	}
	head := w.stamper.Header(h.nanos, h.stream)
	h.file, h.offset = uint32(r.file.index), r.file.size+int64(len(w.buf))
	p.at("formatted")
	h.state.Store(writing)
	p.at("writing")
	w.current = slot
	w.limit = w.fileLimit()
	if h.flags&flagGap != 0 {
		end.gap, end.inGap = true, h.flags&flagMid != 0
		w.tellGap(r)
	}
	data = w.resume(r, h.stream, &head, data)
	for len(data) > 0 && w.current >= 0 {
		took, ended := w.append(end, &head, data, h.flags&flagTerminal != 0)
		data = data[took:]
		w.pending[h.stream].add(ended, int64(took))
		if w.mayRotate(r, ended) {
			w.flush()
			w.rotate(r)
		} else if len(w.buf) >= flushAt {
			w.flush()
		}
	}
	if w.current < 0 { // the disk failed under way
		w.drop(r, h.stream, data)
		w.free(slot)
		return
	}
	w.current = -1
	w.slots = append(w.slots, slot)
}

// append formats the next line of data, or the next piece of it. It returns how many bytes of data that took and whether it ends a line.
func (w *writer) append(end *streamEnd, head *logs.Header, data []byte, terminal bool) (took int, ended bool) {
	if terminal {
		w.buf, took, ended, end.held = appendTerminalLine(w.buf, head, data, end.held)
		return took, ended
	}
	w.buf, took, ended = appendLine(w.buf, head, data)
	return took, ended
}

// tellGap says in our own log, now and then, that the loop had to drop output.
func (w *writer) tellGap(r *run) {
	if now := time.Now(); now.After(w.tellAt) {
		w.tellAt = now.Add(tellEvery)
		w.pump.log.Warn("log lines were dropped: the disk did not take them in time", "run", r.id, "droppedLines", r.dropped.Load())
	}
}

// resume goes on after a gap: the rest of a line whose beginning was dropped is dropped too, and a line whose end was
// dropped is ended.
func (w *writer) resume(r *run, stream logs.Stream, head *logs.Header, data []byte) []byte {
	end := &r.file.ends[stream]
	if end.inGap {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			return nil
		}
		data = data[i+1:]
		end.inGap = false
		r.countDropped(1)
	}
	if end.gap {
		end.gap, end.held = false, false
		if w.isOpen(r, stream) {
			head.SetPartial(false)
			w.buf = append(append(w.buf, head[:]...), '\n')
			n := &w.pending[stream]
			n.some, n.partial = true, false
		}
	}
	return data
}

// add keeps account of a piece in the buffer.
func (n *lineEnds) add(ended bool, text int64) {
	n.some, n.partial = true, !ended
	n.text += text
	if ended {
		n.lines++
	}
}

// drop counts output that the file does not get.
func (w *writer) drop(r *run, stream logs.Stream, data []byte) {
	if len(data) == 0 {
		return
	}
	end := &r.file.ends[stream]
	end.gap, end.held = true, false
	end.inGap = data[len(data)-1] != '\n'
	r.countDropped(countLines(data))
}

// flush brings the buffer into the file, or drops what it holds when the disk does not take it.
func (w *writer) flush() {
	r := w.run
	if len(w.buf) > 0 {
		if err := w.write(r); err != nil {
			w.fail(r, err)
		} else {
			w.written(r)
		}
		w.buf = w.buf[:0]
		w.pending = [3]lineEnds{}
	}
	for _, slot := range w.slots {
		w.free(slot)
	}
	w.slots = w.slots[:0]
}

// write makes the buffer a part of the file, whole or not at all.
func (w *writer) write(r *run) error {
	f := &r.file
	w.pump.at("write")
	for done := 0; done < len(w.buf); {
		n, err := w.disk.pwrite(f.fd, w.buf[done:], f.size+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = unix.ENOSPC
		}
		if err != nil {
			return errors.Join(err, unix.Ftruncate(f.fd, f.size))
		}
		done += n
		w.pump.at("written")
	}
	return nil
}

func (w *writer) written(r *run) {
	f := &r.file
	f.size += int64(len(w.buf))
	if w.used >= 0 {
		w.used += int64(len(w.buf))
	}
	for stream, n := range w.pending {
		if n.some {
			f.ends[stream].open = n.partial
		}
		r.bytes.Add(n.text)
	}
	if f.failed {
		f.failed = false
		w.pump.log.Info("log is written again", "run", r.id, "droppedLines", r.dropped.Load()-f.lostFrom)
	}
	if w.pump.bell != nil {
		w.pump.bell.Ring(r.id.Scope)
	}
}

// fail drops what the buffer holds. The file ends where it did before.
func (w *writer) fail(r *run, err error) {
	f := &r.file
	if !f.failed {
		f.failed, f.lostFrom = true, r.dropped.Load()
		w.pump.log.Warn("log lines are dropped until the log can be written", "run", r.id, "error", err)
	}
	f.retry = time.Now().Add(retryAfter)
	for stream, n := range w.pending {
		if n.some {
			f.ends[stream].gap, f.ends[stream].inGap, f.ends[stream].held = true, n.partial, false
			r.countDropped(n.lines)
		}
	}
	w.closeFile(r)
	w.current = -1
}

func (w *writer) free(slot int) {
	w.pump.at("done")
	w.pump.pool.release(slot)
	w.pump.at("released")
	w.pump.reader.freed()
}

// forget ends a detached run, once all of its slots are written.
func (w *writer) forget(r *run) {
	w.closeFile(r)
	if w.run == r {
		w.run = nil
	}
	w.pump.mu.Lock()
	defer w.pump.mu.Unlock()
	if w.pump.runs[r.id] == r {
		delete(w.pump.runs, r.id)
	}
}

func (w *writer) close() error {
	for len(w.open) > 0 {
		w.closeFile(w.open[0])
	}
	return nil
}
