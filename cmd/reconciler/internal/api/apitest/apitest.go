// Package apitest is a reconciler without a keeper for the tests of the API and of what asks it: a loop that shows the
// snapshot that it is given and writes down what it is asked, behind the real service on a real socket.
package apitest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/proc/proctest"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// Loop is a reconcile.Loop that decides nothing.
type Loop struct {
	mu       sync.Mutex
	snap     *reconcile.Snapshot
	watchers map[chan struct{}]bool
	asks     []Asked
	jobs     []reconcile.JobAsk
	// Answer, when set, is called for every request before it is answered, with the loop free for Show.
	Answer func(Asked) error
	// JobAnswer answers every request about a job.
	JobAnswer error
}

// Asked is one request that came.
type Asked struct {
	Verb string
	Ask  reconcile.Ask
}

// NewLoop shows snap.
func NewLoop(snap *reconcile.Snapshot) *Loop {
	return &Loop{snap: snap, watchers: map[chan struct{}]bool{}}
}

// Show changes what is shown.
func (l *Loop) Show(snap *reconcile.Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.snap = snap
	for c := range l.watchers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Snapshot is what was shown last.
func (l *Loop) Snapshot() *reconcile.Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.snap
}

// Watch is as that of the real loop.
func (l *Loop) Watch() (<-chan struct{}, func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{}, 1)
	l.watchers[c] = true
	return c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers, c)
	}
}

// Asks are the requests that came.
func (l *Loop) Asks() []Asked {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Asked(nil), l.asks...)
}

func (l *Loop) take(verb string, a reconcile.Ask) error {
	l.mu.Lock()
	l.asks = append(l.asks, Asked{verb, a})
	answer := l.Answer
	l.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(Asked{verb, a})
}

// Start writes down the request.
func (l *Loop) Start(_ context.Context, a reconcile.Ask) error { return l.take(api.VerbStart, a) }

// Stop writes down the request.
func (l *Loop) Stop(_ context.Context, a reconcile.Ask) error { return l.take(api.VerbStop, a) }

// Restart writes down the request.
func (l *Loop) Restart(_ context.Context, a reconcile.Ask) error { return l.take(api.VerbRestart, a) }

// Release writes down the request.
func (l *Loop) Release(_ context.Context, a reconcile.Ask) error { return l.take(api.VerbRelease, a) }

// AddJob writes down the request and answers JobAnswer.
func (l *Loop) AddJob(_ context.Context, a reconcile.JobAsk) error { return l.takeJob(a) }

// CancelJob writes down the request and answers JobAnswer.
func (l *Loop) CancelJob(_ context.Context, a reconcile.JobAsk) error { return l.takeJob(a) }

func (l *Loop) takeJob(a reconcile.JobAsk) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs = append(l.jobs, a)
	return l.JobAnswer
}

// JobAsks are the requests about jobs that came.
func (l *Loop) JobAsks() []reconcile.JobAsk {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]reconcile.JobAsk(nil), l.jobs...)
}

// Host answers what a test says.
type Host struct {
	Late      string // what is told of a keeper that does not answer yet
	KeeperErr error
	LogText   string
	LogErr    error // instead of LogText
	LogCut    error // in the middle of it
	LastLog   api.LogQuery
	Pruned    []spec.ObjectKey
	Found     []api.Check
	Running   api.Versions
	Receipt   api.Receipt
	SendErr   error
	// Console is what attaching shows. ConsoleErr is its end; nil = it goes on until the reader has gone, if it has begun.
	Console    []api.AttachEvent
	ConsoleErr error
	LastAttach api.AttachQuery
	WritesErr  error
	Typed      *api.Typed
	TypeErr    error
	Keyed      []api.Keys // that came
	// ShutdownErr is how a shutdown ends.
	ShutdownErr error
	Calls       []string
	Gone        map[spec.Key][]*observe.Facts // what is kept of removed servers
	Lines       map[spec.Key][]observe.Written
}

