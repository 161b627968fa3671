package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/keeper/anchor"
)

// Shutdown begins the end of everything and waits for it, or for the asker's patience: what was begun goes on.
func (d *daemon) Shutdown(ctx context.Context, by string) error {
	err := d.shutdown(ctx, by)
	if left := new(lingerError); errors.As(err, &left) {
		return api.Failure(api.ReasonServiceUnavailable, "%s", left)
	}
	return err
}

func (d *daemon) shutdown(ctx context.Context, by string) error {
	d.begin(by)
	select {
	case <-d.shutDone:
		return d.shutErr
	case <-ctx.Done():
	}
	select {
	case <-d.shutDone: // the daemon's end, which follows, has ended ctx too
		return d.shutErr
	default:
		return context.Cause(ctx)
	}
}

func (d *daemon) begin(by string) {
	d.shutOnce.Do(func() {
		d.shutBy = by
		close(d.shut)
	})
}

// awaitShutdown carries a shutdown out when one is begun, and then ends the daemon.
func (d *daemon) awaitShutdown(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.shut:
	}
	d.log.Info("shutting down: every run is being stopped", "by", d.shutBy)
	d.shutErr = d.stopAll(ctx)
	close(d.shutDone)
	if d.shutErr != nil {
		return d.shutErr
	}
	d.quit(errShutDown)
	return nil
}

// stopAll stops every run and ends the keeper.
func (d *daemon) stopAll(ctx context.Context) error {
	if err := d.loop.Shutdown(ctx, d.shutBy); err != nil {
		return err
	}
	d.closing.Store(true)
	if err := d.endKeeper(ctx); err != nil {
		return &lingerError{fmt.Errorf("every run is stopped, but the keeper does not end: %w", err)}
	}
	if err := d.awaitAnchor(ctx); err != nil {
		return &lingerError{fmt.Errorf("every run is stopped and the keeper has ended, but %w", err)}
	}
	d.log.Info("every run is stopped, and the keeper has ended")
	return nil
}

// endKeeper asks the keeper to end and waits until it has: its word comes before its end.
func (d *daemon) endKeeper(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keeperEnd)
	defer cancel()
	p, lookErr := listener(ctx, d.cfg.Layout.KeeperSocket())
	if lookErr == nil {
		defer p.close()
	}
	err := d.client.Shutdown(ctx)
	if err != nil && !errors.Is(err, keeper.ErrNoKeeper) { // that one has ended already, perhaps before its answer was heard
		return err
	}
	if lookErr == nil { // else its word has to do: it is gone, or this kernel does not say which process it is
		return p.await(keeperEnd)
	}
	return nil
}

// awaitAnchor waits until no anchor is left that starts keepers here. One that was stopped while its keeper died, and goes on now, starts
// another as soon as the place is free: that one is asked to end as well.
func (d *daemon) awaitAnchor(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, anchorEnd)
	defer cancel()
	for pause := time.Millisecond; keeper.Anchored(d.cfg.Layout); pause = min(2*pause, 50*time.Millisecond) {
		select {
		case <-time.After(pause): // the kernel tells nobody
		case <-ctx.Done():
			return errors.New("an anchor does not, which would start a keeper again. It is stopped, it seems ('ps -C " + anchor.Comm +
				" -o pid,stat,args' shows it): kill it with SIGKILL, no server depends on it")
		}
		_ = d.client.Shutdown(ctx) // mostly there is none to hear it, and what counts is the anchor's end
	}
	return nil
}

// lingerError says that a part of us has not ended though no run is left.
type lingerError struct{ error }

func (e *lingerError) Unwrap() error { return e.error }

// anchorEnd is how long an anchor may take to follow its keeper: one that has to start a keeper first may wait [anchor.LastPause] before.
const anchorEnd = 20 * time.Second

// keeperEnd is how long a keeper may take to answer that it ends.
const keeperEnd = 10 * time.Second

// lastWish is what is done when the daemon was told to end and not by a shutdown: with --stop-on-exit everything is
// stopped first, unless a second signal comes; else every run is left alone, and how to end them is told.
func (d *daemon) lastWish() error {
	select {
	case <-d.shut:
		return nil // under way, or done
	default:
	}
	if !d.cfg.StopOnExit {
		d.farewell()
		return nil
	}
	again, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := d.shutdown(again, ourName())
	if err != nil && again.Err() != nil {
		d.farewell()
		return errors.New("interrupted before every run was stopped")
	}
	return err
}

// farewell says what is left and how to end it.
func (d *daemon) farewell() {
	live := 0
	facts, _ := d.client.Facts()
	for _, f := range facts {
		if !f.Run.Over() {
			live++
		}
	}
	if live == 0 {
		d.log.Info("the reconciler ends; nothing runs")
		return
	}
	shutdown := d.cfg.Shutdown
	if shutdown == "" {
		shutdown = "reconciler shutdown"
	}
	d.log.Info("the reconciler ends; what it has started goes on. 'reconciler run' takes it over again, '"+shutdown+"' stops it", "runs", live)
}

// ourName is the user that runs this process.
func ourName() string {
	u, err := user.Current()
	if err != nil {
		return "uid:" + strconv.Itoa(os.Getuid())
	}
	return u.Username
}
