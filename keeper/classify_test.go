package keeper

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

var (
	intents  = []intent{intentNone, intentStop, intentLiveness, intentMainGone}
	outcomes = []outcome{outcomeZero, outcomeCode, outcomeSignal, outcomeOOM, outcomeUnknown, outcomeReboot, outcomeFailed, outcomeAborted, outcomeCanceled}
	actions  = []spec.ExitAction{spec.ExitBackoff, spec.ExitRestart, spec.ExitComplete, spec.ExitFail}
)

// EC-12, BP-9: the table is total, and what it says is what was decided, cell by cell.
func TestJudgeTable(t *testing.T) {
	want := map[string]string{
		"None Zero *": "Unexpected Exited", "None Code *": "Unexpected Exited", "None Signal *": "Unexpected Signaled", "None OOM *": "Unexpected OOMKilled",
		"None Unknown *": "Unexpected Unknown", "None Reboot *": "Unexpected HostRebooted", "None Failed *": "Unexpected StartFailed",
		"None Aborted *": "Unexpected StartAborted", "None Canceled *": "Unexpected Cancelled",
		"MainGone Zero *": "Unexpected MainExited", "MainGone Code *": "Unexpected MainExited", "MainGone Signal *": "Unexpected MainExited",
		"MainGone OOM *": "Unexpected OOMKilled", "MainGone Unknown *": "Unexpected MainExited", "MainGone Reboot *": "Unexpected HostRebooted",
		"MainGone Failed *": "Unexpected StartFailed", "MainGone Aborted *": "Unexpected StartAborted", "MainGone Canceled *": "Unexpected Cancelled",
	}
	for _, why := range []intent{intentNone, intentMainGone} {
		for _, how := range []outcome{outcomeZero, outcomeCode, outcomeSignal, outcomeOOM} {
			want[fmt.Sprintf("%s %s Complete", why, how)] = "Expected Completed"
			want[fmt.Sprintf("%s %s Restart", why, how)] = "Expected DeclaredRestart"
		}
	}
	for _, how := range outcomes {
		want["Stop "+string(how)+" *"] = "Expected StopRequested"
		want["Liveness "+string(how)+" *"] = "Unexpected LivenessFailed"
	}
	for _, why := range intents {
		for _, how := range outcomes {
			for _, action := range actions {
				cell := fmt.Sprintf("%s %s %s", why, how, action)
				expected, ok := want[cell]
				if !ok {
					expected, ok = want[fmt.Sprintf("%s %s *", why, how)]
				}
				if !ok {
					t.Errorf("%s: nothing is decided", cell)
				}
				v := judge(why, how, spec.ReasonLivenessFailed, action)
				if got := fmt.Sprintf("%s %s", v.class, v.reason); got != expected {
					t.Errorf("%s: %s, not %s", cell, got, expected)
				}
			}
		}
	}
}

// The rules of the run's record judge the raw end as the kernel told it, whoever asked (BP-9, API rule 7).
func TestClassifyByTheRules(t *testing.T) {
	exits := []spec.ExitRule{
		{Codes: []int64{23}, Action: spec.ExitFail}, {Codes: []int64{0}, Action: spec.ExitComplete},
		{Signals: []string{"SIGTERM"}, Action: spec.ExitRestart}, {Codes: []int64{75}, Action: spec.ExitBackoff},
	}
	asked := &state.Stop{Reason: spec.ReasonStopRequested, Steps: []state.StepEntry{{Index: 0}}}
	left := &state.Stop{Reason: spec.ReasonMainExited, Killed: &state.Moment{}}
	for _, tt := range []struct {
		name   string
		status uint32
		stop   *state.Stop
		never  spec.ExitReason
		want   string
	}{
		{"code 23", 23 << 8, nil, "", "Unexpected Exited"},
		{"code 0", 0, nil, "", "Expected Completed"},
		{"code 0, its tree had to be ended", 0, left, "", "Expected Completed"},
		{"code 0 of a stop", 0, asked, "", "Expected StopRequested"},
		{"code 0 of another boot", 0, nil, spec.ReasonHostRebooted, "Unexpected HostRebooted"},
		{"SIGTERM", 15, nil, "", "Expected DeclaredRestart"},
		{"143", 143 << 8, nil, "", "Expected DeclaredRestart"},
		{"SIGTERM of a stop", 15, asked, "", "Expected StopRequested"},
		{"SIGINT", 2, nil, "", "Unexpected Signaled"},
		{"code 75", 75 << 8, nil, "", "Unexpected Exited"},
		{"a start that failed", 0, nil, spec.ReasonStartFailed, "Unexpected StartFailed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := &state.Run{MainExit: &state.MainExit{Status: &tt.status}, Stop: tt.stop}
			run.Launch.Restart = spec.RestartPolicy{Policy: spec.RestartAlways, Exits: exits}
			e := classify(run, tt.never)
			if got := fmt.Sprintf("%s %s", e.Class, e.Reason); got != tt.want {
				t.Errorf("%s, not %s", got, tt.want)
			}
		})
	}
}

