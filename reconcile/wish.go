package reconcile

import (
	"slices"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Why a run is stopped: state.Stop.Why.
const (
	WhyHold           = "Hold"
	WhyState          = "StateStopped" // the manifest says Stopped
	WhyRemoved        = "Removed"
	WhySpecChanged    = "SpecChanged"
	WhyProfileChanged = "ProfileChanged"
	WhySecretChanged  = "SecretChanged" // a secret that its run was executed with is another now
	WhyRestart        = "Restart"
	WhyLiveness       = "LivenessFailed"
	WhyDeadline       = "StartDeadlineExceeded"
	WhyShutdown       = "Shutdown"
	WhyJob            = "Job"        // the command of a job needs it so
	WhyMainExited     = "MainExited" // not asked for: what the main process left behind is ended
)

// Why a run is started: state.Run.Cause.
const (
	CauseWanted  = "Wanted"
	CauseCrashed = "Crashed" // it ended and nobody had asked
	// CauseDeclared: it ended in a way that its exit rules call a restart.
	CauseDeclared = "DeclaredRestart"
	CauseReboot   = "HostRebooted"
	CauseAsked    = "Asked" // a person's start of a server that waited, had failed or had completed
	CauseSpec     = WhySpecChanged
	CauseProfile  = WhyProfileChanged
	CauseSecret   = WhySecretChanged
	CauseRestart  = WhyRestart
)

// systemActor is who acts when no person asked.
const systemActor = "reconciler"

// good is a launch with its hashes.
type good struct {
	launch   *spec.Launch
	specHash string
	liveHash string
	// filesHash is over what its files hold.
	filesHash string
}

// same reports whether both resolve to the same: scope, restart-class and live-class fields and files are all that a launch has.
func (g *good) same(other *good) bool {
	return g != nil && other != nil && g.launch.Scope == other.launch.Scope && g.specHash == other.specHash && g.liveHash == other.liveHash && g.filesHash == other.filesHash
}

// renews reports whether a run has to be replaced for the launch: its restart-class fields are others, or a file that it was given is.
func (g *good) renews(run *observe.RunFacts) bool {
	return run.SpecHash != g.specHash || len(state.ChangedFiles(run.Files, g.launch)) > 0
}

func goodOf(l *spec.Launch) *good {
	if l == nil {
		return nil
	}
	return &good{launch: l, specHash: l.SpecHash(), liveHash: l.LiveHash(), filesHash: l.FilesHash()}
}

// resolved is the newest manifest of a server put together with its profile.
type resolved struct {
	*good                  // nil when there are faults
	faults    []spec.Fault // why not
	noProfile bool         // the profile that it selects is in no source
}

// resolve puts a server and its profile together; profile is nil when it is in no source.
func resolve(s *spec.Server, p *spec.Profile, host spec.HostView) resolved {
	if p == nil {
		return resolved{noProfile: true, faults: []spec.Fault{{
			Field: "spec.profile", Kind: spec.FaultNotFound, Value: s.Spec.Profile,
			Detail: "no source has a Profile of this name in the server's namespace; add it or name another",
		}}}
	}
	launch, faults := spec.Resolve(s, p, host)
	if len(faults) > 0 {
		return resolved{faults: faults}
	}
	return resolved{good: goodOf(&launch)}
}

// wish is what one server shall be: the last good manifest, overlaid by the hold of a person and by a shutdown.
type wish struct {
	intent intent
	state  string // spec.WishRunning or spec.WishStopped, holds considered
	why    string // of a stop: one of the Why constants
	by     string // of a stop: who
	force  bool   // of a stop: go to the kill at once
}

// intent is what a wish comes to for the runs of a server.
type intent int

const (
	// intentKeep changes nothing: it is not known yet what is wanted, or nobody ever asked us to govern what runs.
	// What has begun (a stop, a main process that ended) is carried on with.
	intentKeep intent = iota
	intentRun
	intentEnd  // no run, the record stays
	intentGone // no run, no record, no memory
)

// wishOf decides what a server shall be.
func wishOf(s *standing, now state.Moment) wish {
	w := wish{intent: intentRun, state: spec.WishRunning}
	hold := s.hold(now)
	switch {
	case hold != nil:
		w.state = hold.State
	case s.mem != nil && s.mem.State != "":
		w.state = s.mem.State
	}
	if w.state == spec.WishStopped {
		w.intent, w.why = intentEnd, WhyState
		if hold != nil {
			w.why, w.by, w.force = WhyHold, hold.By, hold.Force
		}
	}
	switch {
	case s.closing:
		w.intent, w.why, w.by = intentEnd, WhyShutdown, s.closedBy
	case w.why == WhyState && s.newestState == spec.WishRunning:
		w.intent = intentKeep // the manifest says Running again; it is about to be remembered
	case !s.present && s.known && (s.mem != nil || s.atRest()):
		w.intent, w.state, w.why, w.by = intentGone, spec.WishStopped, WhyRemoved, ""
	case w.intent == intentRun && (!s.present || s.good == nil):
		// Absent, but the sources have not all been read; or never good; or a run that is in nobody's memory.
		w.intent = intentKeep
	}
	if w.intent == intentRun && s.mem.Pause != nil {
		w.intent, w.why, w.by = intentEnd, WhyJob, s.mem.Pause.By
	}
	return w
}

// atRest reports whether every scope's run is over: records of a server that is in no source and in nobody's memory can
// only be archived. A power cut may bring back what had been archived.
func (s *standing) atRest() bool {
	return len(s.lanes) > 0 && !slices.ContainsFunc(s.lanes, func(l *lane) bool { return situationOf(l.facts) != vacant })
}

// hold is the hold that is in force.
func (s *standing) hold(now state.Moment) *Hold {
	if s.mem == nil || s.mem.Hold == nil {
		return nil
	}
	if h := s.mem.Hold; h.Until.IsZero() || now.Wall.Before(h.Until) {
		return h
	}
	return nil
}

// need is what a wish asks of one scope whose run may live.
type need int

const (
	needKeep    need = iota // leave it as it is
	needRun                 // as it is, it is what is wanted
	needLive                // live-class fields differ
	needReload              // only its files are others, and it can read them anew
	needReplace             // a new run is needed for a change, as the roll-out permits
	needRenew               // a new run was asked for by a person
	needEnd                 // no run
	needGone                // no run and no record
	needs
)

// changes are the reasons to replace a run that nobody asked for: a roll-out goes by them.
func changes(why string) bool {
	return why == WhySpecChanged || why == WhyProfileChanged || why == WhySecretChanged
}

// needOf compares the wish with the spec that the lane's run is governed by.
func needOf(s *standing, w wish, l *lane) (n need, why, by string) {
	switch w.intent {
	case intentKeep:
		return needKeep, "", ""
	case intentEnd:
		return needEnd, w.why, w.by
	case intentGone:
		return needGone, w.why, w.by
	}
	run := l.facts.Run
	switch r := s.mem.Restart; {
	case run == nil:
		return needRun, "", ""
	case r != nil && r.Run == run.ID && (r.Job == "" || r.Job != s.void || run.Stop != nil):
		return needRenew, WhyRestart, r.By
	case s.present && s.newest == nil && !s.known:
		return needRun, "", "" // its profile may be in a source that is not read yet: what it asks for is not known
	case s.newest != nil && l.facts.Scope == s.newest.launch.Scope && !s.newest.renews(run) && !s.newest.same(s.good):
		return needRun, "", ""
	case !s.selected(l):
		return needReplace, WhyProfileChanged, ""
	case s.good.renews(run) && (run.SpecHash != s.good.specHash || s.good.launch.Reload == nil):
		return needReplace, WhySpecChanged, ""
	case run.Changed != nil:
		return needReplace, WhySecretChanged, ""
	case s.good.renews(run):
		return needReload, WhySpecChanged, ""
	case run.LiveHash != s.good.liveHash, run.FilesHash != s.good.filesHash:
		return needLive, "", ""
	}
	return needRun, "", ""
}
