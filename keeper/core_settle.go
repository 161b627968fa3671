package keeper

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// HandleExit looks at a scope whose main process has ended, or may have.
func (c *Core) HandleExit(name spec.Scope) { c.Settle(name) }

// HandleTree looks at a scope whose tree has become empty, or may have.
func (c *Core) HandleTree(name spec.Scope) { c.Settle(name) }

// HandleLogSeen notes that a run, by its number, has printed a literal of its log probe.
func (c *Core) HandleLogSeen(name spec.Scope, number int64) {
	if s := c.lookup(name); s != nil {
		s.heard.Store(number)
		c.poke(s)
	}
}

// HandleNotified notes that a run, by its number, has said that it is ready.
func (c *Core) HandleNotified(name spec.Scope, number int64) {
	if s := c.lookup(name); s != nil {
		s.spoke.Store(number)
		c.poke(s)
	}
}

// Settle compares one scope with the kernel and does what follows. It does not wait for whoever has the scope now: he looks
// again when he is done, so that no event waits behind another scope's trouble (I12).
func (c *Core) Settle(name spec.Scope) {
	if s := c.lookup(name); s != nil {
		c.poke(s)
	}
}

func (c *Core) poke(s *scope) {
	s.poked.Store(true)
	c.servePokes(s)
}

func (c *Core) servePokes(s *scope) {
	for s.poked.Load() && s.mu.TryLock() {
		if s.poked.Swap(false) && !s.removed {
			c.settle(s)
		}
		c.note(s)
		s.mu.Unlock()
	}
}

// recordSeen writes when a literal of the log probe was printed, and when the run said that it is ready.
func (c *Core) recordSeen(s *scope) {
	run := s.rec.Run
	seen := s.heard.Load() == run.Number && run.LogSeenAt.IsZero()
	told := s.spoke.Load() == run.Number && run.NotifiedAt.IsZero()
	if !seen && !told {
		return
	}
	now := c.kernel.Now().Wall
	err := c.edit(s, func(r *state.Record) {
		if seen {
			r.Run.LogSeenAt = now
		}
		if told {
			r.Run.NotifiedAt = now
		}
	})
	if err != nil {
		s.again = true
	}
}

// Compare settles every scope (BP-6: after a start and after every new session), those excepted that somebody is looking
// at right now.
func (c *Core) Compare() {
	for _, s := range c.all() {
		if !s.mu.TryLock() {
			continue
		}
		if !s.removed {
			c.settle(s)
		}
		c.release(s)
	}
}

// Unsettled lists the scopes that have to be settled again although nothing will happen in them: something failed
// there, a full disk for example. Whoever drives the core does so about once a second.
func (c *Core) Unsettled() []spec.Scope {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(c.unsettled), cmpScope)
}

// release lets go of a scope, notes whether it has to be settled again, and looks at what came meanwhile.
func (c *Core) release(s *scope) {
	c.note(s)
	s.mu.Unlock()
	c.servePokes(s)
}

func (c *Core) note(s *scope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.again && !s.removed {
		c.unsettled[s.name] = struct{}{}
	} else {
		delete(c.unsettled, s.name)
	}
}

// settle does all that is left to do for a run by what the kernel says now: note that it was executed, record its main
// process's end and reap it, and, when its tree is gone too, end the run and clean up behind it. It may be called at
// any time; what fails is left for the next call. The caller holds the scope.
func (c *Core) settle(s *scope) {
	s.again = false
	if s.blocked != "" {
		c.readopt(s)
	}
	if s.blocked != "" {
		return
	}
	c.settleDeliveries(s)
	c.settlePrograms(s)
	c.settleProbes(s)
	c.settleTyping(s)
	if s.live() == nil {
		c.publishChange(s)
		c.clean(s)
		return
	}
	c.advance(s)
	if len(s.openPrograms()) > 0 { // the main process may have ended just now, and they end with it
		c.settlePrograms(s)
	}
	c.settleTyping(s)
	c.publishChange(s)
	if s.live() == nil {
		c.clean(s)
	}
}

// publishChange publishes what has changed since it was done last.
func (c *Core) publishChange(s *scope) {
	if s.told != s.now() {
		c.publish(s)
	}
}

func (c *Core) advance(s *scope) {
	c.recordSeen(s)
	if !c.settleMain(s) || s.exit == nil && !c.treeGone(s) || s.busy() {
		return
	}
	if err := c.end(s); err != nil {
		s.again = true
	}
}

// busy reports whether something is not over yet that is run beside the run.
func (s *scope) busy() bool { return len(s.openPrograms()) > 0 || len(s.probes) > 0 }

// settleMain reports whether the main process is gone and its end, if there was one, on record.
func (c *Core) settleMain(s *scope) bool {
	run := s.rec.Run
	if s.proc == nil {
		return c.recordGone(s)
	}
	end, ended, err := s.proc.Peek()
	if err != nil {
		s.again = true
		return false
	}
	if !ended {
		c.promote(s)
		return false
	}
	if !s.dead {
		s.dead = true
		c.endProbes(s) // what is asked of a run does not outlive it
	}
	if run.Phase == state.Released && s.never == (never{}) {
		if staged, err := s.proc.Staged(); err == nil && staged {
			s.never = never{reason: spec.ReasonStartAborted}
		}
	}
	if run.MainExit == nil && s.never == (never{}) {
		if c.treeGone(s) && !s.busy() {
			// Both ends go into one record. Until it is written the zombie keeps the first.
			s.exit = &end
			return true
		}
		if err := c.recordMainExit(s, end); err != nil {
			s.again = true
			return false
		}
	}
	c.reap(s)
	return true
}

