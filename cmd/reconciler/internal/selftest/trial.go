package selftest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/logs"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// patience bounds every wait.
const patience = time.Minute

// trial is a keeper of our own and what runs below it.
type trial struct {
	dir    string
	mark   string // an argument of every workload of this trial, and of no other process
	exe    string
	layout state.Layout
	log    *slog.Logger
	anchor *exec.Cmd    // and keepers below it, one after the other
	said   bytes.Buffer // by them
	client *keeper.Client
	end    func() // of the client
	sent   int
}

// newTrial makes a scratch place. end leaves nothing.
func newTrial(version string, log *slog.Logger) (*trial, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot tell where this program is: %w", err)
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return nil, fmt.Errorf("cannot tell where this program is: %w", err)
	}
	dir, err := os.MkdirTemp("", "reconciler-self-test-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a scratch directory: %w", err)
	}
	t := &trial{dir: dir, mark: filepath.Base(dir), exe: exe, layout: state.Layout{State: dir + "/s", Runtime: dir + "/r"}, log: log}
	if err := t.layout.Validate(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	host := &keeper.Host{SecretsDirectory: t.layout.Secrets(), Workspaces: []spec.Workspace{
		{Name: "self", Path: filepath.Dir(exe), Executables: []string{filepath.Base(exe)}},
		{Name: "data", Path: t.layout.Data(), Writable: true, Executables: []string{}},
	}}
	t.client = keeper.NewClient(keeper.ClientConfig{Layout: t.layout, Version: version, Host: host})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = t.client.Run(ctx) // it returns nothing but nil
	}()
	t.end = func() { cancel(); <-done }
	return t, nil
}

// startKeeper has a keeper started by the anchor, which is started itself the first time, and waits until it is heard.
func (t *trial) startKeeper(ctx context.Context) error {
	if err := t.wakeAnchor(); err != nil {
		return fmt.Errorf("cannot start a keeper: %w", err)
	}
	return t.until(ctx, "the keeper is heard", func() bool { _, known := t.client.Facts(); return known })
}

func (t *trial) wakeAnchor() error {
	if t.anchor != nil {
		return t.anchor.Process.Signal(syscall.SIGCONT)
	}
	anchor := exec.Command(t.exe, "keeper", "--state-dir", t.layout.State, "--runtime-dir", t.layout.Runtime)
	anchor.Stderr = &t.said
	if err := anchor.Start(); err != nil {
		return err
	}
	t.anchor = anchor
	return nil
}

// killKeeper kills the keeper, and holds its anchor from starting another.
func (t *trial) killKeeper(ctx context.Context) error {
	if err := t.anchor.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("cannot stop the anchor: %w", err)
	}
	fd, err := unix.PidfdOpen(t.keeperPID(), 0)
	if err != nil {
		return fmt.Errorf("cannot look at the keeper: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0); err != nil {
		return fmt.Errorf("cannot kill the keeper: %w", err)
	}
	if !ended(fd) {
		return errors.New("a killed keeper has not ended")
	}
	return t.until(ctx, "the keeper's death is noticed", func() bool { return t.client.Problem() != nil })
}

// keeperPID is who has the lock of the state directory.
func (t *trial) keeperPID() int {
	return state.ReadHolder(state.LinuxDisk{}, filepath.Join(t.layout.Keeper(), "lock")).PID
}

// until waits until something is so. What changes without a word from the keeper is looked at again and again.
func (t *trial) until(ctx context.Context, what string, is func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !is() {
		select {
		case <-t.client.Changed():
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("it was not seen within %s that %s", patience, what)
		}
	}
	return nil
}

func scopeOf(name string) spec.Scope {
	return spec.Scope{Namespace: spec.DefaultNamespace, Server: name, Profile: "self-test"}
}

func (t *trial) order(name string) state.StartOrder {
	return state.StartOrder{UID: "self-test-" + name, Generation: 1, Cause: "Wanted", Launch: spec.Launch{
		Scope: scopeOf(name), Workspace: "self", Executable: filepath.Base(t.exe), Args: commandLine(t.mark),
		Directory: spec.LaunchFolder{Workspace: "data", Path: name},
		Console:   &spec.LaunchConsole{Input: spec.ConsoleStdin},
		Stop: []spec.StopStep{
			{Signal: &spec.SignalAction{Name: "SIGTERM", To: spec.ToMain}, WaitFor: spec.WaitForExit, WaitSeconds: 1},
		},
		Readiness:  &spec.LaunchProbe{Log: []string{"ready"}, PeriodSeconds: 10, TimeoutSeconds: 1, FailureThreshold: 3, SuccessThreshold: 1},
		Restart:    spec.RestartPolicy{Policy: spec.RestartNever, InitialSeconds: 1, MaxSeconds: 300, ResetSeconds: 600},
		Disruption: spec.LaunchDisruption{MaxUnavailable: 1},
	}}
}

// start starts a workload and waits until it takes lines.
func (t *trial) start(ctx context.Context, name string) error {
	return t.startAs(ctx, name, t.order(name))
}

