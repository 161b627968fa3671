package state

import (
	"time"

	"reconciler.dev/reconciler/spec"
)

// RecordVersion is the format that this program writes. A newer one is refused, never rewritten (EN-4).
const RecordVersion = 1

// Record is the file that says what a scope's run is and how its earlier runs ended. The keeper is its only
// writer. It says what we did last (Phase), never that a process lives (EN-2).
type Record struct {
	Version int `json:"version"`
	// Seq is set by the store: it grows with every write of any record, and says which of two copies is the newer.
	Seq   uint64     `json:"seq"`
	Scope spec.Scope `json:"scope"`
	UID   string     `json:"uid"` // of the Server that the last run was started for
	Run   *Run       `json:"run,omitempty"`
	// History holds how ended runs ended, oldest first, at most HistoryLimit. The last one is Run's when Run has ended.
	History []Exit `json:"history,omitempty"`
	// Deliveries are the last lines that people sent to a console of this scope and the last commands, oldest first, at most
	// DeliveryLimit, without their text. One that has no result is on its way, or was when we died.
	Deliveries []Delivery `json:"deliveries,omitempty"`
	// Written is the text of the deliveries that went to a console, oldest first of each.
	Written []Written `json:"written,omitempty"`
	// Output is what the newest program has written, kept until the next one is journaled.
	Output   *Output  `json:"output,omitempty"`
	Counters Counters `json:"counters"`
}

// HistoryLimit is how many ends a record keeps. Backoff needs fewer: 2^17 seconds is over the largest delay.
const HistoryLimit = 64

// DeliveryLimit is how many deliveries a record keeps.
const DeliveryLimit = 16

// Delivery finds a delivery by its id; nil = there is none. It points into the record.
func (r *Record) Delivery(id string) *Delivery {
	for i := range r.Deliveries {
		if r.Deliveries[i].ID == id {
			return &r.Deliveries[i]
		}
	}
	return nil
}

// Delivery is the journal of one line to a console, or of one command: written before the line is handed over or the program
// forked, which happens once (EN-6).
type Delivery struct {
	ID      string         `json:"id"`
	Command string         `json:"command,omitempty"` // its name; "" = a line that somebody sent
	RunID   string         `json:"runID,omitempty"`   // "" = beside no run
	Run     int64          `json:"run,omitempty"`     // its number
	Rail    string         `json:"rail"`              // the console's input, Signal or Exec
	By      string         `json:"by,omitempty"`
	At      time.Time      `json:"at"`
	Result  DeliveryResult `json:"result,omitempty"`  // "" = not known yet
	Reason  string         `json:"reason,omitempty"`  // a word, when it did not come to what was asked for
	Program *Program       `json:"program,omitempty"` // with rail Exec
	Keys    *Keys          `json:"keys,omitempty"`    // what somebody typed on the run's terminal; nil = a line or a command
}

// Keys is what an attachment typed, key by key, without the keys.
type Keys struct {
	Bytes int64     `json:"bytes,omitempty"`
	Until time.Time `json:"until,omitzero"` // zero = it goes on, or nobody knows
}

// The rails that are no console's input.
const (
	RailSignal = "Signal"
	RailExec   = "Exec"
)

// CheckCommand stands for a command's name where the program is the check of a spec. No command can have it.
const CheckCommand = "actions.check"

// ReloadCommand stands for it where a delivery is a reload.
const ReloadCommand = "actions.reload"

// Reload is the last one of a run. What became of its action is the delivery of its id: as long as that is there and Reload is not
// proven, it is not known whether the run has its new files.
type Reload struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
	// WithinSeconds is how long the run may take to be Ready again.
	WithinSeconds int64 `json:"withinSeconds"`
	// ProvenAt is when the run was seen to be Ready after it.
	ProvenAt time.Time `json:"provenAt,omitzero"`
}

// Why a program failed, beside [spec.ReasonExited] and [spec.ReasonSignaled].
const (
	ReasonTimedOut = "TimedOut" // its time was over, and it was killed
	ReasonRunEnded = "RunEnded" // its run ended, and it was killed
)

