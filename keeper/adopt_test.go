package keeper_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// BP-7, BP-8: kill -9 of the keeper; the same process goes on under the next one, and its later exit is classified.
func TestKeeperKilled(t *testing.T) {
	for _, flags := range [][]string{nil, {"-no-cgroups"}} {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			r := newRigWithoutKeeper(t)
			r.startKeeper(flags...)
			r.connect()
			l := r.launch("town", "run", "-stop-code", "7")
			number := r.ready(l).Run.Number
			pid := r.pid(l.Scope)
			r.killKeeper()
			if !alive(pid) {
				t.Fatal("the run died with its keeper")
			}
			r.startKeeper(flags...)
			r.await(l.Scope, "adopted", func(f *observe.Facts) bool { return f.Run.Alive == observe.Alive && f.Run.Number == number })
			if r.pid(l.Scope) != pid {
				t.Fatalf("another process: %d after %d", r.pid(l.Scope), pid)
			}
			r.stop(l.Scope)
			if e := r.awaitOver(l.Scope); e.Class != spec.Expected || e.ExitCode == nil || *e.ExitCode != 7 {
				t.Errorf("the end is %+v", e)
			}
		})
	}
}

// An exit while no keeper is there: a zombie is dead though nobody reaps it, and its status is the real one where the
// kernel tells; it is never taken for success.
func TestExitWhileAway(t *testing.T) {
	for name, reaped := range map[string]bool{"a zombie": false, "reaped by another": true} {
		t.Run(name, func(t *testing.T) {
			beReaper(t) // else it is a zombie for as long as this host's init takes
			r := newRig(t)
			l := r.launch("town", "run", "-stop-code", "5")
			r.ready(l)
			pid := r.pid(l.Scope)
			r.killKeeper()
			signalTo(t, pid, unix.SIGTERM)
			eventually(t, "the run ends", func() bool { return !alive(pid) })
			if reaped {
				reap(t, pid)
			} else {
				defer reap(t, pid)
			}
			r.startKeeper()
			e := r.awaitOver(l.Scope)
			if e.Class != spec.Unexpected {
				t.Errorf("the end is %+v", e)
			}
			switch {
			case !reaped && (e.Reason != spec.ReasonExited || e.ExitCode == nil || *e.ExitCode != 5):
				t.Errorf("the end is %+v", e)
			case reaped && (e.Reason != spec.ReasonUnknown || e.ExitCode != nil || e.Signal != ""):
				t.Errorf("the end is %+v", e)
			}
		})
	}
}

// beReaper makes this process the parent of orphans below it, for the time of a test.
func beReaper(t *testing.T) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
			t.Error(err)
		}
	})
}

func reap(t *testing.T, pid int) {
	t.Helper()
	eventually(t, "the orphan is ours", func() bool {
		_, err := unix.Wait4(pid, nil, 0, nil)
		return err == nil
	})
}

// I3, BP-8: a number that belongs to a stranger now is never signalled, and the run is over.
func TestNumberUsedAgain(t *testing.T) {
	beReaper(t)
	r := newRig(t)
	l := r.launch("town", "run")
	f := r.ready(l)
	pid := r.pid(l.Scope)
	r.killKeeper()
	signalTo(t, pid, unix.SIGKILL)
	reap(t, pid)
	stranger := reusePID(t, pid)
	r.startKeeper()
	if e := r.awaitOver(l.Scope); e.Reason != spec.ReasonUnknown || e.Class != spec.Unexpected || e.ExitCode != nil || e.Signal != "" {
		t.Errorf("the end is %+v", e)
	}
	stop := state.StopOrder{Scope: l.Scope, RunID: f.Run.ID, Reason: spec.ReasonStopRequested}
	if err := r.client.Stop(t.Context(), stop); err != nil {
		t.Errorf("a stop of what is over: %v", err)
	}
	if err := r.client.Step(t.Context(), state.StepOrder{Scope: l.Scope, RunID: f.Run.ID}); err != nil {
		t.Errorf("a step of what is over: %v", err)
	}
	if !alive(stranger.Process.Pid) {
		t.Error("the stranger is dead")
	}
}

