//go:build chaos || crash

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// trialPrograms are what a trial runs, built once for all of them.
type trialPrograms struct{ dir, reconciler string }

func buildTrialPrograms(t *testing.T) trialPrograms {
	t.Helper()
	dir := t.TempDir()
	p := trialPrograms{dir, filepath.Join(dir, "reconciler")}
	for program, from := range map[string]string{p.reconciler: ".", filepath.Join(dir, "faultd"): "./testdata/trial/faultd"} {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, from)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cannot build %s: %v\n%s", from, err, out)
		}
	}
	return p
}

// trial is one installation that is treated badly, and what was done to it: the ground truth that its records are held against.
type trial struct {
	t        testing.TB
	programs trialPrograms
	dir      string
	marker   string // in the environment of every workload: how they are found from outside
	layout   state.Layout
	began    time.Time
	actors   map[string]*actor // by server name

	mu     sync.Mutex
	story  *os.File
	faults []string
	closed time.Time              // when everything was to end for the first time
	told   map[string]bool        // faults that were told
	wishes map[string][]time.Time // when what is wanted of a server was changed
	kills  map[string]time.Time   // by run id: its main process was killed behind everybody's back
	downs  []time.Time            // when a keeper was killed
	breaks []time.Time            // when a keeper or reconciler was killed or stopped: orders under way may be lost
	runs   map[string]runSeen     // by run id
	exits  map[string]state.Exit  // by run id
	loss   map[string]int64       // by server: lines that the keeper says it had to drop
	main   *exec.Cmd              // the reconciler, nil = none
	ended  chan struct{}          // closed when it has
	// launch starts the next reconciler, nil = as any process
	launch func(*exec.Cmd) (wait func() error, err error)
	wanted map[int]bool // reconcilers whose end is the trial's doing
	keeper map[int]bool // keepers whose end is the trial's doing
}

// runSeen is a run as its record told of it.
type runSeen struct {
	server      string
	number      int64
	pid         int
	launchingAt time.Time
}

// number is the value of a variable of the environment, or what holds without it.
func number(t *testing.T, variable string, otherwise uint64) uint64 {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s is no number", variable, text)
	}
	return n
}

func newTrial(t testing.TB, p trialPrograms) *trial {
	t.Helper()
	dir, err := os.MkdirTemp("", "reconciler-trial-")
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{
		t: t, programs: p, dir: dir, marker: rand.Text(), began: time.Now(), actors: map[string]*actor{},
		layout: state.Layout{State: filepath.Join(dir, "state"), Runtime: filepath.Join(dir, "run")},
		told:   map[string]bool{}, wishes: map[string][]time.Time{}, kills: map[string]time.Time{}, runs: map[string]runSeen{},
		exits: map[string]state.Exit{}, loss: map[string]int64{}, wanted: map[int]bool{}, keeper: map[int]bool{},
	}
	for _, d := range []string{tr.manifests(), filepath.Join(dir, "trail")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if tr.story, err = os.Create(filepath.Join(dir, "story")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tr.hostConfig(), []byte(tr.host()), 0o644); err != nil {
		t.Fatal(err)
	}
	return tr
}

func (tr *trial) manifests() string  { return filepath.Join(tr.dir, "manifests") }
func (tr *trial) hostConfig() string { return filepath.Join(tr.dir, "host.yaml") }

// host opens the trial's programs, and gives logs so little room that they are rotated and old ones removed.
func (tr *trial) host() string {
	return fmt.Sprintf(`apiVersion: reconciler.dev/v1alpha1
kind: Host
metadata: {name: trial}
spec:
  workspaces:
  - {name: usr, path: /usr}
  - {name: data, path: %q, writable: true, executables: []}
  - {name: trial, path: %q}
  sources: [{name: trial, path: %q}]
  logs: {perServer: 256Ki, total: 256Mi}
`, tr.layout.Data(), tr.programs.dir, tr.manifests())
}

// tell writes a line of the story.
func (tr *trial) tell(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.tellLocked(format, args...)
}

func (tr *trial) tellLocked(format string, args ...any) {
	fmt.Fprintf(tr.story, "%9.3f  %s\n", time.Since(tr.began).Seconds(), fmt.Sprintf(format, args...))
}

// fault notes that a promise was broken. Each is told once.
func (tr *trial) fault(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if tr.told[text] {
		return
	}
	tr.told[text] = true
	tr.faults = append(tr.faults, text)
	tr.tellLocked("FAULT %s", text)
}

func (tr *trial) wish(server string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.wishes[server] = append(tr.wishes[server], time.Now())
}

// broken notes that a process of ours is about to be killed or stopped.
func (tr *trial) broken(keeper bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	now := time.Now()
	tr.breaks = append(tr.breaks, now)
	if keeper {
		tr.downs = append(tr.downs, now)
	}
}

// env is what the trial's own processes get: nothing of the machine's.
func (tr *trial) env() []string {
	return []string{"HOME=" + tr.dir, "PATH=/usr/bin:/bin", "GOTRACEBACK=all",
		"RECONCILER_STATE_DIR=" + tr.layout.State, "RECONCILER_RUNTIME_DIR=" + tr.layout.Runtime}
}

func (tr *trial) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, tr.programs.reconciler, args...)
	cmd.Env, cmd.Dir = tr.env(), tr.dir
	return cmd
}

