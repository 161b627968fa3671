package stage

import (
	"context"
	"errors"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/proc/proctest"
)

// EC-4, EC-5: arguments and environment arrive as bytes, and there is nothing else.
func TestArgumentsAndEnvironmentArriveAsTheyAre(t *testing.T) {
	b := newBench(t, Options{}, self, "a name", "$(x)", "a; b", "`c`", "", "ünï\t\"'\\")
	b.spec.Env = []string{"EMPTY=", "A=$HOME;`x`"}
	got := b.inspected(t)
	if !slices.Equal(got.Args, b.spec.Argv) {
		t.Errorf("arguments %q, want %q", got.Args, b.spec.Argv)
	}
	if !slices.Equal(got.Env, b.spec.Env) {
		t.Errorf("environment %q, want %q", got.Env, b.spec.Env)
	}
}

// What the starter, or its own parent, left open does not reach the workload.
func TestWorkloadInheritsOnlyStandardFiles(t *testing.T) {
	leak, err := unix.Open(os.DevNull, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	b := newBench(t, Options{}, "/bin/ls", "ls", "/proc/self/fd")
	if status := b.run(t); status != 0 {
		t.Fatalf("wait status %#x", uint32(status))
	}
	buf := make([]byte, 100)
	n, err := b.out.Read(buf)
	if want := "0\n1\n2\n3\n"; err != nil || string(buf[:n]) != want { // 3 is the directory that ls reads
		t.Errorf("descriptors %q, %v, want %q", buf[:n], err, want)
	}
}

func TestWorkloadGetsAFreshPlace(t *testing.T) {
	ossignal.Ignore(syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGUSR1)
	defer ossignal.Reset(syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGUSR1)

	b := newBench(t, Options{}, self, "inspect")
	b.spec.Limits = []Limit{{Resource: unix.RLIMIT_CORE, Soft: 4096, Hard: 8192}}
	got := b.inspected(t)
	if zero := "0000000000000000"; got.Ignored != zero || got.Blocked != zero {
		t.Errorf("signals ignored %s, blocked %s, want none", got.Ignored, got.Blocked)
	}
	if got.SID != got.PID {
		t.Errorf("session %d, want its own, %d", got.SID, got.PID)
	}
	dir, err := os.Readlink(selfFd(b.spec.Dir))
	if err != nil {
		t.Fatal(err)
	}
	if got.Dir != dir {
		t.Errorf("directory %s, want %s", got.Dir, dir)
	}
	if got.Core != (unix.Rlimit{Cur: 4096, Max: 8192}) {
		t.Errorf("core limit %+v", got.Core)
	}
}

func TestCredential(t *testing.T) {
	b := newBench(t, Options{}, proctest.Program(t), "inspect")
	b.spec.Credential = &Credential{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), KeepGroups: true}
	want, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		b.spec.Credential = &Credential{UID: nobody, GID: nobody, Groups: []uint32{7, nobody}}
		want = []int{7, nobody}
	}
	got := b.inspected(t)
	if got.UID != int(b.spec.Credential.UID) || got.GID != int(b.spec.Credential.GID) || !slices.Equal(got.Groups, want) {
		t.Errorf("user %d, group %d, groups %v; want %+v, groups %v", got.UID, got.GID, got.Groups, *b.spec.Credential, want)
	}
}

func TestScript(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/cat\nhello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, Options{}, script, "script")
	is, err := IsScript(b.spec.Exec)
	if err != nil || !is {
		t.Fatalf("IsScript = %v, %v", is, err)
	}
	b.spec.Path = script
	if status := b.run(t); status != 0 {
		t.Fatalf("wait status %#x", uint32(status))
	}
	buf := make([]byte, 100)
	n, err := b.out.Read(buf)
	if err != nil || string(buf[:n]) != "#!/bin/cat\nhello\n" {
		t.Errorf("output %q, %v", buf[:n], err)
	}
	if is, err := IsScript(open(t, self, unix.O_PATH)); is || err != nil {
		t.Errorf("IsScript of a binary = %v, %v", is, err)
	}
	if is, err := IsScript(open(t, os.DevNull, unix.O_PATH)); is || err != nil {
		t.Errorf("IsScript of an empty file = %v, %v", is, err)
	}
}

