package reconcile

import (
	"fmt"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// ended makes an end: n is its run's number, ran how long it ran.
func ended(n int64, ran time.Duration, edits ...func(*state.Exit)) state.Exit {
	started := epoch.Add(time.Duration(n) * time.Hour)
	e := state.Exit{Number: n, RunID: fmt.Sprint("run-", n), Generation: 1}
	e.Class, e.Reason, e.StartedAt, e.FinishedAt = spec.Unexpected, spec.ReasonSignaled, &started, started.Add(ran)
	for _, edit := range edits {
		edit(&e)
	}
	return e
}

func code(c int) func(*state.Exit) {
	return func(e *state.Exit) { e.Reason, e.ExitCode = spec.ReasonExited, &c }
}

func expected(r spec.ExitReason) func(*state.Exit) {
	return func(e *state.Exit) { e.Class, e.Reason = spec.Expected, r }
}

func generation(n int64) func(*state.Exit) {
	return func(e *state.Exit) { e.Generation = n }
}

func TestPatience(t *testing.T) {
	always := spec.RestartPolicy{Policy: spec.RestartAlways, InitialSeconds: 1, MaxSeconds: 300, ResetSeconds: 600}
	onFailure, never := always, always
	onFailure.Policy, never.Policy = spec.RestartOnFailure, spec.RestartNever
	short, long := time.Second, 600*time.Second
	for _, c := range []struct {
		what   string
		exits  []state.Exit
		policy spec.RestartPolicy
		fresh  int64
		sequel sequel
		inRow  int
	}{
		{"nothing ran", nil, always, 0, sequelStart, 0},
		{"one crash", []state.Exit{ended(1, short)}, always, 0, sequelRetry, 1},
		{"three in a row", []state.Exit{ended(1, short), ended(2, short), ended(3, short)}, always, 0, sequelRetry, 3},
		{"a stable run begins anew", []state.Exit{ended(1, short), ended(2, long), ended(3, short)}, always, 0, sequelRetry, 2},
		{"a crash of a stable run", []state.Exit{ended(1, short), ended(2, long)}, always, 0, sequelRetry, 1},
		{"a stop that was asked for", []state.Exit{ended(1, short), ended(2, short, expected(spec.ReasonStopRequested))}, always, 0, sequelStart, 0},
		{"a stop in between", []state.Exit{ended(1, short), ended(2, short, expected(spec.ReasonStopRequested)), ended(3, short)}, always, 0, sequelRetry, 1},
		{"another generation", []state.Exit{ended(1, short), ended(2, short, generation(2))}, always, 0, sequelStart, 0},
		{"another generation before", []state.Exit{ended(1, short, generation(0)), ended(2, short)}, always, 0, sequelRetry, 1},
		{"a person's start", []state.Exit{ended(1, short), ended(2, short)}, always, 2, sequelStart, 0},
		{"a crash after a person's start", []state.Exit{ended(1, short), ended(2, short), ended(3, short)}, always, 2, sequelRetry, 1},
		{"exit code 0 is a crash to Always", []state.Exit{ended(1, short, code(0))}, always, 0, sequelRetry, 1},
		{"a start that failed", []state.Exit{ended(1, 0, func(e *state.Exit) { e.Reason, e.StartedAt = spec.ReasonStartFailed, nil })}, always, 0, sequelRetry, 1},
		{"the host went down", []state.Exit{ended(1, short, func(e *state.Exit) { e.Reason = spec.ReasonHostRebooted })}, always, 0, sequelRetry, 1},
		{"OnFailure, 0", []state.Exit{ended(1, short, code(0), expected(spec.ReasonCompleted))}, onFailure, 0, sequelComplete, 1},
		{"OnFailure, 1", []state.Exit{ended(1, short, code(1))}, onFailure, 0, sequelRetry, 1},
		{"OnFailure, unknown is not 0 (I4)", []state.Exit{ended(1, short, func(e *state.Exit) { e.Reason = spec.ReasonUnknown })}, onFailure, 0, sequelRetry, 1},
		{"Never, 0", []state.Exit{ended(1, short, code(0), expected(spec.ReasonCompleted))}, never, 0, sequelComplete, 1},
		{"Never, 1", []state.Exit{ended(1, short, code(1))}, never, 0, sequelFail, 1},
		{"Never, unknown", []state.Exit{ended(1, short)}, never, 0, sequelFail, 1},
		{"Never, a start that was cancelled", []state.Exit{ended(1, short, expected(spec.ReasonCancelled))}, never, 0, sequelStart, 0},
		{"completed, and Always since", []state.Exit{ended(1, short, code(0), expected(spec.ReasonCompleted))}, always, 0, sequelRetry, 1},
	} {
		p := patienceOf(c.exits, c.policy, 1, c.fresh)
		if p.sequel != c.sequel || p.inRow != c.inRow {
			t.Errorf("%s: %s, %d in a row; want %s, %d", c.what, p.sequel, p.inRow, c.sequel, c.inRow)
		}
	}
}

func TestDelay(t *testing.T) {
	policy := spec.RestartPolicy{InitialSeconds: 1, MaxSeconds: 300}
	want := []time.Duration{0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}
	for n, seconds := range want {
		base := seconds * time.Second
		for i := range 50 {
			got := delay(n, policy, fmt.Sprint("run-", i))
			if got < base-base/10 || got > base+base/10 {
				t.Errorf("end %d, run-%d: %v, want %v and at most a tenth off", n, i, got, base)
			}
			if again := delay(n, policy, fmt.Sprint("run-", i)); again != got {
				t.Errorf("end %d, run-%d: %v, then %v", n, i, got, again)
			}
		}
	}
	if got := delay(1000, policy, "x"); got > 330*time.Second {
		t.Errorf("the thousandth end: %v", got)
	}
	if got := delay(5, spec.RestartPolicy{InitialSeconds: 3600, MaxSeconds: 86400}, "x"); got < 7*time.Hour {
		t.Errorf("a long delay: %v", got)
	}
	for _, p := range []spec.RestartPolicy{{InitialSeconds: 0, MaxSeconds: 300}, {InitialSeconds: 0, MaxSeconds: 0}} {
		if got := delay(9, p, "x"); got != 0 {
			t.Errorf("%+v: %v, want none", p, got)
		}
	}
}

// Two hundred servers that fell together do not rise together.
func TestJitterSpreads(t *testing.T) {
	policy := spec.RestartPolicy{InitialSeconds: 100, MaxSeconds: 100}
	tenths := map[int]int{}
	for i := range 200 {
		d := delay(3, policy, fmt.Sprintf("k3x7q%dz", i))
		tenths[int((d-90*time.Second)/(2*time.Second))]++
	}
	for i := range 10 {
		if tenths[i] < 8 || tenths[i] > 40 {
			t.Errorf("part %d of the spread has %d of 200: %v", i, tenths[i], tenths)
		}
	}
}

// The wait runs from the end, by whatever clock knows it, and is never longer than the delay.
func TestDueAt(t *testing.T) {
	e := ended(1, time.Second)
	p := patience{delay: 10 * time.Second, last: &e}
	for _, c := range []struct {
		what string
		wall time.Duration // after the end, when it was first seen
		want time.Duration // after that
	}{
		{"seen at once", 0, 10 * time.Second},
		{"seen later", 4 * time.Second, 6 * time.Second},
		{"seen too late", time.Hour, 0},
		{"the clock went back a day", -24 * time.Hour, 10 * time.Second},
		{"the clock went on a day", 24 * time.Hour, 0},
	} {
		seen := sighting{Number: 1, At: state.Moment{Wall: e.FinishedAt.Add(c.wall), Uptime: time.Hour}}
		if got := p.dueAt(seen) - time.Hour; got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}
