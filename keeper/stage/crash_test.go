package stage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The crasher is a starter that is killed: it writes each start down, then releases it. Descriptors: 1 gets its
// books, 3 becomes the output of the workloads. Its argument is the step at which it kills itself, or "" to be killed
// from outside.
func crasher() {
	at := Step(os.Args[1])
	books := os.NewFile(1, "books")
	starts := 0
	s, err := New(Options{Fault: func(step Step) error {
		if step == at && starts == 2 {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
		return nil
	}})
	if err != nil {
		die(err)
	}
	exe, err := os.Open("/bin/echo")
	if err != nil {
		die(err)
	}
	dir, err := os.Open("/")
	if err != nil {
		die(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		die(err)
	}
	unix.CloseOnExec(3)
	for starts = 1; ; starts++ {
		h, err := s.Hold(Spec{
			Exec: int(exe.Fd()), Argv: []string{"echo", fmt.Sprintf("%d-%d", os.Getpid(), starts)}, Dir: int(dir.Fd()),
			Stdio: [3]int{int(null.Fd()), 3, int(null.Fd())}, Cgroup: -1,
			Limits: []Limit{{Resource: unix.RLIMIT_CORE}},
		})
		if err != nil {
			die(err)
		}
		if _, err := fmt.Fprintf(books, "%d-%d\n", os.Getpid(), starts); err != nil {
			die(err)
		}
		if err := h.Release(context.Background()); err != nil {
			die(err)
		}
		if _, err := wait(h.PID); err != nil {
			die(err)
		}
	}
}

func die(err error) {
	fmt.Fprintln(os.Stderr, "crasher:", err)
	os.Exit(1)
}

// crash runs a crasher, kills it when kill returns, and returns what its books and its workloads say. It returns when
// the last holder of the workloads' output is gone: the stages too.
func crash(t *testing.T, at string, kill func(pid int)) (recorded, ran []string) {
	t.Helper()
	bookR, bookW := pipe(t)
	outR, outW := pipe(t)
	p, err := os.StartProcess("/proc/self/exe", []string{"crasher", at}, &os.ProcAttr{
		Env:   []string{roleVar + "=crasher"},
		Files: []*os.File{nil, bookW, os.Stderr, outW},
	})
	if err != nil {
		t.Fatal(err)
	}
	bookW.Close()
	outW.Close()
	books := bufio.NewReader(bookR)
	first, err := books.ReadString('\n') // it is at work
	if err != nil {
		t.Fatalf("the crasher's books: %q, %v", first, err)
	}
	kill(p.Pid)
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	if state, err := p.Wait(); err != nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the crasher ended by itself: %v, %v", state, err)
	}
	rest, err := io.ReadAll(books)
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(outR)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(first + string(rest)), strings.Fields(string(out))
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// I2: whoever ran is on record, at whichever moment the starter is killed; a held stage ends with its starter.
func TestKilledStarterRunsNothingUnrecorded(t *testing.T) {
	kills := 200
	if testing.Short() {
		kills = 20
	}
	total := 0
	for i := range kills {
		moment := time.Duration(rand.IntN(4000)) * time.Microsecond
		recorded, ran := crash(t, "", func(int) { <-time.After(moment) })
		total += len(ran)
		books := make(map[string]bool)
		for _, r := range recorded {
			books[r] = true
		}
		for _, r := range ran {
			if !books[r] {
				t.Errorf("kill %d: %s ran and is not on record", i, r)
			}
		}
		if len(recorded)-len(ran) > 1 {
			t.Errorf("kill %d: %d on record, %d ran", i, len(recorded), len(ran))
		}
	}
	if total == 0 {
		t.Error("nothing ran at all")
	}
	t.Logf("%d kills, %d workloads ran", kills, total)
}

// The same at every step of a start: the second start dies at it.
func TestStarterKilledAtEachStep(t *testing.T) {
	want := map[Step][2]int{ // on record, ran
		StepGate: {1, 1}, StepFork: {1, 1}, StepLimits: {1, 1}, StepSend: {2, 1}, StepAwait: {2, 2},
	}
	for step, w := range want {
		recorded, ran := crash(t, string(step), func(pid int) { // it kills itself
			if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
				t.Fatal(err)
			}
		})
		if len(recorded) != w[0] || len(ran) != w[1] {
			t.Errorf("%s: %d on record, %d ran, want %v", step, len(recorded), len(ran), w)
		}
	}
}

// EC-7: a fault at any step leaves no descriptor and no process, and is told.
func TestFaultAtEachStepLeavesNothing(t *testing.T) {
	fault := errors.New("injected")
	for _, step := range Steps() {
		t.Run(string(step), func(t *testing.T) {
			hit := false
			b := newBench(t, Options{Fault: func(s Step) error {
				if s == step {
					hit = true
					return fault
				}
				return nil
			}}, "/bin/true", "true")
			b.spec.Limits = []Limit{{Resource: unix.RLIMIT_CORE}}
			if step == StepMove {
				b.spec.Cgroup = freshCgroup(t)
			}
			nothingLeft(t, func() {
				h, err := b.Hold(b.spec)
				if err == nil {
					if step == StepWatch {
						signal(t, h, unix.SIGSTOP) // the exec takes long
					}
					err = h.Release(ctx(t))
					if errors.Is(err, ErrUndecided) {
						if kerr := h.Kill(); kerr != nil {
							t.Error(kerr)
						}
					}
				}
				if !errors.Is(err, fault) {
					t.Errorf("error %v", err)
				}
			})
			if !hit {
				t.Error("the step was never tried")
			}
		})
	}
}

// The same for faults of the kernel's own.
func TestRealFaultsLeaveNothing(t *testing.T) {
	regular, err := os.Create(filepath.Join(t.TempDir(), "regular"))
	if err != nil {
		t.Fatal(err)
	}
	defer regular.Close()
	tests := map[string]func(*Spec){
		"a limit that cannot be":   func(s *Spec) { s.Limits = []Limit{{Resource: unix.RLIMIT_CORE, Soft: 2, Hard: 1}} },
		"no such limit":            func(s *Spec) { s.Limits = []Limit{{Resource: 999}} },
		"a cgroup that is none":    func(s *Spec) { s.Cgroup = int(regular.Fd()) },
		"a descriptor not open":    func(s *Spec) { s.Stdio[2] = 19_999 },
		"an argument list too big": func(s *Spec) { s.Argv = append(s.Argv, strings.Repeat("x", 1<<20)) },
	}
	for name, spoil := range tests {
		b := newBench(t, Options{}, "/bin/true", "true")
		spec := b.spec
		spoil(&spec)
		nothingLeft(t, func() {
			h, err := b.Hold(spec)
			if err == nil {
				t.Errorf("%s: held", name)
				_ = h.Kill()
			}
		})
	}
}
