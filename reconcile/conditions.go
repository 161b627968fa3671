package reconcile

import (
	"fmt"
	"strings"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// The statuses of a condition.
const (
	conditionTrue    = "True"
	conditionFalse   = "False"
	conditionUnknown = "Unknown"
)

// verdict is a condition without its type and times.
type verdict struct{ status, reason, message string }

// conditions writes every condition, from the first visit on, so that kstatus reads them right: Reconciling is True while
// we are on the way, Stalled only when nothing will change without somebody's doing; Ready False by itself is neither.
func conditions(s *standing, o *outlook, d *decision, st *spec.ServerStatus) []spec.Condition {
	stalled := stalledOf(s, o, d)
	out := make([]spec.Condition, 0, len(spec.ConditionTypes))
	add := func(kind string, v verdict) {
		out = append(out, spec.Condition{Type: kind, Status: v.status, Reason: v.reason, Message: v.message, ObservedGeneration: st.ObservedGeneration})
	}
	add(spec.ConditionAccepted, acceptedOf(s, o))
	add(spec.ConditionRunning, runningOf(s, o, d, st))
	add(spec.ConditionEndpointsReachable, reachableOf(s, o, d))
	add(spec.ConditionReady, readyOf(s, o, d))
	add(spec.ConditionCrashLoop, crashLoopOf(d))
	add(spec.ConditionRestartPending, restartPendingOf(s, o, d))
	add(spec.ConditionReconciling, reconcilingOf(s, o, d, st, stalled))
	add(spec.ConditionStalled, stalled)
	return out
}

func acceptedOf(s *standing, o *outlook) verdict {
	switch {
	case !s.known && (o.object == nil || o.res.noProfile):
		return verdict{conditionUnknown, "SourcesPending", "not every source has been read yet"}
	case o.object == nil && s.mem == nil:
		return verdict{conditionUnknown, "NotDeclared", "no source declares it and it was never accepted here: it is left alone; declare it again, or end it with stop"}
	case o.object == nil:
		return verdict{conditionFalse, "Removed", "it is in no source any more"}
	case o.res.noProfile:
		return verdict{conditionFalse, "ProfileNotFound", "profile " + o.object.Object.Spec.Profile + " is in no source" + lastGood(s)}
	case len(o.res.faults) > 0:
		return verdict{conditionFalse, "Invalid", faultText(o.res.faults) + lastGood(s)}
	case o.object.Stale:
		return verdict{conditionFalse, "StaleManifest", "its file is faulty now: its last good content governs; see get sources"}
	case !o.recorded:
		return verdict{conditionUnknown, "Recording", "it is being recorded"}
	case o.object.Absent:
		return verdict{conditionTrue, "Absent", "no file has it any more: it stays until its removal is certain, confirmed or allowed; see get sources"}
	}
	return verdict{conditionTrue, "Accepted", ""}
}

func lastGood(s *standing) string {
	if s.good == nil {
		return ""
	}
	return "; the last good spec governs"
}

// faultText names the first few faults by field and remedy, without values.
func faultText(faults []spec.Fault) string {
	const most = 3
	var b strings.Builder
	for i, f := range faults {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(faults)-most)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		if f.Field != "" {
			b.WriteString(f.Field + ": ")
		}
		b.WriteString(f.Kind + ": " + f.Detail)
	}
	return b.String()
}

func runningOf(s *standing, o *outlook, d *decision, st *spec.ServerStatus) verdict {
	if d.sit == vacant {
		switch {
		case !o.keeper:
			return verdict{conditionUnknown, "KeeperPending", "the keeper has not been heard yet"}
		case st.LastExit == nil:
			return verdict{conditionFalse, "NotStarted", "nothing has run yet"}
		}
		return verdict{conditionFalse, "Ended", "the last run ended: " + string(st.LastExit.Reason)}
	}
	if d.sit == blocked {
		return verdict{conditionUnknown, reasonOr(d.lane.facts.Blocked, "Blocked"), "its record cannot be used"}
	}
	switch run := d.lane.facts.Run; {
	case d.sit == unverified:
		return verdict{conditionUnknown, "Unverified", "whether its process lives cannot be told"}
	case d.sit == launching:
		return verdict{conditionFalse, "Starting", "the run is being started"}
	case run.Alive == observe.Alive:
		return verdict{conditionTrue, "Alive", ""}
	}
	return verdict{conditionFalse, "MainExited", "the main process has ended"}
}

