package keeper_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/proc/proctest"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

func (r *rig) spawner() keeper.Spawner {
	return keeper.Spawner{
		Layout: r.layout, Path: r.binary, Patience: time.Minute,
		Args: []string{r.binary, "keeper", "-state", r.layout.State, "-runtime", r.layout.Runtime},
	}
}

// Twenty keepers at once: one works, nineteen say that another does.
func TestManyKeepersAtOnce(t *testing.T) {
	r := newRigWithoutKeeper(t)
	codes := make(chan int, 20)
	var keepers []*exec.Cmd
	for range 20 {
		cmd := exec.Command(r.binary, "keeper", "-state", r.layout.State, "-runtime", r.layout.Runtime)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		keepers = append(keepers, cmd)
		go func() {
			cmd.Wait()
			codes <- cmd.ProcessState.ExitCode()
		}()
	}
	for range 19 {
		if code := <-codes; code != keeper.ExitHeld {
			t.Errorf("a keeper ended with code %d", code)
		}
	}
	eventually(t, "one keeper answers", func() bool { _, err := keeper.Ask(t.Context(), r.layout, "test"); return err == nil })
	for _, cmd := range keepers {
		cmd.Process.Signal(unix.SIGTERM)
	}
	if code := <-codes; code != 0 {
		t.Errorf("the last keeper ended with code %d", code)
	}
}

// A keeper that holds the lock and does not answer is unresponsive, and never gets a rival.
func TestStoppedKeeperGetsNoRival(t *testing.T) {
	r := newRig(t)
	l := r.launch("town", "hold")
	l.Readiness = nil
	r.start(l)
	pid := r.keeper.Process.Pid
	signalTo(t, pid, unix.SIGSTOP)
	defer signalTo(t, pid, unix.SIGCONT)
	eventually(t, "the keeper is stopped", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && strings.Contains(string(b), ") T ")
	})

	// Its socket takes connections, and nobody answers.
	spawned := 0
	c := keeper.NewClient(keeper.ClientConfig{Layout: r.layout, Version: "test", Patience: 200 * time.Millisecond,
		Spawn: func(ctx context.Context) error { spawned++; return r.spawner().Spawn(ctx) }})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	eventually(t, "the client finds it unresponsive", func() bool { return errors.Is(c.Problem(), keeper.ErrUnresponsive) })
	cancel()
	<-done
	if spawned > 0 {
		t.Error("a rival was tried")
	}

	// Even without its socket there is no rival.
	if err := os.Remove(r.layout.KeeperSocket()); err != nil {
		t.Fatal(err)
	}
	s := r.spawner()
	s.Patience = 2 * time.Second
	err := s.Spawn(t.Context())
	for err != nil && !errors.Is(err, keeper.ErrUnresponsive) && s.Patience < time.Minute {
		s.Patience *= 2 // on a busy host a keeper may not come to say that another has its place
		err = s.Spawn(t.Context())
	}
	if !errors.Is(err, keeper.ErrUnresponsive) {
		t.Errorf("spawning beside a stopped keeper: %v", err)
	}
	signalTo(t, pid, unix.SIGCONT)
	eventually(t, "the keeper is back, with its socket", func() bool {
		st, err := keeper.Ask(t.Context(), r.layout, "test")
		return err == nil && st.Live == 1
	})
}

// holderOf is the process that wrote itself into a lock's file.
func holderOf(t *testing.T, file []byte) int {
	t.Helper()
	var h state.Holder
	if err := json.Unmarshal(file, &h); err != nil || h.PID == 0 {
		t.Fatalf("%v: %s", err, file)
	}
	return h.PID
}

// A keeper that a client makes outlives it, has none of its descriptors, and is found by the next.
func TestSpawn(t *testing.T) {
	r := newRigWithoutKeeper(t)
	if err := r.spawner().Spawn(t.Context()); err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile(r.layout.Keeper() + "/lock")
	if err != nil {
		t.Fatal(err)
	}
	pid := holderOf(t, lock)
	t.Cleanup(func() {
		signalTo(t, pid, unix.SIGTERM)
		eventually(t, "the keeper ends", func() bool { return !alive(pid) })
	})
	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("its session is %d, %v", sid, err)
	}
	if info, err := os.Stat(r.layout.State + "/keeper.log"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its log: %v, %v", info, err)
	}
	if err := r.spawner().Spawn(t.Context()); err != nil {
		t.Errorf("spawning where a keeper answers: %v", err)
	}
	again, err := os.ReadFile(r.layout.Keeper() + "/lock")
	if err != nil || holderOf(t, again) != pid {
		t.Error("another keeper has the lock")
	}
}

