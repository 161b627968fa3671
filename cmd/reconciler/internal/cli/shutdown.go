package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
	"reconciler.dev/reconciler/cmd/reconciler/internal/daemon"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

func newShutdown(e *env) *cobra.Command {
	var p place
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "shutdown",
		Short: "Stop every run, then the reconciler and its keeper",
		Long: `Stops every run along its ladder, then ends the reconciler and the keeper. It sets no hold: the next 'reconciler run'
starts what the manifests declare. Ending 'reconciler run' by a signal leaves every run alone; this does not.`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return runShutdown(cmd.Context(), e, p, timeout) },
	}
	placeFlags(cmd, &p)
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait; the shutdown goes on regardless; 0 = as long as it takes")
	return cmd
}

func runShutdown(ctx context.Context, e *env, p place, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errShutdownTimeout)
		defer cancel()
	}
	c, err := e.dial(p)
	if err != nil {
		return err
	}
	defer c.Close()
	done := showStopping(ctx, e, c)
	err = c.Post(ctx, api.PathShutdown, nil, nil)
	done()
	if errors.Is(err, client.ErrNotRunning) {
		return shutdownAlone(ctx, e, p)
	}
	if context.Cause(ctx) == errShutdownTimeout {
		return hintf(errShutdownTimeout, "the shutdown goes on; 'reconciler get servers' shows what is left")
	}
	if left := new(api.Status); errors.As(err, &left) && left.Reason == api.ReasonConflict {
		return hintf(err, "every other run is stopped, and the reconciler has ended; its keeper stays with what is left. Doctor asks a reconciler: start 'reconciler run' again")
	}
	if err != nil {
		return err
	}
	l, err := p.layout(e)
	if err != nil {
		return err
	}
	awaitEnd(ctx, l)
	fmt.Fprintln(e.stdout, "every run is stopped; the reconciler and its keeper have ended")
	return nil
}

// showStopping shows on a terminal which servers have not ended yet, until done is called.
func showStopping(ctx context.Context, e *env, c *client.Client) (done func()) {
	if !e.progress {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var showing sync.WaitGroup
	showing.Go(func() {
		p := newProgress(e)
		defer p.clear()
		left := map[spec.Key]*waiting{}
		// An error is the shutdown's to tell: it asks the same reconciler.
		_ = c.Watch(ctx, api.ListPath(api.Servers, ""), url.Values{api.QueryView: {api.ViewSummary}}, func(ev api.WatchEvent) error {
			if ev.Type == api.Bookmark {
				return nil
			}
			var s api.Server
			if err := json.Unmarshal(ev.Object, &s); err != nil {
				return err
			}
			k := s.Metadata.Key()
			switch s.Status.State {
			case spec.StateStarting, spec.StateRunning, spec.StateStopping, spec.StateBlocked:
				left[k] = &waiting{key: k, state: stateText(s.Status, e.now())}
			default:
				delete(left, k)
			}
			if ev.Type == api.Deleted {
				delete(left, k)
			}
			p.show(slices.SortedFunc(maps.Values(left), func(a, b *waiting) int { return strings.Compare(a.key.String(), b.key.String()) }))
			return nil
		})
	})
	return func() {
		cancel()
		showing.Wait()
	}
}

// The reconciler answers before it has ended; how long that may take, and how often to look.
const (
	endPatience = 5 * time.Second
	endEvery    = 5 * time.Millisecond
)

// awaitEnd waits until the reconciler that has answered is gone, so that the next one can be started at once. Who may not
// look does not wait.
func awaitEnd(ctx context.Context, l state.Layout) {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	for ctx.Err() == nil {
		lock, err := state.TakeLock(state.LinuxDisk{}, l.ReconcilerLock(), "shutdown")
		if err == nil {
			_ = lock.Release()
			return
		}
		var held *state.HeldError
		if !errors.As(err, &held) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(endEvery):
		}
	}
}

var errShutdownTimeout = errors.New("timed out waiting for the shutdown")

// shutdownAlone stops what a reconciler has left that has ended.
func shutdownAlone(ctx context.Context, e *env, p place) error {
	l, err := p.layout(e)
	if err != nil {
		return err
	}
	if _, err := os.Stat(l.Keeper()); errors.Is(err, fs.ErrNotExist) {
		return client.ErrNotRunning // and nobody has ever run here
	}
	cfg := daemon.Config{Layout: l, Version: Version(), Log: slog.New(slog.DiscardHandler)}
	if cfg.Keeper, err = keeperCommand(l); err != nil {
		return err
	}
	err = daemon.Shutdown(ctx, cfg)
	if context.Cause(ctx) == errShutdownTimeout {
		return hintf(errShutdownTimeout, "no reconciler runs that could go on with it: call 'reconciler shutdown' again")
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(e.stdout, "no reconciler was running; every run is stopped, and the keeper has ended")
	return nil
}
