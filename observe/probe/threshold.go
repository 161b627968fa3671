package probe

import "reconciler.dev/reconciler/spec"

// Tally turns the results of a probe into a state, with the meaning that Kubernetes gives to thresholds: the state
// changes after so many equal results in a row, and stays otherwise. The zero value is not passing and has seen nothing.
type Tally struct {
	Passing bool
	Results int64 // counted so far

	inRow int64 // equal results in a row against Passing
}

// Note counts one result and reports whether Passing changed.
func (t *Tally) Note(success bool, p *spec.LaunchProbe) (changed bool) {
	t.Results++
	if success == t.Passing {
		t.inRow = 0
		return false
	}
	t.inRow++
	threshold := p.FailureThreshold
	if success {
		threshold = p.SuccessThreshold
	}
	if t.inRow < max(threshold, 1) {
		return false
	}
	t.Passing, t.inRow = success, 0
	return true
}