func readyOf(s *standing, o *outlook, d *decision) verdict {
	if d.sit != vacant {
		return verdict(d.ready)
	}
	switch {
	case !o.keeper:
		return verdict{conditionUnknown, "KeeperPending", "the keeper has not been heard yet"}
	case d.gate == gateBackOff:
		return verdict{conditionFalse, "BackOff", "it waits after " + waitsAfter(&d.patience)}
	case d.gate == gateComplete:
		return verdict{conditionFalse, "Completed", "it has done its work" + rawEnd(d.patience.last)}
	case d.gate == gateFailed:
		return verdict{conditionFalse, "Failed", leftSo(&d.patience)}
	case d.gate == gatePort:
		return verdict{conditionFalse, "PortConflict", s.contest.message()}
	case d.gate == gateDepend:
		return verdict{conditionFalse, s.awaits.reason, s.awaits.message}
	case d.gate == gateConfig:
		return verdict{conditionFalse, reasonConfig, s.proving.why}
	}
	return verdict(readinessOf(nil, vacant, s))
}

// waitsAfter says what the next try waits for.
func waitsAfter(p *patience) string {
	if p.sequel == sequelRestart {
		return fmt.Sprintf("%d restarts of its own in a row, each within %d s of its start", p.quick, restartFloor/time.Second)
	}
	return ends(p.inRow)
}

// leftSo says why a server that failed is not started again.
func leftSo(p *patience) string {
	return "it ended" + rawEnd(p.last) + " and its restart policy says to leave it so"
}

// rawEnd is the end as the kernel told it, in brackets; "" when it did not.
func rawEnd(e *state.Exit) string {
	switch {
	case e.Signal != "":
		return " (" + e.Signal + ")"
	case e.ExitCode != nil:
		return fmt.Sprintf(" (exit code %d)", *e.ExitCode)
	}
	return ""
}

func ends(n int) string {
	if n == 1 {
		return "an end that nobody asked for"
	}
	return fmt.Sprintf("%d ends in a row that nobody asked for", n)
}

func crashLoopOf(d *decision) verdict {
	switch {
	case !d.shaky:
		return verdict{conditionFalse, "NoCrashLoop", ""}
	case d.gate == gateBackOff:
		return verdict{conditionTrue, "BackOff", ends(d.patience.inRow) + "; the next try is at nextStartAt"}
	}
	return verdict{conditionTrue, "NotStable", ends(d.patience.inRow) + "; no run since was stable yet"}
}

func restartPendingOf(s *standing, o *outlook, d *decision) verdict {
	run := runOf(d)
	switch {
	case d.wish.intent != intentRun || run.Over():
		return verdict{conditionFalse, "NotPending", ""}
	case run.Stop != nil && (changes(run.Stop.Why) || run.Stop.Why == WhyRestart):
		return verdict{conditionTrue, "Restarting", "the old run is ending"}
	case d.gate == gatePort && d.need != needLive:
		return verdict{conditionTrue, "PortConflict", s.contest.message()}
	case d.gate == gateDepend:
		return verdict{conditionTrue, s.awaits.reason, s.awaits.message + "; the old run goes on until then"}
	case d.gate == gatePeople:
		return verdict{conditionTrue, d.forbidden.reason, d.forbidden.message}
	case d.gate == gateConfig:
		return verdict{conditionTrue, reasonConfig, s.proving.why + "; the old run goes on"}
	case d.unproven:
		return verdict{conditionTrue, "Checking", "the new spec is being checked; the old run goes on until then"}
	case d.countdown != nil && d.countdown.same(s.mem.Countdown) && run.Stop == nil:
		return verdict{conditionTrue, reasonAnnounced, "its end is announced for " + d.countdown.ends().UTC().Format(time.RFC3339) + s.affects(run)}
	case d.need == needRenew:
		return verdict{conditionTrue, "Requested", "a restart was asked for"}
	case d.pending == "":
		return verdict{conditionFalse, "UpToDate", ""}
	case s.granted && d.refused:
		return refusal(s, "the old run goes on, and it is tried again")
	case s.granted:
		return verdict{conditionTrue, "Restarting", "the old run is about to end"}
	case o.waitsFor != "":
		return verdict{conditionTrue, "RolloutWaiting", "copies of the profile must be Ready first: " + o.waitsFor + s.affects(run)}
	}
	return verdict{conditionTrue, d.pending, "a new run is needed"}
}

