//go:build real

package main

import (
	"bufio"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"reconciler.dev/reconciler/manifests/examples"
)

// TestRealExecves traces every program that is executed from an empty directory to the end of a server: our own binary,
// the stage, and what the manifest declares, by argument vector and without a shell (EC-4, EN-18).
func TestRealExecves(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Fatal("strace is not installed")
	}
	h := newHost(t, buildBinary(t), "")
	trace := filepath.Join(filepath.Dir(h.state), "trace")
	h.wrap = []string{strace, "-f", "-qq", "-s", "64", "-e", "trace=execve,execveat", "-o", trace}
	text, _ := examples.Get("echo")
	h.put(t, "echo.yaml", withPort(string(text), freePort(t, "tcp")))
	h.run(t)
	h.cli(t, "wait", "server/echo", "--for=condition=Ready", "--timeout", long)
	h.cli(t, "restart", "echo", "--timeout", long)
	h.cli(t, "stop", "echo", "--timeout", long)

	got := executed(t, trace)
	want := []string{h.binary, "/usr/bin/perl", "stage"}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("executed: %q\nwant:     %q", got, want)
	}
}

var execCall = regexp.MustCompile(`(?:execve\(|execveat\(\d+, )"([^"]*)".* = 0$`)

// descriptor is the name of a program that is executed by its descriptor.
var descriptor = regexp.MustCompile(`^/(dev|proc/(self|\d+))/fd/\d+$`)

// executed is the set of programs that a trace shows as executed; the stage lies in memory and has no name of its own.
func executed(t *testing.T, trace string) []string {
	t.Helper()
	f, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	set := map[string]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		m := execCall.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		name := m[1]
		if name == "" || descriptor.MatchString(name) {
			name = "stage"
		}
		if real, err := filepath.EvalSymlinks(name); err == nil {
			name = real
		}
		set[name] = true
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(set))
}
