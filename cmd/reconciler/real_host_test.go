//go:build real

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"reconciler.dev/reconciler/observe/proc/proctest"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// host is one reconciler over a folder of its own.
type host struct {
	binary, manifests, state, runtime string
	user                              *syscall.Credential
	env                               []string
	wrap                              []string // a program that run is started through
	workspace                         string   // a directory that is opened as workspace own, "" = none
	reconciler                        *exec.Cmd
}

func newHost(t *testing.T, binary, user string) *host {
	t.Helper()
	dir := proctest.Place(t)
	h := &host{binary: binary, manifests: dir + "/manifests", state: dir + "/state", runtime: dir + "/run"}
	if user != "" {
		if os.Getuid() != 0 {
			t.Fatalf("only root can run reconciler as %s: leave the server out by name with %s", user, withoutVariable)
		}
		h.user = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	for _, d := range []string{h.manifests, h.state, h.runtime} {
		h.mkdir(t, d)
	}
	h.env = []string{"HOME=" + dir, "PATH=/usr/bin:/bin", "RECONCILER_STATE_DIR=" + h.state, "RECONCILER_RUNTIME_DIR=" + h.runtime}
	return h
}

func (h *host) mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h.own(t, dir)
}

func (h *host) own(t *testing.T, path string) {
	t.Helper()
	if h.user == nil {
		return
	}
	if err := os.Chown(path, int(h.user.Uid), int(h.user.Gid)); err != nil {
		t.Fatal(err)
	}
}

func (h *host) putFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	h.mkdir(t, filepath.Dir(dir))
	h.mkdir(t, dir)
	for name, text := range files {
		path := filepath.Join(dir, name)
		h.mkdir(t, filepath.Dir(path))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		h.own(t, path)
	}
}

// putSecret lays a secret down as the keeper wants it.
func (h *host) putSecret(t *testing.T, ref, content string) {
	t.Helper()
	top := filepath.Join(h.state, "secrets")
	path := filepath.Join(top, ref)
	for _, dir := range []string{top, filepath.Dir(path)} {
		h.mkdir(t, dir)
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.own(t, path)
}

// put drops a manifest as git would: written beside, renamed into place.
func (h *host) put(t *testing.T, name, text string) {
	t.Helper()
	tmp := filepath.Join(h.manifests, "."+name)
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(h.manifests, name)); err != nil {
		t.Fatal(err)
	}
}

// run starts reconciler and ends it, with everything it started, when the test is over.
func (h *host) run(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		h.end(t)
		if t.Failed() {
			text, err := os.ReadFile(h.log())
			t.Logf("run said (%v):\n%s", err, text)
		}
	})
	h.start(t)
}

// end ends reconciler with everything it started, unless that is done.
func (h *host) end(t *testing.T) {
	t.Helper()
	if h.reconciler == nil {
		return
	}
	if out, err := h.command("shutdown").CombinedOutput(); err != nil {
		t.Errorf("shutdown: %v\n%s", err, out)
		if err := h.reconciler.Process.Kill(); err != nil {
			t.Logf("run had ended: %v", err)
		}
	}
	if err := h.reconciler.Wait(); err != nil {
		t.Logf("run ended with %v", err)
	}
	h.reconciler = nil
}

func (h *host) log() string { return filepath.Join(filepath.Dir(h.state), "run.log") }

// start starts reconciler and waits until it answers. Nobody ends it.
func (h *host) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(h.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := h.command("run", "--manifests", h.manifests, "--listen", "127.0.0.1:0")
	if h.workspace != "" {
		cmd.Args = append(cmd.Args, "--workspace", "own="+h.workspace)
	}
	if len(h.wrap) > 0 {
		cmd.Path, cmd.Args = h.wrap[0], append(slices.Clone(h.wrap), cmd.Args...)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.reconciler = cmd
	// It answers, and has read the manifest that was put there before.
	eventually(t, func() error {
		if out, err := h.command("get", "servers", "-o", "name").Output(); err != nil || len(out) == 0 {
			return fmt.Errorf("reconciler does not answer: %q, %w", out, err)
		}
		return nil
	})
}

func (h *host) command(args ...string) *exec.Cmd {
	cmd := exec.Command(h.binary, args...)
	cmd.Env = h.env
	if h.user != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: h.user}
	}
	return cmd
}

func (h *host) cli(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.command(args...).CombinedOutput()
	if err != nil {
		describe, _ := h.command("describe", "server", strings.TrimPrefix(args[1], "server/")).CombinedOutput()
		logs, _ := h.command("logs", strings.TrimPrefix(args[1], "server/")).CombinedOutput()
		t.Fatalf("reconciler %s: %v\n%s\n%s\n%s", strings.Join(args, " "), err, out, describe, logs)
	}
	return string(out)
}

// eventually asks until ask is content.
func eventually(t *testing.T, ask func() error) {
	t.Helper()
	if err := until(patience, ask); err != nil {
		t.Fatal(err)
	}
}

// await waits until something is so of a server.
func (h *host) await(t *testing.T, name, what string) {
	t.Helper()
	h.cli(t, "wait", "server/"+name, "--for="+what, "--timeout", long)
}

// ask has the reconciler take an order, and does not wait for what comes of it.
func (h *host) ask(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, said, err := askUntilTaken(ctx, h.command, args); err != nil {
		t.Fatalf("reconciler %s: %v\n%s", strings.Join(args, " "), err, said)
	}
}

// awaitLog waits until the server has printed text.
func (h *host) awaitLog(t *testing.T, name, text string) {
	t.Helper()
	eventually(t, func() error {
		if log := h.cli(t, "logs", name); !strings.Contains(log, text) {
			return fmt.Errorf("%s does not print %q:\n%s", name, text, log)
		}
		return nil
	})
}

// awaitSteps waits until it is known what became of every step: a datagram that nobody answers is waited for beyond the run's end.
func (h *host) awaitSteps(t *testing.T, server, profile string) (steps []state.StepEntry) {
	t.Helper()
	eventually(t, func() error {
		steps = h.record(t, server, profile).Run.Stop.Steps
		if slices.ContainsFunc(steps, func(e state.StepEntry) bool { return e.Result == "" }) {
			return fmt.Errorf("it is not known what became of every step: %+v", steps)
		}
		return nil
	})
	return steps
}

func (h *host) lastExit(t *testing.T, name string) spec.ExitStatus {
	t.Helper()
	var server struct{ Status spec.ServerStatus }
	if err := json.Unmarshal([]byte(h.cli(t, "get", "servers", name, "-o", "json")), &server); err != nil {
		t.Fatal(err)
	}
	if server.Status.LastExit == nil {
		t.Fatalf("server %s has no last exit", name)
	}
	return *server.Status.LastExit
}

// record is the private record of a scope: the only place where a PID stands.
func (h *host) record(t *testing.T, server, profile string) *state.Record {
	t.Helper()
	scope := spec.Scope{Namespace: spec.DefaultNamespace, Server: server, Profile: profile}
	r, err := state.ReadRecord(filepath.Join(h.state, "keeper", "records", scope.ID()+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Run == nil || r.Run.Identity == nil {
		t.Fatalf("the record of %s has no identity", scope)
	}
	return r
}
