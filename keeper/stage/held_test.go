package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/proc"
	"reconciler.dev/reconciler/observe/proc/proctest"
)

// undecided releases a stage that is stopped, and gives up when the word lies at its gate. It returns the context, which is done.
func (b *bench) undecided(t *testing.T, h *Held) context.Context {
	t.Helper()
	over, cancel := context.WithCancel(t.Context())
	b.fault = func(s Step) error {
		if s == StepWatch { // the word is sent, and there was no prompt answer
			cancel()
		}
		return nil
	}
	signal(t, h, unix.SIGSTOP)
	if err := h.Release(over); !errors.Is(err, ErrUndecided) || !errors.Is(err, context.Canceled) {
		t.Fatalf("Release = %v", err)
	}
	return over
}

func TestStageKilledBeforeTheWord(t *testing.T) {
	b := newBench(t, Options{}, "/bin/true", "true")
	for name, stopped := range map[string]bool{"dead": false, "stopped, then dead": true} {
		nothingLeft(t, func() {
			h, err := b.Hold(b.spec)
			if err != nil {
				t.Fatal(err)
			}
			release := func() error { return h.Release(ctx(t)) }
			if stopped { // it has the word and does not read it
				b.undecided(t, h)
				release = func() error { return h.Await(ctx(t)) }
			}
			signal(t, h, unix.SIGKILL)
			if !ended(h.Pidfd()) {
				t.Fatal("it does not die")
			}
			if err := release(); !errors.Is(err, ErrDied) {
				t.Errorf("%s: %v, want ErrDied", name, err)
			}
		})
	}
}

// A stage that dies between the word and the exec has closed its gate like one that executed the workload.
func TestDeadStageIsNotTakenForAnExec(t *testing.T) {
	b := newBench(t, Options{}, "/bin/true", "true")
	h, err := b.Hold(b.spec)
	if err != nil {
		t.Fatal(err)
	}
	atGate(t, h)
	signal(t, h, unix.SIGKILL)
	if h.executed() {
		t.Error("a killed stage is taken for the workload")
	}
	if err := h.Abandon(); err != nil {
		t.Error(err)
	}
}

// atGate waits until the stage has its name: before it reads the gate.
func atGate(t *testing.T, h *Held) {
	t.Helper()
	for {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", h.PID))
		if err != nil {
			t.Fatal(err)
		}
		if string(name) == Comm+"\n" {
			return
		}
		runtime.Gosched()
	}
}

