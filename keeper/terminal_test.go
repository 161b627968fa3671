package keeper_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/keeper/stage"
	"reconciler.dev/reconciler/keeper/terminal"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// onTerminal is a launch of faultd with a terminal.
func (r *rig) onTerminal(name string, args ...string) spec.Launch {
	l := r.launch(name, args...)
	l.Console = &spec.LaunchConsole{Input: spec.ConsoleStdin, TTY: &spec.LaunchTTY{Rows: 24, Columns: 80}}
	return l
}

// endTerminals ends what has no keeper any more and waits for one.
func (r *rig) endTerminals() {
	folders, _ := filepath.Glob(r.memory() + "/*")
	more, _ := filepath.Glob(r.layout.Runs() + "/*")
	for _, f := range append(folders, more...) {
		if err := terminal.EndIn(f); err != nil {
			r.t.Error(err)
		}
	}
}

func TestTerminal(t *testing.T) {
	r := newRig(t)
	before := r.calmTraces()
	l := r.onTerminal("town", "tty")
	l.Console.TTY = &spec.LaunchTTY{Rows: 50, Columns: 132}
	run := r.ready(l).Run
	for _, want := range []string{"terminal stdin=true stdout=true stderr=true\n", "session=true foreground=true\n", "size rows=50 columns=132\n"} {
		if !strings.Contains(r.log(l.Scope), want) {
			t.Errorf("%q is not in the log:\n%s", want, r.log(l.Scope))
		}
	}
	if got := r.send(l, run, "a", "hello"); got.Result != state.Sent {
		t.Errorf("the line came to %+v", got)
	}
	r.awaitLog(l.Scope, "hello\nunknown command \"hello\"\n") // the terminal shows what is typed
	if got := r.send(l, run, "b", "stop"); got.Result != state.Sent {
		t.Errorf("the last line came to %+v", got)
	}
	if e := r.awaitOver(l.Scope); e.ExitCode == nil || *e.ExitCode != 0 {
		t.Errorf("the end is %+v", e)
	}
	if log := r.log(l.Scope); strings.Contains(log, "\r") || !strings.HasSuffix(log, "stopping\n") {
		t.Errorf("the log is %q", log)
	}
	before.data++ // the directory stays
	r.checkTraces(before)
}

// Where there are no cgroups the session tells who belongs to the run, and a server that runs as another user has its terminal.
func TestTerminalWithoutCgroups(t *testing.T) {
	r := newRigWithoutKeeper(t)
	r.startKeeper("-no-cgroups")
	r.connect()
	l := r.onTerminal("town", "tty")
	r.ready(l)
	r.killKeeper()
	r.startKeeper("-no-cgroups")
	eventually(t, "the client is back", func() bool { _, known := r.client.Facts(); return known })
	r.stop(l.Scope)
	if e := r.awaitOver(l.Scope); e.Reason != spec.ReasonStopRequested || e.Signal != "SIGTERM" {
		t.Errorf("the end is %+v", e)
	}
	eventually(t, "nothing is left of the terminal", func() bool { return r.traces().folders == 0 })
}

// A terminal outlives its keeper: nothing is hung up, nothing that was printed is lost, and a line arrives.
func TestTerminalOverKeepers(t *testing.T) {
	r := newRig(t)
	l := r.onTerminal("town", "tty")
	run := r.ready(l).Run
	for i, line := range []string{"one", "two", "three"} {
		if got := r.send(l, run, line, line); got.Result != state.Sent {
			t.Fatalf("line %d came to %+v", i, got)
		}
		r.nextKeeper()
		r.awaitLog(l.Scope, `unknown command "`+line+`"`)
	}
	if got := r.send(l, run, "end", "stop"); got.Result != state.Sent {
		t.Fatalf("the last line came to %+v", got)
	}
	r.awaitOver(l.Scope)
	if log := r.log(l.Scope); strings.Contains(log, "hung up") || strings.Contains(log, "end of input") {
		t.Errorf("the log is %q", log)
	}
	eventually(t, "the folder is gone", func() bool { return r.traces().folders == 0 })
}

// I11: the keeper is killed twenty times while a terminal is written to. Slowly, as a disk that is too slow may drop lines.
func TestTerminalOutputOverKills(t *testing.T) {
	r := newRig(t)
	l := r.onTerminal("town", "run", "-tick", "20ms")
	r.ready(l)
	for i := range 20 {
		r.awaitLog(l.Scope, "tick "+strconv.Itoa(3*i)+"\n")
		r.nextKeeper()
	}
	r.stop(l.Scope)
	r.awaitOver(l.Scope)
	ticks := 0
	for line := range strings.Lines(r.log(l.Scope)) {
		switch line {
		case "ready\n", "stopping on terminated\n", "stopped\n":
			continue
		}
		if line != "tick "+strconv.Itoa(ticks)+"\n" {
			t.Fatalf("instead of tick %d there is %q", ticks, line)
		}
		ticks++
	}
	if ticks <= 57 {
		t.Errorf("there are %d ticks", ticks)
	}
}