// Program is the journal of a process that is run beside a run, or beside none: a command's, or a ladder step's.
type Program struct {
	ID       string    `json:"id"`                 // random; names its folder
	Number   int64     `json:"number"`             // counts those of a run from 1; names its leaf in the run's cgroup
	Cgroup   string    `json:"cgroup,omitempty"`   // below the cgroup2 mount; "" = none could be had
	Identity *Identity `json:"identity,omitempty"` // nil = nothing of it has run
	// At is when it was journaled: its time counts from here.
	At            Moment    `json:"at"`
	WithinSeconds int64     `json:"withinSeconds"`
	StartedAt     time.Time `json:"startedAt,omitzero"` // exec was seen to succeed
	Shadow        bool      `json:"shadow,omitempty"`   // it runs in a shadow of the server's directory
	TimedOut      bool      `json:"timedOut,omitempty"` // its time was over, and it was killed for that
	Exit          *MainExit `json:"exit,omitempty"`     // how its main process ended
}

// Output is the end of what a program has written on both its outputs.
type Output struct {
	Program string `json:"program"` // its id
	Text    string `json:"text"`    // UTF-8, at most OutputLimit bytes
	Cut     bool   `json:"cut,omitempty"`
}

// OutputLimit is how much of what a program has written is kept, in bytes.
const OutputLimit = 4 << 10

// DeliveryResult is how far a delivery came: a line's, or a step's of the ladder.
type DeliveryResult string

// The results.
const (
	Sent          DeliveryResult = "Sent"          // handed over, and nothing more was asked for
	Done          DeliveryResult = "Done"          // what was expected was seen
	Failed        DeliveryResult = "Failed"        // handed over, and what was expected was not seen
	Undeliverable DeliveryResult = "Undeliverable" // not handed over, for certain
	Indeterminate DeliveryResult = "Indeterminate" // it may have been handed over; it is not repeated
)

// Run is one execution. Its phase only goes forward.
type Run struct {
	Number   int64       `json:"number"` // counts the starts of this scope from 1, failed ones too
	ID       string      `json:"id"`     // random; names the run's folder and cgroup
	Phase    Phase       `json:"phase"`
	Identity *Identity   `json:"identity,omitempty"`
	Cgroup   string      `json:"cgroup,omitempty"` // below the cgroup2 mount; "" = none could be had
	Launch   spec.Launch `json:"launch"`
	SpecHash string      `json:"specHash"` // over the restart-class fields of Launch
	LiveHash string      `json:"liveHash"` // over the rest, but for what its files hold
	// FilesHash is over what the files of Launch hold, "" without files; Files is what the run was given of them.
	FilesHash string      `json:"filesHash,omitempty"`
	Files     []GivenFile `json:"files,omitempty"`
	Reload    *Reload     `json:"reload,omitempty"` // nil = there was none
	// Secrets are prints of those that the workload was executed with, by Ref: they tell whether one is another since.
	Secrets     []SecretPrint `json:"secrets,omitempty"`
	Generation  int64         `json:"generation"` // of the Server, when its spec last governed this run
	Source      Source        `json:"source"`
	Cause       string        `json:"cause"` // why it was started: Wanted, Crashed, SpecChanged, Requested...
	By          string        `json:"by,omitempty"`
	LaunchingAt time.Time     `json:"launchingAt"`
	StartedAt   time.Time     `json:"startedAt,omitzero"`  // exec was seen to succeed
	ReadyAt     time.Time     `json:"readyAt,omitzero"`    // first Ready
	LogSeenAt   time.Time     `json:"logSeenAt,omitzero"`  // a literal of a log probe was printed
	NotifiedAt  time.Time     `json:"notifiedAt,omitzero"` // the run said READY=1 of itself (sd_notify(3))
	Stop        *Stop         `json:"stop,omitempty"`
	// MainExit is how the main process ended, while its tree may live on. It is written before the main process is reaped.
	MainExit *MainExit `json:"mainExit,omitempty"`
	// Programs counts the programs that were run beside this run: no two have the same number.
	Programs int64 `json:"programs,omitempty"`
}

// SecretPrint tells a secret from another without holding it.
type SecretPrint struct {
	Ref string `json:"ref"` // NAME/KEY
	// Print is a keyed digest in hexadecimal; the key is the run's id, so that equal secrets of two runs have two prints. A
	// weak secret could be guessed with it: it is nowhere but in the record, which only those can read who may read the secret.
	Print string `json:"print"`
}

