package cli

import (
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
)

func TestStateText(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *time.Time {
		when := now.Add(d)
		return &when
	}
	for _, c := range []struct {
		want   string
		status spec.ServerStatus
	}{
		{"Running", spec.ServerStatus{State: spec.StateRunning, Run: &spec.RunStatus{StartedAt: at(-time.Minute), ReadyBy: at(time.Minute)}}},
		{"Starting", spec.ServerStatus{State: spec.StateStarting}},
		{"Starting", spec.ServerStatus{State: spec.StateStarting, Run: &spec.RunStatus{StartedAt: at(-time.Minute)}}},
		{"Starting, 6m of 20m", spec.ServerStatus{State: spec.StateStarting, Run: &spec.RunStatus{StartedAt: at(-6 * time.Minute), ReadyBy: at(14 * time.Minute)}}},
		{"BackOff, next in 40s", spec.ServerStatus{State: spec.StateBackOff, NextStartAt: at(40 * time.Second)}},
		{"Stopped, leftovers unknown", spec.ServerStatus{State: spec.StateStopped, Leftovers: "Unknown"}},
	} {
		if got := stateText(c.status, now); got != c.want {
			t.Errorf("%+v: %q, want %q", c.status, got, c.want)
		}
	}
}

func TestPlayersText(t *testing.T) {
	none, seven := 0, 7
	for _, c := range []struct {
		want    string
		players *spec.PlayersStatus
	}{{"<none>", nil}, {"unknown", &spec.PlayersStatus{}}, {"0", &spec.PlayersStatus{Count: &none}}, {"7", &spec.PlayersStatus{Count: &seven}}} {
		if got := playersText(c.players); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A run that waits to be replaced is seen to wait where the servers are listed.
func TestRowState(t *testing.T) {
	for want, s := range map[string]spec.ServerStatus{
		"Running":                  {State: spec.StateRunning, Conditions: []spec.Condition{{Type: spec.ConditionRestartPending, Status: "False"}}},
		"Running, restart pending": {State: spec.StateRunning, Conditions: []spec.Condition{{Type: spec.ConditionRestartPending, Status: "True"}}},
		"Stopping":                 {State: spec.StateStopping, Conditions: []spec.Condition{{Type: spec.ConditionRestartPending, Status: "True"}}},
	} {
		if got := rowState(s, time.Time{}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
