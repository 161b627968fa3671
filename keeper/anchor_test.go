package keeper_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/proc"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// startAnchor starts an anchor, and waits for its keeper. r.keeper is the anchor.
func (r *rig) startAnchor(flags ...string) {
	r.t.Helper()
	args := append([]string{"anchor", "-state", r.layout.State, "-runtime", r.layout.Runtime}, flags...)
	r.keeper = exec.Command(r.binary, args...)
	r.keeper.Stderr = testOutput{r.t}
	if err := r.keeper.Start(); err != nil {
		r.t.Fatal(err)
	}
	cmd := r.keeper
	r.t.Cleanup(func() { cmd.Process.Signal(unix.SIGTERM); cmd.Process.Signal(unix.SIGCONT); cmd.Wait() })
	eventually(r.t, "the keeper listens", func() bool { _, err := keeper.Ask(r.t.Context(), r.layout, "test"); return err == nil })
}

func newAnchoredRig(t *testing.T, flags ...string) *rig {
	t.Helper()
	r := newRigWithoutKeeper(t)
	r.startAnchor(flags...)
	r.connect()
	return r
}

// keeperPID is the keeper below an anchor: who has the lock.
func (r *rig) keeperPID() int {
	r.t.Helper()
	h := state.ReadHolder(state.LinuxDisk{}, filepath.Join(r.layout.Keeper(), "lock"))
	if h.PID == 0 {
		r.t.Fatal("nobody has the lock")
	}
	return h.PID
}

// stopAnchor holds the anchor from doing anything.
func (r *rig) stopAnchor() {
	r.t.Helper()
	signalTo(r.t, r.keeper.Process.Pid, unix.SIGSTOP)
	eventually(r.t, "the anchor is stopped", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.keeper.Process.Pid))
		return err == nil && strings.Contains(string(b), ") T ")
	})
}

func (r *rig) wakeAnchor() { signalTo(r.t, r.keeper.Process.Pid, unix.SIGCONT) }

// killBelow kills the keeper of an anchor that is held from starting another.
func (r *rig) killBelow() {
	r.t.Helper()
	kill(r.t, r.keeperPID())
	eventually(r.t, "the client notices", func() bool { return r.client.Problem() != nil })
}

// kill kills a process and returns when all threads of it have ended: until then it holds its locks.
func kill(t testing.TB, pid int) {
	t.Helper()
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		t.Fatal(err)
	}
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for err = unix.EINTR; err == unix.EINTR; {
		_, err = unix.Poll(fds, -1)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ended waits until a run's main process is dead.
func (r *rig) ended(pid int) {
	r.t.Helper()
	eventually(r.t, "the run's main process ends", func() bool { return !alive(pid) })
}

// I4: how a run ends while there is no keeper is known to the next, exactly and once, on every kernel: the anchor is the parent then.
func TestExitWhileNoKeeperLives(t *testing.T) {
	for _, flags := range [][]string{nil, {"-no-cgroups"}} {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			r := newAnchoredRig(t, flags...)
			l := r.launch("town", "run", "-stop-code", "7")
			r.ready(l)
			pid := r.pid(l.Scope)
			r.stopAnchor()
			r.killBelow()
			signalTo(t, pid, unix.SIGTERM)
			r.ended(pid)
			r.wakeAnchor()
			e := r.awaitOver(l.Scope)
			if e.Class != spec.Unexpected || e.Reason != spec.ReasonExited || e.ExitCode == nil || *e.ExitCode != 7 {
				t.Errorf("the end is %+v", e)
			}
			if main := r.record(l.Scope).Run.MainExit; main == nil || main.From != proc.FromAnchor {
				t.Errorf("it is known from %+v", main)
			}
			eventually(t, "the zombie is reaped", func() bool { return unix.Kill(pid, 0) == unix.ESRCH })
			if n := len(r.facts(l.Scope).Exits); n != 1 {
				t.Errorf("%d ends are on record", n)
			}
		})
	}
}

// I4: a keeper that dies between writing an end down and letting go of the process leaves a zombie to the anchor: the next keeper has it
// reaped, and records nothing again.
func TestKilledBeforeReaping(t *testing.T) {
	r := newAnchoredRig(t)
	l := r.launch("town", "run", "-stop-code", "7")
	r.ready(l)
	pid := r.pid(l.Scope)
	r.stopAnchor()
	r.killBelow()
	signalTo(t, pid, unix.SIGTERM)
	r.ended(pid)
	anchored := r.keeper
	r.startKeeper() // by itself: it records the end as far as it is told, and cannot reap
	before := r.awaitOver(l.Scope)
	if unix.Kill(pid, 0) != nil {
		t.Fatal("the anchor's zombie is gone")
	}
	r.killKeeper()
	r.keeper = anchored
	r.wakeAnchor()
	eventually(t, "the zombie is reaped", func() bool { return unix.Kill(pid, 0) == unix.ESRCH })
	f := r.await(l.Scope, "known to the next keeper", func(*observe.Facts) bool { return r.client.Problem() == nil })
	if len(f.Exits) != 1 || f.Exits[0].Reason != before.Reason {
		t.Errorf("the ends are %+v, it was %+v", f.Exits, before)
	}
}

