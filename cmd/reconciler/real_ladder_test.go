//go:build real

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"reconciler.dev/reconciler/state"
)

// middle is a first step of a ladder, whose wait is long enough to be killed in.
const middle = `{console: {line: %s, expect: never said by anybody}, waitSeconds: 10}`

// interrupted is a ladder in whose middle reconciler and keeper are killed.
type interrupted struct {
	realServer
	// first is put before the ladder's own steps. Without it the server is stopped, as by SIGSTOP, while somebody is killed: its first
	// step is sent, and what it does on that comes after.
	first string
	// middle is the step whose wait is the middle, 0 = the first.
	middle int
	once   []string // what its log says exactly once in each of its runs
}

// TestRealLadder kills reconciler and keeper in the middle of the ladders of real servers: each goes on where it was, no step is
// taken twice or passed over.
func TestRealLadder(t *testing.T) {
	binary := buildBinary(t)
	buildFaultd(t, binary)
	ladders := []interrupted{
		{realServer: realOne("openttd"), first: fmt.Sprintf(middle, "echo reconciler-was-here")},
		{realServer: realOne("flying-squid"), first: fmt.Sprintf(middle, "say reconciler-was-here")},
		{realServer: realOne("wesnothd"), first: fmt.Sprintf(middle, "status")},
		{realServer: realOne("teeworlds"), first: fmt.Sprintf(middle, "echo reconciler-was-here")},
		{realServer: realOne("openarena"), first: fmt.Sprintf(middle, "echo reconciler-was-here")},
		{realServer: realOne("caddy"), first: `{http: {endpoint: admin, path: /config/}, waitSeconds: 10}`},
		{realServer: realOne("freeciv")},
		{realServer: realOne("nginx")},
		{realServer: realOne("redis")},
	}
	for _, l := range append(ladders, ownLadders...) {
		t.Run(l.example, func(t *testing.T) {
			if !l.isThere(t) {
				return
			}
			t.Parallel()
			h, name := startServer(t, binary, l.realServer, func(text string) string {
				if l.first == "" {
					return text
				}
				const steps = "      steps:\n"
				if !strings.Contains(text, steps) {
					t.Fatalf("the example has no ladder:\n%s", text)
				}
				return strings.Replace(text, steps, steps+"      - "+l.first+"\n", 1)
			})
			h.stopInTheMiddle(t, name, l, func() {
				h.killHolder(t, "reconciler")
				_ = h.reconciler.Wait() // it was killed
				h.start(t)
			})
			h.cli(t, "start", name, "--timeout", long)
			h.await(t, name, "condition=Ready")
			h.stopInTheMiddle(t, name, l, func() { h.killHolder(t, "keeper") })
		})
	}
}

// realOne is the first of the real servers of an example.
func realOne(example string) realServer {
	return realServers[slices.IndexFunc(realServers, func(s realServer) bool { return s.example == example })]
}

// stopInTheMiddle stops a server, calls kill once the ladder is in its middle, and checks how it came to its end.
func (h *host) stopInTheMiddle(t *testing.T, name string, l interrupted, kill func()) {
	t.Helper()
	goOn := func() {}
	frozen := l.first == "" && l.middle == 0 && !l.killed
	if frozen {
		goOn = h.freeze(t, name, l.example)
	}
	h.ask(t, "stop", name)
	eventually(t, func() error {
		stop := h.record(t, name, l.example).Run.Stop
		if stop == nil || len(stop.Steps) <= l.middle || frozen && stop.Steps[0].Result == "" {
			return fmt.Errorf("the stop does not come to its middle: %+v", stop)
		}
		return nil
	})
	kill()
	goOn()
	h.await(t, name, "jsonpath={.status.state}=Stopped")
	want := max(1, l.step)
	if l.first != "" {
		want++
	}
	h.checkStop(t, name, l.realServer, want)
	steps := h.awaitSteps(t, name, l.example)
	for i, e := range steps {
		if e.Index != i || i > 0 && e.Result == state.Undeliverable {
			t.Errorf("the journal has %+v", steps)
			break
		}
	}
	if len(steps) != want {
		t.Errorf("the journal has %d steps, want %d: %+v", len(steps), want, steps)
	}
	log := h.cli(t, "logs", name)
	for _, text := range l.once {
		if n := strings.Count(log, text); n != 1 {
			t.Errorf("%q was said %d times:\n%s", text, n, log)
		}
	}
	t.Logf("the first step came to %s %s", steps[0].Result, steps[0].Reason)
}

// freeze stops a server's main process, and returns what lets it go on.
func (h *host) freeze(t *testing.T, name, profile string) (goOn func()) {
	t.Helper()
	pid := h.record(t, name, profile).Run.Identity.PID
	if err := kill(pid, syscall.SIGSTOP, false); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := kill(pid, syscall.SIGCONT, false); err != nil {
			t.Fatal(err)
		}
	}
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
