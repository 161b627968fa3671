package pump

import "time"

// draining is a Drain under way: first the bytes that were in the FIFOs are read, or all that a terminal holds, then a mark goes
// through the writer's queue.
type draining struct {
	run      *run
	left     [2]int // bytes to read, by stream
	deadline time.Time
	done     func(complete bool)
	marked   bool
	over     bool
}

func (rd *reader) drain(r *run, deadline time.Time, done func(bool)) {
	d := &draining{run: r, deadline: deadline, done: done}
	for i, s := range r.streams {
		if !s.closed {
			d.left[i] = s.pending()
		}
	}
	rd.drains = append(rd.drains, d)
	// The turn that runs this goes on with turnDrains.
}

// turnDrains goes on with every drain and ends those whose time is up.
func (rd *reader) turnDrains(now time.Time) {
	if len(rd.drains) == 0 {
		return
	}
	drains := rd.drains
	rd.drains = nil // a callback may begin another
	var kept []*draining
	for _, d := range drains {
		if !d.marked && rd.empty(d, now) {
			d.marked = true
			rd.pump.queue.push(work{do: func(*writer) { rd.pump.loop.Post(func() { d.finish(true) }) }})
		}
		if !d.over && !now.Before(d.deadline) {
			d.finish(false)
		}
		if !d.over {
			kept = append(kept, d)
		}
	}
	rd.drains = append(kept, rd.drains...)
}

// empty reads what a drain is about and reports whether all of it is read.
func (rd *reader) empty(d *draining, now time.Time) bool {
	for i, s := range d.run.streams {
		for d.left[i] > 0 {
			moved, next := rd.read(s, now)
			if moved == 0 && next == readLater {
				return false
			}
			if moved == 0 {
				moved = d.left[i] // the ready list had its turn in between
			}
			d.left[i] -= moved
		}
	}
	return true
}

func (d *draining) finish(complete bool) {
	if d.over {
		return
	}
	d.over = true
	d.done(complete)
}