// A keeper that ends takes its sockets with it.
func TestSocketsGoWithTheirKeeper(t *testing.T) {
	r := newRigWithoutKeeper(t)
	r.startKeeper()
	signalTo(t, r.keeper.Process.Pid, unix.SIGTERM)
	if err := r.keeper.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{r.layout.KeeperSocket(), r.layout.NotifySocket()} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

// BP-12: a newer control session fences the older one; its orders are refused, and change nothing.
func TestStaleSession(t *testing.T) {
	r := newRig(t)
	l := r.launch("town", "run")
	f := r.ready(l)
	old := r.client
	fresh := r.newClient()
	eventually(t, "the newer client knows all", func() bool { _, known := fresh.Facts(); return known })
	if a, b := old.Welcome().Session, fresh.Welcome().Session; b <= a {
		t.Errorf("session %d after %d", b, a)
	}
	stop := state.StopOrder{Scope: l.Scope, RunID: f.Run.ID, Reason: spec.ReasonStopRequested}
	for what, err := range map[string]error{
		"stop":    old.Stop(t.Context(), stop),
		"step":    old.Step(t.Context(), state.StepOrder{Scope: l.Scope, RunID: f.Run.ID}),
		"start":   old.Start(t.Context(), r.order(r.launch("other", "run"))),
		"archive": old.Archive(t.Context(), state.ScopeOrder{Scope: l.Scope}),
		"ready":   old.MarkReady(t.Context(), state.ReadyOrder{Scope: l.Scope, RunID: f.Run.ID}),
		"live":    old.ApplyLive(t.Context(), state.LiveOrder{RunID: f.Run.ID, Launch: l, Generation: 9}),
		"host":    old.SetHost(t.Context(), &keeper.Host{}),
		"end":     old.Shutdown(t.Context()),
	} {
		if check, _ := keeper.IsRefused(err); check != keeper.CheckSession {
			t.Errorf("%s: %v", what, err)
		}
	}
	facts, _ := fresh.Facts()
	if len(facts) != 1 || facts[0].Run.Stop != nil || facts[0].Rev != f.Rev {
		t.Errorf("facts %+v", facts[0].Run)
	}
	if err := fresh.Stop(t.Context(), stop); err != nil {
		t.Errorf("the newer session: %v", err)
	}
}

// The runtime directory may vanish: the keeper makes its socket anew.
func TestRuntimeDirectoryVanishes(t *testing.T) {
	r := newRig(t)
	l := r.launch("town", "run")
	r.ready(l)
	for range 3 {
		gone := r.layout.Runtime + ".gone"
		if err := os.Rename(r.layout.Runtime, gone); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the socket is there again", func() bool { _, err := keeper.Ask(t.Context(), r.layout, "test"); return err == nil })
	}
	fresh := r.newClient()
	eventually(t, "a new client hears of the run", func() bool {
		facts, known := fresh.Facts()
		return known && len(facts) == 1 && facts[0].Run.Alive == observe.Alive
	})
}

// The keeper ends on demand, but not while a run is live.
func TestShutdown(t *testing.T) {
	r := newRig(t)
	l := r.launch("town", "run")
	r.ready(l)
	if check, _ := keeper.IsRefused(r.client.Shutdown(t.Context())); check != keeper.CheckLive {
		t.Errorf("shutdown beside a live run: %s", check)
	}
	r.stop(l.Scope)
	r.awaitOver(l.Scope)
	if err := r.client.Shutdown(t.Context()); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if err := r.keeper.Wait(); err != nil {
		t.Errorf("the keeper ended badly: %v", err)
	}
}

// BP-14: who asks is known by the kernel; a stranger is turned away.
func TestStrangerIsTurnedAway(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	r := newRig(t)
	program := proctest.Program(t)
	ask := func(uid uint32) (string, error) {
		cmd := exec.Command(program, "ask", r.layout.State, r.layout.Runtime)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.Output()
		return string(out), err
	}
	if out, err := ask(0); err != nil {
		t.Errorf("root: %v, %s", err, out)
	}
	if out, err := ask(65534); err == nil || !strings.Contains(out, "may not give orders") {
		t.Errorf("nobody: %v, %s", err, out)
	}
}
