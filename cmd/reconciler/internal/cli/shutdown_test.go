package cli

import (
	"context"
	"fmt"
	"testing"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api/apitest"
	"reconciler.dev/reconciler/observe/proc/proctest"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// What a shutdown had to leave alone is named, and so is what is left of us.
func TestShutdownNamesWhatIsLeft(t *testing.T) {
	left := &reconcile.UntoldError{Keys: []spec.Key{{Namespace: "default", Name: "town"}, {Namespace: "edge", Name: "proxy"}}}
	runtime := apitest.Serve(t, apitest.NewLoop(apitest.Sample()), &apitest.Host{ShutdownErr: fmt.Errorf("shutdown: %w", left)})
	want := `$ reconciler shutdown
! Error from server (Conflict): cannot end town, edge/proxy: what runs there cannot be told; see 'reconciler doctor'
! hint: every other run is stopped, and the reconciler has ended; its keeper stays with what is left. Doctor asks a reconciler: start 'reconciler run' again
[exit 1]
`
	if got := run(t, runtime, "shutdown"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Who has shut everything down can start anew at once: the answer comes when the lock is free.
func TestShutdownWaitsForTheLock(t *testing.T) {
	l := state.Layout{State: proctest.Place(t), Runtime: proctest.Place(t)}
	if err := l.MakeReconciler(); err != nil {
		t.Fatal(err)
	}
	lock, err := state.TakeLock(state.LinuxDisk{}, l.ReconcilerLock(), "reconciler")
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		awaitEnd(context.Background(), l)
	}()
	select {
	case <-waited:
		t.Error("it did not wait")
	case <-time.After(10 * endEvery):
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	<-waited
	next, err := state.TakeLock(state.LinuxDisk{}, l.ReconcilerLock(), "reconciler")
	if err != nil {
		t.Fatalf("after the wait: %v", err)
	}
	if err := next.Release(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(context.Background(), state.Layout{State: "/nonexistent", Runtime: "/nonexistent"}) // does not wait
}

// told is a terminal that says what is drawn on it.
type told chan string

func (c told) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

// On a terminal a shutdown shows what has not ended yet, as it ends, and wipes that away; a pipe hears nothing of it.
func TestShutdownShowsWhatIsLeft(t *testing.T) {
	loop := apitest.NewLoop(apitest.Sample())
	runtime := apitest.Serve(t, loop, &apitest.Host{})
	drawn := make(told, 100)
	e := &env{stderr: drawn, progress: true, now: func() time.Time { return apitest.Now }, getenv: func(string) string { return "" }}
	c, err := e.dial(place{state: runtime, runtime: runtime})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	done := showStopping(t.Context(), e, c)
	for _, step := range []struct {
		state spec.ServerState
		want  string
	}{{spec.StateRunning, "town is Running"}, {spec.StateStopping, "town is Stopping"}} {
		play(t.Context(), loop, spec.Key{Namespace: "default", Name: "town"}, []func(*reconcile.ServerView){func(v *reconcile.ServerView) { v.Status.State = step.state }})
		if got, want := <-drawn, "\rwaiting: "+step.want+"\x1b[K"; got != want {
			t.Errorf("drawn is %q, want %q", got, want)
		}
	}
	done()
	if got := <-drawn; got != "\r\x1b[K" {
		t.Errorf("in the end %q is drawn", got)
	}
	e.progress = false
	showStopping(t.Context(), e, c)()
	if len(drawn) > 0 {
		t.Errorf("a pipe gets %q", <-drawn)
	}
}
