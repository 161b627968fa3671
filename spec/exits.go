package spec

import "slices"

// ExitAction is what an exit that nobody asked for leads to.
type ExitAction string

// The actions. The end of a run is Expected where it is Restart or Complete, and nowhere else.
const (
	ExitBackoff  ExitAction = "Backoff"  // the next run after the delay
	ExitRestart  ExitAction = "Restart"  // the next run at once: the server restarts itself
	ExitComplete ExitAction = "Complete" // no further run: it has done its work
	ExitFail     ExitAction = "Fail"     // no further run: it needs somebody
)

// Action is what the policy makes of an exit that nobody asked for: the first rule that matches, else Policy. code is the
// exit code, nil where there is none, and signal the name of the signal that ended it, "" for none. An end of which neither
// is known matches no rule and is no exit 0.
func (p *RestartPolicy) Action(code *int, signal string) ExitAction {
	for i := range p.Exits {
		if p.Exits[i].matches(code, signal) {
			return p.Exits[i].Action
		}
	}
	zero := code != nil && *code == 0
	switch {
	case zero && (p.Policy == RestartOnFailure || p.Policy == RestartNever):
		return ExitComplete
	case p.Policy == RestartNever:
		return ExitFail
	}
	return ExitBackoff
}

// matches reports whether the rule speaks of an end. A program that catches a signal, cleans up and exits as a shell tells
// it, with 128 plus the signal's number, ended by the signal too.
func (r *ExitRule) matches(code *int, signal string) bool {
	if code != nil && slices.Contains(r.Codes, int64(*code)) {
		return true
	}
	return slices.ContainsFunc(r.Signals, func(name string) bool {
		return name == signal || code != nil && *code == 128+signals[name]
	})
}

// Equal reports whether two policies say the same.
func (p *RestartPolicy) Equal(other *RestartPolicy) bool {
	return p.Policy == other.Policy && p.InitialSeconds == other.InitialSeconds && p.MaxSeconds == other.MaxSeconds &&
		p.ResetSeconds == other.ResetSeconds && slices.EqualFunc(p.Exits, other.Exits, func(a, b ExitRule) bool {
		return a.Action == b.Action && slices.Equal(a.Codes, b.Codes) && slices.Equal(a.Signals, b.Signals)
	})
}

// exitRules are a manifest's rules as a launch has them: within a rule order is no change.
func exitRules(rules []ExitRule) []ExitRule {
	if len(rules) == 0 {
		return nil
	}
	sorted := make([]ExitRule, len(rules))
	for i, r := range rules {
		sorted[i] = ExitRule{Codes: slices.Sorted(slices.Values(r.Codes)), Signals: slices.Sorted(slices.Values(r.Signals)), Action: r.Action}
	}
	return sorted
}
