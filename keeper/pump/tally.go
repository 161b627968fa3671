package pump

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"reconciler.dev/reconciler/observe/logs"
)

// The tallies lie behind the slots of the pool: how many lines of a run were dropped. What is dropped leaves no other trace, so
// the count has to outlive the keeper that dropped it. Few runs ever need one; those of more are counted in memory alone.
const (
	maxTallies = 64
	tallySize  = 256
)

// tally is one run's. It is valid when used is 1, which is stored last.
type tally struct {
	used    atomic.Uint32
	length  uint8 // of scope
	_       [3]byte
	number  int64
	dropped atomic.Int64
	scope   [192]byte
	_       [40]byte
}

// tallies hands them out. Free ones are told by the file alone.
type tallies struct{ mu sync.Mutex }

func (p *pool) tally(i int) *tally {
	return (*tally)(unsafe.Pointer(&p.mem[dataStart(p.count)+p.count*slotSize+i*tallySize]))
}

func (t *tally) run() logs.Run {
	return logs.Run{Scope: string(t.scope[:min(int(t.length), len(t.scope))]), Number: t.number}
}

// findTally returns a run's tally, or nil.
func (p *pool) findTally(id logs.Run) *tally {
	p.tallies.mu.Lock()
	defer p.tallies.mu.Unlock()
	for i := range maxTallies {
		if t := p.tally(i); t.used.Load() == 1 && t.run() == id {
			return t
		}
	}
	return nil
}

// takeTally gives a run a tally, or nil when all are taken.
func (p *pool) takeTally(id logs.Run) *tally {
	p.tallies.mu.Lock()
	defer p.tallies.mu.Unlock()
	for i := range maxTallies {
		t := p.tally(i)
		if t.used.Load() == 1 {
			continue
		}
		t.length, t.number = uint8(copy(t.scope[:], id.Scope)), id.Number
		t.dropped.Store(0)
		t.used.Store(1)
		return t
	}
	return nil
}

// keepTallies frees those of the runs that are not to be kept, and reports whether any is left.
func (p *pool) keepTallies(keep func(logs.Run) bool) (any bool) {
	p.tallies.mu.Lock()
	defer p.tallies.mu.Unlock()
	for i := range maxTallies {
		t := p.tally(i)
		if t.used.Load() != 0 && !(t.used.Load() == 1 && keep(t.run())) {
			t.used.Store(0)
		}
		any = any || t.used.Load() == 1
	}
	return any
}

// newRun is a run as an earlier keeper has left it.
func (p *Pump) newRun(id logs.Run) *run {
	r := &run{id: id, pool: p.pool}
	if t := p.pool.findTally(id); t != nil {
		r.dropped.Store(t.dropped.Load())
		r.tally.Store(t)
	}
	return r
}

// countDropped counts lines that nobody will read. The loop and the writer call it.
func (r *run) countDropped(lines int64) {
	if lines == 0 {
		return
	}
	total := r.dropped.Add(lines)
	t := r.tally.Load()
	if t == nil {
		r.tallyOnce.Do(func() { r.tally.Store(r.pool.takeTally(r.id)) })
		if t = r.tally.Load(); t == nil {
			return
		}
	}
	for { // the other of the two may be further
		told := t.dropped.Load()
		if told >= total || t.dropped.CompareAndSwap(told, total) {
			return
		}
	}
}

// Recorded says that what was counted of a run, which is detached, is on record: a successor need not know it.
func (p *Pump) Recorded(id logs.Run) {
	if t := p.pool.findTally(id); t != nil {
		t.used.Store(0)
	}
}
