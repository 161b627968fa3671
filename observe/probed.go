package observe

// Probed is what came of asking a run.
type Probed struct {
	Result ProbeResult `json:"result"`
	Output string      `json:"output,omitempty"` // the end of what the program of a failed probe has written, secrets blotted out; it is not public
	Detail string      `json:"detail,omitempty"` // why it did not pass, in words. It is public
	Count  int         `json:"count,omitempty"`  // of players, when they were counted
}

// ProbeResult says what one question to a run came to.
type ProbeResult string

// The results.
const (
	ProbePassed ProbeResult = "Passed"
	ProbeFailed ProbeResult = "Failed"
	ProbeNotRun ProbeResult = "NotRun" // it could not be carried out, which counts neither way
)

// NotRun is a question that could not be asked.
func NotRun(detail string) Probed { return Probed{Result: ProbeNotRun, Detail: detail} }
