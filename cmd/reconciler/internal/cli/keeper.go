package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/daemon"
	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/keeper/anchor"
	"reconciler.dev/reconciler/state"
)

const keeperName = "keeper"

func newKeeper(e *env) *cobra.Command {
	var p place
	var hostFile string
	cmd := &cobra.Command{
		Use:   keeperName,
		Short: "Run the keeper by itself, the parent of all runs",
		Long: `The keeper starts, stops and watches over processes, and decides nothing. 'reconciler run' starts one by itself; run by
hand it is for a keeper of root beside a reconciler of an ordinary user. Then --host-config says what that user may run.
What is started is its anchor, a small process above it that starts the keeper again when it dies and keeps what must
outlive it. Ending either by SIGTERM ends both, and leaves every process running.`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return runKeeper(cmd.Context(), e, p, hostFile) },
	}
	cmd.Flags().StringVar(&hostFile, "host-config", "", "file that says what this host allows (kind Host)")
	placeFlags(cmd, &p)
	return cmd
}

func runKeeper(ctx context.Context, e *env, p place, hostFile string) error {
	l, err := p.layout(e)
	if err != nil {
		return err
	}
	cfg := keeper.Config{Layout: l, Version: Version(), Log: logTo(keeper.OwnLog(l, e.stderr)), Anchor: anchor.Inherit()}
	if hostFile != "" {
		conf, err := daemon.ReadHost(hostFile)
		if err != nil {
			return err
		}
		host, err := daemon.NewHost(l, conf, nil)
		if err != nil {
			return err
		}
		cfg.Host = host.Keeper
	}
	err = keeper.Main(ctx, cfg)
	if copied := new(state.CopiedError); errors.As(err, &copied) {
		return &exitError{keeper.ExitHeld, copied}
	}
	if errors.Is(err, state.ErrLocked) {
		return &exitError{keeper.ExitHeld, fmt.Errorf("another keeper has the state directory %s", l.State)}
	}
	return err
}
