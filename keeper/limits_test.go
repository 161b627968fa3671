package keeper_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A workload has the limits that its keeper was started with. The keeper's own are others: Go raises the soft limit of open files to the
// hard one for itself, and programs that use select break under that.
func TestWorkloadHasTheLimitsThatTheKeeperWasStartedWith(t *testing.T) {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil {
		t.Fatal(err)
	}
	given := strconv.FormatUint(min(1024, own.Max/2), 10)
	r := newRigWithoutKeeper(t)
	r.under = []string{"/usr/bin/prlimit", "--nofile=" + given + ":"}
	r.startKeeper()
	r.connect()
	for _, again := range []bool{false, true} {
		if again { // a keeper that replaces another one hands on no more than it was given
			r.killKeeper()
			eventually(t, "the client has noticed", func() bool { _, known := r.client.Facts(); return !known })
			r.startKeeper()
			eventually(t, "the client is back", func() bool { _, known := r.client.Facts(); return known })
		}
		l := r.launch(fmt.Sprintf("town-%t", again), "")
		l.Workspace, l.Executable, l.Args = "usr", "bin/sleep", []string{"120"} // no Go program: it leaves its limits alone
		r.start(l)
		if got := softFiles(t, r.pid(l.Scope)); got != given {
			t.Errorf("the workload may open %s files, the keeper was given %s", got, given)
		}
		if got := softFiles(t, r.keeper.Process.Pid); got == given {
			t.Errorf("the keeper has not raised its own limit: nothing is tested")
		}
		r.stop(l.Scope)
		r.awaitOver(l.Scope)
	}
}

// softFiles is the soft limit of open files of a process (proc_pid_limits(5)).
func softFiles(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "Max open files") })
	if i < 0 {
		t.Fatalf("no limit of open files in\n%s", b)
	}
	return strings.Fields(lines[i])[3]
}
