package keeper_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A keeper that is killed at its start is started again; it is no reason for whoever wants one to end.
func TestKilledAtStartIsTriedAgain(t *testing.T) {
	r := newRigWithoutKeeper(t)
	trail := filepath.Join(t.TempDir(), "trail")
	tries := func() int { text, _ := os.ReadFile(trail); return bytes.Count(text, []byte("\n")) }
	s := r.spawner()
	s.Args = []string{r.binary, "faultd", "crash", "-signal", "KILL", "-after", "0s", "-pids", trail}
	s.Patience = time.Minute
	done := make(chan error, 1)
	go func() { done <- s.Spawn(t.Context()) }()
	eventually(t, "it is tried again", func() bool { return tries() > 1 })
	r.startKeeper()
	if err := <-done; err != nil {
		t.Errorf("after %d tries: %v", tries(), err)
	}

	s.Layout = newRigWithoutKeeper(t).layout
	s.Patience = 100 * time.Millisecond
	if err := s.Spawn(t.Context()); err == nil {
		t.Error("a keeper that never came to be is said to listen")
	}
}
