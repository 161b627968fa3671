package reconcile

import (
	"context"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/state"
)

// Executor is what the loop needs of the keeper: facts to read and orders to give. The keeper's client is one, the
// simulation's model another; one conformance suite passes on both.
//
// An order returns when the keeper has answered it. An error says that it was not carried out or that nobody knows;
// either way the loop looks at the facts again and decides anew, and tries the same again with growing delays. Of an
// error that has a method Public() string, that text is shown in the status; of any other, that there was one: the
// words of the error itself go to our log alone.
type Executor interface {
	// Facts is the newest known state of every scope that has a record, and whether the keeper has been heard whole
	// since the last (re)connection: until then nothing is decided (BP-6). It never blocks.
	Facts() (facts []*observe.Facts, known bool)

	Start(context.Context, state.StartOrder) error
	Stop(context.Context, state.StopOrder) error
	Step(context.Context, state.StepOrder) error
	ApplyLive(context.Context, state.LiveOrder) error
	MarkReady(context.Context, state.ReadyOrder) error
	// Reload returns when the reload is on record and begun; facts tell what becomes of it.
	Reload(context.Context, state.ReloadOrder) error
	Archive(context.Context, state.ScopeOrder) error
	// Do carries out a declared command and answers when it has ended, which may take as long as its time limit: the command
	// goes on when nobody waits for it any more. An error of the kind that names a check says that nothing was done; any other
	// that nobody knows, and Recall asks what became of it.
	Do(context.Context, state.DoOrder) (state.Receipt, error)
	// Probe asks a run what the keeper alone can ask. An error says that it was not asked, or that nobody knows.
	Probe(context.Context, state.ProbeOrder) (observe.Probed, error)
	// Listening tells who listens on the endpoints of those of the runs that live.
	Listening(context.Context, []observe.RunName) ([]observe.RunListening, error)
}

// Notifier is an Executor that says when Facts may answer differently. [Loop.Run] listens to it; for one that is none,
// somebody has to call [Loop.Wake].
type Notifier interface {
	// Changed has a slot that is filled when Facts may answer differently.
	Changed() <-chan struct{}
}