// Phase is what the keeper did last to a run.
type Phase string

// The phases, in order.
const (
	Launching Phase = "Launching" // recorded; a process may be held at the stage, none of the workload's instructions ran
	Released  Phase = "Released"  // identity recorded, the stage may have been let go
	Started   Phase = "Started"   // exec was seen to succeed
	Exited    Phase = "Exited"    // over: main process and tree are gone, History has the end
)

// Identity names a process for ever: nothing is signalled that does not match it (BP-6, BP-8).
type Identity struct {
	BootID     string `json:"bootID"`
	PID        int    `json:"pid"`
	PidfdInode uint64 `json:"pidfdInode,omitempty"` // 0 where the kernel has no pidfs (before 6.9)
	StartTicks uint64 `json:"startTicks"`           // field 22 of /proc/PID/stat; 0 = not looked up, as there is an inode
}

// Source says which file a run's spec came from.
type Source struct {
	File     string `json:"file,omitempty"`
	Document int    `json:"document,omitempty"`
	Revision string `json:"revision,omitempty"`
}

// Stop is a recorded stop: written before its first step is sent.
type Stop struct {
	Reason spec.ExitReason `json:"reason"` // StopRequested, MainExited, LivenessFailed, StartDeadlineExceeded
	Why    string          `json:"why"`    // Hold, Removed, SpecChanged, ProfileChanged, Restart, Shutdown...
	By     string          `json:"by,omitempty"`
	At     Moment          `json:"at"`
	// Ladder is frozen from the run's launch when the first step is journaled.
	Ladder []spec.StopStep `json:"ladder"`
	// Steps are journaled before they are sent, in order, each at most once.
	Steps  []StepEntry `json:"steps,omitempty"`
	Killed *Moment     `json:"killed,omitempty"` // the kill of the tree was journaled
}

// StepEntry is the journal of one ladder step.
type StepEntry struct {
	Index   int            `json:"index"`             // into Ladder
	At      Moment         `json:"at"`                // its wait counts from here
	Result  DeliveryResult `json:"result,omitempty"`  // "" = not known
	Reason  string         `json:"reason,omitempty"`  // a word, when it did not come to what was asked for
	Program *Program       `json:"program,omitempty"` // of a step that runs one
}

// Moment is a point in time on both clocks: waits are counted on the monotonic one, within one boot.
type Moment struct {
	Wall   time.Time     `json:"wall"`
	BootID string        `json:"bootID"`
	Uptime time.Duration `json:"uptime"` // CLOCK_BOOTTIME
}

// MainExit is the raw end of a main process.
type MainExit struct {
	// Status is the wait status word as the kernel gives it; nil = the kernel did not tell. There is no zero value
	// that means success (I4).
	Status *uint32       `json:"status,omitempty"`
	From   string        `json:"from"` // Wait, Anchor, PidfdInfo, ZombieStat, or the reason why it is unknown
	At     time.Time     `json:"at"`
	CPU    time.Duration `json:"cpu,omitempty"`
	MaxRSS int64         `json:"maxRSS,omitempty"` // bytes
	OOM    bool          `json:"oom,omitempty"`
}

// Exit is the end of a run, classified once, when the run is over.
type Exit struct {
	Number     int64  `json:"number"`
	RunID      string `json:"runID"`
	Generation int64  `json:"generation"`
	Why        string `json:"why,omitempty"` // Stop.Why, or the message of a failed start
	By         string `json:"by,omitempty"`
	Cause      string `json:"cause,omitempty"` // the run's cause
	spec.ExitStatus
}

// Counters are what metrics show; they survive both processes.
type Counters struct {
	Starts          int64            `json:"starts"`
	Restarts        int64            `json:"restarts"`        // starts that followed an end nobody asked for, and asked-for restarts
	Exits           map[string]int64 `json:"exits,omitempty"` // "class/reason"
	Stops           map[string]int64 `json:"stops,omitempty"` // "step/killed"
	LogBytes        int64            `json:"logBytes"`
	LogDroppedLines int64            `json:"logDroppedLines"`
}
