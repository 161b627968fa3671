package api

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// Loop is what the API needs of the reconciler's loop: something to show, and somebody to ask.
type Loop interface {
	Snapshot() *reconcile.Snapshot
	Watch() (changed <-chan struct{}, end func())
	Start(context.Context, reconcile.Ask) error
	Stop(context.Context, reconcile.Ask) error
	Restart(context.Context, reconcile.Ask) error
	Release(context.Context, reconcile.Ask) error
	AddJob(context.Context, reconcile.JobAsk) error
	CancelJob(context.Context, reconcile.JobAsk) error
}

// LogQuery is what of a server's log is wanted.
type LogQuery struct {
	Scope      spec.Scope
	Follow     bool
	Previous   bool
	Tail       int       // last lines; negative = all
	Since      time.Time // zero = all
	Stream     string    // stdout, stderr, or "" for both
	Timestamps bool
}

// Host is what the API needs of the program around the loop: the keeper, the directories, the end.
type Host interface {
	// Keeper returns when the keeper answers, and tells late, once, whom it waits for when that takes a while. A [Status] says that it does not
	// answer. Where none is connected there is nothing to wait for: what is asked of it says that.
	Keeper(ctx context.Context, late func(text string)) error
	// Log writes lines as they are asked for. It returns at their end, when ctx ends, or when the writer fails.
	Log(ctx context.Context, q LogQuery, w io.Writer) error
	// Past is what is kept of the runs of a server that was removed, nil when there is nothing.
	Past(ctx context.Context, k spec.Key) ([]*observe.Facts, error)
	// Written is what was delivered to a server's console, oldest first for each of its profiles; of one that was removed, what is kept of it.
	Written(ctx context.Context, k spec.Key) ([]observe.Written, error)
	// Prune confirms the removals that are held, and says of which objects.
	Prune(ctx context.Context) ([]spec.ObjectKey, error)
	// Retire sets a server's records aside.
	Retire(ctx context.Context, k spec.Key, by string) error
	// Send hands a line to the console of a run, once, and says what became of it. It never starts anything.
	Send(ctx context.Context, s spec.Scope, runID string, l Line, by string) (Receipt, error)
	// Attach shows the console of a server until ctx ends or emit fails: what was written, and from then on what is written and
	// who writes. Ending it does nothing to the server (EN-9).
	Attach(ctx context.Context, q AttachQuery, emit func(AttachEvent) error) error
	// Writes refuses when an attachment has not the writer's place of a server.
	Writes(k spec.Key, attachment string) error
	// Type types keys on the terminal that an attachment is at.
	Type(ctx context.Context, k spec.Key, keys Keys, by string) (Typed, error)
	// Shutdown stops every run and then ends keeper and reconciler. It returns when no run is left; the end follows.
	Shutdown(ctx context.Context, by string) error
	// Versions and Checks look and change nothing.
	Versions() Versions
	Checks(ctx context.Context) []Check
}

// Service answers for one reconciler.
type Service struct {
	Loop    Loop
	Host    Host
	Metrics http.Handler
	UID     int // of the user that runs the reconciler: an administrator, as root is
	Log     *slog.Logger
}
