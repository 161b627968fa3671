package reconcile

import (
	"fmt"
	"strings"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// reasonConfig is why a spec is not used that did not pass its own check.
const reasonConfig = "ConfigInvalid"

// The delays between two checks of the same spec: the first after one that told nothing, the first after one that failed, and the longest.
const (
	proveAgain   = time.Second
	proveFailed  = 15 * time.Second
	proveSlowest = 5 * time.Minute
)

// proveGrace is how long after its own time the answer to a check is waited for.
const proveGrace = 15 * time.Second

// ProveOrder runs the check that a spec declares, before the spec is used.
type ProveOrder struct {
	state.DoOrder
	Receipt state.Receipt // the answer, when there was no error

	of proof
}

// proof names what a check was of: a spec, and the secrets that it is filled with.
type proof struct {
	scope                         spec.Scope
	specHash, liveHash, filesHash string
	secrets                       time.Time // that they were seen to be others
}

func proofOf(g *good, run *observe.RunFacts) proof {
	p := proof{scope: g.launch.Scope, specHash: g.specHash, liveHash: g.liveHash, filesHash: g.filesHash}
	if !run.Over() && run.Changed != nil {
		p.secrets = run.Changed.At
	}
	return p
}

// proving is what is known of the newest check of a server's spec. It is asked anew after our restart.
type proving struct {
	of     proof
	flying bool
	passed bool
	why    string        // why it did not pass; "" = it did, or nobody knows
	output string        // the end of what it has written then, for those who may see it
	tries  int           // in a row that did not pass
	until  time.Duration // not before this uptime again
}

// failed reports whether a spec did not pass its check.
func (p *proving) failed(of proof) bool { return p.of == of && p.why != "" }

// prove reports whether the newest spec may be used as far as its check goes, and asks for the check where it has to be known. One that
// did not pass is not used, and is checked again from time to time: it may have been about more than the spec.
func (d *decision) prove(s *standing, run *observe.RunFacts, now state.Moment) bool {
	check := s.good.launch.Check
	if check == nil {
		return true
	}
	p, of := &s.proving, proofOf(s.good, run)
	if p.of == of && p.passed {
		return true
	}
	if p.failed(of) && d.gate == "" {
		d.gate = gateConfig
	}
	d.unproven = true
	switch {
	case p.flying || s.busy || !s.heard || s.doubtful || s.recording:
	case p.of == of && now.Uptime < p.until:
		d.lookAt(p.until)
	default:
		o := state.DoOrder{Scope: s.good.launch.Scope, Check: true, Launch: s.good.launch, By: systemActor}
		if d.lane != nil && s.selected(d.lane) && !run.Over() {
			o.RunID = run.ID
		}
		d.proof = &Order{Scope: o.Scope, Prove: &ProveOrder{DoOrder: o, of: of}}
	}
	return false
}

// note takes the answer to a check.
func (p *proving) note(o *ProveOrder, err error, now time.Duration) {
	if p.of != o.of {
		*p = proving{of: o.of}
	}
	p.flying = false
	r := &o.Receipt
	switch {
	case err != nil:
		if check, text, refused := refusalOf(err); refused && !passing(check) && check != "run" {
			p.why, p.output = "its check cannot be run: "+text, ""
		}
	case r.Result == state.Done:
		*p = proving{of: o.of, passed: true}
		return
	case r.Result == state.Undeliverable && r.Reason == string(spec.ReasonStartFailed):
		p.why, p.output = "its check cannot be run: "+r.Detail, ""
	case r.Result == state.Failed && r.Reason != state.ReasonRunEnded:
		p.why, p.output = "its check failed: "+r.Detail, r.Reply
	}
	p.tries++
	wait := time.Duration(proveAgain)
	if p.why != "" {
		wait = proveFailed
	}
	p.until = now + min(wait<<min(p.tries-1, 20), proveSlowest)
}

// message says what became of the check, with the end of what it has written.
func (p *proving) message() string {
	if tail := lastLines(p.output); tail != "" {
		return fmt.Sprintf("%s: %s", p.why, tail)
	}
	return p.why
}

// lastLines are the last few lines of a text, in one.
func lastLines(text string) string {
	const most, longest = 4, 1024
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(strings.ReplaceAll(line, "\t", " ")); line != "" {
			lines = append(lines, line)
		}
	}
	tail := strings.Join(lines[max(0, len(lines)-most):], "; ")
	if over := len(tail) - longest; over > 0 {
		tail = "..." + strings.ToValidUTF8(tail[over:], "")
	}
	return tail
}