// What a run printed last stays with its terminal until a keeper comes, though the run has ended.
func TestTerminalOfARunThatEndedAlone(t *testing.T) {
	r := newRig(t)
	l := r.onTerminal("town", "run", "-stop-delay", "1ms")
	r.ready(l)
	pid := r.pid(l.Scope)
	r.killKeeper()
	signalTo(t, pid, unix.SIGTERM)
	eventually(t, "the run has ended", func() bool { return !alive(pid) })
	r.startKeeper()
	eventually(t, "the client is back", func() bool { _, known := r.client.Facts(); return known })
	r.awaitOver(l.Scope)
	r.awaitLog(l.Scope, "stopping on terminated\nstopped\n")
	eventually(t, "nothing is left of the terminal", func() bool { return r.traces().folders == 0 })
}

// A custodian that somebody ends is replaced, and its keeper's end still is none of the run's.
func TestCustodianIsReplaced(t *testing.T) {
	r := newRig(t)
	l := r.onTerminal("town", "tty")
	run := r.ready(l).Run
	first := r.custodian(l.Scope)
	signalTo(t, first, unix.SIGKILL)
	eventually(t, "there is another custodian", func() bool { now := r.custodian(l.Scope); return now > 0 && now != first })
	r.nextKeeper()
	if got := r.send(l, run, "a", "stop"); got.Result != state.Sent {
		t.Fatalf("the line came to %+v", got)
	}
	r.awaitOver(l.Scope)
	if log := r.log(l.Scope); strings.Contains(log, "hung up") {
		t.Errorf("the log is %q", log)
	}
}

// custodian is the process that keeps the terminal of a scope's run, 0 = there is none now.
func (r *rig) custodian(s spec.Scope) int {
	r.t.Helper()
	slave, err := os.Readlink("/proc/" + strconv.Itoa(r.pid(s)) + "/fd/0")
	if err != nil {
		r.t.Fatal(err)
	}
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, name := range names {
		comm, err := os.ReadFile(name)
		if err != nil || strings.TrimSpace(string(comm)) != stage.CustodianComm {
			continue
		}
		info, err := os.ReadFile(filepath.Dir(name) + "/fdinfo/4") // ends with the terminal's number
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && strings.Contains(string(info), "tty-index:\t"+filepath.Base(slave)+"\n") && alive(pid) {
			return pid
		}
	}
	return 0
}

// EC-6: what is typed where the terminal does not show it is in no log.
func TestPasswordOnATerminal(t *testing.T) {
	const canary = "c4n4ry-in-the-dark"
	r := newRig(t)
	l := r.onTerminal("town", "tty")
	run := r.ready(l).Run
	r.send(l, run, "a", "password")
	r.awaitLog(l.Scope, "hiding what is typed\nPassword: ")
	r.send(l, run, "b", canary)
	r.awaitLog(l.Scope, "a password of "+strconv.Itoa(len(canary))+" bytes")
	r.send(l, run, "c", "stop")
	r.awaitOver(l.Scope)
	files, err := filepath.Glob(filepath.Join(r.layout.Logs(), "*", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no log files: %v", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), canary) {
			t.Errorf("the password is in the log:\n%s", b)
		}
	}
	if got := r.written(l.Scope); !slices.Equal(got, []string{"me: password", "me: <18 bytes not shown>", "me: stop"}) {
		t.Errorf("on record are %q", got)
	}
}

// written is who has delivered what to a server, oldest first.
func (r *rig) written(s spec.Scope) (all []string) {
	r.t.Helper()
	written, err := r.client.Written(r.t.Context(), s.ServerKey())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, w := range written {
		for _, l := range w.Lines {
			text := l.Text
			if l.Withheld > 0 {
				text += fmt.Sprintf("<%d bytes not shown>", l.Withheld)
			}
			all = append(all, w.Delivery.By+": "+text)
		}
	}
	return all
}

// EC-7: every step of a custodian's start fails too; nothing is left, and the end says why.
func TestTerminalStepsFail(t *testing.T) {
	for _, step := range []stage.Step{stage.StepGate, stage.StepFork, stage.StepSend} {
		t.Run(string(step), func(t *testing.T) {
			r := newRigWithoutKeeper(t)
			r.startKeeper("-fail", string(step))
			r.connect()
			before := r.calmTraces()
			l := r.onTerminal("town", "tty")
			err := r.client.Start(t.Context(), r.order(l))
			var failed *keeper.StartFailedError
			if !errors.As(err, &failed) {
				t.Fatalf("the answer is %v", err)
			}
			e := r.awaitOver(l.Scope)
			if e.Reason != spec.ReasonStartFailed || !strings.Contains(e.Why, "keep a terminal beyond this keeper's end") {
				t.Errorf("the end is %+v", e)
			}
			r.checkTraces(before)
		})
	}
}

// EC-7: the keeper runs out of descriptors at every place where a terminal takes one.
func TestOutOfDescriptorsForATerminal(t *testing.T) {
	r := newRig(t)
	warm := r.onTerminal("warm", "exit")
	warm.Readiness = nil
	r.startAndEnd(warm)
	if failures := r.starve(func() spec.Launch { return r.onTerminal("town", "hold") }); failures < 8 {
		t.Errorf("it took %d descriptors: the walk is broken", failures)
	}
}

// startAndEnd starts a run that ends by itself and waits for its end.
func (r *rig) startAndEnd(l spec.Launch) {
	r.t.Helper()
	if err := r.client.Start(r.t.Context(), r.order(l)); err != nil {
		r.t.Fatal(err)
	}
	r.await(l.Scope, "over", func(f *observe.Facts) bool { return f.Run != nil && f.Run.Over() })
}
