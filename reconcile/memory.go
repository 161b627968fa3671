package reconcile

import (
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Memory is what the loop must not forget of one server: it is durable before it is acted on. It holds a launch, with
// arguments and values of the environment, so it goes to the private state directory alone.
type Memory struct {
	UID        string    `json:"uid"`
	CreatedAt  time.Time `json:"createdAt"` // when it was first accepted
	Generation int64     `json:"generation"`
	ChangedAt  time.Time `json:"changedAt"` // when Generation was last raised
	State      string    `json:"state"`     // that the manifest asks for: spec.WishRunning or spec.WishStopped
	// Launch is the last good resolved spec: what governs the server while its manifest is faulty. nil = never good.
	Launch *spec.Launch `json:"launch,omitempty"`
	Source state.Source `json:"source"` // where Launch was read
	Hold   *Hold        `json:"hold,omitempty"`
	// Fresh is where the patience begins anew: ends of runs up to its number count neither for the backoff nor against
	// another start. A person's start or restart sets it.
	Fresh *Mark `json:"fresh,omitempty"`
	// Restart asks for one new run: the marked run, when it lives, is to be replaced. A new run fulfils it for good.
	Restart    *Request           `json:"restart,omitempty"`
	LastAction *spec.ActionStatus `json:"lastAction,omitempty"`
	// LastJob is the attempt of a job whose Start, Stop or Restart this memory has taken last: it takes none twice.
	LastJob string `json:"lastJob,omitempty"`
	// Unready is the id of a run that was Ready and is so no longer, as far as was known last.
	Unready string `json:"unready,omitempty"`
	// Pause lets the server have no run while a job's command needs it so; the wish stays, and counts again afterwards.
	Pause *Pause `json:"pause,omitempty"`
	// Countdown is what is announced of the end of the run; nil = nothing is.
	Countdown *Countdown `json:"countdown,omitempty"`
	// Schedules is what has come of the schedules of Launch.
	Schedules []Scheduled `json:"schedules,omitempty"`
}

// Hold is a person's recorded wish over the manifest's state.
type Hold struct {
	State  string    `json:"state"` // spec.WishRunning or spec.WishStopped
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"`
	Force  bool      `json:"force,omitempty"` // go to the kill at once
}

// freshIn is the number of the last run of a scope that no longer counts; 0 = all count. A mark ahead of the
// last run is of a record that was put away since.
func (m *Memory) freshIn(f *observe.Facts) int64 {
	if m.Fresh == nil || m.Fresh.Profile != f.Scope.Profile || f.Run == nil || m.Fresh.Number > f.Run.Number {
		return 0
	}
	return m.Fresh.Number
}

// Mark is a place in the runs of a scope: everything up to and with a run.
type Mark struct {
	Profile string `json:"profile"`
	Number  int64  `json:"number"`        // 0 = nothing had run
	Run     string `json:"run,omitempty"` // its id
}

// Pause says for which attempt of a job a server has no run.
type Pause struct {
	Job string `json:"job"`
	By  string `json:"by"`
}

// Request is a person's wish for one restart.
type Request struct {
	Mark
	Job    string    `json:"job,omitempty"` // the attempt of a job that asked for it; "" = a person did
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
	Force  bool      `json:"force,omitempty"`
	// Scheduled: a schedule wants it, and nobody in person. It waits for people as a change does.
	Scheduled bool `json:"scheduled,omitempty"`
}

// actor is who last acted on the server.
func (m *Memory) actor() string {
	if m.LastAction == nil {
		return ""
	}
	return m.LastAction.By
}
