package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The test binary plays the processes of the tests: the variable says which. A workload gets its whole environment
// from the Spec, so it plays a role only where a test gives it one.
const roleVar = "STAGE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "inspect":
		inspect()
	case "crasher":
		crasher()
	case "":
		unix.Umask(0o022) // the modes that tests give are those they mean
		goleak.VerifyTestMain(m)
	default:
		fmt.Fprintln(os.Stderr, "no such role:", os.Getenv(roleVar))
		os.Exit(2)
	}
}

// seen is what a workload finds itself to be.
type seen struct {
	Args     []string
	Env      []string
	Dir      string
	UID, GID int
	Groups   []int
	PID, SID int
	Umask    int
	Ignored  string // SigIgn of /proc/self/status
	Blocked  string
	Core     unix.Rlimit
	Cgroup   string
}

// inspect prints what the process is, once.
func inspect() {
	s := seen{Args: os.Args, Env: os.Environ(), UID: os.Getuid(), GID: os.Getgid(), PID: os.Getpid()}
	s.Dir, _ = os.Getwd()
	s.Groups, _ = os.Getgroups()
	s.SID, _ = unix.Getsid(0)
	s.Umask = unix.Umask(0)
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "SigIgn":
			s.Ignored = strings.TrimSpace(value)
		case "SigBlk":
			s.Blocked = strings.TrimSpace(value)
		}
	}
	_ = unix.Getrlimit(unix.RLIMIT_CORE, &s.Core)
	if b, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		for line := range strings.Lines(string(b)) {
			if path, ok := strings.CutPrefix(line, "0::"); ok {
				s.Cgroup = strings.TrimSpace(path)
			}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// bench is what a test starts with: a stager, and a Spec with an output to read.
type bench struct {
	*Stager
	spec Spec
	out  *os.File // read end of the workload's output
}

func newBench(t testing.TB, o Options, executable string, argv ...string) *bench {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return newBenchOf(t, s, executable, argv...)
}

func newBenchOf(t testing.TB, s *Stager, executable string, argv ...string) *bench {
	t.Helper()
	t.Cleanup(func() { s.Close() })
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	null := open(t, os.DevNull, os.O_RDWR)
	exe := open(t, executable, unix.O_PATH)
	dir := open(t, t.TempDir(), unix.O_PATH)
	t.Cleanup(func() { r.Close(); w.Close() })
	return &bench{Stager: s, out: r, spec: Spec{
		Exec: exe, Argv: argv, Dir: dir, Cgroup: -1,
		Stdio: [3]int{null, int(w.Fd()), null},
	}}
}

// self is this binary, as a workload.
const self = "/proc/self/exe"

func open(t testing.TB, path string, flags int) int {
	t.Helper()
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// run starts the workload and waits for its end.
func (b *bench) run(t testing.TB) syscall.WaitStatus {
	t.Helper()
	h, err := b.Hold(b.spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Release(ctx(t)); err != nil {
		t.Fatal(err)
	}
	status, err := wait(h.PID)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func ctx(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return c
}

// inspected runs the inspect role and returns what it saw.
func (b *bench) inspected(t *testing.T) seen {
	t.Helper()
	b.spec.Env = append(b.spec.Env, roleVar+"=inspect")
	if status := b.run(t); status != 0 {
		t.Fatalf("the workload ended with wait status %#x", uint32(status))
	}
	var s seen
	if err := json.NewDecoder(b.out).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// files lists the open descriptors of the test process.
func files(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var l []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(target, "/proc/") {
			l = append(l, e.Name()+" "+target)
		}
	}
	slices.Sort(l)
	return l
}

// children lists the children of the test process.
func children(t testing.TB) []int {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var l []int
	for _, p := range tasks {
		b, err := os.ReadFile(p)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // a thread that ended
		}
		if err != nil {
			t.Fatal(err)
		}
		for f := range strings.FieldsSeq(string(b)) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			l = append(l, pid)
		}
	}
	return l
}

// nothingLeft fails the test when fn leaves a descriptor or a child behind (EC-7).
func nothingLeft(t *testing.T, fn func()) {
	t.Helper()
	fn()                                    // what a first call sets up for good (the poller) is no leak
	before, others := files(t), children(t) // orphans, where the tests are the first of a pid namespace
	fn()
	if after := files(t); !slices.Equal(before, after) {
		t.Errorf("descriptors left:\nbefore %q\nafter  %q", before, after)
	}
	if left := newChildren(t, others); len(left) > 0 {
		t.Errorf("children left: %v", left)
	}
}

// newChildren lists the children that are none of the others.
func newChildren(t testing.TB, others []int) []int {
	t.Helper()
	return slices.DeleteFunc(children(t), func(pid int) bool { return slices.Contains(others, pid) })
}
