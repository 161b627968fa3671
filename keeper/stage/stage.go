package stage

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Options of [New].
type Options struct {
	// Dir is a directory for the stage's program where the host refuses to execute from memory; the file is unlinked at
	// once. Empty is os.TempDir.
	Dir string
	// Fault is asked before each step of a start; an error fails the step. Nil outside of tests (EC-7).
	Fault func(Step) error
	// SharedTable has the callers' threads fork, as where no thread may have a descriptor table of its own: each start
	// then costs more with each descriptor that the process has open.
	SharedTable bool
}

// Step is one step of a start, for [Options.Fault].
type Step string

// The steps, in order. StepMove is one only where stages are not born in their cgroup, StepWatch only for an exec
// that takes long.
const (
	StepGate   Step = "gate"   // socketpair
	StepFork   Step = "fork"   // clone and exec of the stage
	StepMove   Step = "move"   // into the cgroup
	StepLimits Step = "limits" // prlimit
	StepSend   Step = "send"   // the word on the gate
	StepAwait  Step = "await"  // its answer
	StepWatch  Step = "watch"  // the gate joins the poller
)

// Steps lists all steps.
func Steps() []Step {
	return []Step{StepGate, StepFork, StepMove, StepLimits, StepSend, StepAwait, StepWatch}
}

// Stager starts processes through the stage.
type Stager struct {
	program *os.File
	file    Program // what program is
	ours    string  // the path of program for children of our own user; "" = this host lets none of them use it
	forker  *forker // nil where it cannot be: then the caller's thread forks
	fault   func(Step) error

	// forks is held for reading by whoever forks: between clone and held, a child is in nobody's books.
	forks sync.RWMutex

	mu     sync.Mutex
	held   map[int]struct{} // children that are not released yet
	cloned bool             // SelfTest found that stages can be born in their cgroup
}

// New opens the stage's program, once for all starts, and proves that the host executes it.
func New(o Options) (*Stager, error) {
	program, err := openProgram(o.Dir)
	if err != nil {
		return nil, err
	}
	return newStager(program, o)
}

// newStager takes the program over.
func newStager(program *os.File, o Options) (*Stager, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(program.Fd()), &st); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot look at the stage's program: %w", err), program.Close())
	}
	s := &Stager{program: program, file: Program{st.Dev, st.Ino}, fault: o.Fault, held: make(map[int]struct{})}
	if s.fault == nil {
		s.fault = func(Step) error { return nil }
	}
	if path := ourFd(int(program.Fd())); trial(path) == nil {
		s.ours = path
	}
	if !o.SharedTable {
		s.forker, _ = newForker(int(program.Fd())) // without it all works, at a higher price
	}
	return s, nil
}

// Close releases the stage's program. Held stages are not touched.
func (s *Stager) Close() error {
	if s.forker == nil {
		return s.program.Close()
	}
	return errors.Join(s.forker.close(), s.program.Close())
}

// Quiet calls fn while no stage is being forked. held tells of a child of ours whether it is a stage that was neither
// released nor abandoned, so that a caller that reaps orphans leaves it alone. fn must not start anything.
func (s *Stager) Quiet(fn func(held func(pid int) bool)) {
	s.forks.Lock()
	defer s.forks.Unlock()
	fn(func(pid int) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, ok := s.held[pid]
		return ok
	})
}

func (s *Stager) hold(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[pid] = struct{}{}
}

func (s *Stager) letGo(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, pid)
}

// bornInCgroup reports whether stages are cloned into their cgroup.
func (s *Stager) bornInCgroup() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cloned
}

// path names the program for a child. By way of our own table that takes the kernel some 15 us less: our folder in /proc is there, and
// the child's would be made for this alone.
func (s *Stager) path(as *syscall.Credential) string {
	if as == nil && s.ours != "" {
		return s.ours
	}
	return selfFd(int(s.program.Fd()))
}

// isProgram reports whether a file is the stage's program.
func (s *Stager) isProgram(file *unix.Stat_t) bool {
	return s.file == Program{file.Dev, file.Ino}
}
