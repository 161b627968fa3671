package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
	"reconciler.dev/reconciler/cmd/reconciler/internal/selftest"
	"reconciler.dev/reconciler/state"
)

func newDoctor(e *env) *cobra.Command {
	var p place
	var form string
	var selfTest bool
	var server string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look whether everything is as it must be; change nothing",
		Long: `Reports on two axes: Runtime, whether the processes and directories that do the work are there and in order, and
Ownership, whether every process that runs is known and every record is usable. A required check that fails ends the
command with code 1. Nothing is changed: of each store a write is tried, and taken back.

With --self-test it proves on this host what the guarantees say: a keeper of its own, over a scratch directory in TMPDIR,
starts throw-away servers, is killed, and started again. The tier says who keeps a guarantee here: the Kernel, we by looking
(Emulated), or nobody for sure (Weak). It ends with code 1 when one that is not Weak was seen not to hold.`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if server != "" {
				return playServer(e, server)
			}
			if selfTest {
				return runSelfTest(cmd.Context(), e, form)
			}
			return runDoctor(cmd.Context(), e, p, form)
		},
	}
	placeFlags(cmd, &p)
	cmd.Flags().StringVarP(&form, "output", "o", "", "json or yaml")
	cmd.Flags().BoolVar(&selfTest, "self-test", false, "prove the guarantees on this host with throw-away servers")
	cmd.Flags().StringVar(&server, selftest.Flag, "", "be a server of the self-test with this `mark`; --self-test itself starts such")
	return cmd
}

func runDoctor(ctx context.Context, e *env, p place, form string) error {
	out, err := parseOutput(form)
	if err != nil {
		return err
	}
	l, err := p.layout(e)
	if err != nil {
		return err
	}
	r := api.Report{Checks: checkFolders(l)}
	c := client.New(l.APISocket())
	defer c.Close()
	r.Checks = append(r.Checks, askReconciler(ctx, c)...)
	if err := printReport(e.stdout, r, out); err != nil {
		return err
	}
	if failed := failedChecks(r); len(failed) > 0 {
		return fmt.Errorf("required checks failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

// checkFolders looks at the directories from outside: what any user may see.
func checkFolders(l state.Layout) []api.Check {
	return []api.Check{
		checkFolder("state directory", l.State, 0o755),
		checkFolder("keeper directory", l.Keeper(), 0o700),
		checkFolder("reconciler directory", l.Reconciler(), 0o700),
		checkFolder("runtime directory", l.Runtime, 0o755),
	}
}

// checkFolder looks whether a directory is there and lets others do no more than mode does.
func checkFolder(name, dir string, mode fs.FileMode) api.Check {
	c := api.Check{Axis: api.AxisRuntime, Name: name, State: api.CheckOK, Required: true}
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.State, c.Message = api.CheckFailed, "there is none; 'reconciler run' makes it"
	case err != nil:
		c.State, c.Message = api.CheckFailed, "cannot look: "+cause(err)
	case !info.IsDir():
		c.State, c.Message = api.CheckFailed, "is no directory"
	case info.Mode().Perm()&^mode != 0:
		c.State, c.Message = api.CheckFailed, fmt.Sprintf("has mode %04o, must be %04o or less", info.Mode().Perm(), mode)
	}
	return c
}

// cause is what went wrong without the path that it went wrong with.
func cause(err error) string {
	var perr *fs.PathError
	if errors.As(err, &perr) {
		return perr.Err.Error()
	}
	return err.Error()
}

// askReconciler is what the running reconciler says of itself, its keeper and what they own.
func askReconciler(ctx context.Context, c *client.Client) []api.Check {
	var r api.Report
	err := c.Get(ctx, api.PathDoctor, nil, &r)
	if err == nil {
		return r.Checks
	}
	message := err.Error()
	if errors.Is(err, client.ErrNotRunning) {
		message = "not running; start it with 'reconciler run'"
	}
	return []api.Check{
		{Axis: api.AxisRuntime, Name: "reconciler", State: api.CheckFailed, Required: true, Message: message},
		{Axis: api.AxisOwnership, Name: "runs", State: api.CheckFailed, Required: true, Message: "unknown: the reconciler did not answer"},
	}
}

func printReport(w io.Writer, r api.Report, out output) error {
	if !out.isTable() {
		raw, err := jsonOf(r)
		if err != nil {
			return err
		}
		return out.print(w, raw)
	}
	t := &table{header: []string{"AXIS", "CHECK", "STATE", "REQUIRED", "MESSAGE"}}
	for _, c := range r.Checks {
		required := "no"
		if c.Required {
			required = "yes"
		}
		t.add(c.Axis, c.Name, c.State, required, c.Message)
	}
	return t.print(w, true)
}

func failedChecks(r api.Report) []string {
	var failed []string
	for _, c := range r.Checks {
		if c.Required && c.State == api.CheckFailed {
			failed = append(failed, c.Name)
		}
	}
	return failed
}