// reap lets go of a main process whose end is on record. When that fails the zombie stays for a while: it has ended all the same.
func (c *Core) reap(s *scope) {
	if err := s.proc.Reap(); err != nil {
		s.again = true
		return
	}
	s.proc.Close()
	s.proc = nil
}

// recordGone records the end of a main process of which nothing can be learned any more.
func (c *Core) recordGone(s *scope) bool {
	run := s.rec.Run
	if run.Identity == nil || run.MainExit != nil || s.never != (never{}) || s.reboot {
		return true
	}
	if err := c.recordMainExit(s, state.MainExit{From: s.gone, At: c.kernel.Now().Wall}); err != nil {
		s.again = true
		return false
	}
	return true
}

// recordMainExit writes how the main process ended, before it is reaped. A stop of which no step was journaled by now
// did not cause it: from then on it is a stop of what the main process left behind (BP-9).
func (c *Core) recordMainExit(s *scope, end state.MainExit) error {
	return c.edit(s, func(r *state.Record) { setMainExit(r.Run, end) })
}

func setMainExit(run *state.Run, end state.MainExit) {
	run.MainExit = &end
	if stop := run.Stop; stop != nil && len(stop.Steps) == 0 && stop.Killed == nil {
		stop.Reason = spec.ReasonMainExited
	}
}

// promote notes that a run whose start was not seen to its end has come to run.
func (c *Core) promote(s *scope) {
	if s.rec.Run.Phase != state.Released {
		return
	}
	staged, err := s.proc.Staged()
	if err != nil || staged {
		s.again = true
		return
	}
	_ = c.recordStarted(s) // tried again when it fails
}

// treeGone looks at what is left of the run's family, and asks to be told when that changes.
func (c *Core) treeGone(s *scope) bool {
	if s.reboot {
		return true
	}
	tree, err := c.kernel.Tree(s.place())
	if err == nil && tree.State == observe.TreePopulated {
		if err = c.kernel.WatchTree(s.place()); err == nil {
			// It may have become empty before it was watched.
			tree, err = c.kernel.Tree(s.place())
		}
	}
	if err != nil {
		s.again = true
		s.tree = observe.Tree{State: observe.TreeUnknown}
		return false
	}
	s.tree = tree
	return tree.State != observe.TreePopulated
}

// end classifies the run, once, and writes its end.
func (c *Core) end(s *scope) error {
	if s.totals == nil {
		totals := LogTotals{}
		if s.pump {
			totals = c.kernel.Drain(s.place())
		}
		s.totals, s.pump = &totals, false
	}
	exit := s.exit
	if s.reboot && s.never == (never{}) && s.rec.Run.MainExit == nil {
		s.never = never{reason: spec.ReasonHostRebooted}
	}
	now := c.kernel.Now().Wall
	err := c.edit(s, func(r *state.Record) {
		if exit != nil && r.Run.MainExit == nil {
			setMainExit(r.Run, *exit)
		}
		endRecord(r, s.never, *s.totals, now)
	})
	if err != nil {
		return err
	}
	s.remain = append(s.remain, remains{s.proc, s.place()})
	s.proc, s.dead = nil, true
	return nil
}

// endRecord ends the record's run.
func endRecord(r *state.Record, why never, totals LogTotals, now time.Time) {
	run := r.Run
	e := state.Exit{
		Number: run.Number, RunID: run.ID, Generation: run.Generation, Cause: run.Cause, Why: why.message,
		ExitStatus: classify(run, why.reason),
	}
	e.FinishedAt = now
	if run.Stop != nil {
		e.Why, e.By = run.Stop.Why, run.Stop.By
	}
	run.Phase = state.Exited
	r.History = append(r.History, e)
	if over := len(r.History) - state.HistoryLimit; over > 0 {
		r.History = r.History[over:]
	}
	r.Counters.LogBytes += totals.Bytes
	r.Counters.LogDroppedLines += totals.DroppedLines
	r.Counters.Exits = counted(r.Counters.Exits, string(e.Class)+"/"+string(e.Reason))
	if run.Stop != nil {
		step := 0
		if e.StopStep != nil {
			step = *e.StopStep
		}
		r.Counters.Stops = counted(r.Counters.Stops, strconv.Itoa(step)+"/"+strconv.FormatBool(e.Killed))
	}
}

// counted is a copy of m with one more of key.
func counted(m map[string]int64, key string) map[string]int64 {
	next := maps.Clone(m)
	if next == nil {
		next = map[string]int64{}
	}
	next[key]++
	return next
}

// clean takes away what runs that are over have left.
func (c *Core) clean(s *scope) { s.remain = c.cleanUp(s, s.remain) }

// cleanUp takes remains away, and answers those that are still there.
func (c *Core) cleanUp(s *scope, all []remains) []remains {
	for len(all) > 0 {
		r := &all[0]
		if r.proc != nil {
			if err := r.proc.Reap(); err != nil {
				s.again = true
				return all
			}
			r.proc.Close()
			r.proc = nil
		}
		if err := c.kernel.Remove(r.place); err != nil {
			s.again = true
			return all
		}
		all = all[1:]
	}
	return nil
}
