package selftest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/spec"
)

// Result is what became of the proof of one guarantee.
type Result struct {
	Guarantee string `json:"guarantee"`
	Tier      string `json:"tier"`   // as the keeper states it on this host: Kernel, Emulated or Weak
	Proven    bool   `json:"proven"` // it was seen to hold
	Seen      string `json:"seen"`   // what was seen
	Note      string `json:"note,omitempty"`
}

// Broken reports whether a guarantee that is stated was seen not to hold. What is stated to be weak may fail.
func (r Result) Broken() bool { return !r.Proven && r.Tier != "Weak" }

// proofs are in the order of the keeper's guarantees. Each says what it has seen; an error is what it has seen instead.
var proofs = map[string]func(context.Context, *trial) (string, error){
	"NothingRunsUnrecorded": nothingUnrecorded,
	"OutputSurvives":        outputSurvives,
	"Identity":              identity,
	"WholeTree":             wholeTree,
	"ExitAfterKeeperDeath":  exitAfterDeath,
	"Orphans":               orphans,
	"Endpoints":             endpoints,
}

// Run proves the guarantees. An error says that they could not be tried.
func Run(ctx context.Context, version string, log *slog.Logger) (results []Result, err error) {
	t, err := newTrial(version, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close(context.WithoutCancel(ctx))) }()
	if err := t.startKeeper(ctx); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, t.said.String())
	}
	st, err := t.client.Status(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range st.Guarantees {
		results = append(results, prove(ctx, t, g))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return results, nil
}

func prove(ctx context.Context, t *trial, g spec.Guarantee) Result {
	r := Result{Guarantee: g.Name, Tier: g.Tier, Note: g.Note}
	proof := proofs[g.Name]
	if proof == nil {
		r.Seen = "there is no proof of it"
		return r
	}
	seen, err := proof(ctx, t)
	r.Proven, r.Seen = err == nil, seen
	if err != nil {
		r.Seen = err.Error()
	}
	if t.client.Problem() != nil { // the proof has ended in the middle: the next one needs a keeper
		if err := t.startKeeper(ctx); err != nil {
			t.log.Warn("cannot start a keeper for the next proof", "error", err)
		}
	}
	return r
}

// startsKilled is how many keepers are killed in the middle of a start.
const startsKilled = 10

// nothingUnrecorded kills keepers in the middle of starts: whatever is a workload by then is on record.
func nothingUnrecorded(ctx context.Context, t *trial) (string, error) {
	ran := 0
	for i := range startsKilled {
		name := "start" + strconv.Itoa(i)
		asked := make(chan error, 1)
		go func() { asked <- t.client.Start(ctx, t.order(name)) }()
		time.Sleep(time.Duration(i) * 700 * time.Microsecond) // any moment of it will do
		if err := t.killKeeper(ctx); err != nil {
			return "", err
		}
		<-asked // it has failed, or not: the keeper died
		pids, err := t.workloads()
		if err != nil {
			return "", err
		}
		known := map[int]bool{}
		for j := range i + 1 {
			r, err := t.record("start" + strconv.Itoa(j))
			if err == nil && r.Run != nil && r.Run.Identity != nil {
				known[r.Run.Identity.PID] = true
			}
		}
		for _, pid := range pids {
			if !known[pid] {
				return "", errors.New("a workload ran that no record names")
			}
		}
		ran = len(pids)
		if err := t.startKeeper(ctx); err != nil {
			return "", err
		}
	}
	for i := range startsKilled {
		if err := t.kill(ctx, "start"+strconv.Itoa(i)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d keepers were killed in the middle of a start; %d workloads ran, each on record", startsKilled, ran), nil
}

// outputSurvives kills the keeper while a workload writes numbered lines.
func outputSurvives(ctx context.Context, t *trial) (string, error) {
	const name = "output"
	if err := t.start(ctx, name); err != nil {
		return "", err
	}
	if err := t.tell(ctx, name, "count"); err != nil {
		return "", err
	}
	if _, err := t.heard(ctx, name, "line 20"); err != nil {
		return "", err
	}
	if err := errors.Join(t.killKeeper(ctx), t.startKeeper(ctx)); err != nil {
		return "", err
	}
	if err := t.tell(ctx, name, "counted"); err != nil {
		return "", err
	}
	counted, err := t.heard(ctx, name, "counted ")
	if err != nil {
		return "", err
	}
	lines, err := t.lines(ctx, name)
	if err != nil {
		return "", err
	}
	next := 1
	for _, l := range lines {
		number, ok := strings.CutPrefix(l, "line ")
		if !ok {
			continue
		}
		if number != strconv.Itoa(next) {
			return "", fmt.Errorf("line %d is missing, torn or doubled", next)
		}
		next++
	}
	if counted != strconv.Itoa(next-1) {
		return "", fmt.Errorf("%s lines were written, %d are in the log", counted, next-1)
	}
	return fmt.Sprintf("%s lines were written through the death of a keeper, each is in the log once", counted), t.kill(ctx, name)
}

// identity has a second keeper find a workload again.
func identity(ctx context.Context, t *trial) (string, error) {
	const name = "identity"
	if err := t.start(ctx, name); err != nil {
		return "", err
	}
	before, err := t.record(name)
	if err != nil {
		return "", err
	}
	if err := errors.Join(t.killKeeper(ctx), t.startKeeper(ctx)); err != nil {
		return "", err
	}
	f := t.facts(name)
	if f == nil || f.Run == nil || f.Run.Number != before.Run.Number || f.Blocked != "" || f.Run.Alive != "Alive" {
		return "", errors.New("the next keeper did not find the workload again")
	}
	if err := t.client.Start(ctx, t.order(name)); err == nil && t.facts(name).Run.Number != before.Run.Number {
		return "", errors.New("the next keeper started a second one")
	}
	return "the next keeper found the same process again, and started no other", t.kill(ctx, name)
}

// wholeTree ends a run whose descendant hides.
func wholeTree(ctx context.Context, t *trial) (string, error) {
	const name = "tree"
	stray, err := t.startWithStray(ctx, name)
	if err != nil {
		return "", err
	}
	defer unix.Close(stray.fd)
	if err := t.kill(ctx, name); err != nil {
		return "", err
	}
	if _, err := t.over(ctx, name); err != nil {
		return "", err
	}
	if !ended(stray.fd) {
		_ = unix.PidfdSendSignal(stray.fd, syscall.SIGKILL, nil, 0)
		return "", errors.New("a descendant in a session of its own, without a file of the run's, outlived the run")
	}
	return "a descendant in a session of its own, without a file of the run's, was ended with it", nil
}

// stray is a descendant that hides.
type stray struct{ pid, fd int }

func (t *trial) startWithStray(ctx context.Context, name string) (s stray, err error) {
	if err := t.start(ctx, name); err != nil {
		return s, err
	}
	if err := t.tell(ctx, name, "leave"); err != nil {
		return s, err
	}
	said, err := t.heard(ctx, name, "left ")
	if err != nil {
		return s, err
	}
	if s.pid, err = strconv.Atoi(said); err != nil {
		return s, fmt.Errorf("the workload left no descendant: %q", said)
	}
	if s.fd, err = unix.PidfdOpen(s.pid, 0); err != nil {
		return s, fmt.Errorf("cannot look at a descendant: %w", err)
	}
	return s, nil
}

// ended reports whether a process has ended, a zombie too.
func ended(pidfd int) bool {
	for until := time.Now().Add(patience); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(max(time.Until(until), 0).Milliseconds()))
		if errors.Is(err, unix.EINTR) { // a signal to us: a keeper of ours has ended
			continue
		}
		return err == nil && n == 1
	}
}

// exitAfterDeath has one workload end under the next keeper, and one while there is none.
func exitAfterDeath(ctx context.Context, t *trial) (string, error) {
	const late, away = "late", "away"
	for _, name := range []string{late, away} {
		if err := t.start(ctx, name); err != nil {
			return "", err
		}
	}
	r, err := t.record(away)
	if err != nil {
		return "", err
	}
	fd, err := unix.PidfdOpen(r.Run.Identity.PID, 0)
	if err != nil {
		return "", fmt.Errorf("cannot look at a workload: %w", err)
	}
	defer unix.Close(fd)
	if err := t.killKeeper(ctx); err != nil {
		return "", err
	}
	if err := unix.PidfdSendSignal(fd, syscall.SIGTERM, nil, 0); err != nil || !ended(fd) {
		return "", errors.New("a workload did not end of SIGTERM")
	}
	if err := t.startKeeper(ctx); err != nil {
		return "", err
	}
	gone, err := t.over(ctx, away)
	if err != nil {
		return "", err
	}
	if err := t.tell(ctx, late, "exit 7"); err != nil {
		return "", err
	}
	told, err := t.over(ctx, late)
	if err != nil {
		return "", err
	}
	if told.ExitCode == nil || *told.ExitCode != 7 {
		return "", errors.New("exit code 7 under the next keeper: " + tellExit(told.ExitStatus))
	}
	if gone.ExitCode == nil || *gone.ExitCode != terminated {
		return "", fmt.Errorf("exit code %d while no keeper lived: %s", terminated, tellExit(gone.ExitStatus))
	}
	return fmt.Sprintf("exit code 7 under the next keeper is told as 7; exit code %d while no keeper lived: %s", terminated, tellExit(gone.ExitStatus)), nil
}

func tellExit(e spec.ExitStatus) string {
	if e.ExitCode != nil {
		return "told as " + strconv.Itoa(int(*e.ExitCode))
	}
	return "told as " + string(e.Reason)
}

// orphans has a run's main process end before its descendant.
func orphans(ctx context.Context, t *trial) (string, error) {
	const name = "orphan"
	s, err := t.startWithStray(ctx, name)
	if err != nil {
		return "", err
	}
	defer unix.Close(s.fd)
	if err := t.tell(ctx, name, "exit 0"); err != nil {
		return "", err
	}
	parent := 0
	err = t.until(ctx, "the orphan has a new parent", func() bool {
		parent = parentOf(s.pid)
		return parent == t.keeperPID() || parent == 1
	})
	if err == nil && parent == 1 && t.keeperPID() != 1 {
		err = errors.New("the orphan went to process 1, not to the keeper")
	}
	if err == nil {
		err = t.kill(ctx, name)
	}
	if _, overErr := t.over(ctx, name); err == nil {
		err = overErr
	}
	if err != nil {
		_ = unix.PidfdSendSignal(s.fd, syscall.SIGKILL, nil, 0)
		return "", err
	}
	return "an orphan came to the keeper, and was ended and reaped", nil
}

// parentOf is the parent of a process, 0 of one that is gone (proc_pid_stat(5), field 4).
func parentOf(pid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	var letter string
	var parent int
	if _, err := fmt.Sscan(string(b[strings.LastIndexByte(string(b), ')')+1:]), &letter, &parent); err != nil {
		return 0
	}
	return parent
}
