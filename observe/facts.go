// Package observe is what is true now: the facts of every scope as its record and the kernel tell them.
//
// It owns the types in which the keeper reports and the reconciler reads; the rooms below it look: proc at processes,
// probe at endpoints, logs at output. Nothing here decides, and nothing here is stored.
package observe

import (
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Facts is what is true of one scope at one moment. A value is never changed once it is handed out.
type Facts struct {
	Scope spec.Scope `json:"scope"`
	Rev   uint64     `json:"rev"` // grows with every change of any scope within one keeper's life
	UID   string     `json:"uid,omitempty"`
	// Blocked says why nothing may be started or signalled in this scope (RecordUnreadable, RecordNewer, Unverified); "" = it may.
	Blocked  string         `json:"blocked,omitempty"`
	Run      *RunFacts      `json:"run,omitempty"`   // the last run, ended or not
	Exits    []state.Exit   `json:"exits,omitempty"` // ends of runs, oldest first, as many as the record keeps
	Counters state.Counters `json:"counters"`
	// Deliveries are the last lines that people sent, oldest first, without their text.
	Deliveries []state.Delivery `json:"deliveries,omitempty"`
	// Gone is set in a report that the scope has no record any more (archived or retired).
	Gone bool `json:"gone,omitempty"`
}

// Written is a delivery with its text, which facts do not have: it is for those alone who may read the server's log.
type Written struct {
	Scope    spec.Scope      `json:"scope"`
	Delivery state.Delivery  `json:"delivery"`
	Lines    []state.Written `json:"lines,omitempty"`
}

// WrittenOf is what a record has of deliveries to a console, oldest first.
func WrittenOf(r *state.Record) []Written {
	var all []Written
	for _, d := range r.Deliveries {
		if lines := r.WrittenOf(d.ID); len(lines) > 0 || d.Command == "" {
			all = append(all, Written{Scope: r.Scope, Delivery: d, Lines: lines})
		}
	}
	return all
}

// Programs are the ids of the programs whose end is not on record.
func (f *Facts) Programs() (ids []string) {
	for i := range f.Deliveries {
		if d := &f.Deliveries[i]; d.Program != nil && d.Result == "" {
			ids = append(ids, d.Program.ID)
		}
	}
	if f.Run == nil || f.Run.Stop == nil {
		return ids
	}
	for i := range f.Run.Stop.Steps {
		if e := &f.Run.Stop.Steps[i]; e.Program != nil && e.Result == "" {
			ids = append(ids, e.Program.ID)
		}
	}
	return ids
}

// RunFacts is a run as recorded, and what the kernel says of it.
type RunFacts struct {
	Number      int64             `json:"number"`
	ID          string            `json:"id"`
	Phase       state.Phase       `json:"phase"`
	SpecHash    string            `json:"specHash"`
	LiveHash    string            `json:"liveHash"`
	FilesHash   string            `json:"filesHash,omitempty"`
	Reload      *state.Reload     `json:"reload,omitempty"` // the last one; nil = there was none
	Files       []state.GivenFile `json:"files,omitempty"`
	Generation  int64             `json:"generation"`
	Source      state.Source      `json:"source"`
	Cause       string            `json:"cause"`
	By          string            `json:"by,omitempty"`
	LaunchingAt time.Time         `json:"launchingAt"`
	StartedAt   time.Time         `json:"startedAt,omitzero"`
	ReadyAt     time.Time         `json:"readyAt,omitzero"`
	LogSeenAt   time.Time         `json:"logSeenAt,omitzero"`
	NotifiedAt  time.Time         `json:"notifiedAt,omitzero"`
	Stop        *state.Stop       `json:"stop,omitempty"`
	MainExit    *state.MainExit   `json:"mainExit,omitempty"`
	// Changed says that secrets are others now than those that the run was executed with; nil = none is known to be.
	Changed *ChangedSecrets `json:"changedSecrets,omitempty"`

	// What governs this run (API.md rule 7), without arguments and environment.
	Ladder    []spec.StopStep       `json:"ladder"`
	Console   *spec.LaunchConsole   `json:"console,omitempty"`
	Endpoints []spec.LaunchEndpoint `json:"endpoints,omitempty"`
	Readiness *spec.LaunchProbe     `json:"readiness,omitempty"`
	Liveness  *spec.LaunchProbe     `json:"liveness,omitempty"`
	// StartDeadlineSeconds is by when it must have been Ready; 0 = whenever.
	StartDeadlineSeconds int64               `json:"startDeadlineSeconds,omitempty"`
	Players              *spec.LaunchPlayers `json:"players,omitempty"` // how they are counted; nil = nobody counts
	Restart              spec.RestartPolicy  `json:"restart"`
	Commands             []Command           `json:"commands,omitempty"`

	// What the kernel says.
	Alive Liveness `json:"alive"` // the main process
	Tree  Tree     `json:"tree"`  // main process and descendants together
}

// Command is a declared command without what it does.
type Command struct {
	Name     string        `json:"name"`
	Requires spec.Requires `json:"requires"`
	Before   []string      `json:"before,omitempty"`
	After    []string      `json:"after,omitempty"`
	Program  bool          `json:"program,omitempty"` // it runs a program, which needs no run
}

// CommandsOf are the commands that a launch declares.
func CommandsOf(l *spec.Launch) []Command {
	if len(l.Commands) == 0 {
		return nil
	}
	commands := make([]Command, len(l.Commands))
	for i := range l.Commands {
		c := &l.Commands[i]
		commands[i] = Command{Name: c.Name, Requires: c.Requires, Before: c.Before, After: c.After, Program: c.Exec != nil}
	}
	return commands
}

// ChangedSecrets are secrets that a new run would be executed with other than the live one was.
type ChangedSecrets struct {
	Refs []string  `json:"refs"` // NAME/KEY, sorted
	At   time.Time `json:"at"`   // when that was seen first
}

// Over reports whether the run has ended: main process and tree gone, its end in the record.
func (r *RunFacts) Over() bool { return r == nil || r.Phase == state.Exited }

// Liveness is what the kernel says of a main process, now.
type Liveness string

// The answers. A zombie is dead.
const (
	Alive   Liveness = "Alive"
	Dead    Liveness = "Dead"
	Unknown Liveness = "Unknown" // it cannot be verified: nothing destructive is permitted
)

// Tree is what is left of a run's family.
type Tree struct {
	State TreeState `json:"state"`
	Count int       `json:"count,omitempty"` // processes seen, main process included
}

// TreeState is whether a run has processes.
type TreeState string

// The tree states.
const (
	TreeEmpty     TreeState = "Empty"
	TreePopulated TreeState = "Populated"
	TreeUnknown   TreeState = "Unknown" // no cgroup, and what could be seen is gone
)