func (t *trial) startAs(ctx context.Context, name string, order state.StartOrder) error {
	if err := t.client.Start(ctx, order); err != nil {
		return fmt.Errorf("cannot start a workload: %w", err)
	}
	return t.until(ctx, "the workload is up", func() bool {
		f := t.facts(name)
		return f != nil && f.Run != nil && !f.Run.LogSeenAt.IsZero()
	})
}

func (t *trial) facts(name string) *observe.Facts {
	all, _ := t.client.Facts()
	i := slices.IndexFunc(all, func(f *observe.Facts) bool { return f.Scope == scopeOf(name) })
	if i < 0 {
		return nil
	}
	return all[i]
}

// tell hands a line to a workload.
func (t *trial) tell(ctx context.Context, name, line string) error {
	t.sent++
	f := t.facts(name)
	r, err := t.client.Send(ctx, state.SendOrder{Scope: f.Scope, RunID: f.Run.ID, ID: "self-test-" + strconv.Itoa(t.sent), Line: line})
	if err == nil && r.Delivery.Result != state.Sent {
		err = errors.New(string(r.Delivery.Result))
	}
	if err != nil {
		return fmt.Errorf("a line was not handed over: %w", err)
	}
	return nil
}

// over waits for the end of a workload.
func (t *trial) over(ctx context.Context, name string) (state.Exit, error) {
	err := t.until(ctx, "the run is over", func() bool { f := t.facts(name); return f != nil && f.Run != nil && f.Run.Over() })
	if err != nil {
		return state.Exit{}, err
	}
	exits := t.facts(name).Exits
	return exits[len(exits)-1], nil
}

// kill ends a run by all steps of its ladder.
func (t *trial) kill(ctx context.Context, name string) error {
	f := t.facts(name)
	if f == nil || f.Run.Over() {
		return nil
	}
	err := t.client.Stop(ctx, state.StopOrder{Scope: f.Scope, RunID: f.Run.ID, Reason: spec.ReasonStopRequested, Why: "SelfTest"})
	for i := 0; i <= len(f.Run.Ladder) && err == nil && !t.facts(name).Run.Over(); i++ {
		err = t.client.Step(ctx, state.StepOrder{Scope: f.Scope, RunID: f.Run.ID, Index: i})
	}
	if _, refused := keeper.IsRefused(err); refused && t.facts(name).Run.Over() {
		return nil // it ended meanwhile
	}
	return err
}

// lines are what a workload has written.
func (t *trial) lines(ctx context.Context, name string) ([]string, error) {
	var lines []string
	err := t.client.Logs(ctx, keeper.LogQuery{Scope: scopeOf(name), Tail: -1}, func(e logs.Entry) error {
		lines = append(lines, string(e.Text))
		return nil
	})
	if errors.Is(err, keeper.ErrNoLog) {
		err = nil
	}
	return lines, err
}

// heard waits until a workload has written a line with a prefix and returns what follows it.
func (t *trial) heard(ctx context.Context, name, prefix string) (rest string, err error) {
	err = t.until(ctx, "the workload says "+prefix, func() bool {
		lines, err := t.lines(ctx, name)
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, prefix) })
		if err != nil || i < 0 {
			return false
		}
		rest = strings.TrimPrefix(lines[i], prefix)
		return true
	})
	return rest, err
}

// record is a scope's record as it lies on the disk.
func (t *trial) record(name string) (*state.Record, error) {
	return state.ReadRecord(filepath.Join(t.layout.Keeper(), "records", scopeOf(name).ID()+".json"))
}

// workloads are the processes of this trial that are workloads by now.
func (t *trial) workloads() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // it has ended
		}
		comm, err := os.ReadFile(filepath.Join("/proc", e.Name(), "comm"))
		if err == nil && bytes.Contains(line, []byte("\x00--"+Flag+"\x00"+t.mark)) && !bytes.HasPrefix(comm, []byte("reconciler-hold")) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// close ends everything that is left, and takes the scratch directory away.
func (t *trial) close(ctx context.Context) error {
	var errs []error
	if t.client.Problem() == nil {
		facts, _ := t.client.Facts()
		for _, f := range facts {
			errs = append(errs, t.kill(ctx, f.Scope.Server))
		}
		errs = append(errs, t.until(ctx, "every run is over", func() bool {
			facts, _ := t.client.Facts()
			return !slices.ContainsFunc(facts, func(f *observe.Facts) bool { return !f.Run.Over() })
		}))
		errs = append(errs, t.client.Shutdown(ctx))
	}
	if t.anchor != nil {
		if t.client.Problem() != nil || errors.Join(errs...) != nil {
			_ = t.anchor.Process.Signal(syscall.SIGTERM) // it may have ended
		}
		_ = t.wakeAnchor()
		_ = t.anchor.Wait()
	}
	t.end()
	pids, err := t.workloads()
	for _, pid := range pids { // of our own program, with this trial's mark
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			_ = unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0)
			_ = unix.Close(fd)
		}
	}
	return errors.Join(errors.Join(errs...), err, os.RemoveAll(t.dir))
}