// I4, BP-7: fifty keepers are killed at any moment around the end of a run. Each end is told by its code, once.
func TestFiftyKeepersKilled(t *testing.T) {
	r := newAnchoredRig(t)
	scope := scopeOf("town")
	for i := range 50 {
		code := 1 + i%100
		l := r.launch("town", "run", "-stop-code", fmt.Sprint(code))
		r.startThrough(l)
		r.await(scope, "ready", func(f *observe.Facts) bool {
			return f.Run != nil && f.Run.Number == int64(i+1) && !f.Run.LogSeenAt.IsZero()
		})
		pid, old := r.pid(scope), r.keeperPID()
		var wg sync.WaitGroup
		for _, strike := range []func(){
			func() { kill(t, old) },
			func() { signalTo(t, pid, unix.SIGTERM) },
		} {
			wg.Go(func() {
				pause(t, rand.IntN(17))
				strike()
			})
		}
		wg.Wait()
		f := r.await(scope, "over under the next keeper", func(f *observe.Facts) bool {
			return r.keeperPID() != old && f.Run != nil && f.Run.Over()
		})
		e := f.Exits[len(f.Exits)-1]
		if e.Class != spec.Unexpected || e.Reason != spec.ReasonExited || e.ExitCode == nil || int(*e.ExitCode) != code {
			t.Fatalf("round %d: the end is %+v", i, e)
		}
		if want := min(i+1, state.HistoryLimit); len(f.Exits) != want || f.Run.Number != int64(i+1) {
			t.Fatalf("round %d: %d ends on record, run %d", i, len(f.Exits), f.Run.Number)
		}
		eventually(t, "the zombie is reaped", func() bool { return unix.Kill(pid, 0) == unix.ESRCH })
	}
}

// startThrough starts a run although the keeper may be another one in the middle of it.
func (r *rig) startThrough(l spec.Launch) {
	r.t.Helper()
	eventually(r.t, "a start succeeds", func() bool {
		err := r.client.Start(r.t.Context(), r.order(l))
		if failed := new(keeper.StartFailedError); errors.As(err, &failed) {
			r.t.Fatalf("start: %v", err)
		}
		return err == nil
	})
}

// What a run has left goes to the anchor when the keeper dies, and from there to the next keeper's attention: the dead are reaped, and a run
// is over when the last of them has ended.
func TestOrphansOfTheAnchor(t *testing.T) {
	r := newAnchoredRig(t)
	l := r.launch("town", "spawn", "-n", "2", "-exit-after", "50ms")
	l.Readiness = nil
	path := filepath.Join(t.TempDir(), "pids")
	l.Args = append(l.Args, "-pids", path)
	r.start(l)
	r.await(l.Scope, "without its main process", func(f *observe.Facts) bool {
		return f.Run.MainExit != nil && f.Run.Tree.State == observe.TreePopulated
	})
	eventually(t, "all have said who they are", func() bool { return len(trail(t, path)) == 3 })
	old := r.keeperPID()
	kill(t, old)
	var orphans []int
	for _, pid := range trail(t, path) {
		if alive(pid) {
			orphans = append(orphans, pid)
			eventually(t, "an orphan is the anchor's", func() bool { return parentOf(pid) == r.keeper.Process.Pid })
		}
	}
	if len(orphans) != 2 {
		t.Fatalf("orphans %v", orphans)
	}
	eventually(t, "there is another keeper", func() bool { return r.keeperPID() != old && r.client.Problem() == nil })
	for _, pid := range orphans {
		signalTo(t, pid, unix.SIGKILL)
		eventually(t, "an orphan is reaped", func() bool { return unix.Kill(pid, 0) == unix.ESRCH })
	}
	if e := r.awaitOver(l.Scope); e.Reason != spec.ReasonExited && e.Reason != spec.ReasonMainExited {
		t.Errorf("the end is %+v", e)
	}
}

// parentOf is the parent of a process that lives, 0 of others.
func parentOf(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	var state string
	var parent int
	if _, err := fmt.Sscan(string(b[strings.LastIndexByte(string(b), ')')+1:]), &state, &parent); err != nil {
		return 0
	}
	return parent
}