// What a rule may name is what we call the signals that the kernel tells.
func TestSignalNamesAreTheRules(t *testing.T) {
	for n := 1; n < 32; n++ {
		code := 128 + n
		p := spec.RestartPolicy{Exits: []spec.ExitRule{{Signals: []string{signalName(syscall.Signal(n))}, Action: spec.ExitFail}}}
		if got := p.Action(&code, ""); got != spec.ExitFail {
			t.Errorf("signal %d is %s to us, which no rule can name", n, signalName(syscall.Signal(n)))
		}
	}
}

func TestClassifyRawEnds(t *testing.T) {
	word := func(w uint32) *uint32 { return &w }
	one, two := 1, 2
	tests := []struct {
		name   string
		exit   *state.MainExit
		never  spec.ExitReason
		reason spec.ExitReason
		code   *int
		signal string
		core   bool
	}{
		{"code 1", &state.MainExit{Status: word(1 << 8)}, "", spec.ReasonExited, &one, "", false},
		{"code 2", &state.MainExit{Status: word(2 << 8)}, "", spec.ReasonExited, &two, "", false},
		{"SIGKILL", &state.MainExit{Status: word(9)}, "", spec.ReasonSignaled, nil, "SIGKILL", false},
		{"abort with core", &state.MainExit{Status: word(0x86)}, "", spec.ReasonSignaled, nil, "SIGABRT", true},
		{"real-time signal", &state.MainExit{Status: word(40)}, "", spec.ReasonSignaled, nil, "SIG40", false},
		{"OOM", &state.MainExit{Status: word(9), OOM: true}, "", spec.ReasonOOMKilled, nil, "SIGKILL", false},
		{"not told", &state.MainExit{From: "Gone"}, "", spec.ReasonUnknown, nil, "", false},
		{"nothing", nil, "", spec.ReasonUnknown, nil, "", false},
		{"a stop is no end", &state.MainExit{Status: word(0x137f)}, "", spec.ReasonUnknown, nil, "", false},
		{"reboot", nil, spec.ReasonHostRebooted, spec.ReasonHostRebooted, nil, "", false},
		{"never ran", nil, spec.ReasonStartFailed, spec.ReasonStartFailed, nil, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := classify(&state.Run{MainExit: tt.exit, StartedAt: time.Unix(1, 0)}, tt.never)
			if e.Reason != tt.reason || e.Signal != tt.signal || e.CoreDumped != tt.core {
				t.Errorf("classified %+v", e)
			}
			if (e.ExitCode == nil) != (tt.code == nil) || tt.code != nil && *e.ExitCode != *tt.code {
				t.Errorf("exit code %v, not %v", e.ExitCode, tt.code)
			}
			if e.ExitCode != nil && e.Signal != "" {
				t.Error("both a code and a signal")
			}
		})
	}
}

// BP-9: an intent counts from its first journaled step on.
func TestIntentNeedsAJournaledStep(t *testing.T) {
	stop := &state.Stop{Reason: spec.ReasonStopRequested}
	run := &state.Run{Stop: stop}
	if why, _ := intentOf(run); why != intentNone {
		t.Errorf("a stop without a step is %s", why)
	}
	stop.Steps = []state.StepEntry{{Index: 0}}
	if why, _ := intentOf(run); why != intentStop {
		t.Errorf("a stop with a step is %s", why)
	}
	stop.Steps, stop.Killed = nil, &state.Moment{}
	if why, _ := intentOf(run); why != intentStop {
		t.Errorf("a stop that was a kill at once is %s", why)
	}
}