// reusePID starts a stranger with this very number.
func reusePID(t *testing.T, pid int) *exec.Cmd {
	t.Helper()
	for range 200 {
		err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
			t.Skipf("we may not choose the numbers of processes here: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "faultd", "hold")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if cmd.Process.Pid == pid {
			t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
			return cmd
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	t.Fatalf("the number %d was not to be had", pid)
	return nil
}

// A ladder that has begun goes on under the next keeper; no step is sent twice.
func TestKeeperKilledInTheLadder(t *testing.T) {
	r := newRig(t)
	l := r.launch("town", "ignore-term", "-catch")
	l.Readiness = nil
	r.start(l)
	r.awaitLog(l.Scope, "catching")
	id := r.facts(l.Scope).Run.ID
	r.stop(l.Scope)
	r.awaitLog(l.Scope, "got")
	r.killKeeper()
	r.startKeeper()
	r.await(l.Scope, "adopted", func(f *observe.Facts) bool { return f.Run.Stop != nil && f.Run.Alive == observe.Alive })
	if err := r.client.Step(t.Context(), state.StepOrder{Scope: l.Scope, RunID: id, Index: 0}); err != nil {
		t.Fatal(err)
	}
	if err := r.client.Step(t.Context(), state.StepOrder{Scope: l.Scope, RunID: id, Index: 1}); err != nil {
		t.Fatal(err)
	}
	e := r.awaitOver(l.Scope)
	if e.Class != spec.Expected || !e.Killed || e.Signal != "SIGKILL" {
		t.Errorf("the end is %+v", e)
	}
	if n := strings.Count(r.log(l.Scope), "got"); n != 1 {
		t.Errorf("SIGTERM was sent %d times:\n%s", n, r.log(l.Scope))
	}
}

// The keeper ends on its own: every run is left alone.
func TestKeeperEnds(t *testing.T) {
	r := newRig(t)
	l := r.launch("town", "run")
	r.ready(l)
	pid := r.pid(l.Scope)
	signalTo(t, r.keeper.Process.Pid, unix.SIGTERM)
	if err := r.keeper.Wait(); err != nil {
		t.Errorf("the keeper ended badly: %v", err)
	}
	if !alive(pid) {
		t.Error("the run ended with the keeper")
	}
	r.startKeeper()
	r.await(l.Scope, "adopted", func(f *observe.Facts) bool { return f.Run.Alive == observe.Alive })
}

// I1, I2: the keeper is killed at random moments of a loop that starts servers: nothing runs that no record knows, and no
// scope has two.
func TestKilledInStartLoop(t *testing.T) {
	kills := 25
	if n, err := strconv.Atoi(os.Getenv("KEEPER_TEST_KILLS")); err == nil {
		kills = n
	}
	r := newRigWithoutKeeper(t)
	r.startKeeper()
	r.connect()
	for i := range kills {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for n := range 8 {
				l := r.launch(fmt.Sprintf("s%d", n), "hold", "-quiet")
				l.Readiness = nil
				err := r.client.Start(t.Context(), r.order(l))
				if failed := new(keeper.StartFailedError); errors.As(err, &failed) {
					t.Errorf("start: %v", err) // a killed keeper is no reason for that
				}
			}
		}()
		pause(t, i)
		r.killKeeper()
		<-done
		r.checkNothingUnrecorded()
		r.startKeeper()
		eventually(t, "the client is back", func() bool { _, known := r.client.Facts(); return known })
		for _, f := range first(r.client.Facts()) {
			if !f.Run.Over() && i%3 == 2 {
				signalTo(t, r.pid(f.Scope), unix.SIGKILL)
				r.awaitOver(f.Scope)
			}
		}
	}
}

func first[A, B any](a A, _ B) A { return a }
