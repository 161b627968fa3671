package state

import "reconciler.dev/reconciler/spec"

// The orders are what the keeper may be asked to do. Each names the run that it is about; one that does not fit what
// is there is refused and changes nothing (I9). Each is idempotent: an order that is already carried out succeeds.

// StartOrder asks for a run. A scope with a live run answers with success and no second process (BP-3).
type StartOrder struct {
	Launch     spec.Launch `json:"launch"`
	UID        string      `json:"uid"`
	Generation int64       `json:"generation"`
	Source     Source      `json:"source"`
	Cause      string      `json:"cause"`
	By         string      `json:"by,omitempty"`
	// After is the number of the scope's last run as the asker knows it, 0 for none: an asker that missed a run is refused.
	After int64 `json:"after"`
}

// StopOrder records a stop, before any of its steps is sent. The first reason stays.
type StopOrder struct {
	Scope  spec.Scope      `json:"scope"`
	RunID  string          `json:"runID"`
	Reason spec.ExitReason `json:"reason"`
	Why    string          `json:"why"`
	By     string          `json:"by,omitempty"`
	// Next is what shall run in this one's place, where nobody but a change asks for the stop; nil = it does not matter. A stop is
	// refused whose next run would be: what runs is not ended for what cannot run.
	Next       *spec.Launch `json:"next,omitempty"`
	Generation int64        `json:"generation,omitempty"` // of Next
}

// StepOrder journals and sends one step of the recorded ladder. Index len(Ladder) is the kill of the tree. An index that
// is journaled already is not sent again; one below it is refused.
type StepOrder struct {
	Scope spec.Scope `json:"scope"`
	RunID string     `json:"runID"`
	Index int        `json:"index"`
}

// SendOrder hands a line to the run's console, at most once. A delivery whose ID is on record already is not made again.
type SendOrder struct {
	Scope spec.Scope `json:"scope"`
	RunID string     `json:"runID"`
	ID    string     `json:"id"`   // made by the asker, for this delivery alone
	Line  string     `json:"line"` // at most 1024 bytes, one line; empty is its end alone
	By    string     `json:"by,omitempty"`
	// Patient waits for as long as a delivery may take until earlier input is read, or a full mailbox has room.
	Patient bool `json:"patient,omitempty"`
}

// KeysOrder types keys on the terminal of a run, as they come. An attachment's keys are one delivery, which End ends.
type KeysOrder struct {
	Scope spec.Scope      `json:"scope"`
	RunID string          `json:"runID"`
	ID    string          `json:"id"` // made by the asker, for this attachment alone
	By    string          `json:"by,omitempty"`
	Keys  []byte          `json:"keys,omitempty"` // any bytes, at most 16 KiB
	Size  *spec.LaunchTTY `json:"size,omitempty"` // that the terminal shall have; nil = as it is
	End   bool            `json:"end,omitempty"`
}

// Typed answers a KeysOrder.
type Typed struct {
	Taken int `json:"taken"` // bytes of Keys, from their beginning
}

// DoOrder carries out a declared command, at most once. A delivery whose ID is on record already is not made again: its
// receipt is answered, as soon as there is one.
type DoOrder struct {
	Scope spec.Scope `json:"scope"`
	// RunID is the live run that the command is for: the command is the one of that run's record. Empty is no run at all: the
	// scope is at rest, stays so as long as the command runs, and Launch and After say the rest. Only a program can be run then.
	RunID  string       `json:"runID,omitempty"`
	Launch *spec.Launch `json:"launch,omitempty"` // without RunID: the resolved spec that declares the command
	After  int64        `json:"after,omitempty"`  // without RunID: the number of the scope's last run as the asker knows it, 0 for none
	// ID is made by the asker for this delivery alone: 1-128 bytes of a-z, A-Z, 0-9, '-', '_' and '.', not first. A job's may be
	// made of its UID, attempt and step, so that whoever takes the job over can ask for the receipt.
	ID         string                      `json:"id"`
	Command    string                      `json:"command"`
	Parameters map[string]spec.IntOrString `json:"parameters,omitempty"`
	// Text is the parameters as a command line has them, in place of Parameters: digits are a number where the command declares one.
	Text map[string]string `json:"text,omitempty"`
	By   string            `json:"by,omitempty"`
	// Check runs the check of Launch instead of a command: beside the live run RunID, or while none lives. What it says of the
	// launch is what becomes of it.
	Check bool `json:"check,omitempty"`
	// Recall asks for the receipt alone: nothing is done, and an ID that is not on record is Indeterminate.
	Recall bool `json:"recall,omitempty"`
}

// Receipt says what became of a delivery: what was handed over or how the program ended, not what the server made of it.
type Receipt struct {
	Delivery
	Detail string `json:"detail,omitempty"` // more about Reason, in words. It is public
	// Reply is the beginning of the server's answer, on a rail that carries answers, or the end of what a program has written. It
	// holds at most OutputLimit bytes of UTF-8, and is for those who may ask, not for the public.
	Reply string `json:"reply,omitempty"`
	Cut   bool   `json:"cut,omitempty"` // the program has written more
}

// ProbeOrder asks a live run what its readinessProbe or livenessProbe asks, or how many play: by the spec in its record, and only
// what the keeper alone can ask. Nothing of it is recorded.
type ProbeOrder struct {
	Scope spec.Scope   `json:"scope"`
	RunID string       `json:"runID"`
	For   spec.Purpose `json:"for"`
	// At is the IP address where the run was found to listen; it counts where none is declared. "" = the usual one.
	At string `json:"at,omitempty"`
}

// LiveOrder writes the live-class fields of a new launch into the run's record. The restart-class fields must be equal. A run
// whose main process has ended is judged by what its record said then: it is refused.
type LiveOrder struct {
	RunID      string      `json:"runID"`
	Launch     spec.Launch `json:"launch"`
	Generation int64       `json:"generation"`
	Source     Source      `json:"source"`
	// RestartOnly writes Launch.Restart and nothing else: it follows the newest spec also while the run waits to be replaced by
	// one of other restart-class fields. The run's generation and source stay.
	RestartOnly bool `json:"restartOnly,omitempty"`
}

// ReloadOrder gives a run other files, and has it read them, once.
type ReloadOrder struct {
	RunID      string      `json:"runID"`
	ID         string      `json:"id"`     // made by the asker, for this reload alone
	Launch     spec.Launch `json:"launch"` // equal in its restart-class fields; it governs the run from then on
	Generation int64       `json:"generation"`
	Source     Source      `json:"source"`
	By         string      `json:"by,omitempty"`
}

// ReadyOrder records that the run was Ready for the first time, or after a reload.
type ReadyOrder struct {
	Scope  spec.Scope `json:"scope"`
	RunID  string     `json:"runID"`
	Reload string     `json:"reload,omitempty"` // the id of the reload that it was Ready after; "" = the first time
}

// ScopeOrder archives a scope without a live run, or retires one whose record cannot be used.
type ScopeOrder struct {
	Scope spec.Scope `json:"scope"`
	By    string     `json:"by,omitempty"`
}
