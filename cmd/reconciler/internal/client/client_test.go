package client

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/observe/proc/proctest"
)

// mute listens at a socket as a stopped reconciler does: the kernel connects, and nobody answers.
func mute(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(proctest.Place(t), "api.sock") // its name is short wherever TMPDIR is
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return socket
}

// Who asks a reconciler that is stopped is told so and does not hang.
func TestMuteReconciler(t *testing.T) {
	c := newPatient(mute(t), time.Millisecond)
	defer c.Close()
	var out any
	if err := c.Get(t.Context(), api.PathVersion, nil, &out); !errors.Is(err, ErrUnresponsive) {
		t.Errorf("get: %v", err)
	}
	none := func(api.WatchEvent) error { return nil }
	if err := c.Watch(t.Context(), api.PathVersion, nil, none); !errors.Is(err, ErrUnresponsive) {
		t.Errorf("watch: %v", err)
	}
}

// What waits for its effect, or for the first line of a log, waits as long as it is let.
func TestPatientQuestions(t *testing.T) {
	c := newPatient(mute(t), time.Millisecond)
	defer c.Close()
	for name, ask := range map[string]func(context.Context) error{
		"post": func(ctx context.Context) error { return c.Post(ctx, api.PathShutdown, nil, nil) },
		"log": func(ctx context.Context) error {
			body, err := c.Stream(ctx, api.PathVersion, nil)
			if err == nil {
				_, err = io.Copy(io.Discard, body)
			}
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := ask(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}
