package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/cmd/reconciler/internal/cli"
	"reconciler.dev/reconciler/observe/proc/proctest"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

func cliVersion() string { return cli.Version() }

// played is a process of the test that is told what to do and says what becomes of it.
type played struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	said *lines
}

func play(t *testing.T, name string, args ...string) *played {
	t.Helper()
	a := &played{t: t, cmd: exec.Command(name, args...), said: &lines{}}
	faultd, err := exec.LookPath("faultd")
	if err != nil {
		t.Fatal(err)
	}
	a.cmd.Env = append(os.Environ(), "BIN="+filepath.Dir(faultd))
	a.cmd.Stdout = &liner{to: a.said}
	a.cmd.Stderr = a.cmd.Stdout
	a.cmd.WaitDelay = patience
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.kill()
		if t.Failed() {
			t.Logf("%s %q said:\n%s", name, args, a.said.String())
		}
	})
	return a
}

// liner hands over what is written line by line.
type liner struct {
	to   *lines
	rest []byte
}

func (w *liner) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		w.to.add(string(line))
		w.rest = rest
	}
}

func (a *played) signal(s unix.Signal) {
	a.t.Helper()
	if err := a.cmd.Process.Signal(s); err != nil {
		a.t.Fatal(err)
	}
}

// kill ends it; it may have ended.
func (a *played) kill() {
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
}

func (a *played) tell(line string) {
	a.t.Helper()
	if _, err := io.WriteString(a.in, line+"\n"); err != nil {
		a.t.Fatal(err)
	}
}

func (a *played) hears(line string) {
	a.t.Helper()
	if err := a.said.await(line + "\n"); err != nil {
		a.t.Fatalf("%q: %v", line, err)
	}
}

// BP-12: a reconciler is stopped, another takes over, and the old one goes on with orders of all kinds. None is carried out: not on
// its old connection, which the newer session fences; not on a new one, also to a new keeper, since another holds the lock.
func TestStaleReconciler(t *testing.T) {
	dir := proctest.Place(t)
	l := state.Layout{State: filepath.Join(dir, "s"), Runtime: filepath.Join(dir, "r")}
	anchor := play(t, "reconciler", "keeper", "--state-dir", l.State, "--runtime-dir", l.Runtime)
	t.Cleanup(func() { anchor.signal(unix.SIGTERM); _ = anchor.cmd.Wait() }) // and the keeper with it
	old := play(t, "reconciler-role", l.State, l.Runtime, filepath.Join(dir, "old"))
	old.hears("run 1 is Running")
	old.tell("first Command save")
	old.hears("first is Succeeded")

	old.signal(unix.SIGSTOP)
	old.tell("stale Command save")
	if err := os.Remove(l.ReconcilerLock()); err != nil { // by hand: nobody else can
		t.Fatal(err)
	}
	fresh := play(t, "reconciler-role", l.State, l.Runtime, filepath.Join(dir, "fresh"))
	fresh.hears("run 1 is Running")
	fresh.tell("restart Restart")
	fresh.hears("restart is Succeeded")
	fresh.hears("run 2 is Running")
	fresh.hears("run 2 is recorded as Ready") // nothing more is written of it
	t.Cleanup(func() { _ = kill(staleRecord(t, l).Run.Identity.PID, unix.SIGKILL, true) })
	before := staleRecord(t, l)

	old.signal(unix.SIGCONT)
	old.hears("run 2 is Running")
	old.tell("late Command save") // the one before may have been bound to the run that is no more
	old.hears("Do refused by session")
	old.tell("hold")
	old.hears("Stop refused by session")
	wantUntouched(t, l, before)

	// Another keeper, to which both connect anew.
	if err := kill(state.ReadHolder(state.LinuxDisk{}, filepath.Join(l.Keeper(), "lock")).PID, unix.SIGKILL, true); err != nil {
		t.Fatal(err)
	}
	old.hears("not let in by lock")
	fresh.tell("second Command save")
	fresh.hears("second is Succeeded")
	after := staleRecord(t, l)
	if n := len(before.Deliveries); len(after.Deliveries) != n+1 || after.Deliveries[n].Command != "save" {
		t.Errorf("deliveries %+v, before %+v", after.Deliveries, before.Deliveries)
	}
	after.Deliveries, after.Seq = before.Deliveries, before.Seq
	wantSameRun(t, before, after)
}

func staleRecord(t *testing.T, l state.Layout) *state.Record {
	t.Helper()
	scope := spec.Scope{Namespace: spec.DefaultNamespace, Server: "town", Profile: "game"}
	r, err := state.ReadRecord(filepath.Join(l.Keeper(), "records", scope.ID()+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantUntouched fails the test when a record is another than it was.
func wantUntouched(t *testing.T, l state.Layout, before *state.Record) {
	t.Helper()
	after := staleRecord(t, l)
	if after.Seq != before.Seq {
		t.Errorf("the record was written again: %+v, before %+v", after, before)
	}
	wantSameRun(t, before, after)
}

func wantSameRun(t *testing.T, before, after *state.Record) {
	t.Helper()
	a, b := before.Run, after.Run
	if a.ID != b.ID || b.Phase != state.Started || b.Stop != nil || *a.Identity != *b.Identity || len(before.History) != len(after.History) {
		t.Errorf("run %+v, before %+v", b, a)
	}
	if !slices.EqualFunc(before.Deliveries, after.Deliveries, func(a, b state.Delivery) bool { return a.ID == b.ID }) {
		t.Errorf("deliveries %+v, before %+v", after.Deliveries, before.Deliveries)
	}
	if !alive(b.Identity.PID) {
		t.Error("the run has ended")
	}
}
