package keepertest

import (
	"testing"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Behaviour is how a workload behaves.
type Behaviour string

// The behaviours.
const (
	Runs    Behaviour = "Runs"    // ends with code 0 on SIGTERM
	Ignores Behaviour = "Ignores" // takes no notice of SIGTERM
	Exits   Behaviour = "Exits"   // ends at once with code 3
	Family  Behaviour = "Family"  // ends with code 0 on SIGTERM and leaves a child that takes no notice of it
	Broken  Behaviour = "Broken"  // cannot be executed by the kernel
	Talks   Behaviour = "Talks"   // ends with code 0 on the line exit; has a console
	Asks    Behaviour = "Asks"    // ends with code 0 on the request exit; has no console
	Missing Behaviour = "Missing" // its executable is not there
	// Programs is Runs with the commands Nowhere, Done and Fails at the beginning of its ladder.
	Programs Behaviour = "Programs"
)

// Host is a keeper on a kernel, with the powers that a test needs. All calls come from one goroutine.
type Host interface {
	Start(state.StartOrder) error
	Stop(state.StopOrder) error
	Step(state.StepOrder) error
	// Send returns what became of the line.
	Send(state.SendOrder) (state.Delivery, error)
	// Do asks for a command. What is to be heard of it comes once, in any of the turns.
	Do(state.DoOrder) <-chan Answer
	ApplyLive(state.LiveOrder) error
	MarkReady(state.ReadyOrder) error
	Archive(state.ScopeOrder) error

	// Facts is what is known of a scope, nil when nothing is.
	Facts(spec.Scope) *observe.Facts
	// Turn lets what is due happen: events are delivered, news arrives. It may be called any number of times.
	Turn()
	// Settle returns when a workload that was just started behaves as it shall: its signal handlers are set.
	Settle(spec.Scope)
	// Crash kills the keeper and brings another, of the same disk and kernel.
	Crash()
	// Launch is a launch of a workload. Its ladder is SIGTERM to the main process, then SIGINT to the tree, which none of them heeds.
	// That of Talks begins with the lines save, which is answered, and exit, that of Asks with such requests. Each has the commands
	// of this package.
	Launch(spec.Scope, Behaviour) spec.Launch
	// Secret gives the secret NAME/KEY of the host a value; "" takes it away. Within a few turns the keeper looks at it.
	Secret(ref, value string)
	// Kill sends SIGKILL to the main process of the live run, as a stranger does.
	Kill(spec.Scope)
	// Processes are the numbers of the living processes of a scope, its main process first if it lives.
	Processes(spec.Scope) []int
}

// Run is the suite. New makes a fresh host without any record.
func Run(t *testing.T, fresh func(testing.TB) Host) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.check(&suite{T: t, host: fresh(t), scope: spec.Scope{Namespace: spec.DefaultNamespace, Server: "town", Profile: "game"}})
		})
	}
}

// cases are the rules, by name.
var cases = []struct {
	name  string
	check func(*suite)
}{
	{"a start runs one process, however often it is asked for", startTwice},
	{"an asker that missed a run is refused", missedRun},
	{"what is missing is refused and leaves no record", missing},
	{"what cannot be executed ends StartFailed", broken},
	{"an end that nobody asked for keeps its code", exits},
	{"a kill by a stranger keeps its signal", killed},
	{"a stop that was asked for is Expected", stopped},
	{"a stop without a step does not make an end Expected", notBegun},
	{"steps go in order and once", ladder},
	{"the kill ends what takes no notice", killTree},
	{"a family that outlives its main process keeps the run", family},
	{"an order about another run is refused", otherRun},
	{"a crash changes no process", crashRunning},
	{"a crash repeats no step", crashInLadder},
	{"an end during a crash is never success by default", crashAtEnd},
	{"live fields reach the record", live},
	{"the first Ready is kept", ready},
	{"restart follows the newest spec in a run that is to be replaced", restartOnly},
	{"a ladder of lines", func(s *suite) { talk(s, Talks) }},
	{"a crash repeats no line", func(s *suite) { crashInTalk(s, Talks) }},
	{"a ladder of requests", func(s *suite) { talk(s, Asks) }},
	{"a crash repeats no request", func(s *suite) { crashInTalk(s, Asks) }},
	{"a line is handed over once", send},
	{"a line starts nothing", sendNowhere},
	{"a command is carried out once, and leaves nothing", commands},
	{"a command that does not fit starts nothing", commandRefused},
	{"one command at a time, and none outlives its run", commandBusy},
	{"a crash ends no command, and repeats none", crashInCommand},
	{"a command beside no run keeps the scope at rest", commandAtRest},
	{"a ladder of programs", programs},
	{"a stop for what cannot run is refused", stopForNothing},
	{"a secret that is missing refuses the start", secretMissing},
	{"a changed secret is told until it is as it was", secretChanged},
	{"an archived scope is gone and can come back", archive},
}
