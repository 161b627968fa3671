package reconcile

import (
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// readiness is the Ready condition in the making.
type readiness struct {
	status  string // True, False or Unknown
	reason  string
	message string
}

func (r readiness) ok() bool { return r.status == conditionTrue }

// readinessOf says whether a run is Ready: it lives, its own processes listen on every declared endpoint, and its readinessProbe
// passed (API.md rule 8). What the keeper may not see does not count.
func readinessOf(run *observe.RunFacts, sit situation, s *standing) readiness {
	switch sit {
	case vacant:
		return readiness{conditionFalse, "NotRunning", "nothing runs"}
	case blocked, unverified:
		return readiness{conditionUnknown, "Unverified", "what runs here cannot be told"}
	case launching:
		return readiness{conditionFalse, "Starting", "the run is being started"}
	case draining, ending, stopping:
		return readiness{conditionFalse, "Stopping", "the run is ending"}
	}
	heard, probed := s.listening.of(run), probedOf(run, s.probing)
	switch {
	case heard.reason == portConflict:
		return readiness(heard)
	case !probed.ok():
		return probed
	case heard.status == conditionFalse:
		return readiness(heard)
	case heard.reason == endpointsPending:
		return readiness{conditionFalse, "EndpointsPending", heard.message}
	}
	return probed
}

// probedOf is what a run's readinessProbe says.
func probedOf(run *observe.RunFacts, p probing) readiness {
	with := run.Readiness
	endpoint := with.Endpoint()
	switch {
	case with == nil || endpoint == "" && len(with.Log) == 0 && !with.Notify && with.Exec == nil:
		return readiness{conditionTrue, "NoProbe", "it runs; no readinessProbe is declared"}
	case with.Notify && run.NotifiedAt.IsZero():
		return readiness{conditionFalse, "NotNotified", "it has not said READY=1 yet"}
	case with.Notify:
		return readiness{conditionTrue, "Notified", "it has said READY=1"}
	case len(with.Log) > 0 && run.LogSeenAt.IsZero():
		return readiness{conditionFalse, "LogNotSeen", "none of the readinessProbe's texts was printed yet"}
	case len(with.Log) > 0:
		return readiness{conditionTrue, "LogSeen", "a text of the readinessProbe was printed"}
	case p.runID != run.ID || p.readiness.tally.Results == 0:
		return unasked(run, p)
	case p.readiness.tally.Passing && with.Exec != nil:
		return readiness{conditionTrue, "ProbeSucceeded", "the program of the probe ends with exit code 0"}
	case p.readiness.tally.Passing:
		return readiness{conditionTrue, "ProbeSucceeded", "endpoint " + endpoint + " answers"}
	case p.readiness.failure != "":
		return readiness{conditionFalse, "ProbeFailed", p.readiness.failure}
	}
	return readiness{conditionFalse, "ProbeFailed", askedOf(with) + " does not answer as declared"}
}

// askedOf is who is asked by a probe that asks.
func askedOf(p *spec.LaunchProbe) string {
	if p.Exec != nil {
		return "it"
	}
	return "endpoint " + p.Endpoint()
}

// unasked is the readiness of a run that we have not asked yet.
func unasked(run *observe.RunFacts, p probing) readiness {
	switch {
	case run.ReadyAt.IsZero():
		pending := readiness{conditionFalse, "ProbePending", askedOf(run.Readiness) + " was not probed yet"}
		if p.readiness.hindered != "" {
			pending.message += ": " + p.readiness.hindered
		}
		return pending
	case p.runID == run.ID && !p.readiness.tally.Passing:
		return readiness{conditionFalse, "LastKnown", "it was not Ready; the first probe since is pending"}
	}
	return readiness{conditionTrue, "LastKnown", "it was Ready; the first probe since is pending"}
}
