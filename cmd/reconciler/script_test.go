package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"reconciler.dev/reconciler/cmd/reconciler/internal/cli"
	"reconciler.dev/reconciler/keeper/faultd"
	"reconciler.dev/reconciler/observe/proc/proctest"
)

var updateScripts = flag.Bool("update-scripts", false, "write what the scripts compare with anew; look at the difference before it is committed")

// The test binary is also the program, and the workload.
func TestMain(m *testing.M) {
	syscall.Umask(0o022) // the modes that tests give are those they mean
	testscript.Main(m, map[string]func(){
		"reconciler":      func() { os.Exit(cli.Main(os.Args[1:])) },
		"faultd":          func() { os.Exit(faultd.Main(os.Args[1:])) },
		"reconciler-role": role(playReconciler),
		"on-a-disk":       role(onADisk),
	})
}

// role is a program that fails with an error.
func role(play func(args []string) error) func() {
	return func() {
		if err := play(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// TestScript tells how the program behaves, through the real program over real processes. A script may be read as a
// manual; its commands beside testscript's own are in [commands].
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		WorkdirRoot:         proctest.Place(t), // where sockets have short names
		Setup:               setup,
		Cmds:                commands,
		Condition:           condition,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *updateScripts,
	})
}

// condition is what a line in brackets may ask of the host: [cgroups], whether runs have cgroups here. Without them nobody knows
// what a run has left, and where states are shown that is said.
func condition(name string) (bool, error) {
	if name != "cgroups" {
		return false, fmt.Errorf("no such condition: %s", name)
	}
	return proctest.CgroupsWritable(), nil
}

// setup gives a script its own state, runtime and home directories, and nothing of the machine's (EN-12).
func setup(e *testscript.Env) error {
	bin, err := exec.LookPath("faultd")
	if err != nil {
		return err
	}
	path := e.Getenv("PATH")
	e.Vars = nil
	for name, value := range map[string]string{
		"WORK":                   e.WorkDir,
		"HOME":                   filepath.Join(e.WorkDir, "home"),
		"TMPDIR":                 filepath.Join(e.WorkDir, "tmp"),
		"PATH":                   path,
		"BIN":                    filepath.Dir(bin),
		"RECONCILER_STATE_DIR":   filepath.Join(e.WorkDir, "s"),
		"RECONCILER_RUNTIME_DIR": filepath.Join(e.WorkDir, "r"),
		"GORACE":                 "atexit_sleep_ms=0",
		"GOTRACEBACK":            "all",
	} {
		e.Setenv(name, value)
	}
	for _, dir := range []string{"home", "tmp", "m"} {
		if err := os.MkdirAll(filepath.Join(e.WorkDir, dir), 0o755); err != nil {
			return err
		}
	}
	w := newWorld(e)
	e.Values[worldKey{}] = w
	e.Defer(w.end)
	return nil
}
