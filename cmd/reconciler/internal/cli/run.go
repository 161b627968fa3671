package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/daemon"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// defaultListen is where Prometheus finds a reconciler that was told nothing else.
const defaultListen = "127.0.0.1:9640"

type runCommand struct {
	e          *env
	place      place
	manifests  []string
	workspaces []string
	hostFile   string
	listen     string
	stopOnExit bool
	allowEmpty bool
}

func newRun(e *env) *cobra.Command {
	r := &runCommand{e: e}
	cmd := &cobra.Command{
		Use:   "run --manifests DIR",
		Short: "Run what the manifests in a directory declare, and keep it so",
		Long: `Watches the directories, and starts, restarts and stops processes so that they are as the manifests in them declare.
It works until it is interrupted. Ending it leaves every process running: the next 'run' takes them over again.
'reconciler shutdown' ends them, and so does an interrupt of a run with --stop-on-exit.`,
		Example: `  reconciler run --manifests manifests
  reconciler run --manifests /srv/git/current --workspace games=/opt/games --listen 127.0.0.1:9640`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return r.run(cmd.Context(), cmd.Flags().Changed("listen"))
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&r.manifests, "manifests", nil, "directory of manifests; may be given several times (default: spec.sources of the host configuration)")
	f.StringArrayVar(&r.workspaces, "workspace", nil, "NAME=DIR: a directory whose programs profiles may run; may be given several times")
	f.StringVar(&r.hostFile, "host-config", "", "file that says what this host allows (kind Host)")
	f.StringVar(&r.listen, "listen", defaultListen, "address of /metrics, /healthz, /readyz and pages to read; empty = none")
	f.BoolVar(&r.stopOnExit, "stop-on-exit", false, "when interrupted, stop every run first")
	f.BoolVar(&r.allowEmpty, "allow-empty", false, "let a directory without a manifest count: what it declared before is stopped without 'prune --confirm'")
	placeFlags(cmd, &r.place)
	return cmd
}

func (r *runCommand) run(ctx context.Context, mustListen bool) error {
	out := newSpool(r.e.stderr)
	defer out.close()
	cfg, err := r.config(mustListen, out)
	if err != nil {
		return err
	}
	err = daemon.Run(ctx, cfg)
	var usage *daemon.UsageError
	if errors.As(err, &usage) {
		return hintf(usagef("%s", usage.Message), "see 'reconciler run --help'")
	}
	return err
}

func (r *runCommand) config(mustListen bool, out io.Writer) (daemon.Config, error) {
	l, err := r.place.layout(r.e)
	if err != nil {
		return daemon.Config{}, err
	}
	cfg := daemon.Config{
		Layout: l, Manifests: r.manifests, HostFile: r.hostFile, AllowEmpty: r.allowEmpty, StopOnExit: r.stopOnExit,
		Listen: r.listen, MustListen: mustListen, Version: Version(), Log: logTo(out),
		First: r.firstHint(out), Shutdown: r.place.command(r.e, "shutdown"),
	}
	for _, text := range r.workspaces {
		w, err := daemon.ParseWorkspace(text)
		if err != nil {
			return daemon.Config{}, usagef("%s", err)
		}
		cfg.Workspaces = append(cfg.Workspaces, w)
	}
	cfg.Keeper, err = keeperCommand(l)
	return cfg, err
}

// firstHint says what to try next, once, when there is a server to try it on.
func (r *runCommand) firstHint(out io.Writer) func(spec.Key) {
	var once sync.Once
	return func(k spec.Key) { once.Do(func() { _, _ = io.WriteString(out, r.whatNext(k)) }) }
}

func (r *runCommand) whatNext(k spec.Key) string {
	name := argOf(k)
	where := "the directory of manifests"
	if len(r.manifests) > 0 {
		where = r.manifests[0]
	}
	end := "Ctrl-C ends the reconciler alone: what runs goes on until '" + r.place.command(r.e, "shutdown") + "'"
	if r.stopOnExit {
		end = "Ctrl-C stops everything"
	}
	return fmt.Sprintf(`hint: %s is running. In another terminal try
  %s
  %s
  %s
or change a file in %s and look again. %s.
`, k, r.place.command(r.e, "get servers"), r.place.command(r.e, "logs "+name+" -f"), r.place.command(r.e, "describe server "+name), where, end)
}

// keeperCommand is the command line of the keeper that belongs to a layout: this program again.
func keeperCommand(l state.Layout) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot tell which program this is: %w", err)
	}
	return []string{filepath.Clean(self), "keeper", "--state-dir", l.State, "--runtime-dir", l.Runtime}, nil
}

// logTo is the log of a process that stays.
func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
