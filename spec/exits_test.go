package spec

import (
	"fmt"
	"slices"
	"testing"
)

// Every exit code and signal against every policy and against rules of each kind.
func TestExitAction(t *testing.T) {
	rules := []ExitRule{
		{Codes: []int64{23}, Action: ExitFail},
		{Signals: []string{"SIGINT", "SIGTERM"}, Action: ExitComplete},
		{Codes: []int64{23, 75, 143}, Action: ExitRestart},
		{Codes: []int64{76}, Action: ExitBackoff},
		{Signals: []string{"SIGKILL"}, Action: ExitFail},
	}
	byRule := func(code int, signal string) ExitAction {
		switch {
		case code == 23, code == 128+9, signal == "SIGKILL":
			return ExitFail
		case code == 128+2, code == 128+15, signal == "SIGINT", signal == "SIGTERM":
			return ExitComplete
		case code == 75:
			return ExitRestart
		case code == 76:
			return ExitBackoff
		}
		return ""
	}
	byPolicy := func(policy string, code int) ExitAction {
		switch {
		case policy == RestartAlways:
			return ExitBackoff
		case code == 0:
			return ExitComplete
		case policy == RestartOnFailure:
			return ExitBackoff
		}
		return ExitFail
	}
	ends := []struct {
		code   int // -1 = none
		signal string
	}{{-1, ""}, {-1, "SIG40"}}
	for code := range 256 {
		ends = append(ends, struct {
			code   int
			signal string
		}{code, ""})
	}
	for name := range signals {
		ends = append(ends, struct {
			code   int
			signal string
		}{-1, name})
	}
	for _, policy := range []string{RestartAlways, RestartOnFailure, RestartNever} {
		for _, end := range ends {
			var code *int
			if end.code >= 0 {
				code = &end.code
			}
			plain := RestartPolicy{Policy: policy}
			if got, want := plain.Action(code, end.signal), byPolicy(policy, end.code); got != want {
				t.Errorf("%s, %+v: %s, want %s", policy, end, got, want)
			}
			want := byRule(end.code, end.signal)
			if want == "" {
				want = byPolicy(policy, end.code)
			}
			ruled := RestartPolicy{Policy: policy, Exits: rules}
			if got := ruled.Action(code, end.signal); got != want {
				t.Errorf("%s with rules, %+v: %s, want %s", policy, end, got, want)
			}
		}
	}
}

// The first rule that matches wins, wherever a later one would.
func TestExitActionFirstWins(t *testing.T) {
	rules := []ExitRule{{Codes: []int64{143}, Action: ExitFail}, {Signals: []string{"SIGTERM"}, Action: ExitComplete}}
	code := 143
	for _, turned := range []bool{false, true} {
		p := RestartPolicy{Policy: RestartAlways, Exits: slices.Clone(rules)}
		if turned {
			slices.Reverse(p.Exits)
		}
		if got := p.Action(&code, ""); got != p.Exits[0].Action {
			t.Errorf("turned %v: exit code 143 is %s, want %s", turned, got, p.Exits[0].Action)
		}
		if got := p.Action(nil, "SIGTERM"); got != ExitComplete {
			t.Errorf("turned %v: SIGTERM is %s: a code's rule speaks of no signal", turned, got)
		}
	}
}

// A launch has the rules in their order, and what a rule lists sorted.
func TestResolveExits(t *testing.T) {
	l, faults := resolveText(t, string(corpus(t, "good")["exits.yaml"]), smallHost)
	if len(faults) > 0 {
		t.Fatal(faultLines(faults))
	}
	got := fmt.Sprint(l.Restart.Exits)
	want := "[{[0 23 255] [] Fail} {[] [SIGINT SIGTERM] Complete} {[75] [] Restart} {[75 76] [] Backoff}]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if other := l.Restart; !other.Equal(&l.Restart) {
		t.Error("a policy is not equal to itself")
	}
	changes := map[string]func(*RestartPolicy){
		"policy":  func(p *RestartPolicy) { p.Policy = RestartNever },
		"initial": func(p *RestartPolicy) { p.InitialSeconds++ },
		"max":     func(p *RestartPolicy) { p.MaxSeconds++ },
		"reset":   func(p *RestartPolicy) { p.ResetSeconds++ },
		"code":    func(p *RestartPolicy) { p.Exits[0].Codes[0] = 7 },
		"signal":  func(p *RestartPolicy) { p.Exits[1].Signals[0] = "SIGHUP" },
		"action":  func(p *RestartPolicy) { p.Exits[3].Action = ExitFail },
		"length":  func(p *RestartPolicy) { p.Exits = p.Exits[:3] },
	}
	for what, change := range changes {
		other, _ := resolveText(t, string(corpus(t, "good")["exits.yaml"]), smallHost)
		if change(&other.Restart); other.Restart.Equal(&l.Restart) {
			t.Errorf("another %s is equal", what)
		}
	}
}
