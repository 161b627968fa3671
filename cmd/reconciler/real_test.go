//go:build real

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"reconciler.dev/reconciler/manifests/examples"
	"reconciler.dev/reconciler/observe/proc/proctest"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// withoutVariable names, separated by commas, the servers that a run of this suite leaves out. One that is neither
// installed nor left out by name fails.
const withoutVariable = "RECONCILER_TEST_WITHOUT"

// TestReal starts each example's server for real: ready by its own sign, crashed, restarted, stopped gracefully.
func TestReal(t *testing.T) {
	binary := buildBinary(t)
	for _, server := range realServers {
		name := server.example
		if server.user != "" {
			name += "-as-" + server.user
		}
		t.Run(name, func(t *testing.T) {
			if server.isThere(t) {
				t.Parallel()
				liveOneServer(t, binary, server)
			}
		})
	}
}

// isThere reports whether a server is not left out by name, and fails where it is not installed.
func (s realServer) isThere(t *testing.T) bool {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv(withoutVariable), ","), s.example) {
		t.Logf("left out by %s", withoutVariable)
		return false
	}
	if s.manifest != "" {
		return true
	}
	if _, err := os.Stat(s.program); err != nil {
		t.Fatalf("%s is not installed: install it, or leave it out by name with %s=%s", s.program, withoutVariable, s.example)
	}
	return true
}

// long is how long a command of the program waits, on a busy host too.
const long = "5m"

// startServer runs a reconciler over an example, as edit makes it, and waits until its server is Ready.
func startServer(t *testing.T, binary string, server realServer, edit func(string) string) (h *host, name string) {
	t.Helper()
	h = newHost(t, binary, server.user)
	text := server.text(t)
	if server.manifest != "" {
		h.workspace = filepath.Dir(binary)
	}
	name = serverName(t, text)
	port := freePort(t, server.network)
	if server.files != nil {
		h.putFiles(t, filepath.Join(h.state, "data", name), server.files(port))
	}
	if server.secret != "" {
		h.putSecret(t, server.secret, "kanarienvogel-4711")
	}
	parameters := fmt.Sprintf("port: %d", port)
	if server.second != "" {
		parameters += fmt.Sprintf(", %s: %d", server.second, freePort(t, "tcp"))
	}
	if server.parameters != "" {
		parameters += ", " + server.parameters
	}
	h.put(t, "server.yaml", edit(withParameters(text, parameters)))
	h.run(t)
	h.await(t, name, "condition=Ready")
	return h, name
}

// text is the server's manifest. An example's ladder waits as long as it takes: how long that is on a busy host is no promise of the
// server's.
func (s realServer) text(t *testing.T) string {
	t.Helper()
	if s.manifest != "" {
		return s.manifest
	}
	text, ok := examples.Get(s.example)
	if !ok {
		t.Fatalf("no example %q", s.example)
	}
	return waitSeconds.ReplaceAllString(string(text), "waitSeconds: 3600")
}

var waitSeconds = regexp.MustCompile(`waitSeconds: \d+`)

func liveOneServer(t *testing.T, binary string, server realServer) {
	h, name := startServer(t, binary, server, func(text string) string { return text })
	if server.counts {
		h.await(t, name, "jsonpath={.status.players.count}=0")
	}

	// A crash: unexpected, with its signal, and back at once.
	if err := syscall.Kill(h.record(t, name, server.example).Run.Identity.PID, syscall.SIGKILL); err != nil {
		t.Fatalf("cannot kill the server: %v", err)
	}
	h.await(t, name, "jsonpath={.status.run.number}=2")
	h.await(t, name, "condition=Ready")
	exit := h.lastExit(t, name)
	if exit.Class != spec.Unexpected || exit.Signal != "SIGKILL" {
		t.Errorf("after kill -9 the exit is %s, signal %q: want Unexpected, SIGKILL", exit.Class, exit.Signal)
	}

	// A stop: graceful, by its own step.
	if server.settled != nil {
		pid := h.record(t, name, server.example).Run.Identity.PID
		eventually(t, func() error { return server.settled(pid) })
	}
	if server.line != "" {
		h.converse(t, name, server)
	}
	for _, line := range server.game {
		h.converse(t, name, realServer{line: line[0], said: line[1]})
	}
	before := h.saves(t, name, server)
	h.cli(t, "stop", name, "--timeout", long)
	h.checkStop(t, name, server, max(1, server.step))
	if server.save != "" && (len(before) > 0 || len(h.saves(t, name, server)) != 1) {
		t.Errorf("saved before the stop %q, after it %q", before, h.saves(t, name, server))
	}
	for _, e := range h.awaitSteps(t, name, server.example) {
		if e.Result != state.Sent && e.Result != state.Done {
			t.Errorf("step %d came to %s %s", e.Index+1, e.Result, e.Reason)
		}
	}
	t.Logf("%s", h.cli(t, "history", name))
}

// saves are the files in which a server's stop has kept its game.
func (h *host) saves(t *testing.T, name string, server realServer) []string {
	t.Helper()
	if server.save == "" {
		return nil
	}
	found, err := filepath.Glob(filepath.Join(h.state, "data", name, server.save))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// converse sends a server its line until it has answered as it does.
func (h *host) converse(t *testing.T, name string, server realServer) {
	t.Helper()
	if !server.replies {
		h.cli(t, "send", name, server.line)
		h.awaitLog(t, name, server.said)
		return
	}
	// A reply may come later than the receipt waits for it.
	eventually(t, func() error {
		if receipt := h.cli(t, "send", name, server.line); !strings.Contains(receipt, server.said) {
			return fmt.Errorf("to %q it answers\n%s", server.line, receipt)
		}
		return nil
	})
}

// checkStop looks how a server has ended at its stop: in its own way, by a step of its ladder, or by the kill after all of them.
func (h *host) checkStop(t *testing.T, name string, server realServer, step int) {
	t.Helper()
	exit := h.lastExit(t, name)
	got := exit.Signal
	if exit.ExitCode != nil {
		got = strconv.Itoa(*exit.ExitCode)
	}
	if exit.Class != spec.Expected || exit.Reason != spec.ReasonStopRequested || got != server.exit {
		t.Errorf("after stop the exit is %s, %s, %q: want Expected, StopRequested, %q", exit.Class, exit.Reason, got, server.exit)
	}
	if exit.StopStep == nil || *exit.StopStep != step || exit.Killed != server.killed {
		t.Errorf("the ladder ended at step %v, killed %v: want step %d, killed %v", exit.StopStep, exit.Killed, step, server.killed)
	}
}

func buildBinary(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(proctest.Place(t), "reconciler")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build: %v\n%s", err, out)
	}
	if err := os.Chmod(binary, 0o755); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return binary
}

// serverName is the name of the one Server in an example.
func serverName(t *testing.T, text string) string {
	t.Helper()
	for _, doc := range strings.Split(text, "\n---\n") {
		if strings.Contains(doc, "kind: Server") {
			_, rest, _ := strings.Cut(doc, "metadata: {name: ")
			name, _, _ := strings.Cut(rest, "}")
			return name
		}
	}
	t.Fatal("the example has no Server")
	return ""
}

// withParameters gives the example's Server parameters of the test's.
func withParameters(text, parameters string) string {
	i := strings.LastIndex(text, "spec: {profile: ")
	head, tail := text[:i], text[i:]
	if strings.Contains(tail, "parameters: {") {
		return head + strings.Replace(tail, "parameters: {", "parameters: {"+parameters+", ", 1)
	}
	return head + strings.Replace(tail, "}", ", parameters: {"+parameters+"}}", 1)
}
