package keeper

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// intent is what we had begun to do to a run before its main process ended.
type intent string

const (
	intentNone     intent = "None"
	intentStop     intent = "Stop"     // a stop that was asked for: its first step was journaled
	intentLiveness intent = "Liveness" // a stop of ours after a failed probe or deadline
	intentMainGone intent = "MainGone" // the main process ended by itself, its tree had to be ended
)

// outcome is how a run ended, as far as the kernel told.
type outcome string

const (
	outcomeZero     outcome = "Zero"   // exit code 0
	outcomeCode     outcome = "Code"   // another code
	outcomeSignal   outcome = "Signal" // a signal
	outcomeOOM      outcome = "OOM"
	outcomeUnknown  outcome = "Unknown"  // not told
	outcomeReboot   outcome = "Reboot"   // another boot
	outcomeFailed   outcome = "Failed"   // the start came to nothing
	outcomeAborted  outcome = "Aborted"  // we died in the middle of the start
	outcomeCanceled outcome = "Canceled" // before the byte
)

// verdict is the class and reason of an end.
type verdict struct {
	class  spec.ExitClass
	reason spec.ExitReason
}

// unasked is the verdict on an end that nobody asked for (BP-9: all else is Unexpected, exit 0 too).
var unasked = map[outcome]verdict{
	outcomeZero:     {spec.Unexpected, spec.ReasonExited},
	outcomeCode:     {spec.Unexpected, spec.ReasonExited},
	outcomeSignal:   {spec.Unexpected, spec.ReasonSignaled},
	outcomeOOM:      {spec.Unexpected, spec.ReasonOOMKilled},
	outcomeUnknown:  {spec.Unexpected, spec.ReasonUnknown},
	outcomeReboot:   {spec.Unexpected, spec.ReasonHostRebooted},
	outcomeFailed:   {spec.Unexpected, spec.ReasonStartFailed},
	outcomeAborted:  {spec.Unexpected, spec.ReasonStartAborted},
	outcomeCanceled: {spec.Unexpected, spec.ReasonCancelled},
}

// told are the outcomes in which a main process ended and the kernel told how: the restart policy's rules speak of these alone.
var told = map[outcome]bool{outcomeZero: true, outcomeCode: true, outcomeSignal: true, outcomeOOM: true}

// judge is the whole table, intent x outcome x what the restart policy makes of the end. What was asked for, and what we
// ended ourselves, no rule speaks of.
func judge(why intent, how outcome, probe spec.ExitReason, action spec.ExitAction) verdict {
	switch why {
	case intentStop:
		return verdict{spec.Expected, spec.ReasonStopRequested}
	case intentLiveness:
		return verdict{spec.Unexpected, probe}
	}
	switch {
	case told[how] && action == spec.ExitComplete:
		return verdict{spec.Expected, spec.ReasonCompleted}
	case told[how] && action == spec.ExitRestart:
		return verdict{spec.Expected, spec.ReasonDeclaredRestart}
	}
	if why == intentMainGone && (how == outcomeZero || how == outcomeCode || how == outcomeSignal || how == outcomeUnknown) {
		return verdict{spec.Unexpected, spec.ReasonMainExited}
	}
	return unasked[how]
}

// intentOf reads the intent off a run. [Core] sees to it that a stop whose first step was not journaled before the main
// process ended has the reason MainExited.
func intentOf(run *state.Run) (intent, spec.ExitReason) {
	if run.Stop == nil || len(run.Stop.Steps) == 0 && run.Stop.Killed == nil {
		return intentNone, ""
	}
	switch r := run.Stop.Reason; r {
	case spec.ReasonStopRequested:
		return intentStop, r
	case spec.ReasonLivenessFailed, spec.ReasonStartDeadlineExceeded:
		return intentLiveness, r
	}
	return intentMainGone, ""
}

// outcomeOf reads the outcome off a run. never says why there is no end of a main process to be read; "" = there is one.
func outcomeOf(run *state.Run, never spec.ExitReason) outcome {
	switch never {
	case spec.ReasonHostRebooted:
		return outcomeReboot
	case spec.ReasonStartFailed:
		return outcomeFailed
	case spec.ReasonStartAborted:
		return outcomeAborted
	case spec.ReasonCancelled:
		return outcomeCanceled
	}
	if run.MainExit == nil || run.MainExit.Status == nil {
		return outcomeUnknown
	}
	switch ws := syscall.WaitStatus(*run.MainExit.Status); {
	case run.MainExit.OOM:
		return outcomeOOM
	case ws.Exited() && ws.ExitStatus() == 0:
		return outcomeZero
	case ws.Exited():
		return outcomeCode
	case ws.Signaled():
		return outcomeSignal
	}
	return outcomeUnknown // a word that is neither: kept raw in the record
}

// classify makes the end of a run that is over: class and reason by the table and the rules in the run's record, the raw end
// apart from them (BP-9).
func classify(run *state.Run, never spec.ExitReason) spec.ExitStatus {
	why, probe := intentOf(run)
	how := outcomeOf(run, never)
	var e spec.ExitStatus
	if told[how] {
		ws := syscall.WaitStatus(*run.MainExit.Status)
		if ws.Signaled() {
			e.Signal, e.CoreDumped = signalName(ws.Signal()), ws.CoreDump()
		} else {
			code := ws.ExitStatus()
			e.ExitCode = &code
		}
	}
	v := judge(why, how, probe, run.Launch.Restart.Action(e.ExitCode, e.Signal))
	e.Class, e.Reason = v.class, v.reason
	if !run.StartedAt.IsZero() {
		started := run.StartedAt
		e.StartedAt = &started
	}
	if run.Stop != nil {
		if n := len(run.Stop.Steps); n > 0 {
			step := run.Stop.Steps[n-1].Index + 1
			e.StopStep = &step
		}
		e.Killed = run.Stop.Killed != nil
	}
	return e
}

// signalName is SIGTERM and the like; real-time signals have none and are numbered.
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return "SIG" + strconv.Itoa(int(s))
}