func TestWhatCannotBeExecutedSaysWhy(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	noInterpreter := write("no-interpreter", "#!/nonexistent/interpreter\n", 0o755)
	tests := map[string]struct {
		file, script string
		dir          string
		op           string
		errno        syscall.Errno
	}{
		"not executable":         {file: write("plain", "text", 0o644), op: opExec, errno: syscall.EACCES},
		"no known format":        {file: write("text", "text", 0o755), op: opExec, errno: syscall.ENOEXEC},
		"empty":                  {file: write("empty", "", 0o755), op: opExec, errno: syscall.ENOEXEC},
		"a directory":            {file: dir, op: opExec, errno: syscall.EACCES},
		"script by descriptor":   {file: noInterpreter, op: opExec, errno: syscall.ENOENT},
		"missing interpreter":    {file: noInterpreter, script: noInterpreter, op: opExec, errno: syscall.ENOENT},
		"script that went away":  {file: noInterpreter, script: dir + "/gone", op: opExec, errno: syscall.ENOENT},
		"directory is a file":    {file: "/bin/true", dir: noInterpreter, op: opDir, errno: syscall.ENOTDIR},
		"longest path of a file": {file: "/bin/true", script: "/" + strings.Repeat("a/", 2046) + "aa", op: opExec, errno: syscall.ENOENT},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{}, tt.file, "x")
			b.spec.Path = tt.script
			if tt.dir != "" {
				b.spec.Dir = open(t, tt.dir, unix.O_PATH)
			}
			nothingLeft(t, func() {
				h, err := b.Hold(b.spec)
				if err != nil {
					t.Fatal(err)
				}
				err = h.Release(ctx(t))
				var e *ExecError
				if !errors.As(err, &e) || e.Op != tt.op || e.Errno != tt.errno {
					t.Fatalf("Release = %v, want to %s: %v", err, tt.op, tt.errno)
				}
				if err := h.Abandon(); err != nil {
					t.Errorf("Abandon after it = %v", err)
				}
			})
		})
	}
}

func TestSpecIsCheckedBeforeAFork(t *testing.T) {
	b := newBench(t, Options{Fault: func(s Step) error { t.Errorf("step %s was tried", s); return nil }}, "/bin/true", "true")
	tests := map[string]func(*Spec){
		"no arguments":        func(s *Spec) { s.Argv = nil },
		"NUL in an argument":  func(s *Spec) { s.Argv = []string{"a", "b\x00c"} },
		"NUL in environment":  func(s *Spec) { s.Env = []string{"A=\x00"} },
		"variable, no name":   func(s *Spec) { s.Env = []string{"=a"} },
		"variable, no value":  func(s *Spec) { s.Env = []string{"A"} },
		"relative script":     func(s *Spec) { s.Path = "a/b" },
		"overlong script":     func(s *Spec) { s.Path = "/" + strings.Repeat("a", unix.PathMax-1) },
		"NUL in a script":     func(s *Spec) { s.Path = "/a\x00b" },
		"no executable":       func(s *Spec) { s.Exec = -1 },
		"no directory":        func(s *Spec) { s.Dir = -1 },
		"no standard input":   func(s *Spec) { s.Stdio[0] = -1 },
		"no standard error":   func(s *Spec) { s.Stdio[2] = -1 },
		"no standard output.": func(s *Spec) { s.Stdio[1] = -1 },
	}
	for name, spoil := range tests {
		spec := b.spec
		spoil(&spec)
		if h, err := b.Hold(spec); err == nil {
			t.Errorf("%s: held", name)
			_ = h.Kill()
		}
	}
}

// BP-11: a start that is cancelled before the word leaves no process.
func TestCancelledBeforeTheWord(t *testing.T) {
	b := newBench(t, Options{}, "/bin/true", "true")
	done, cancel := context.WithCancel(t.Context())
	cancel()
	nothingLeft(t, func() {
		h, err := b.Hold(b.spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Release(done); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUndecided) {
			t.Errorf("Release = %v", err)
		}
		if err := h.Release(ctx(t)); !errors.Is(err, ErrSpent) {
			t.Errorf("second Release = %v, want ErrSpent", err)
		}
	})
}
