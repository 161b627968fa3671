package daemon

import (
	"context"
	"errors"

	"reconciler.dev/reconciler/spec"
)

// Shutdown does what a running reconciler's shutdown does, when none runs: it takes the runs over just to stop them, along
// their recorded ladders, and ends the keeper. When ctx ends first, what was begun is left where it is.
func Shutdown(ctx context.Context, cfg Config) error {
	d := newDaemon(cfg)
	if err := d.prepareEnd(ctx); err != nil {
		return errors.Join(err, d.close())
	}
	d.begin(ourName())
	err := d.run(ctx)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return errors.Join(err, d.close())
}

func (d *daemon) prepareEnd(ctx context.Context) error {
	if err := d.readHost(); err != nil {
		return err
	}
	if err := d.open(); err != nil {
		return err
	}
	if err := d.firstKeeper(ctx); err != nil {
		return err
	}
	d.source = nothing{}
	d.assemble()
	return nil
}

// nothing is a source that has not been read: it wants nothing, and removes nothing.
type nothing struct{}

func (nothing) Latest() *spec.Set        { return nil }
func (nothing) Changed() <-chan struct{} { return nil }

func (nothing) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (nothing) ConfirmPrune(context.Context) ([]spec.ObjectKey, error) { return nil, nil }