// What ends of a run while the anchor is stopped does not hold anything up; the keeper says that the anchor is away.
func TestStoppedAnchorHoldsNothingUp(t *testing.T) {
	r := newAnchoredRig(t)
	if g := r.guarantee("ExitAfterKeeperDeath"); !strings.Contains(g.Note, "the anchor keeps") {
		t.Fatalf("with an anchor: %+v", g)
	}
	l := r.launch("town", "run", "-stop-code", "7")
	r.ready(l)
	session := r.client.Welcome().Session
	kill(t, r.keeperPID())
	r.await(l.Scope, "adopted", func(f *observe.Facts) bool { // and told of it by the next keeper
		return r.client.Problem() == nil && r.client.Welcome().Session != session && f.Run.Alive == observe.Alive
	})
	r.stopAnchor()
	signalTo(t, r.pid(l.Scope), unix.SIGTERM) // the keeper will ask the anchor in vain
	other := r.launch("other", "run", "-stop-code", "8")
	r.ready(other)
	r.stop(other.Scope)
	if e := r.awaitOver(other.Scope); e.ExitCode == nil || *e.ExitCode != 8 {
		t.Errorf("the end of a child of this keeper is %+v", e)
	}
	if e := r.awaitOver(l.Scope); e.ExitCode != nil && *e.ExitCode != 7 {
		t.Errorf("the end of the anchor's child is %+v", e)
	}
	if g := r.guarantee("ExitAfterKeeperDeath"); strings.Contains(g.Note, "the anchor keeps") {
		t.Errorf("beside a stopped anchor: %+v", g)
	}
	r.wakeAnchor()
	eventually(t, "the anchor counts again", func() bool {
		return strings.Contains(r.guarantee("ExitAfterKeeperDeath").Note, "the anchor keeps")
	})
}

func (r *rig) guarantee(name string) spec.Guarantee {
	r.t.Helper()
	st, err := keeper.Ask(r.t.Context(), r.layout, "test")
	if err != nil {
		r.t.Fatal(err)
	}
	i := slices.IndexFunc(st.Guarantees, func(g spec.Guarantee) bool { return g.Name == name })
	if i < 0 {
		r.t.Fatalf("no guarantee %s", name)
	}
	return st.Guarantees[i]
}

// The anchor's own death ends nothing. The keeper says what is weaker, and the next keeper brings an anchor again.
func TestAnchorKilled(t *testing.T) {
	for _, both := range []bool{false, true} {
		t.Run(fmt.Sprintf("both %v", both), func(t *testing.T) {
			r := newAnchoredRig(t)
			l := r.launch("town", "run", "-stop-code", "7")
			r.ready(l)
			pid, below := r.pid(l.Scope), r.keeperPID()
			if err := r.keeper.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			r.keeper.Process.Wait() // and not for the end of the keeper's output
			if !both {
				eventually(t, "the keeper says so", func() bool { return !strings.Contains(r.guarantee("ExitAfterKeeperDeath").Note, "the anchor keeps") })
				if keeper.Anchored(r.layout) {
					t.Error("a dead anchor is seen")
				}
				other := r.launch("other", "run")
				r.ready(other)
			}
			kill(t, below)
			if !alive(pid) {
				t.Fatal("the run died with them")
			}
			r.startAnchor()
			r.await(l.Scope, "adopted", func(f *observe.Facts) bool { return r.client.Problem() == nil && f.Run.Alive == observe.Alive })
			r.stop(l.Scope)
			if e := r.awaitOver(l.Scope); e.Class != spec.Expected {
				t.Errorf("the end is %+v", e)
			}
			if !keeper.Anchored(r.layout) {
				t.Error("the next anchor is not seen")
			}
		})
	}
}

// Whoever wants a keeper waits for the one that an anchor starts, and makes none of his own.
func TestSpawnerWaitsForTheAnchor(t *testing.T) {
	r := newAnchoredRig(t)
	below := r.keeperPID()
	kill(t, below)
	s := r.spawner()
	s.Path = "/nonexistent"
	if err := s.Spawn(t.Context()); err != nil {
		t.Errorf("beside an anchor: %v", err)
	}
	if r.keeperPID() == below {
		t.Error("there is no other keeper")
	}
}

// An anchor that came while another was stopped has the lock to itself when that one dies: whoever wants a keeper then waits for its, and
// starts none.
func TestSecondAnchorTakesTheLock(t *testing.T) {
	r := newAnchoredRig(t)
	r.stopAnchor()
	r.killBelow()
	first := r.keeper.Process
	r.startAnchor()
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Wait(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second anchor is seen", func() bool { return keeper.Anchored(r.layout) })
	r.stopAnchor()
	kill(t, r.keeperPID())
	if !keeper.Anchored(r.layout) {
		t.Error("the lock was the keeper's, and not the anchor's")
	}
	r.wakeAnchor()
}

// A keeper that ends by its own will takes its anchor with it, and one that is told to through its anchor.
func TestAnchorFollowsItsKeeper(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"by the anchor": func(r *rig) { signalTo(r.t, r.keeper.Process.Pid, unix.SIGTERM) },
		"by itself":     func(r *rig) { signalTo(r.t, r.keeperPID(), unix.SIGTERM) },
		"by an order": func(r *rig) {
			err := r.client.Shutdown(r.t.Context())
			if err != nil && !errors.Is(err, keeper.ErrNoKeeper) { // it may end before its answer is heard
				r.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newAnchoredRig(t)
			pid := r.keeperPID()
			end(r)
			if err := r.keeper.Wait(); err != nil {
				t.Errorf("the anchor ended badly: %v", err)
			}
			if alive(pid) {
				t.Error("the keeper lives on")
			}
		})
	}
}