// Keeper tells Late, if that is something, and answers KeeperErr.
func (h *Host) Keeper(_ context.Context, late func(string)) error {
	if h.Late != "" {
		late(h.Late)
	}
	return h.KeeperErr
}

// Written answers Lines.
func (h *Host) Written(_ context.Context, k spec.Key) ([]observe.Written, error) {
	return h.Lines[k], nil
}

// Past answers Gone.
func (h *Host) Past(_ context.Context, k spec.Key) ([]*observe.Facts, error) { return h.Gone[k], nil }

// Log writes LogText, and waits for the end of ctx when it is to follow.
func (h *Host) Log(ctx context.Context, q api.LogQuery, w io.Writer) error {
	h.LastLog = q
	if h.LogErr != nil {
		return h.LogErr
	}
	if _, err := io.WriteString(w, h.LogText); err != nil {
		return err
	}
	if h.LogCut != nil {
		return h.LogCut
	}
	if q.Follow {
		<-ctx.Done()
	}
	return nil
}

// Prune answers Pruned.
func (h *Host) Prune(context.Context) ([]spec.ObjectKey, error) { return h.Pruned, nil }

// Retire writes down the call.
func (h *Host) Retire(_ context.Context, k spec.Key, by string) error {
	h.Calls = append(h.Calls, "retire "+k.String()+" by "+by)
	return nil
}

// Send writes down the call and answers Receipt or SendErr.
func (h *Host) Send(_ context.Context, s spec.Scope, runID string, l api.Line, by string) (api.Receipt, error) {
	h.Calls = append(h.Calls, "send "+l.Line+" to run "+runID+" of "+s.String()+" by "+by)
	r := h.Receipt
	r.By = by
	return r, h.SendErr
}

// Attach shows Console, and ends with ConsoleErr or with ctx.
func (h *Host) Attach(ctx context.Context, q api.AttachQuery, emit func(api.AttachEvent) error) error {
	h.LastAttach = q
	for _, e := range h.Console {
		if err := emit(e); err != nil {
			return err
		}
	}
	if h.ConsoleErr == nil && len(h.Console) > 0 {
		<-ctx.Done()
	}
	return h.ConsoleErr
}

// Writes answers WritesErr.
func (h *Host) Writes(spec.Key, string) error { return h.WritesErr }

// Type writes down the call and answers Typed or TypeErr; without Typed all is taken.
func (h *Host) Type(_ context.Context, k spec.Key, keys api.Keys, _ string) (api.Typed, error) {
	h.Keyed = append(h.Keyed, keys)
	if h.Typed != nil {
		return *h.Typed, h.TypeErr
	}
	return api.Typed{Taken: len(keys.Keys)}, h.TypeErr
}

// Shutdown writes down the call and answers ShutdownErr.
func (h *Host) Shutdown(_ context.Context, by string) error {
	h.Calls = append(h.Calls, "shutdown by "+by)
	return h.ShutdownErr
}

// Versions answers Running.
func (h *Host) Versions() api.Versions { return h.Running }

// Checks answers Found.
func (h *Host) Checks(context.Context) []api.Check { return h.Found }

// Serve serves the control door of a service over loop and host in a new runtime directory, until the test ends.
func Serve(t testing.TB, loop *Loop, host *Host) (runtime string) {
	t.Helper()
	runtime = proctest.Place(t) // the socket's name is short wherever TMPDIR is
	if err := os.Chmod(runtime, 0o711); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(runtime, "api.sock"))
	if err != nil {
		t.Fatal(err)
	}
	svc := &api.Service{Loop: loop, Host: host, Metrics: http.NotFoundHandler(), UID: os.Getuid(), Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(context.Background())
	srv := &http.Server{Handler: svc.Control(), ConnContext: api.ConnContext, BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		cancel()
		if err := srv.Shutdown(context.Background()); err != nil {
			t.Errorf("cannot end the service: %v", err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the service ended: %v", err)
		}
	})
	return runtime
}
