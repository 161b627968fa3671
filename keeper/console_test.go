package keeper_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// talker starts a workload that obeys lines, and returns its run.
func (r *rig) talker(args ...string) (spec.Launch, *observe.RunFacts) {
	r.t.Helper()
	l := r.launch("town", append([]string{"console"}, args...)...)
	l.Readiness.Log = []string{"console ready"}
	l.Console = &spec.LaunchConsole{Input: spec.ConsoleStdin}
	if err := r.client.Start(r.t.Context(), r.order(l)); err != nil {
		r.t.Fatal(err)
	}
	return l, r.await(l.Scope, "ready", func(f *observe.Facts) bool { return !f.Run.LogSeenAt.IsZero() }).Run
}

func (r *rig) send(l spec.Launch, run *observe.RunFacts, id, line string) state.Receipt {
	r.t.Helper()
	got, err := r.client.Send(r.t.Context(), state.SendOrder{Scope: l.Scope, RunID: run.ID, ID: id, Line: line, By: "me"})
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// EN-3: a line never follows input that is unread, since a server that hangs must not find a heap of old lines one day.
func TestUnreadInput(t *testing.T) {
	t.Run("pipe", func(t *testing.T) { testUnreadInput(t, nil) })
	t.Run("terminal", func(t *testing.T) { testUnreadInput(t, &spec.LaunchTTY{Rows: 24, Columns: 80}) })
}

func testUnreadInput(t *testing.T, tty *spec.LaunchTTY) {
	r := newRig(t)
	l := r.launch("town", "run") // it reads nothing
	l.Console = &spec.LaunchConsole{Input: spec.ConsoleStdin, TTY: tty}
	run := r.ready(l).Run
	if got := r.send(l, run, "a", "one"); got.Result != state.Sent {
		t.Fatalf("the first line came to %+v", got)
	}
	for range 2 {
		if got := r.send(l, run, "b", "two"); got.Result != state.Undeliverable || got.Reason != "Unread" {
			t.Fatalf("the second line came to %+v", got)
		}
	}
	in, err := os.OpenFile("/proc/"+strconv.Itoa(r.pid(l.Scope))+"/fd/0", os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	buf := make([]byte, 64)
	if n, err := in.Read(buf); err != nil || string(buf[:n]) != "one\n" {
		t.Errorf("what is unread is %q, %v", buf[:n], err)
	}
	if got := r.send(l, run, "c", "three"); got.Result != state.Sent {
		t.Errorf("the third line came to %+v", got)
	}
}

// The end of input never comes by our doing, and a line is whole whatever becomes of the keeper.
func TestLinesAcrossKeepers(t *testing.T) {
	r := newRig(t)
	l, run := r.talker("-eof", "exit")
	for i, line := range []string{"one", "two", "three"} {
		if got := r.send(l, run, line, line); got.Result != state.Sent {
			t.Fatalf("line %d came to %+v", i, got)
		}
		r.nextKeeper()
		r.awaitLog(l.Scope, `unknown command "`+line+`"`)
	}
	if strings.Contains(r.log(l.Scope), "end of input") {
		t.Error("the workload has met the end of its input")
	}
}

// A line goes to the FIFO that the server has made in its directory, and to no other file.
func TestFIFOConsole(t *testing.T) {
	r := newRig(t)
	l := r.launch("town", "run")
	l.Console = &spec.LaunchConsole{Input: spec.ConsoleFIFO, Path: "input"}
	if err := r.client.Start(t.Context(), r.order(l)); err != nil {
		t.Fatal(err)
	}
	run := r.await(l.Scope, "started", func(f *observe.Facts) bool { return f.Run.Phase == state.Started }).Run
	if got := r.send(l, run, "a", "hello"); got.Result != state.Undeliverable || got.Reason != "NotListening" {
		t.Errorf("without a FIFO: %+v", got)
	}
	w, _ := r.host().Workspace(l.Directory.Workspace)
	path := filepath.Join(w.Path, l.Directory.Path, "input")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.send(l, run, "b", "hello"); got.Result != state.Undeliverable || got.Reason != "Stranger" {
		t.Errorf("with a plain file: %+v", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.send(l, run, "c", "hello"); got.Result != state.Undeliverable || got.Reason != "NotListening" {
		t.Errorf("without a reader: %+v", got)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := r.send(l, run, "d", "hello"); got.Result != state.Sent || got.Rail != spec.ConsoleFIFO {
		t.Errorf("with a reader: %+v", got)
	}
	buf := make([]byte, 64)
	if n, err := f.Read(buf); err != nil || string(buf[:n]) != "hello\n" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
}

// Who was told that a line was seen finds it in the log, though another thread writes that.
func TestWhatWasSeenIsInTheLog(t *testing.T) {
	r := newRig(t)
	for i := range 20 {
		l := r.launch(fmt.Sprint("town-", i), "run")
		r.ready(l)
		if log := r.log(l.Scope); !strings.Contains(log, "ready") {
			t.Errorf("the log is %q", log)
		}
	}
}
