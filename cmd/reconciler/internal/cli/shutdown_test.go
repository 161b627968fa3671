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
