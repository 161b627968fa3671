package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
)

// version is set by the linker for a release.
var version string

// Version is this program's version: what the linker was told, else what the build says of its module.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

func newVersion(e *env) *cobra.Command {
	var p place
	var form string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program, the running reconciler and its keeper",
		Args:  exactly(0, ""),
		RunE:  func(cmd *cobra.Command, _ []string) error { return runVersion(cmd.Context(), e, p, form) },
	}
	placeFlags(cmd, &p)
	cmd.Flags().StringVarP(&form, "output", "o", "", "json or yaml")
	return cmd
}

// versions is what -o json and yaml print.
type versions struct {
	Client     string `json:"client"`
	Reconciler string `json:"reconciler,omitempty"`
	Keeper     string `json:"keeper,omitempty"`
}

func runVersion(ctx context.Context, e *env, p place, form string) error {
	out, err := parseOutput(form)
	if err != nil {
		return err
	}
	v := versions{Client: Version()}
	c, err := e.dial(p)
	if err != nil {
		return err
	}
	defer c.Close()
	var running api.Versions
	err = c.Get(ctx, api.PathVersion, nil, &running)
	if err != nil && !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	v.Reconciler, v.Keeper = running.Reconciler, running.Keeper
	if !out.isTable() {
		raw, err := jsonOf(v)
		if err != nil {
			return err
		}
		return out.print(e.stdout, raw)
	}
	var sh sheet
	sh.add("Client", v.Client)
	sh.add("Reconciler", or(v.Reconciler, "not running"))
	sh.add("Keeper", or(v.Keeper, "not running"))
	if err := sh.write(e.stdout); err != nil {
		return err
	}
	if v.Reconciler != "" && v.Keeper != "" && v.Keeper != v.Reconciler {
		fmt.Fprintln(e.stderr, "Warning: keeper and reconciler are of different versions")
	}
	return nil
}