func (tr *trial) runArgs() []string {
	return []string{"run", "--host-config", tr.hostConfig(), "--listen", "127.0.0.1:0"}
}

// cli runs a command, whose failure is the caller's to judge: there may be nobody to answer it.
func (tr *trial) cli(timeout time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := tr.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("reconciler %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// startReconciler starts one, unless one runs. Its words are appended to a file.
func (tr *trial) startReconciler() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.main != nil {
		select {
		case <-tr.ended:
		default:
			return
		}
	}
	log, err := os.OpenFile(filepath.Join(tr.dir, "reconciler.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		tr.t.Error(err)
		return
	}
	defer log.Close()
	cmd := tr.command(context.Background(), tr.runArgs()...)
	cmd.Stdout, cmd.Stderr = log, log
	wait := cmd.Wait
	if tr.launch == nil {
		err = cmd.Start()
	} else {
		wait, err = tr.launch(cmd)
		tr.launch = nil
	}
	if err != nil {
		tr.t.Error(err)
		return
	}
	tr.tellLocked("reconciler %d starts", cmd.Process.Pid)
	ended := make(chan struct{})
	tr.main, tr.ended = cmd, ended
	go func() {
		err := wait()
		tr.mu.Lock()
		expected := tr.wanted[cmd.Process.Pid]
		tr.tellLocked("reconciler %d has ended: %v", cmd.Process.Pid, err)
		tr.mu.Unlock()
		if !expected {
			tr.fault("the reconciler ended by itself: %v; see reconciler.log", err)
		}
		close(ended)
	}()
}

// killReconciler signals it; one that is meant to end by that is awaited.
func (tr *trial) killReconciler(sig syscall.Signal) {
	tr.mu.Lock()
	cmd, ended := tr.main, tr.ended
	if cmd == nil {
		tr.mu.Unlock()
		return
	}
	ends := sig != syscall.SIGSTOP && sig != syscall.SIGCONT
	if ends {
		tr.wanted[cmd.Process.Pid] = true
	}
	tr.tellLocked("%s to reconciler %d", sig, cmd.Process.Pid)
	tr.mu.Unlock()
	if sig != syscall.SIGCONT {
		tr.broken(false)
	}
	if err := cmd.Process.Signal(sig); err != nil {
		return // it has ended
	}
	if !ends {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGCONT) // one that is stopped would not hear of it
	select {
	case <-ended:
	case <-time.After(patience):
		tr.fault("the reconciler does not end on %s", sig)
		_ = cmd.Process.Kill()
	}
}

// keeperPID is the keeper's process number, 0 = none lives.
func (tr *trial) keeperPID() int {
	data, err := os.ReadFile(filepath.Join(tr.layout.Keeper(), "lock"))
	var h state.Holder
	if err != nil || json.Unmarshal(bytes.TrimRight(data, "\x00 \n"), &h) != nil || !alive(h.PID) {
		return 0
	}
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", h.PID)); err != nil || exe != tr.programs.reconciler {
		return 0 // the number is another's by now
	}
	return h.PID
}

// killKeeper signals the keeper, if there is one, and waits for the end of one that is killed.
func (tr *trial) killKeeper(sig syscall.Signal) (pid int) {
	pid = tr.keeperPID()
	if pid == 0 {
		return 0
	}
	ends := sig != syscall.SIGSTOP && sig != syscall.SIGCONT
	if sig != syscall.SIGCONT {
		tr.broken(ends)
	}
	tr.mu.Lock()
	tr.keeper[pid] = tr.keeper[pid] || ends
	tr.mu.Unlock()
	tr.tell("%s to keeper %d", sig, pid)
	if err := killPID(pid, sig, ends); err != nil && !errors.Is(err, syscall.ESRCH) {
		tr.fault("cannot signal the keeper: %v", err)
	}
	return pid
}

// killAnchor kills the keeper's anchor, if it has one: nobody starts the keeper again then but a reconciler.
func (tr *trial) killAnchor() (pid int) {
	pid = anchorOf(tr.keeperPID())
	if pid == 0 {
		return 0
	}
	tr.tell("SIGKILL to anchor %d", pid)
	if err := killPID(pid, syscall.SIGKILL, true); err != nil && !errors.Is(err, syscall.ESRCH) {
		tr.fault("cannot kill the anchor: %v", err)
	}
	return pid
}

// killPID signals a process, and with wait waits for its end.
func killPID(pid int, sig syscall.Signal, wait bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil || !wait {
		return err
	}
	return until(patience, func() error {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
		if err == nil && n == 0 {
			return errors.New("it does not end")
		}
		return err // one that was interrupted is asked again
	})
}

// servers is what the reconciler says of every server.
func (tr *trial) servers() (map[string]spec.ServerStatus, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := client.New(tr.layout.APISocket())
	defer c.Close()
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   spec.ServerStatus
		}
	}
	if err := c.Get(ctx, api.ListPath(api.Servers, ""), nil, &list); err != nil {
		return nil, err
	}
	all := map[string]spec.ServerStatus{}
	for _, item := range list.Items {
		all[item.Metadata.Name] = item.Status
	}
	return all, nil
}

