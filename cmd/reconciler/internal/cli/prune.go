package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
)

func newPrune(e *env) *cobra.Command {
	var p place
	var confirm bool
	cmd := &cobra.Command{
		Use:   "prune --confirm",
		Short: "Let a held removal go on",
		Long: `A scan that would remove the last server, or more than half of more than four, is held: it may be an accident.
This says that it is none: what is in no manifest any more is stopped. Without --confirm it shows what that would be.`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return runPrune(cmd.Context(), e, p, confirm) },
	}
	placeFlags(cmd, &p)
	cmd.Flags().BoolVar(&confirm, "confirm", false, "the removal is meant")
	return cmd
}

func runPrune(ctx context.Context, e *env, p place, confirm bool) error {
	c, err := e.dial(p)
	if err != nil {
		return err
	}
	defer c.Close()
	if confirm {
		var out api.Prune
		if err := c.Post(ctx, api.PrunePath(), nil, &out); err != nil {
			return err
		}
		if len(out.Removed) == 0 {
			fmt.Fprintln(e.stdout, "nothing is held")
		}
		for _, name := range out.Removed {
			fmt.Fprintf(e.stdout, "%s removed\n", name)
		}
		return nil
	}
	var list api.SourceList
	if err := c.Get(ctx, api.ListPath(api.Sources, ""), nil, &list); err != nil {
		return err
	}
	var paused []string
	for _, s := range list.Items {
		paused = append(paused, s.Status.PrunePaused...)
	}
	if len(paused) == 0 {
		fmt.Fprintln(e.stdout, "nothing is held")
		return nil
	}
	return hintf(fmt.Errorf("these are in no manifest any more, and their removal is held: %s", strings.Join(paused, ", ")),
		"'reconciler prune --confirm' stops them; putting the files back keeps them")
}
