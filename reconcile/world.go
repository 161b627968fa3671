package reconcile

import (
	"context"
	"log/slog"
	"time"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Source is where the wish comes from.
type Source interface {
	// Latest is the newest Set; nil before the first. It never blocks. A Set that is the same pointer is the same Set.
	Latest() *spec.Set
	// Changed has a slot that is filled when Latest may answer differently.
	Changed() <-chan struct{}
}

// Clock tells the time on both clocks.
type Clock interface {
	Now() state.Moment
}

// ClockFunc is a Clock.
type ClockFunc func() state.Moment

// Now calls f.
func (f ClockFunc) Now() state.Moment { return f() }

// Store keeps a [Memory] for every server; [state.Table] of Memory is one. Set and Delete are quick; what they did
// survives a power cut when a later Flush has returned nil.
type Store interface {
	All() map[string]Memory
	Set(key string, m Memory) error
	Delete(key string) error
	Flush(context.Context) error
}

// Checker asks endpoints. Both return when ctx ends.
type Checker interface {
	// Check carries out one probe. nil is success; an error for which probe.NotRun reports true says that the probe could not be
	// run, which counts neither way; any other error is a failure.
	Check(context.Context, spec.LaunchEndpoint, *spec.LaunchProbe) error
	// Count says how many play. Any error means that nobody knows.
	Count(context.Context, spec.LaunchEndpoint, *spec.LaunchPlayers) (int, error)
}

// Meter hears how the loop fares. Its methods must be quick and must not call the loop.
type Meter interface {
	Turn(took time.Duration, visited int) // one turn that looked at visited servers
	Order(kind string, took time.Duration, err error)
}

// Options are what a loop is made of. Executor, Source, Clock and Store are required.
type Options struct {
	Executor Executor
	Source   Source
	Clock    Clock
	Store    Store
	Jobs     JobStore // nil = none is remembered
	Checker  Checker  // nil = [probe.Checker]
	// Host is what resolving needs to know of the host, asked at each turn; the same pointer is the same view.
	Host   func() *spec.HostView
	NewUID func() string // nil = a random UUID
	// Guarantees is what this host lets us promise, for every status; nil = nothing is said. Later calls answer the same slice
	// until something changed.
	Guarantees func() []spec.Guarantee
	// Told hears each event of a server as it happens; nil = nobody does. The loop calls it: it must not block.
	Told  func(spec.Key, Event)
	Meter Meter        // nil = none
	Log   *slog.Logger // nil = none
}