// verdict ends the trial: what was broken is printed with the end of the story, and the folder stays.
func (tr *trial) verdict() {
	tr.t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.faults) == 0 && !tr.t.Failed() {
		tr.story.Close()
		if err := os.RemoveAll(tr.dir); err != nil {
			tr.t.Error(err)
		}
		return
	}
	const shown = 60
	tr.t.Errorf("%d promises were broken; everything is in %s", len(tr.faults), tr.dir)
	for i, f := range tr.faults {
		if i == shown {
			tr.t.Errorf("and %d more", len(tr.faults)-shown)
			break
		}
		tr.t.Error(f)
	}
	tr.t.Logf("what led to it:\n%s", strings.Join(tr.excerpt(200), ""))
}

// excerpt is the end of what the story says of the servers that a fault names, and of our own processes.
func (tr *trial) excerpt(limit int) []string {
	about := []string{"keeper", "reconciler", "FAULT", "calm", "settled", "shutdown", "struck"}
	for name := range tr.actors {
		if slices.ContainsFunc(tr.faults, func(f string) bool { return strings.Contains(f, name) }) {
			about = append(about, name+":", " "+name)
		}
	}
	text, _ := os.ReadFile(filepath.Join(tr.dir, "story"))
	var lines []string
	for line := range strings.Lines(string(text)) {
		if slices.ContainsFunc(about, func(word string) bool { return strings.Contains(line, word) }) {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-limit):]
}
