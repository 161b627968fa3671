//go:build real

package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
	traces := filepath.Join(filepath.Dir(h.state), "traces")
	h.mkdir(t, traces)
	// A file for each thread: in a common one a call that another's line comes between is split in two.
	h.wrap = []string{strace, "-ff", "-qq", "-s", "64", "-e", "trace=execve,execveat", "-e", "signal=none", "-o", filepath.Join(traces, "of")}
	text, _ := examples.Get("echo")
	h.put(t, "echo.yaml", withParameters(string(text), fmt.Sprintf("port: %d", freePort(t, "tcp"))))
	h.run(t)
	h.await(t, "echo", "condition=Ready")
	h.cli(t, "restart", "echo", "--timeout", long)
	h.cli(t, "stop", "echo", "--timeout", long)
	h.end(t) // and with it strace: it has written all there is

	got := executed(t, traces)
	want := []string{resolved(t, h.binary), resolved(t, "/usr/bin/perl"), "stage"}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("executed: %q\nwant:     %q", got, want)
	}
}

// execCall is a call that succeeded, with its path.
var execCall = regexp.MustCompile(`^(?:execve\(|execveat\(\d+, )"([^"]*)", .* = 0$`)

// inVain is a line of a call that came to nothing: it failed, or its thread ended in it, before strace knew which it was if need be.
var inVain = regexp.MustCompile(`^(?:execve|execveat|\?\?\?)\(.* (?:= -1 E.*|= \?|<detached \.\.\.>)$`)

// descriptor is the name of a program that is executed by its descriptor.
var descriptor = regexp.MustCompile(`^/(dev|proc/(self|\d+))/fd/\d+$`)

// executed is the set of programs that traces show as executed; the stage lies in memory and has no name of its own.
func executed(t *testing.T, traces string) []string {
	t.Helper()
	files, err := os.ReadDir(traces)
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(traces, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			m := execCall.FindStringSubmatch(line)
			switch {
			case m == nil && inVain.MatchString(line):
			case m == nil:
				t.Errorf("a line of strace that is not understood: %s", line)
			case m[1] == "/proc/self/exe":
				// What was executed before, once more.
			case m[1] == "", descriptor.MatchString(m[1]):
				set["stage"] = true
			default:
				set[resolved(t, m[1])] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func resolved(t *testing.T, path string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return real
}
