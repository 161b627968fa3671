package keeper

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// probeProgram is the program of a probe, from before it is forked until nothing of it is left. It is started and ended as any program
// beside a run is, but no record tells of it: its place follows from its run and from what is asked, so that there is one of a kind
// at a time, and a successor finds what we leave. That one ends it: nobody is there any more for its answer.
type probeProgram struct {
	program
	within   time.Duration
	by       time.Duration        // CLOCK_BOOTTIME: its time is over
	told     func(observe.Probed) // nil = it has been told
	executed bool                 // for certain
}

// programProbes are what a run may be asked by a program, in the order in which that is looked at.
var programProbes = []spec.Purpose{spec.ForReadiness, spec.ForLiveness}

// probeOutputLimit is how many bytes are told of what the program of a failed probe has written last.
const probeOutputLimit = 256

// probeOf is the probe that a launch declares for a purpose, nil if it has none.
func probeOf(l *spec.Launch, why spec.Purpose) *spec.LaunchProbe {
	switch why {
	case spec.ForReadiness:
		return l.Readiness
	case spec.ForLiveness:
		return l.Liveness
	}
	return nil
}

// probeID names the folder of a run's probe.
func probeID(runID string, why spec.Purpose) string {
	return runID + "-" + strings.ToLower(string(why))
}

// probePlace is where the program of a probe of the scope's run is.
func (s *scope) probePlace(why spec.Purpose) Place {
	run := s.rec.Run
	return Place{Scope: s.name, RunID: probeID(run.ID, why), Cgroup: probeLeafOf(run.Cgroup, why), Program: true, Probe: why}
}

// findProbes takes over what a predecessor's probes have left.
func (s *scope) findProbes(folders map[string]bool) {
	if s.rec.Run == nil {
		return
	}
	for _, why := range programProbes {
		if place := s.probePlace(why); folders[place.RunID] {
			s.keepProbe(why, &probeProgram{program: program{place: place}})
		}
	}
}

func (s *scope) keepProbe(why spec.Purpose, p *probeProgram) {
	if s.probes == nil {
		s.probes = map[spec.Purpose]*probeProgram{}
	}
	s.probes[why] = p
}

// startProbe runs the program of a probe beside the live run. Whatever keeps it from running is told, and none of the run's failures.
func (c *Core) startProbe(s *scope, why spec.Purpose, probe *spec.LaunchProbe, told func(observe.Probed)) {
	c.settleProbes(s)
	if s.probes[why] != nil {
		told(observe.NotRun("the program of the probe before it has not ended yet"))
		return
	}
	launch, host := s.rec.Run.Launch.Beside(probe.Exec), c.Host()
	image, err := c.vetProgram(launch, host, "spec."+strings.ToLower(string(why))+"Probe.exec")
	if err != nil {
		told(observe.NotRun(refusalOf(err)))
		return
	}
	defer image.Close()
	p := &probeProgram{program: program{place: s.probePlace(why), launch: launch}, within: time.Duration(probe.TimeoutSeconds) * time.Second, told: told}
	p.by = c.kernel.Now().Uptime + p.within
	s.keepProbe(why, p)
	c.beginProbe(s, p, host, image)
	c.settleProbes(s)
}

// refusalOf is what may be said of a program that was not let run.
func refusalOf(err error) string {
	if refused := new(Refused); errors.As(err, &refused) {
		return refused.Detail
	}
	return publicMessage(err)
}

// beginProbe brings the program of a probe to life, or says why not.
func (c *Core) beginProbe(s *scope, p *probeProgram, host *Host, image Image) {
	held, err := c.holdProgram(&p.program, host, image)
	if err == nil {
		identity := held.Identity()
		p.place.Main = &identity
		err = held.Release()
	}
	if exec := new(ExecError); err != nil && (held == nil || errors.As(err, &exec)) {
		c.neverRan(&p.program, held, err)
		image.Undo()
		return
	}
	p.proc, p.executed = held, err == nil
	s.again = s.again || err != nil // it is looked at again
	c.kernel.WakeAt(s.name, p.by)
}

