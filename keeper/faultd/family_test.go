package faultd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// stat returns the state letter, the parent and the process group of a process.
func stat(t *testing.T, pid int) (state string, ppid, pgid, sid int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(b[strings.LastIndexByte(string(b), ')')+2:]), &state, &ppid, &pgid, &sid); err != nil {
		t.Fatal(err)
	}
	return state, ppid, pgid, sid
}

func TestDaemonise(t *testing.T) {
	w := start(t, "daemonise", "-code", "8", "-clearenv", "-ignore", "TERM")
	var daemon, parent int
	if _, err := fmt.Sscanf(w.expect("holding "), "holding pid=%d ppid=%d", &daemon, &parent); err != nil {
		t.Fatal(err)
	}
	w.wantExit(8) // while the daemon holds standard output open
	if family := w.family(); len(family) != 3 || !slices.Contains(family, daemon) {
		t.Fatalf("the trail is %v, the daemon %d", family, daemon)
	}
	_, ppid, _, sid := stat(t, daemon)
	if ppid == w.cmd.Process.Pid || sid == daemon {
		t.Errorf("the daemon's parent is %d, its session %d", ppid, sid)
	}
	if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", daemon)); err != nil || len(env) != 0 {
		t.Errorf("its environment is %q, %v", env, err)
	}
}

func TestDaemoniseStays(t *testing.T) {
	w := start(t, "daemonise", "-stay")
	w.expect("daemon launched")
	w.signal(syscall.SIGTERM)
	w.wantExit(0)
}

func TestSpawn(t *testing.T) {
	for _, group := range []string{"same", "own", "session"} {
		w := start(t, "spawn", "-n", "2", "-group", group)
		var children []int
		for len(children) < 2 {
			var pid, ppid int
			if _, err := fmt.Sscanf(w.expect("holding "), "holding pid=%d ppid=%d", &pid, &ppid); err != nil {
				t.Fatal(err)
			}
			children = append(children, pid)
		}
		w.signal(syscall.SIGTERM)
		w.wantExit(0)
		for _, pid := range children {
			state, _, pgid, sid := stat(t, pid)
			if state == "Z" || (pgid == pid) != (group != "same") || (sid == pid) != (group == "session") {
				t.Errorf("%s: child %d is %s in group %d, session %d", group, pid, state, pgid, sid)
			}
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil { // which it ignores
				t.Error(err)
			}
		}
	}
	w := start(t, "spawn", "-group", "wrong")
	w.wantExit(ExitFailure)
}

func TestSpawnLeavesZombies(t *testing.T) {
	w := start(t, "spawn", "-n", "2", "-zombies")
	w.expect("spawned 2")
	for _, pid := range children(t, w.cmd.Process.Pid) {
		for state := ""; state != "Z"; { // it exits by itself
			state, _, _, _ = stat(t, pid)
		}
	}
	if n := len(children(t, w.cmd.Process.Pid)); n != 2 {
		t.Errorf("%d children", n)
	}
}

// children are the processes whose parent is pid.
func children(t *testing.T, pid int) (found []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // a thread that ended
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.Fields(string(b)) {
			var child int
			if _, err := fmt.Sscan(word, &child); err != nil {
				t.Fatal(err)
			}
			found = append(found, child)
		}
	}
	return found
}

func TestForkbomb(t *testing.T) {
	w := start(t, "forkbomb", "-k", "9")
	for range 9 {
		w.expect("bomb ")
	}
	if n := len(w.family()); n != 9 {
		t.Errorf("%d processes, want 9", n)
	}
	w = start(t, "forkbomb", "-k", "5000")
	w.wantExit(ExitFailure)
}

func TestRename(t *testing.T) {
	w := start(t, "rename", "-comm", "innocent-looking-program", "-argv", "somebody else")
	w.expect("renamed to innocent-lookin")
	pid := w.cmd.Process.Pid
	for file, want := range map[string]string{"comm": "innocent-lookin\n", "cmdline": "somebody else"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if got := strings.TrimRight(string(b), "\x00"); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", file, got, err, want)
		}
	}
	w.signal(syscall.SIGTERM)
	w.wantExit(0)
}

func TestBecome(t *testing.T) {
	const self = "/proc/self/exe" // a path without spaces, wherever this is built
	w := start(t, "become", "-after", "0s", "-exec", self+" faultd exit -code 5")
	w.expect("becoming " + self)
	w.wantExit(5)
	w = start(t, "become", "-after", "0s", "-exec", "/no/such/program")
	w.wantExit(ExitFailure)
}

func TestMemHolds(t *testing.T) {
	w := start(t, "mem", "-mb", "40")
	w.expect("holding 40 MiB")
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", w.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, resident int
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		t.Fatal(err)
	}
	if resident*os.Getpagesize() < 40<<20 {
		t.Errorf("%d pages are resident", resident)
	}
	w.signal(syscall.SIGTERM)
	w.wantExit(0)
}

func TestSpinStops(t *testing.T) {
	w := start(t, "spin")
	w.expect("spinning")
	w.signal(syscall.SIGTERM)
	w.wantExit(0)
}

func TestInspect(t *testing.T) {
	w := start(t, "inspect", "-wait", "-ignore", "HUP")
	var got Inspection
	if err := json.Unmarshal([]byte(w.line()), &got); err != nil {
		t.Fatal(err)
	}
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	env := os.Environ()
	slices.Sort(env)
	if got.PID != w.cmd.Process.Pid || got.PPID != os.Getpid() || got.UID != os.Geteuid() || got.Cwd != cwd || !slices.Equal(got.Env, env) {
		t.Errorf("inspected %+v", got)
	}
	if want := []string{os.Args[0], "faultd", "inspect", "-pids", w.pids, "-life", life, "-wait", "-ignore", "HUP"}; !slices.Equal(got.Argv, want) {
		t.Errorf("argv is %q, want %q", got.Argv, want)
	}
	for fd, target := range got.FDs {
		if fd == "0" || fd == "1" || fd == "2" {
			continue
		}
		// What whoever runs the tests has handed down to them, they hand on.
		if own, err := os.Readlink("/proc/self/fd/" + fd); err != nil || own != target {
			t.Errorf("descriptor %s is %s", fd, target)
		}
	}
	if !strings.HasPrefix(got.FDs["0"], "pipe:") || !strings.HasPrefix(got.FDs["1"], "pipe:") || got.FDs["2"] == "" {
		t.Errorf("descriptors are %v", got.FDs)
	}
	// Others may be ignored by whoever runs the tests, as SIGINT by what a shell has in the background.
	if ignored, err := strconv.ParseUint(got.Status["SigIgn"], 16, 64); err != nil || ignored&(1<<(syscall.SIGHUP-1)) == 0 {
		t.Errorf("SigIgn is %s, without SIGHUP", got.Status["SigIgn"])
	}
	// Session 0 is one whose leader lives outside of this PID namespace, as in a container.
	sid, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	if got.Umask == "" || got.Cgroup == "" || got.Limits["nofile"].Hard == 0 || got.SID != sid {
		t.Errorf("inspected %+v", got)
	}
	w.signal(syscall.SIGTERM)
	w.wantExit(0)
}
