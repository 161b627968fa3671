package spec

import "time"

// Job is one action, asked for once.
type Job struct {
	Meta    `json:"metadata"`
	Spec    JobSpec `json:"spec"`
	Written []byte  `json:"-"` // as in [Profile]; nil of a job that was asked for directly
}

// JobSpec is Job.spec of API.md.
type JobSpec struct {
	Server          string                 `json:"server"`
	Type            JobType                `json:"type,omitempty"`    // Command is the default
	Command         string                 `json:"command,omitempty"` // with type Command alone
	Parameters      map[string]IntOrString `json:"parameters,omitempty"`
	Profile         string                 `json:"profile,omitempty"`         // "" = whichever is selected
	DeadlineSeconds *int64                 `json:"deadlineSeconds,omitempty"` // 1-604800, 3600
	Attempt         *int64                 `json:"attempt,omitempty"`         // 1-1000, 1
	Cancel          bool                   `json:"cancel,omitempty"`
}

// JobType is what a job does.
type JobType string

// The types. Reload and Check are of a later version; Start and Stop may not be in a source.
const (
	JobStart   JobType = "Start"
	JobStop    JobType = "Stop"
	JobRestart JobType = "Restart"
	JobReload  JobType = "Reload"
	JobCheck   JobType = "Check"
	JobCommand JobType = "Command"
)

const (
	defaultJobDeadline = 3600
	maxJobDeadline     = 604800
)

// Kind is the type, the default filled in.
func (j *JobSpec) Kind() JobType {
	if j.Type == "" {
		return JobCommand
	}
	return j.Type
}

// ServerKey is the key of the server that a job in a namespace is about.
func (j *JobSpec) ServerKey(namespace string) Key { return Key{Namespace: namespace, Name: j.Server} }

// Deadline is how long an attempt has, from its acceptance.
func (j *JobSpec) Deadline() time.Duration {
	return time.Duration(valueOr(j.DeadlineSeconds, defaultJobDeadline)) * time.Second
}

// Attempts is how many attempts are asked for, the default filled in: the last of them is the one that counts.
func (j *JobSpec) Attempts() int64 { return valueOr(j.Attempt, 1) }

// JobPhase is how far a job has come.
type JobPhase string

// The phases. A job goes from Pending to Running to one of the others, or straight from Pending to one of them; a raised
// attempt begins anew.
const (
	JobPending   JobPhase = "Pending"   // nothing of it was done
	JobRunning   JobPhase = "Running"   // something of it may have been done
	JobSucceeded JobPhase = "Succeeded" // what was asked for is so
	JobFailed    JobPhase = "Failed"    // it is not, or nobody knows
	JobCancelled JobPhase = "Cancelled" // withdrawn, or too late to begin
	JobRefused   JobPhase = "Refused"   // a check said no: nothing was done
)

// JobPhases is every phase.
var JobPhases = []JobPhase{JobPending, JobRunning, JobSucceeded, JobFailed, JobCancelled, JobRefused}

// Over reports whether a job in the phase has ended.
func (p JobPhase) Over() bool { return p != "" && p != JobPending && p != JobRunning }

// JobStatus is the public status of a Job. It holds no PID, path, argument, environment value, socket or hash (I10).
type JobStatus struct {
	Phase      JobPhase        `json:"phase"`
	Reason     string          `json:"reason,omitempty"`  // a CamelCase word for why it is in its phase
	Check      string          `json:"check,omitempty"`   // which check said no, in phase Refused
	Message    string          `json:"message,omitempty"` // Reason in words
	Attempt    int64           `json:"attempt"`
	By         string          `json:"by,omitempty"` // who asked for it
	AcceptedAt *time.Time      `json:"acceptedAt,omitempty"`
	Deadline   *time.Time      `json:"deadline,omitempty"` // of this attempt; nil once it has ended
	StartedAt  *time.Time      `json:"startedAt,omitempty"`
	FinishedAt *time.Time      `json:"finishedAt,omitempty"`
	Profile    string          `json:"profile,omitempty"` // that it acts on
	Run        int64           `json:"run,omitempty"`     // number of the run that it acts on
	Steps      []JobStepStatus `json:"steps,omitempty"`   // of a Command, in the order in which they were carried out
	Source     *SourceStatus   `json:"source,omitempty"`
	Conditions []Condition     `json:"conditions"`
}

// JobStepStatus is what became of one command of a job.
type JobStepStatus struct {
	Command    string     `json:"command"`
	Result     string     `json:"result,omitempty"` // Sent, Done, Failed, Undeliverable or Indeterminate; "" = it is under way
	Reason     string     `json:"reason,omitempty"`
	ExitCode   *int       `json:"exitCode,omitempty"` // at most one of ExitCode and Signal
	Signal     string     `json:"signal,omitempty"`
	StartedAt  *time.Time `json:"startedAt,omitempty"`
	FinishedAt *time.Time `json:"finishedAt,omitempty"`
	Output     string     `json:"output,omitempty"` // the end of it, at most MaxJobOutput bytes, secrets blotted out
}

// MaxJobOutput bounds the output of a command that is kept, in bytes.
const MaxJobOutput = 4096

// The conditions of a Job, beside Accepted, Reconciling and Stalled.
const ConditionSucceeded = "Succeeded"
