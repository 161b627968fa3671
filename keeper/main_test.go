package keeper_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/pprof"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/keeper/anchor"
	"reconciler.dev/reconciler/keeper/faultd"
	"reconciler.dev/reconciler/keeper/stage"
	"reconciler.dev/reconciler/state"
)

// The test binary plays the other processes: a keeper, and the workloads.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "faultd":
			os.Exit(faultd.Main(os.Args[2:]))
		case "anchor":
			os.Exit(anchor.Main(append([]string{os.Args[0], "keeper"}, os.Args[2:]...)))
		case "keeper":
			os.Exit(playKeeper(os.Args[2:]))
		case "inside":
			os.Exit(playInside(os.Args[2:]))
		case "ask":
			os.Exit(playAsker(os.Args[2], os.Args[3]))
		}
	}
	unix.Umask(0o022) // the modes that tests give are those they mean
	// A spawned keeper is waited for as long as it lives, which may be longer than its test.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("reconciler.dev/reconciler/keeper.Spawner.launch.func1"))
}

func playKeeper(args []string) int {
	fs := flag.NewFlagSet("keeper", flag.ContinueOnError)
	l := state.Layout{}
	fs.StringVar(&l.State, "state", "", "")
	fs.StringVar(&l.Runtime, "runtime", "", "")
	noCgroups := fs.Bool("no-cgroups", false, "")
	noWatches := fs.Bool("no-watches", false, "")
	failing := fs.String("fail", "", "")
	secretsEvery := fs.Duration("secrets-every", 0, "")
	if fs.Parse(args) != nil {
		return 2
	}
	if path := os.Getenv("KEEPER_TEST_PROFILE"); path != "" {
		f, err := os.Create(path)
		if err != nil || pprof.StartCPUProfile(f) != nil {
			return 2
		}
		defer pprof.StopCPUProfile()
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	cfg := keeper.Config{Layout: l, Version: "test", Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Anchor: anchor.Inherit()}
	cfg = keeper.CheckingSecretsEvery(cfg, *secretsEvery)
	if *noCgroups {
		cfg = keeper.WithoutCgroups(cfg)
	}
	if *noWatches {
		cfg = keeper.WithoutWatches(cfg)
	}
	if *failing != "" {
		var serving atomic.Bool
		cfg.Ready = func() { serving.Store(true) }
		cfg = keeper.WithFault(cfg, func(s stage.Step) error {
			if serving.Load() && string(s) == *failing {
				return unix.EIO
			}
			return nil
		})
	}
	err := keeper.Main(ctx, cfg)
	switch {
	case errors.Is(err, state.ErrLocked):
		fmt.Fprintln(os.Stderr, err)
		return keeper.ExitHeld
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// playAsker asks a keeper how it is; as which user is for its parent to say.
func playAsker(stateDir, runtimeDir string) int {
	_, err := keeper.Ask(context.Background(), state.Layout{State: stateDir, Runtime: runtimeDir}, "test")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
