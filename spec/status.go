package spec

import "time"

// ServerStatus is the public status of a Server. It holds no PID, path, argument, environment value, socket or
// hash (I10; a git revision is none).
type ServerStatus struct {
	ObservedGeneration int64          `json:"observedGeneration"`
	State              ServerState    `json:"state"`
	Conditions         []Condition    `json:"conditions"`
	Run                *RunStatus     `json:"run,omitempty"`
	LastExit           *ExitStatus    `json:"lastExit,omitempty"`
	NextStartAt        *time.Time     `json:"nextStartAt,omitempty"`
	Hold               *HoldStatus    `json:"hold,omitempty"`
	Source             *SourceStatus  `json:"source,omitempty"`
	Guarantees         []Guarantee    `json:"guarantees,omitempty"`
	LastAction         *ActionStatus  `json:"lastAction,omitempty"`
	Leftovers          string         `json:"leftovers,omitempty"` // "", a number, or "Unknown"
	Players            *PlayersStatus `json:"players,omitempty"`   // absent = nobody counts, or nobody was counted yet
	// Schedules are those of the profile, as far as they are on record.
	Schedules []ScheduleStatus `json:"schedules,omitempty"`
	// Console is how lines reach the run, and the last that people sent.
	Console *ConsoleStatus `json:"console,omitempty"`
}

// ServerState is the one-word state that people read.
type ServerState string

// The states.
const (
	StatePending  ServerState = "Pending"
	StateStarting ServerState = "Starting"
	StateRunning  ServerState = "Running"
	StateStopping ServerState = "Stopping"
	StateStopped  ServerState = "Stopped"
	StateBackOff  ServerState = "BackOff"
	StateBlocked  ServerState = "Blocked"
	StateFailed   ServerState = "Failed"
)

// ServerStates is every state, in the order in which people meet them.
var ServerStates = []ServerState{StatePending, StateStarting, StateRunning, StateStopping, StateStopped, StateBackOff, StateBlocked, StateFailed}

// Condition is a Kubernetes condition.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"` // True, False or Unknown
	ObservedGeneration int64     `json:"observedGeneration,omitempty"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message,omitempty"`
}

// The condition types, all of which are written from the first visit on.
const (
	ConditionAccepted           = "Accepted"
	ConditionRunning            = "Running"
	ConditionEndpointsReachable = "EndpointsReachable"
	ConditionReady              = "Ready"
	ConditionCrashLoop          = "CrashLoop"
	ConditionRestartPending     = "RestartPending"
	ConditionReconciling        = "Reconciling"
	ConditionStalled            = "Stalled"
)

// ConditionTypes is every condition type, in the order in which they are shown.
var ConditionTypes = []string{ConditionAccepted, ConditionRunning, ConditionEndpointsReachable, ConditionReady,
	ConditionCrashLoop, ConditionRestartPending, ConditionReconciling, ConditionStalled}

// RunStatus is the run that lives, or the last that did.
type RunStatus struct {
	Number    int64      `json:"number"`
	StartedAt *time.Time `json:"startedAt,omitempty"`
	ReadyAt   *time.Time `json:"readyAt,omitempty"`
	// ReadyBy is when a run that has not been Ready yet is ended for it; absent = never.
	ReadyBy  *time.Time `json:"readyBy,omitempty"`
	Restarts int64      `json:"restarts"`
}

// ScheduleStatus is what has come of one schedule.
type ScheduleStatus struct {
	Name    string     `json:"name"`
	NextAt  *time.Time `json:"nextAt,omitempty"`  // of one that is past: its job is about to be made, or waits for the one before
	LastAt  *time.Time `json:"lastAt,omitempty"`  // the last time that a job was made for
	LastJob string     `json:"lastJob,omitempty"` // its name; it may be forgotten (JobLimit)
	Missed  int64      `json:"missed,omitempty"`  // times that no job was made for, as long as the schedule is there
}

// PlayersStatus is how many play on the run that lives.
type PlayersStatus struct {
	Count *int      `json:"count,omitempty"` // absent = nobody knows, which is treated as occupied
	At    time.Time `json:"at"`              // since when that is so
}