// settleProbes looks at the programs of a run's probes, tells what they came to, and takes away what is over.
func (c *Core) settleProbes(s *scope) {
	for _, why := range programProbes {
		p := s.probes[why]
		if p == nil {
			continue
		}
		if a, over := c.judgeProbe(s, p); over {
			c.answerProbe(p, a)
		}
		if p.told == nil && c.probeGone(s, p) {
			delete(s.probes, why)
		}
	}
}

// judgeProbe reports whether a program that is not told of yet has come to something, and to what.
func (c *Core) judgeProbe(s *scope, p *probeProgram) (observe.Probed, bool) {
	switch run := s.live(); {
	case p.told == nil:
		return observe.Probed{}, false
	case p.never != "":
		return observe.NotRun(p.detail), true
	case run == nil || run.Stop != nil || run.MainExit != nil || s.dead:
		return observe.NotRun("the run ends"), true
	}
	end, ended, err := p.proc.Peek()
	if err != nil {
		s.again = true
		ended = false
	}
	late := c.kernel.Now().Uptime >= p.by
	if !ended && !late {
		c.kernel.WakeAt(s.name, p.by) // the scope's earliest may have been another's
		return observe.Probed{}, false
	}
	if !p.executed {
		staged, err := p.proc.Staged()
		p.executed = err == nil && !staged
	}
	switch {
	case !p.executed:
		return observe.NotRun("its program could not be executed"), true
	case !ended:
		return failedProbe("took longer than %d s, and was killed", p.within/time.Second), true
	}
	return probedBy(end), true
}

// probedBy is what the end of a probe's program says.
func probedBy(end state.MainExit) observe.Probed {
	if end.Status == nil {
		return observe.NotRun("nobody was there to see how its program ended")
	}
	if *end.Status == 0 {
		return observe.Probed{Result: observe.ProbePassed}
	}
	return failedProbe("%s", endedBy(*end.Status))
}

func failedProbe(format string, args ...any) observe.Probed {
	return observe.Probed{Result: observe.ProbeFailed, Detail: "the program of the probe " + fmt.Sprintf(format, args...)}
}

// answerProbe tells what the program of a probe has come to, once. What it wrote is told of a failure alone.
func (c *Core) answerProbe(p *probeProgram, a observe.Probed) {
	text, _ := c.kernel.Collected(p.place)
	if over := len(text) - probeOutputLimit; over > 0 {
		text = text[over:]
	}
	if a.Result == observe.ProbeFailed {
		a.Output = strings.TrimSpace(legible(text))
	}
	p.told(a)
	p.told = nil
}

// probeGone ends what is left of a probe's program, and reports whether all of it is gone, its place too.
func (c *Core) probeGone(s *scope, p *probeProgram) bool {
	gone, err := c.programGone(s, &p.program)
	if err != nil {
		s.again = true
	}
	if !gone {
		return false
	}
	left := c.cleanUp(s, []remains{{p.proc, p.place}})
	if len(left) > 0 {
		p.proc = left[0].proc
	}
	return len(left) == 0
}

// EndProbes ends the programs of all probes, and reports whether nothing of them is left: whoever drives the core goes, and there would be
// nobody to end them in time. No other call may come after it.
func (c *Core) EndProbes() bool {
	left := 0
	for _, s := range c.all() {
		s.mu.Lock()
		for _, why := range programProbes {
			if p := s.probes[why]; p != nil && p.told != nil {
				c.answerProbe(p, observe.NotRun("the keeper ends"))
			}
		}
		c.settleProbes(s)
		left += len(s.probes)
		s.mu.Unlock()
	}
	return left == 0
}

// endProbes ends what the scope's run is being asked.
func (c *Core) endProbes(s *scope) {
	c.kernel.EndProbes(s.place())
	c.settleProbes(s)
}
