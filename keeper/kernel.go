package keeper

import (
	"errors"
	"syscall"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Kernel is all that [Core] needs of the operating system. The shipped one is built by [Main]; a simulation brings a
// model. keeper/keepertest holds both to the same behaviour.
//
// Every call is synchronous. Calls for different scopes may come at the same time, calls for one scope never do. A
// crash of the keeper is modelled by a panic out of any call (or out of the disk below the store): the Core is then
// thrown away with every Process, Held and Image it had, as a dead process's descriptors are, and a new one is made of
// the same disk and kernel. What must happen at that moment in a model:
//   - a stage that is held and has not got its byte exits with code 125 (end of file on its gate);
//   - a process that has its byte goes on; it is now nobody's child (its exit is told as that host tells it);
//   - folders, FIFOs and cgroups stay.
//
// Events are delivered by whoever drives the core: [Core.HandleExit] after a process of the scope ended (and again when more
// can be said of its end), [Core.HandleTree] after a watched tree changed, [Core.HandleLogSeen] after a literal was
// printed, [Core.HandleNotified] after the run said that it is ready, [Core.HandleDelivered] when a line has come to something. Each may come late, twice, or without cause: the core looks again.
type Kernel interface {
	// Now reads the wall clock, CLOCK_BOOTTIME and the boot id.
	Now() state.Moment
	// NewRunID makes a name that no run ever had: 26 characters of a-z2-7.
	NewRunID() string

	// Vet looks whether the launch can be carried out on this host: the executable lies in an opened workspace after
	// every symlink, is regular and may be executed; the user is known; the directory is there or was made (0750, the
	// user's). It is called after the launch was found valid and permitted by the host's configuration. An error is a
	// refusal and has changed nothing; its text is public (no host path).
	Vet(launch *spec.Launch, host *Host) (Image, error)

	// Prints are those of the secrets that a start of the launch would be executed with now, by the id of a run, sorted by
	// Ref. It fails where Vet would refuse for a secret's sake.
	Prints(launch *spec.Launch, host *Host, runID string) ([]state.SecretPrint, error)

	// Redact returns a text with every secret that the run's launch names replaced by "[secret]". It fails when these are not known: one
	// cannot be read, or is another than the run was executed with.
	Redact(run *state.Run, host *Host, text string) (string, error)

	// CgroupName is the cgroup that a run of this id shall have, below the cgroup2 mount; "" = this host has none for us.
	CgroupName(runID string) string
	// MakeFolder makes the run's private folder and its three FIFOs, owned by the image's user; a program has one, and a run with a
	// terminal none.
	MakeFolder(Place, Image) error
	// MakeCgroup makes the cgroup that Place names, fresh: one that is there already is an error.
	MakeCgroup(Place) error
	// MakeShadow makes a program's shadow of the image's directory, which the image has in its place from then on: the files of the
	// launch in theirs, links to all else. An [ExecError] says which file could not be written. It goes with Remove.
	MakeShadow(Place, *spec.Launch, *Host, Image) error
	// Remove takes the run's folder, FIFOs, terminal, shadow and cgroup away; what is not there is no error. A cgroup with processes in it
	// is an error and everything stays.
	Remove(Place) error
	// Folders lists the ids of all runs that have a folder.
	Folders() ([]string, error)

	// Hold forks a stage in the run's cgroup with its stdio on the run's FIFOs, or on the terminal that it makes for the run, which
	// outlives the keeper. It executes nothing of the workload until
	// it is released. A program has nothing to read, and one FIFO for both its outputs.
	Hold(HoldRequest) (Held, error)
	// Open finds a run's main process again. It fails with [ErrGone] when the process is proven to be no more (neither
	// running nor a zombie), and with [ErrUnverified] when this cannot be told.
	Open(Place) (Process, error)

	// Tree counts what is left of the run's family, main process included, zombies not. With a cgroup the answer is
	// Empty or Populated, and a cgroup that is not there is Empty; without one it is never Empty, but Unknown once
	// nothing is seen any more.
	Tree(Place) (observe.Tree, error)
	// WatchTree asks for HandleTree when the tree may have become empty. It ends with Remove.
	WatchTree(Place) error
	// SignalTree sends a signal to every process of the family. None being there is no error.
	SignalTree(Place, string) error
	// KillTree kills every process of the family, also those forked meanwhile. The cgroup cannot be used again after it.
	KillTree(Place) error

	// Deliver hands a line to the run beside everything else: it returns at once, and [Core.HandleDelivered] is called with what
	// became of the line, within the delivery's time and once. The lines of one run are handed over one after the other.
	Deliver(Place, Delivery)

	// Probe asks a run beside everything else: it returns at once, and told is called once, by anybody, with what came of it, within
	// the probing's time and a moment. What is being asked already is not asked twice at a time: it is NotRun.
	Probe(p Place, q Probing, told func(observe.Probed))
	// EndProbes ends at once what is being asked of a run, which is NotRun then.
	EndProbes(Place)

	// Type types keys on the run's terminal and answers how many bytes it took; it never waits. Resize changes its size; redraw has the run
	// told even when it is the size that it has. Both fail with [terminal.ErrGone] when nobody has the terminal open.
	Type(Place, []byte) (int, error)
	// Echoes reports whether the run's terminal shows what is typed. It does not where that cannot be told.
	Echoes(Place) bool
	Resize(p Place, size spec.LaunchTTY, redraw bool) error

	// Collect starts reading what a program of this launch writes on its two outputs, and goes on with it after a crash. The end
	// of it is kept; after a crash, of a program with secrets nothing is.
	Collect(Place, *spec.Launch) error
	// Collected ends the reading and answers the end of what the program has written, secrets blotted out, at most
	// state.OutputLimit bytes of whatever they are, and whether there was more. It is called once the tree is gone; of a
	// program that was never collected it answers nothing.
	Collected(Place) (end []byte, cut bool)
	// WakeAt asks for HandleExit of a scope when CLOCK_BOOTTIME has come to this. The scope's earliest is kept, and lasts as
	// long as this keeper.
	WakeAt(spec.Scope, time.Duration)

	// Attach starts pumping the run's output to its log, and goes on with it after a crash.
	Attach(Place) error
	// WatchLog asks for HandleLogSeen when the run has printed one of the literals: in what its log holds already or in
	// what comes. A second call replaces the first; no literals end it.
	WatchLog(Place, []string) error
	// LastLogged is the highest number of a run of the scope that an earlier keeper has left a log of, 0 for none.
	LastLogged(spec.Scope) int64
	// Drain pumps what is left in the FIFOs or the terminal, for a bounded time, ends the log and answers what was written. It is called
	// once, after the tree is gone; of a run that was never attached it answers zeros.
	Drain(Place) LogTotals
}

// Place is where the things of a run are: its id names folder, FIFOs and log; its cgroup and its main process name its
// family. The place of a program is of the same kind: a folder and a family of its own, but no log, and nothing to read.
type Place struct {
	Scope   spec.Scope
	RunID   string          // of a program: its own id
	Number  int64           // names the log
	Cgroup  string          // "" = none
	Main    *state.Identity // nil before it is known
	Program bool
	// Shadow: the program runs in a shadow of the server's directory.
	Shadow bool
	Probe  spec.Purpose // whose program it is; "" = none's
	// Terminal is the size of the run's terminal, nil = it has FIFOs. A run of before may have had one that is not told of here.
	Terminal *spec.LaunchTTY
}

// HoldRequest is what a stage is forked with.
type HoldRequest struct {
	Place  Place
	Launch *spec.Launch
	Host   *Host
	Image  Image
}

// Image is an executable, a user and a directory that were checked and are held, so that what was checked is what is used.
type Image interface {
	// WriteFiles writes the files of the launch, one after the other, each in one step: into the directories that were checked,
	// through no symlink, the user's. It is called once, with the run on record and nothing of it alive. An [ExecError] says which
	// could not be written.
	WriteFiles() error
	// Undo removes the directories that Vet made, as far as they are empty, and the files that WriteFiles made where there were
	// none. It is called when the workload never ran.
	Undo()
	// Prints are those of the secrets that the image holds, by the id of the run that it is for, sorted by Ref.
	Prints(runID string) []state.SecretPrint
	// Close lets go of what is held.
	Close()
}

// Process is a process that is proven to be the one of its identity, by a handle that stays its own (a pidfd).
type Process interface {
	Identity() state.Identity
	// Staged reports that the process is, or died as, the stage: nothing of the workload has run in it.
	Staged() (bool, error)
	// Signal sends a signal by its name. It fails with [ErrGone] when the process has ended and was reaped.
	Signal(string) error
	// Peek looks whether the process has ended, and how, without reaping it: asked again, it answers the same. A zombie has
	// ended. Of a process that is not our child the end may be unknown (Status nil).
	Peek() (end state.MainExit, ended bool, err error)
	// Reap lets the kernel forget an ended process, if it is our child. The end must be on record by then.
	Reap() error
	// Close lets go of the handle; the process is not touched.
	Close()
}

// Held is a stage that waits for its byte.
type Held interface {
	Process
	// Release gives the byte and waits until the workload is executed. An [ExecError] says that it was not and never will be.
	// Any other error says that nobody knows yet; HandleExit is called when that has changed.
	Release() error
	// Abandon ends a stage that was not released, or whose release failed with an ExecError, waits for its end, reaps it
	// and closes the handle.
	Abandon() error
}

// LogTotals is what a run's log came to.
type LogTotals struct {
	Bytes        int64
	DroppedLines int64
}

// ErrGone says that a process is proven to be no more.
var ErrGone = errors.New("the process is gone")

// ErrUnverified says that it cannot be told whether a process is the recorded one.
var ErrUnverified = errors.New("the process cannot be verified")

// ExecError says that a workload could not be executed: nothing of it ran.
type ExecError struct {
	Op     string        // what failed, without a path
	Errno  syscall.Errno // 0 = the kernel gave none
	Remedy string        // what to do, without a path of a run's; "" = none is known
}

// Error names the step, the errno and the remedy, and no path.
func (e *ExecError) Error() string {
	text := "cannot " + e.Op
	if e.Errno != 0 {
		text += ": " + e.Errno.Error()
	}
	if e.Remedy != "" {
		text += ": " + e.Remedy
	}
	return text
}