// ExitStatus is how a run ended. At most one of ExitCode and Signal is set; neither means that the kernel did
// not tell, or that nothing ran.
type ExitStatus struct {
	Class      ExitClass  `json:"class"`
	Reason     ExitReason `json:"reason"`
	ExitCode   *int       `json:"exitCode,omitempty"`
	Signal     string     `json:"signal,omitempty"`
	CoreDumped bool       `json:"coreDumped,omitempty"`
	StartedAt  *time.Time `json:"startedAt,omitempty"`
	FinishedAt time.Time  `json:"finishedAt"`
	StopStep   *int       `json:"stopStep,omitempty"` // the ladder's step that was the last sent, from 1
	Killed     bool       `json:"killed,omitempty"`   // the kill of the tree was reached
}

// ExitClass is whether an exit was asked for.
type ExitClass string

// The classes. The zero value is neither.
const (
	Expected   ExitClass = "Expected"
	Unexpected ExitClass = "Unexpected"
)

// ExitReason is why a run ended: a closed list.
type ExitReason string

// The reasons.
const (
	ReasonStopRequested         ExitReason = "StopRequested"
	ReasonCompleted             ExitReason = "Completed"
	ReasonDeclaredRestart       ExitReason = "DeclaredRestart"
	ReasonMainExited            ExitReason = "MainExited"
	ReasonExited                ExitReason = "Exited"
	ReasonSignaled              ExitReason = "Signaled"
	ReasonOOMKilled             ExitReason = "OOMKilled"
	ReasonLivenessFailed        ExitReason = "LivenessFailed"
	ReasonStartDeadlineExceeded ExitReason = "StartDeadlineExceeded"
	ReasonStartFailed           ExitReason = "StartFailed"
	ReasonStartAborted          ExitReason = "StartAborted"
	ReasonCancelled             ExitReason = "Cancelled"
	ReasonHostRebooted          ExitReason = "HostRebooted"
	ReasonUnknown               ExitReason = "Unknown"
)

// ExitReasons is every reason.
var ExitReasons = []ExitReason{ReasonStopRequested, ReasonCompleted, ReasonDeclaredRestart, ReasonMainExited, ReasonExited,
	ReasonSignaled, ReasonOOMKilled, ReasonLivenessFailed, ReasonStartDeadlineExceeded, ReasonStartFailed, ReasonStartAborted,
	ReasonCancelled, ReasonHostRebooted, ReasonUnknown}

// ConsoleStatus is the rail by which lines reach a run, and what became of the last line that somebody sent.
type ConsoleStatus struct {
	Input string          `json:"input,omitempty"` // of the run that lives; "" = it takes none
	Last  *DeliveryStatus `json:"last,omitempty"`
}

// DeliveryStatus is a line that somebody sent, or what somebody typed on the server's terminal from At to Until, without its text. Result
// says what was handed over, not what the server made of it.
type DeliveryStatus struct {
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"`
	Run    int64     `json:"run"`              // its number
	Rail   string    `json:"rail"`             // as Input
	Result string    `json:"result,omitempty"` // Sent, Done, Failed, Undeliverable or Indeterminate; "" = not known yet
	Reason string    `json:"reason,omitempty"`
	Keys   bool      `json:"keys,omitempty"`  // it was typed on the terminal, key by key
	Bytes  int64     `json:"bytes,omitempty"` // of keys
	Until  time.Time `json:"until,omitzero"`  // of keys; zero = it goes on, or nobody knows
}

// HoldStatus is a recorded wish of a person over the manifest's state.
type HoldStatus struct {
	State  string     `json:"state"` // Running or Stopped
	Reason string     `json:"reason,omitempty"`
	By     string     `json:"by"`
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until,omitempty"`
}

// SourceStatus is where an object was read.
type SourceStatus struct {
	File     string `json:"file"`     // relative to its source's root
	Document int    `json:"document"` // from 0
	Revision string `json:"revision,omitempty"`
}

// ActionStatus is who last acted, how and when.
type ActionStatus struct {
	Type string    `json:"type"`
	By   string    `json:"by"`
	At   time.Time `json:"at"`
}

// Guarantee is one promise and how well this host lets us keep it.
type Guarantee struct {
	Name string `json:"name"`
	Tier string `json:"tier"` // Kernel, Emulated or Weak
	Note string `json:"note,omitempty"`
}