func keyList(keys []spec.Key) string {
	const most = 5
	names := make([]string, 0, most)
	for i, k := range keys {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(keys)-most))
			break
		}
		names = append(names, k.String())
	}
	return strings.Join(names, ", ")
}

// stalledOf says that nothing will change without somebody's doing.
func stalledOf(s *standing, o *outlook, d *decision) verdict {
	accepted := acceptedOf(s, o)
	switch {
	case accepted.status == conditionFalse && accepted.reason != "Removed":
		return verdict{conditionTrue, accepted.reason, accepted.message}
	case d.sit == blocked:
		return verdict{conditionTrue, "Blocked", "its record cannot be used (" + reasonOr(d.lane.facts.Blocked, "Blocked") + "): nothing is started or ended; see doctor and retire"}
	case d.sit == unverified:
		return verdict{conditionTrue, "Unverified", "whether its process lives cannot be told: nothing is started or ended; see doctor"}
	case d.gate == gateFailed:
		return verdict{conditionTrue, "Failed", leftSo(&d.patience) + ": change its spec, or start it"}
	case d.gate == gatePort:
		return verdict{conditionTrue, "PortConflict", s.contest.message()}
	case d.gate == gateConfig:
		return verdict{conditionTrue, reasonConfig, s.proving.message()}
	case d.gate == gateDepend && s.awaits.stuck():
		return verdict{conditionTrue, s.awaits.reason, s.awaits.message}
	case d.refused && s.attempt.tries >= stalledAfter:
		return refusal(s, "tried again from time to time")
	}
	return verdict{conditionFalse, "NotStalled", ""}
}

func reconcilingOf(s *standing, o *outlook, d *decision, st *spec.ServerStatus, stalled verdict) verdict {
	switch {
	case stalled.status == conditionTrue:
		return verdict{conditionFalse, "Stalled", "see the condition Stalled"}
	case o.limited != "":
		return verdict{conditionTrue, "StartLimited", o.limited}
	case d.gate == gateDepend:
		return verdict{conditionTrue, s.awaits.reason, s.awaits.message}
	case d.gate == gateFirst:
		return verdict{conditionTrue, "DependentsFirst", "it ends after those that depend on it: " + keyList(s.first)}
	case d.refused:
		return refusal(s, "tried again")
	case d.pending != "" || d.gate == gatePeople || d.countdown != nil:
		return verdict{conditionTrue, "RestartPending", "a change waits for its restart"}
	case d.need == needReload, d.reload != reloadNone:
		return verdict{conditionTrue, "Reloading", "it reads its files anew, and has to be Ready after it"}
	case d.need == needLive:
		return verdict{conditionTrue, "Applying", "a change is being applied"}
	}
	if d.wish.why == WhyJob {
		return verdict{conditionTrue, "Job", "the command of a job needs it without a run; then what is wished counts again"}
	}
	switch st.State {
	case spec.StateRunning, spec.StateStopped, spec.StateFailed:
		if d.wish.intent == intentGone {
			return verdict{conditionTrue, "Removing", "it is being put away"}
		}
		return verdict{conditionFalse, "AsWished", ""}
	}
	return verdict{conditionTrue, string(st.State), ""}
}

// refusal shows an order that was not carried out. The keeper's own words are in our log: they may name what is not public.
func refusal(s *standing, remedy string) verdict {
	reason, message := publicError(s.attempt.err)
	return verdict{conditionTrue, reason, s.attempt.key.kind + " was not carried out: " + message + "; " + remedy}
}

// runOf is the run that was decided on; nil is Over.
func runOf(d *decision) *observe.RunFacts {
	if d.lane == nil {
		return nil
	}
	return d.lane.facts.Run
}

func reasonOr(reason, otherwise string) string {
	if reason == "" {
		return otherwise
	}
	return reason
}
