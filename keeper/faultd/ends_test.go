package faultd

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestRunStopsGracefully(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		w := start(t, "run", "-ready", "up and running", "-stop-code", "3")
		w.expect("up and running")
		w.signal(sig)
		w.expect("stopping on "+sig.String(), "stopped")
		w.wantExit(3)
	}
}

func TestRunDiesOfTheSignalThatStoppedIt(t *testing.T) {
	w := start(t, "run", "-reraise")
	w.expect("ready")
	w.signal(syscall.SIGTERM)
	w.expect("stopping")
	w.wantSignal(syscall.SIGTERM)
}

func TestRunReloads(t *testing.T) {
	path := t.TempDir() + "/config"
	write := func(s string) {
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	w := start(t, "run", "-config", path)
	w.expect(`config "one"`, "ready")
	write("two\n")
	w.signal(syscall.SIGHUP)
	w.expect(`reloaded "two"`)
}

func TestRunTicks(t *testing.T) {
	w := start(t, "run", "-tick", "1ms")
	w.expect("tick 0", "tick 1", "tick 2")
}

func TestExit(t *testing.T) {
	w := start(t, "exit", "-code", "7", "-stderr", "why")
	w.wantExit(7)
	if w.stderr.String() != "why\n" {
		t.Errorf("standard error is %q", w.stderr)
	}
}

func TestFlaky(t *testing.T) {
	state := t.TempDir() + "/starts"
	for range 2 {
		w := start(t, "flaky", "-state", state, "-fails", "2", "-code", "5")
		w.wantExit(5)
	}
	w := start(t, "flaky", "-state", state, "-fails", "2")
	w.expect("start 3", "ready")
	w.signal(syscall.SIGTERM)
	w.wantExit(0)
	w = start(t, "flaky")
	w.wantExit(ExitFailure)
}

func TestIgnoreTerm(t *testing.T) {
	w := start(t, "ignore-term")
	w.expect("ignoring TERM,INT,HUP,QUIT")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		w.signal(sig)
	}
	w.signal(syscall.SIGKILL)
	w.wantSignal(syscall.SIGKILL)

	w = start(t, "ignore-term", "-catch", "-signals", "SIGTERM,usr1")
	w.expect("catching TERM,USR1")
	w.signal(syscall.SIGTERM)
	w.expect("got terminated, staying")
	w.signal(syscall.SIGUSR1)
	w.expect("got user defined signal 1, staying")

	w = start(t, "ignore-term", "-signals", "NOSUCH")
	w.wantExit(ExitUsage)
}

func TestCrash(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"SEGV": syscall.SIGSEGV, "ABRT": syscall.SIGABRT, "KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM} {
		w := start(t, "crash", "-signal", name, "-after", "0s")
		w.expect("ready")
		w.wantSignal(sig)
		if w.cmd.ProcessState.Sys().(syscall.WaitStatus).CoreDump() {
			t.Errorf("%s: left a core file", name)
		}
	}
	w := start(t, "crash", "-panic", "-after", "0s")
	w.wantExit(2)
	if !strings.Contains(w.stderr.String(), "goroutine ") {
		t.Errorf("no trace on standard error: %q", w.stderr)
	}
}

func TestFreeze(t *testing.T) {
	w := start(t, "freeze", "-after", "0s")
	w.expect("freezing")
	pid := w.cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("status %#x, %v", status, err)
	}
	w.signal(syscall.SIGTERM) // stays pending
	w.signal(syscall.SIGCONT)
	w.expect("thawed")
	w.wantExit(0)
}

func TestConsole(t *testing.T) {
	w := start(t, "console", "-stop", "quit", "-code", "4", "-prompt", "> ")
	w.expect("console ready")
	for _, line := range []string{"help\n", "\r\n", "quit\r\n"} {
		if _, err := io.WriteString(w.stdin, line); err != nil {
			t.Fatal(err)
		}
	}
	w.expect(`> unknown command "help"`, "> > stopping")
	w.wantExit(4)
}

func TestConsoleAtTheEndOfInput(t *testing.T) {
	w := start(t, "console", "-eof", "exit")
	w.expect("console ready")
	w.stdin.Close()
	w.expect("end of input")
	w.wantExit(0)

	// Its life is what ends it. On a busy host a short one may be over before it has read.
	for life := 300 * time.Millisecond; ; life *= 4 {
		w = start(t, "console", "-eof", "ignore", "-life", life.String())
		w.stdin.Close()
		said := w.rest()
		w.wantExit(ExitLife)
		if strings.Contains(said, "end of input") {
			break
		}
		if life > 5*time.Minute {
			t.Fatalf("in a life of %s it said %q", life, said)
		}
	}

	w = start(t, "console", "-eof", "spin", "-prompt", "again\n")
	w.stdin.Close()
	w.expect("again", "again", "again")

	w = start(t, "console", "-eof", "wrong")
	w.wantExit(ExitFailure)
}