func TestWorkloadMayBeCalledAsTheStageIs(t *testing.T) {
	b := newBench(t, Options{}, "/bin/cat", "cat")
	r, w := pipe(t)
	b.spec.Stdio[0] = int(r.Fd())                  // it waits for more
	b.spec.Path = filepath.Join(t.TempDir(), Comm) // executed by a path, it is called by its last name
	if err := os.Symlink("/bin/cat", b.spec.Path); err != nil {
		t.Fatal(err)
	}
	h, err := b.Hold(b.spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Release(ctx(t)); err != nil {
		t.Errorf("Release = %v", err)
	}
	w.Close()
	if status, err := wait(h.PID); err != nil || status != 0 {
		t.Errorf("wait status %#x, %v", uint32(status), err)
	}
}

func signal(t *testing.T, h *Held, sig syscall.Signal) {
	t.Helper()
	if err := unix.PidfdSendSignal(h.Pidfd(), sig, nil, 0); err != nil {
		t.Fatal(err)
	}
}

// A wait whose time is over before it begins, as a processor was had too late, is no failure of the start.
func TestLateWaitIsNoFailure(t *testing.T) {
	b := newBench(t, Options{}, "/bin/true", "true")
	h, err := b.Hold(b.spec)
	if err != nil {
		t.Fatal(err)
	}
	signal(t, h, unix.SIGSTOP) // there is no prompt answer
	if err := h.Open(ctx(t)); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if err := h.Await(over); !errors.Is(err, ErrUndecided) {
		t.Errorf("Await = %v, want ErrUndecided", err)
	}
	signal(t, h, unix.SIGCONT)
	if err := h.Await(ctx(t)); err != nil {
		t.Errorf("Await = %v", err)
	}
	if status, err := wait(h.PID); err != nil || status != 0 {
		t.Errorf("wait status %#x, %v", uint32(status), err)
	}
}

// An exec that takes long (a file server that does not answer) hangs nobody, and its end is still told.
func TestUndecidedReleaseIsDecidedLater(t *testing.T) {
	b := newBench(t, Options{}, "/bin/true", "true")
	nothingLeft(t, func() {
		h, err := b.Hold(b.spec)
		if err != nil {
			t.Fatal(err)
		}
		over := b.undecided(t, h)
		if err := h.Abandon(); !errors.Is(err, ErrUndecided) {
			t.Errorf("Abandon = %v", err)
		}
		if err := h.Await(over); !errors.Is(err, ErrUndecided) {
			t.Errorf("Await = %v", err)
		}
		signal(t, h, unix.SIGCONT)
		if err := h.Await(ctx(t)); err != nil {
			t.Errorf("Await = %v", err)
		}
		if status, err := wait(h.PID); err != nil || status != 0 {
			t.Errorf("wait status %#x, %v", uint32(status), err)
		}
	})
}

func TestKillEndsAnUndecidedRelease(t *testing.T) {
	b := newBench(t, Options{}, "/bin/true", "true")
	nothingLeft(t, func() {
		h, err := b.Hold(b.spec)
		if err != nil {
			t.Fatal(err)
		}
		b.undecided(t, h)
		if err := errors.Join(h.Kill(), h.Kill(), h.Abandon()); err != nil {
			t.Error(err)
		}
		if err := h.Await(ctx(t)); !errors.Is(err, ErrSpent) {
			t.Errorf("Await = %v", err)
		}
	})
}

// A stage is known by its name while it waits, and when it is dead; what it became has its own.
func TestStageIsKnownByItsName(t *testing.T) {
	k, err := proc.Probe()
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, Options{}, "/bin/cat", "cat")
	comm := func(h *Held) (*proc.Process, func() string) {
		fd, err := h.Dup()
		if err != nil {
			t.Fatal(err)
		}
		id, err := k.Identify(h.PID, fd)
		if err != nil {
			t.Fatal(err)
		}
		p := k.Own(id, fd)
		t.Cleanup(func() { p.Close() })
		return p, func() string {
			name, err := p.Comm()
			if err != nil {
				t.Fatal(err)
			}
			return name
		}
	}

	h, err := b.Hold(b.spec)
	if err != nil {
		t.Fatal(err)
	}
	_, name := comm(h)
	h.closeGate()
	if !ended(h.Pidfd()) {
		t.Fatal("the stage does not end when its gate is closed")
	}
	if got := name(); got != Comm {
		t.Errorf("a dead stage is called %q", got)
	}
	if err := h.Abandon(); err != nil {
		t.Error(err)
	}

	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	b.spec.Stdio[0] = int(r.Fd()) // cat waits for more
	h, err = b.Hold(b.spec)
	if err != nil {
		t.Fatal(err)
	}
	p, name := comm(h)
	if err := h.Release(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if got := name(); got == Comm {
		t.Errorf("the workload is called %q", got)
	}
	if _, err := h.Dup(); !errors.Is(err, ErrSpent) {
		t.Errorf("Dup after the release: %v", err)
	}
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := wait(h.PID); err != nil {
		t.Fatal(err)
	}
}

// Reaping orphans beside starts takes no stage's exit.
func TestStraysBesideStarts(t *testing.T) {
	k, err := proc.Probe()
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, Options{}, "/bin/true", "true")
	var mu sync.Mutex
	released := make(map[int]bool)
	known := func(held func(int) bool) func(int) bool {
		return func(pid int) bool {
			mu.Lock()
			defer mu.Unlock()
			return held(pid) || released[pid]
		}
	}
	start := func() error {
		h, err := b.Hold(b.spec)
		if err != nil {
			return err
		}
		mu.Lock()
		released[h.PID] = true
		mu.Unlock()
		if err := h.Release(ctx(t)); err != nil {
			return err
		}
		_, err = wait(h.PID) // ECHILD if it was stolen
		mu.Lock()
		delete(released, h.PID)
		mu.Unlock()
		return err
	}
	var starts sync.WaitGroup
	for range 2 {
		starts.Go(func() {
			for range 50 {
				if err := start(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { starts.Wait(); close(done) }()
	for reaping := true; reaping; {
		select {
		case <-done:
			reaping = false
		default:
		}
		b.Quiet(func(held func(int) bool) {
			// What it may reap are orphans, where the tests are the first of a pid namespace. A stolen exit is missed by its starter.
			if _, _, err := k.Strays(known(held)); err != nil {
				t.Error(err)
			}
		})
	}
}

const (
	nobody     = 65534
	insideVar  = "STAGE_TEST_INSIDE"
	insideUser = "user"
)

// All tests once more as an ordinary user.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 || os.Getenv(insideVar) != "" {
		return
	}
	dir := proctest.Place(t)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(proctest.Program(t), "-test.short", "-test.v", "-test.skip=TestProgramIsWhatItsSourceSays")
	cmd.Env = []string{insideVar + "=" + insideUser, "TMPDIR=" + dir, "HOME=" + dir}
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestCredential") {
		t.Errorf("%v\n%s", err, out)
	}
}
