//go:build bench

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// benchCgroup is a cgroup of the benchmark's own: whatever is started in it is counted, with all its descendants and those that
// have ended, and ended with it.
type benchCgroup struct {
	path string
	dir  *os.File // nil = removed
}

// newBenchCgroup makes a cgroup below the one that the benchmark runs in. Without cgroup2 nothing can be measured.
func newBenchCgroup(t *testing.T) *benchCgroup {
	t.Helper()
	below, err := ownCgroup()
	if err != nil {
		t.Fatalf("the benchmark counts processor time by cgroup2: %v", err)
	}
	path, err := os.MkdirTemp(below, "reconciler-bench-")
	if err != nil {
		t.Fatalf("the benchmark counts processor time by cgroup2, and may make no group: %v", err)
	}
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	g := &benchCgroup{path, dir}
	t.Cleanup(func() { g.remove(t) })
	return g
}

// ownCgroup is the directory of this process's cgroup.
func ownCgroup() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for mount := range strings.Lines(string(mounts)) {
		f := strings.Fields(mount)
		if f[2] != "cgroup2" {
			continue
		}
		for line := range strings.Lines(string(own)) {
			if path, ok := strings.CutPrefix(line, "0::"); ok {
				return filepath.Join(f[1], strings.TrimSpace(path)), nil
			}
		}
	}
	return "", fmt.Errorf("no cgroup2 is mounted")
}

// cpu is the processor time of the group so far.
func (g *benchCgroup) cpu(t *testing.T) time.Duration {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(g.path, "cpu.stat"))
	if err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(string(data), "usage_usec ")
	line, _, _ := strings.Cut(text, "\n")
	usec, err := strconv.ParseInt(line, 10, 64)
	if !ok || err != nil {
		t.Fatalf("cpu.stat: %q", data)
	}
	return time.Duration(usec) * time.Microsecond
}

// quiet waits until the group has used less than a thousandth of a processor for a quarter of a second, and returns its time.
func (g *benchCgroup) quiet(t *testing.T) time.Duration {
	t.Helper()
	last := g.cpu(t)
	for deadline := time.Now().Add(benchPatience); time.Now().Before(deadline); {
		time.Sleep(250 * time.Millisecond)
		now := g.cpu(t)
		if now-last < 250*time.Microsecond {
			return now
		}
		last = now
	}
	t.Fatal("the processes do not come to rest")
	return 0
}

// freeze stops everything in the group, or lets it go on, and waits until that is so.
func (g *benchCgroup) freeze(t *testing.T, on bool) {
	t.Helper()
	number := map[bool]string{false: "0", true: "1"}[on]
	if err := os.WriteFile(filepath.Join(g.path, "cgroup.freeze"), []byte(number), 0); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(benchPatience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		events, err := os.ReadFile(filepath.Join(g.path, "cgroup.events"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(events), "frozen "+number) {
			return
		}
	}
	t.Fatalf("the processes of %s do not stop or go on", g.path)
}

// pids is every process of the group.
func (g *benchCgroup) pids(t *testing.T) []int {
	t.Helper()
	var pids []int
	err := filepath.WalkDir(g.path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return ignoreGone(err)
		}
		data, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for text := range strings.FieldsSeq(string(data)) {
			pid, err := strconv.Atoi(text)
			if err != nil {
				return err
			}
			pids = append(pids, pid)
		}
		return ignoreGone(err)
	})
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

// ignoreGone is nil for what a run's end may have taken away meanwhile.
func ignoreGone(err error) error {
	if os.IsNotExist(err) || err != nil && strings.Contains(err.Error(), unix.ENODEV.Error()) {
		return nil
	}
	return err
}

// remove ends everything in the group. A second time it does nothing.
func (g *benchCgroup) remove(t *testing.T) {
	if g.dir == nil {
		return
	}
	g.dir.Close()
	g.dir = nil
	for deadline := time.Now().Add(benchPatience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err := os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0); err != nil {
			t.Errorf("cannot end what the benchmark has started: %v", err)
			return
		}
		if len(g.pids(t)) == 0 && removeTree(g.path) == nil {
			return
		}
	}
	t.Errorf("cannot remove %s", g.path)
}

func removeTree(path string) error {
	var dirs []string
	err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, dir := range slices.Backward(dirs) {
		if err == nil {
			err = unix.Rmdir(dir)
		}
	}
	return err
}

// pss is the proportional memory of processes in bytes: what they share with others counts in part.
func pss(t *testing.T, pids ...int) int64 {
	t.Helper()
	return memory(t, pids, "Pss:")
}

// private is the memory of a process in bytes that no other shares with it.
func private(t *testing.T, pid int) int64 {
	t.Helper()
	return memory(t, []int{pid}, "Private_Clean:", "Private_Dirty:")
}

// memory is the sum of these rows of smaps_rollup (proc_pid_smaps(5)).
func memory(t *testing.T, pids []int, rows ...string) int64 {
	t.Helper()
	var sum int64
	for _, pid := range pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			t.Fatal(err)
		}
		sc := bufio.NewScanner(bytes.NewReader(data))
		for sc.Scan() {
			if f := strings.Fields(sc.Text()); len(f) > 1 && slices.Contains(rows, f[0]) {
				kib, err := strconv.ParseInt(f[1], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				sum += kib << 10
			}
		}
	}
	return sum
}

// ownTime is the processor time of one process's main thread: all that a workload has.
func ownTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		t.Fatal(err)
	}
	ns, err := strconv.ParseInt(strings.Fields(string(data))[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ns)
}
