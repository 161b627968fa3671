package reconcile

import (
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// standing is everything that deciding about one server takes. Deciding changes nothing of it.
type standing struct {
	key      spec.Key
	present  bool // its manifest is in the Set
	absent   bool // it is there only because its removal is not certain
	known    bool // every source has been read whole
	heard    bool // the keeper is heard: facts are of now
	closing  bool // a shutdown is under way
	closedBy string
	source   state.Source // of the manifest that governs
	good     *good        // of mem.Launch; nil = never good
	mem      *Memory      // what is durable; nil = nothing
	// What the newest manifest asks for, durable or not. It governs nothing yet, but what it asks for is not undone for
	// the sake of what is remembered of an older one.
	newest      *good   // nil = it has faults, or there is none
	newestState string  // "" = there is none
	lanes       []*lane // its scopes that have a record
	doubtful    bool    // nobody knows whether the store still has mem: it could not be deleted for sure
	recording   bool    // the newest manifest asks for something else, and is about to be durable
	announced   errand  // the job of the announcement whose turn it is
	inherited   bool    // that turn was begun by a reconciler before us
	granted     bool    // the roll-out permits to replace the run
	busy        bool    // an order of it is in flight
	attempt     attempt // the last order that did not lead on
	void        string  // the attempt of a job whose restart is not to begin any more
	probing     probing // of the live run
	proving     proving // of the newest spec
	reloading   reloading
	listening   listening
	contest     *contest   // of another server's better claim to a port; nil = none
	awaits      *pending   // what a run of it waits for; nil = nothing
	first       []spec.Key // who depend on it and are to end before it
}

// lane is one scope that has a record.
type lane struct {
	facts *observe.Facts
	up    sighting // of the last run, alive
	end   sighting // of the last run's end
}

// situation is how a scope stands, as far as it matters for what to do.
type situation int

const (
	vacant     situation = iota // no run, or the last one is over
	blocked                     // its record cannot be used
	unverified                  // what its process is cannot be told
	launching                   // recorded, not yet seen to execute
	up                          // it runs
	draining                    // the main process ended by itself, part of its tree lives
	ending                      // all is gone or unseen, the keeper is about to record the end
	stopping                    // a stop is recorded, something lives
	situations
)

// situationOf reads a situation from facts. The recorded phase says how far a start came, never that something lives.
func situationOf(f *observe.Facts) situation {
	run := f.Run
	switch {
	case f.Blocked != "":
		return blocked
	case run.Over():
		return vacant
	case run.Alive == observe.Unknown:
		return unverified
	}
	mainGone := run.MainExit != nil || run.Alive == observe.Dead && run.Phase == state.Started
	switch {
	case mainGone && run.Tree.State != observe.TreePopulated:
		return ending
	case run.Stop != nil:
		return stopping
	case mainGone:
		return draining
	case run.Phase != state.Started:
		return launching
	}
	return up
}

// move is what to do in a scope.
type move int

const (
	rest    move = iota // nothing
	begin               // start a run, if the gates are open
	mark                // record the first Ready, when it is
	live                // apply the live-class fields
	reload              // give it other files, and have it read them
	swap                // stop it for a change, when the roll-out permits
	stop                // stop it
	drain               // stop what the main process left behind
	ladder              // go on with the recorded stop
	archive             // put the record away
)

// moves is the one table: every situation and every need.
var moves = [situations][needs]move{
	//            Keep    Run     Live    Reload  Replace Renew   End     Gone
	vacant:     {rest, begin, begin, begin, begin, begin, rest, archive},
	blocked:    {rest, rest, rest, rest, rest, rest, rest, rest},
	unverified: {rest, rest, rest, rest, rest, rest, rest, rest},
	launching:  {rest, rest, rest, rest, swap, stop, stop, stop},
	up:         {rest, mark, live, reload, swap, stop, stop, stop},
	draining:   {drain, drain, drain, drain, drain, drain, drain, drain},
	ending:     {rest, rest, rest, rest, rest, rest, rest, rest},
	stopping:   {ladder, ladder, ladder, ladder, ladder, ladder, ladder, ladder},
}

// decision is what comes of one look at a server.
type decision struct {
	order  *Order        // for the keeper, at most one
	checks []Order       // what is due to be asked
	proof  *Order        // the check of the newest spec; nil = none is due
	wake   time.Duration // look again by then, on the uptime clock; 0 = when something changes
	drop   bool          // it is gone: forget it

	wish      wish
	lane      *lane      // the scope to speak of: the one with a live run, else the selected one; nil = none has a record
	sit       situation  // of that scope
	need      need       // of that scope
	pending   string     // Why of a change that needs a new run and has not begun; "" = none
	gate      gate       // what keeps a wished run from being started
	forbidden *forbidden // why; with gatePeople
	countdown *Countdown // what is to be remembered of one; nil = there is none
	speaks    bool       // the job of its step is to be made
	patience  patience   // of the selected scope, when no run lives
	dueAt     time.Duration
	ready     readiness
	refused   bool // the last order was refused or failed and is tried again later
	reload    reloadState
	unproven  bool // the newest spec has to pass its check first
	shaky     bool // too many ends in a row, and no stable run since
}

// gate is what keeps a wished run from being started; "" = nothing.
type gate string

const (
	gateBackOff  gate = "BackOff"
	gateComplete gate = "Completed"
	gateFailed   gate = "Failed"
	gatePort     gate = "PortConflict"    // another has the port: also what keeps a run from being replaced or changed
	gateDepend   gate = dependencyPending // also what keeps a run from being replaced
	gateFirst    gate = "DependentsFirst" // what keeps a run from being ended
	gateConfig   gate = reasonConfig      // the newest spec did not pass its check
	gatePeople   gate = "Disruption"      // people or windows forbid that a run is replaced
)

// decide compares what one server shall be with what it is.
func decide(s *standing, now state.Moment) decision {
	d := decision{wish: wishOf(s, now)}
	if h := s.hold(now); h != nil && !h.Until.IsZero() {
		d.lookIn(h.Until.Sub(now.Wall), now)
	}
	d.lane, d.sit = s.foremost()
	var order *Order
	if d.sit == vacant {
		order = d.ofVacant(s, now)
	} else {
		order = d.ofRun(s, now)
	}
	d.keepCountdown(s)
	d.watchStable(s, now)
	d.issue(s, order, now)
	return d
}

// foremost picks the scope to speak of and to act in: one with something alive before one that cannot be used, that before
// one without a run; and of equals another profile's before the selected one's, so that the old run ends before the new
// scope is cared for. Without a run anywhere it is the selected one.
func (s *standing) foremost() (*lane, situation) {
	var pick *lane
	sit, best := vacant, -1
	for _, l := range s.lanes {
		now := situationOf(l.facts)
		rank := ranks[now]
		if s.selected(l) == (rank == ranks[vacant]) {
			rank++
		}
		if rank > best {
			pick, sit, best = l, now, rank
		}
	}
	return pick, sit
}

// ranks says which scope of a server is acted in; the odd numbers between are for equals.
var ranks = [situations]int{vacant: 0, blocked: 2, unverified: 2, launching: 4, up: 4, draining: 4, ending: 4, stopping: 4}

// selected reports whether a lane is that of the wished profile.
func (s *standing) selected(l *lane) bool {
	return s.good != nil && l.facts.Scope == s.good.launch.Scope
}

// own is the lane of the wished profile; nil when it has no record.
func (s *standing) own() *lane {
	for _, l := range s.lanes {
		if s.selected(l) {
			return l
		}
	}
	return nil
}

// ofVacant decides for a server without any run.
func (d *decision) ofVacant(s *standing, now state.Moment) *Order {
	switch d.wish.intent {
	case intentKeep, intentEnd:
		return nil
	case intentGone:
		d.need = needGone
		if len(s.lanes) == 0 {
			d.drop = s.heard && !s.busy
			return nil
		}
		scope := s.lanes[0].facts.Scope
		return &Order{Scope: scope, Archive: &state.ScopeOrder{Scope: scope, By: systemActor}}
	}
	d.need = needRun
	d.lane = s.own()
	d.patience = patience{sequel: sequelStart}
	after := int64(0)
	if d.lane != nil {
		f := d.lane.facts
		d.patience = patienceOf(f.Exits, s.good.launch.Restart, s.mem.Generation, s.mem.freshIn(f))
		if f.Run != nil {
			after = f.Run.Number
		}
	}
	switch d.patience.sequel {
	case sequelComplete:
		d.gate = gateComplete
		return nil
	case sequelFail:
		d.gate = gateFailed
		return nil
	case sequelRetry, sequelRestart:
		d.dueAt = d.patience.dueAt(d.lane.end)
		if now.Uptime < d.dueAt {
			d.gate = gateBackOff
			d.lookAt(d.dueAt)
			return nil
		}
	}
	if s.contest != nil {
		d.gate = gatePort
		return nil
	}
	if s.awaits != nil {
		d.gate = gateDepend
		return nil
	}
	if s.doubtful || s.recording || s.removing() {
		return nil // no run without a memory of it, nor one that is to end at once
	}
	if !d.prove(s, nil, now) {
		return nil
	}
	cause, by := causeOf(s, d.patience)
	return &Order{Scope: s.good.launch.Scope, Start: &state.StartOrder{
		Launch: *s.good.launch, UID: s.mem.UID, Generation: s.mem.Generation, Source: s.source,
		Cause: cause, By: by, After: after,
	}}
}

// causeOf says why a run is started, from how the server's last run ended.
func causeOf(s *standing, p patience) (cause, by string) {
	switch {
	case p.sequel == sequelRestart:
		return CauseDeclared, ""
	case p.sequel == sequelRetry && p.last.Reason == spec.ReasonHostRebooted:
		return CauseReboot, ""
	case p.sequel == sequelRetry:
		return CauseCrashed, ""
	}
	last, in := s.lastExit()
	restart := s.mem.Restart
	switch {
	case last == nil:
		return CauseWanted, ""
	case restart != nil && restart.Run == last.RunID:
		return CauseRestart, restart.By
	case last.Number <= s.mem.freshIn(in):
		return CauseAsked, s.mem.actor()
	case in.Scope != s.good.launch.Scope:
		return CauseProfile, ""
	case last.Why == WhySecretChanged:
		return CauseSecret, ""
	case last.Why == WhySpecChanged, !asked(last):
		return CauseSpec, ""
	}
	return CauseWanted, ""
}

// lastExit is the end of the server's last run, and the scope that had it; nil = none is known.
func (s *standing) lastExit() (last *state.Exit, in *observe.Facts) {
	for _, l := range s.lanes {
		if n := len(l.facts.Exits); n > 0 {
			e := &l.facts.Exits[n-1]
			if last == nil || e.FinishedAt.After(last.FinishedAt) || s.selected(l) && e.FinishedAt.Equal(last.FinishedAt) {
				last, in = e, l.facts
			}
		}
	}
	return last, in
}

// removing reports whether the server was being removed before our restart, when its removal was certain, and is not declared again: it is
// about to be certain anew, or waits for a person.
func (s *standing) removing() bool {
	last, in := s.lastExit()
	return s.absent && last != nil && last.Why == WhyRemoved && last.Number > s.mem.freshIn(in)
}

// ofRun decides for a server with something that is not over.
func (d *decision) ofRun(s *standing, now state.Moment) *Order {
	run, scope := d.lane.facts.Run, d.lane.facts.Scope
	need, why, by := needOf(s, d.wish, d.lane)
	at, until := s.reloadOf(d.lane.facts, now)
	if at == reloadFailed && (need == needRun || need == needLive || need == needReload) {
		need, why, by = needReplace, WhySpecChanged, "" // nobody knows what it runs with
	}
	d.need, d.reload = need, at
	d.ready = readinessOf(run, d.sit, s)
	if d.sit == blocked {
		return nil
	}
	d.ask(s, run, now)
	ailing := d.ailing(s, run, now)
	act := moves[d.sit][need]
	switch again := act == swap || need == needRenew && act == stop; { // what runs is not ended for what could not be started
	case s.contest != nil && (again || act == live || act == reload):
		d.gate = gatePort
	case s.awaits != nil && again:
		d.gate = gateDepend
	case len(s.first) > 0 && act == stop && !d.wish.force:
		d.gate = gateFirst
	case (act == swap || act == reload && s.good.launch.Reload.Disruptive || act == stop && d.scheduled(s)) && d.sit == up && !run.ReadyAt.IsZero(): // nobody plays on one that never was Ready
		if d.forbidden = d.forbids(s, run, now); d.forbidden != nil {
			d.gate = gatePeople
		}
	}
	switch act {
	case mark, reload:
		if ailing != nil {
			return ailing
		}
		if at == reloadOpen {
			if o := d.proven(s, run); o != nil {
				return o
			}
			d.lookAt(until)
		}
		if act == reload {
			return d.reloads(s, run, why, now)
		}
		if d.ready.ok() && run.ReadyAt.IsZero() {
			return &Order{Scope: scope, Ready: &state.ReadyOrder{Scope: scope, RunID: run.ID}}
		}
	case live:
		if d.gate == gatePort {
			return ailing
		}
		return &Order{Scope: scope, Live: &state.LiveOrder{
			RunID: run.ID, Launch: *s.good.launch, Generation: s.mem.Generation, Source: s.source,
		}}
	case swap:
		d.pending = why
		if ailing != nil {
			return ailing
		}
		o := stopOrder(scope, run, spec.ReasonStopRequested, why, by)
		o.Stop.Next, o.Stop.Generation = s.good.launch, s.mem.Generation
		if f := d.follow(s, run); f != nil && (!s.granted || s.attempt.of(*o) && s.attempt.err != nil) {
			return f
		}
		if s.granted && d.gate == "" || s.proving.failed(proofOf(s.good, run)) { // one that failed needs no turn to be checked again
			if !d.prove(s, run, now) {
				return nil
			}
		}
		if !s.granted || d.gate != "" || d.announce(s, run, now) {
			return nil
		}
		return o
	case stop:
		if need == needRenew && d.gate == "" && !s.mem.Restart.Force && !d.prove(s, run, now) {
			return ailing
		}
		if d.gate != "" || d.scheduled(s) && d.sit == up && d.announce(s, run, now) {
			return ailing
		}
		return stopOrder(scope, run, spec.ReasonStopRequested, why, by)
	case drain:
		return stopOrder(scope, run, spec.ReasonMainExited, WhyMainExited, "")
	case ladder:
		r := rungOf(run, d.forced(s), now)
		if r.next < 0 {
			d.lookAt(r.at)
			return nil
		}
		return &Order{Scope: scope, Step: &state.StepOrder{Scope: scope, RunID: run.ID, Index: r.next}}
	}
	return nil
}

// follow writes the newest restart policy into the record of a run that waits to be replaced: by it its end is judged
// (API.md rule 7, BP-9).
func (d *decision) follow(s *standing, run *observe.RunFacts) *Order {
	newest := s.good.launch
	if d.sit != up || !s.selected(d.lane) || run.Restart.Equal(&newest.Restart) {
		return nil
	}
	return &Order{Scope: newest.Scope, Live: &state.LiveOrder{
		RunID: run.ID, Launch: *newest, Generation: s.mem.Generation, Source: s.source, RestartOnly: true,
	}}
}

func stopOrder(scope spec.Scope, run *observe.RunFacts, reason spec.ExitReason, why, by string) *Order {
	return &Order{Scope: scope, Stop: &state.StopOrder{Scope: scope, RunID: run.ID, Reason: reason, Why: why, By: by}}
}

// forced reports whether a person asked to go to the kill at once.
func (d *decision) forced(s *standing) bool {
	if d.wish.force {
		return true
	}
	return d.need == needRenew && s.mem.Restart.Force
}

// watchStable tells whether the server is in a crash loop: two or more ends in a row that nobody asked for, and no run
// since that was stable.
func (d *decision) watchStable(s *standing, now state.Moment) {
	own := s.own()
	if own == nil || d.wish.intent != intentRun {
		return
	}
	p := d.patience
	if p.sequel == "" {
		p = patienceOf(own.facts.Exits, s.good.launch.Restart, s.mem.Generation, s.mem.freshIn(own.facts))
		d.patience = p
	}
	if p.inRow < 2 || p.sequel != sequelRetry && p.sequel != sequelRestart {
		return
	}
	d.shaky = true
	if d.lane != own || d.sit != up {
		return
	}
	stable := own.up.At.Uptime + stableLeft(own.facts.Run.StartedAt, s.good.launch.Restart, own.up.At.Wall)
	if d.shaky = now.Uptime < stable; d.shaky {
		d.lookAt(stable)
	}
}

// issue lets an order go, unless the keeper is not heard (BP-6), one is in flight, or the same one has just led nowhere.
func (d *decision) issue(s *standing, o *Order, now state.Moment) {
	if o == nil {
		return
	}
	same := s.attempt.of(*o)
	d.refused = same && s.attempt.err != nil
	switch {
	case s.busy, !s.heard:
	case same && now.Uptime < s.attempt.until:
		d.lookAt(s.attempt.until)
	default:
		d.order = o
	}
}

// lookAt asks for another look at an uptime; the earliest counts.
func (d *decision) lookAt(at time.Duration) {
	if at > 0 && (d.wake == 0 || at < d.wake) {
		d.wake = at
	}
}

// lookIn asks for another look after a time.
func (d *decision) lookIn(in time.Duration, now state.Moment) { d.lookAt(now.Uptime + max(in, 0)) }
