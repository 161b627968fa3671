//go:build real

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// middle is a first step of a ladder, whose wait is long enough to be killed in.
const middle = `{console: {line: %s, expect: never said by anybody}, waitSeconds: 10}`

// TestRealLadder kills reconciler and keeper in the middle of the ladders of real servers: each goes on where it was, no step is
// taken twice or passed over.
func TestRealLadder(t *testing.T) {
	binary := buildBinary(t)
	for example, step := range map[string]string{
		"openttd":      fmt.Sprintf(middle, "echo reconciler-was-here"),
		"flying-squid": fmt.Sprintf(middle, "say reconciler-was-here"),
		"wesnothd":     fmt.Sprintf(middle, "status"),
		"teeworlds":    fmt.Sprintf(middle, "echo reconciler-was-here"),
		"openarena":    fmt.Sprintf(middle, "echo reconciler-was-here"),
		"caddy":        `{http: {endpoint: admin, path: /config/}, waitSeconds: 10}`,
	} {
		server := realServers[slices.IndexFunc(realServers, func(s realServer) bool { return s.example == example })]
		t.Run(example, func(t *testing.T) {
			if !server.isThere(t) {
				return
			}
			t.Parallel()
			h, name := startServer(t, binary, server, func(text string) string {
				const steps = "      steps:\n"
				if !strings.Contains(text, steps) {
					t.Fatalf("the example has no ladder:\n%s", text)
				}
				return strings.Replace(text, steps, steps+"      - "+step+"\n", 1)
			})
			h.stopInTheMiddle(t, name, server, func() {
				h.killHolder(t, "reconciler")
				_ = h.reconciler.Wait() // it was killed
				h.start(t)
			})
			h.cli(t, "start", name, "--timeout", long)
			h.await(t, name, "condition=Ready")
			h.stopInTheMiddle(t, name, server, func() { h.killHolder(t, "keeper") })
		})
	}
}

// stopInTheMiddle stops a server, calls kill once the first step is on record, and checks how the ladder came to its end.
func (h *host) stopInTheMiddle(t *testing.T, name string, server realServer, kill func()) {
	t.Helper()
	h.ask(t, "stop", name)
	eventually(t, func() error {
		if stop := h.record(t, name, server.example).Run.Stop; stop == nil || len(stop.Steps) == 0 {
			return errors.New("the stop does not begin")
		}
		return nil
	})
	kill()
	h.await(t, name, "jsonpath={.status.state}=Stopped")
	exit := h.lastExit(t, name)
	want := max(1, server.step) + 1
	if exit.Class != spec.Expected || exit.StopStep == nil || *exit.StopStep != want || exit.Killed {
		t.Errorf("the ladder ended at step %v, %s, killed %v: want step %d, Expected, no kill", exit.StopStep, exit.Class, exit.Killed, want)
	}
	steps := h.awaitSteps(t, name, server.example)
	for i, e := range steps {
		if e.Index != i || i > 0 && e.Result == state.Undeliverable {
			t.Errorf("the journal has %+v", steps)
			break
		}
	}
	t.Logf("the first step came to %s %s", steps[0].Result, steps[0].Reason)
}

// killHolder kills who holds a lock of the state directory.
func (h *host) killHolder(t *testing.T, folder string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(h.state, folder, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	var holder state.Holder
	if err := json.Unmarshal([]byte(strings.TrimRight(string(data), "\x00 \n")), &holder); err != nil {
		t.Fatal(err)
	}
	if err := kill(holder.PID, syscall.SIGKILL, true); err != nil {
		t.Fatal(err)
	}
}
