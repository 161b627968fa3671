package faultd

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "faultd" {
		os.Exit(Main(os.Args[2:]))
	}
	if os.Getenv("GORACE") == "" { // else the race detector holds each workload up for a second at its exit
		os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	syscall.Umask(0o022) // the modes that tests give are those they mean
	goleak.VerifyTestMain(m)
}

// life is the end of workloads whose test was killed: longer than any test takes on a busy host.
const life = "10m0s"

// workload is a faultd that a test started.
type workload struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	out    *bufio.Reader
	outEnd io.Closer
	stderr written
	pids   string
}

// start starts a behaviour, and ends it and all its descendants when the test is over.
func start(t *testing.T, args ...string) *workload {
	t.Helper()
	dir := t.TempDir()
	w := &workload{t: t, stderr: written(dir + "/stderr"), pids: dir + "/pids"}
	args = append([]string{"faultd", args[0], "-pids", w.pids, "-life", life}, args[1:]...)
	w.cmd = exec.Command(os.Args[0], args...)
	stderr, err := os.Create(string(w.stderr)) // a file: Wait would wait for whoever holds a pipe
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	w.cmd.Stderr = stderr
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	// Not cmd.StdoutPipe: Wait would close it under whoever reads what a descendant writes.
	r, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w.cmd.Stdout, w.out, w.outEnd = pipe, bufio.NewReader(r), r
	t.Cleanup(func() { r.Close() })
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pipe.Close()
	t.Cleanup(func() {
		for _, pid := range w.family() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		if w.cmd.ProcessState == nil {
			w.cmd.Process.Kill()
			w.cmd.Wait()
		}
	})
	return w
}

// written is the path of a file, which prints as what is in it.
type written string

// String implements fmt.Stringer.
func (f written) String() string {
	b, err := os.ReadFile(string(f))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// family is every process id that was left in the trail.
func (w *workload) family() (pids []int) {
	b, err := os.ReadFile(w.pids)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			w.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// line reads the next line, without its newline.
func (w *workload) line() string {
	w.t.Helper()
	s, err := w.out.ReadString('\n')
	if err != nil {
		w.t.Fatalf("no further line: %v; standard error: %s", err, w.stderr)
	}
	return strings.TrimSuffix(s, "\n")
}

// expect reads lines up to one that begins with each prefix, in order, and returns the last.
func (w *workload) expect(prefixes ...string) (line string) {
	w.t.Helper()
	for _, p := range prefixes {
		for line = w.line(); !strings.HasPrefix(line, p); line = w.line() {
		}
	}
	return line
}

// closeOut lets standard output have no reader.
func (w *workload) closeOut() {
	w.t.Helper()
	if err := w.outEnd.Close(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *workload) signal(s syscall.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}

// end waits for the process and returns how it ended.
func (w *workload) end() syscall.WaitStatus {
	w.t.Helper()
	w.cmd.Wait()
	return w.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

func (w *workload) wantExit(code int) {
	w.t.Helper()
	if s := w.end(); !s.Exited() || s.ExitStatus() != code {
		w.t.Fatalf("ended with %#x, want exit code %d; standard error: %s", s, code, w.stderr)
	}
}

func (w *workload) wantSignal(sig syscall.Signal) {
	w.t.Helper()
	if s := w.end(); !s.Signaled() || s.Signal() != sig {
		w.t.Fatalf("ended with %#x, want signal %s; standard error: %s", s, sig, w.stderr)
	}
}

func TestEveryBehaviourHasItsOwnName(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range behaviours() {
		if seen[b.name] || b.summary == "" {
			t.Errorf("behaviour %q: doubled, or without a summary", b.name)
		}
		seen[b.name] = true
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"nothing-like-it"}, {"run", "-no-such-flag"}, {"run", "argument"}} {
		w := start(t, args...)
		w.wantExit(ExitUsage)
		if w.stderr.String() == "" {
			t.Errorf("%q: nothing is said", args)
		}
	}
}

func TestLifeEnds(t *testing.T) {
	w := start(t, "hold", "-life", "50ms")
	w.wantExit(ExitLife)
	if !slices.Equal(w.family(), []int{w.cmd.Process.Pid}) {
		t.Errorf("the trail is %v, want %d", w.family(), w.cmd.Process.Pid)
	}
}
