package keeper

import (
	"context"
	"time"

	"reconciler.dev/reconciler/keeper/console"
	"reconciler.dev/reconciler/keeper/stage"
	"reconciler.dev/reconciler/state"
)

// WithoutCgroups makes a keeper take its host for one on which runs have no cgroups.
func WithoutCgroups(c Config) Config {
	c.noCgroups = true
	return c
}

// WithoutWatches makes a keeper take its host for one whose inotify instances are used up.
func WithoutWatches(c Config) Config {
	c.noWatches = true
	return c
}

// CheckingSecretsEvery makes a keeper look at secrets more often.
func CheckingSecretsEvery(c Config, every time.Duration) Config {
	c.secretsEvery = every
	return c
}

// WithFault makes steps of starts fail.
func WithFault(c Config, fault func(stage.Step) error) Config {
	c.fault = fault
	return c
}

// Asker is one connection.
type Asker struct{ s *session }

// Connect makes a connection of any purpose.
func Connect(ctx context.Context, l state.Layout, h Hello) (*Asker, error) {
	conn, err := dial(ctx, l)
	if err != nil {
		return nil, err
	}
	s, err := shakeHands(ctx, conn, h, 0)
	if err != nil {
		return nil, err
	}
	return &Asker{s}, nil
}

// Ask asks for something and drops the answer.
func (a *Asker) Ask(ctx context.Context, op Op, body any) error { return a.s.ask(ctx, op, body, nil) }

// Session is what the keeper calls the connection's session.
func (a *Asker) Session() uint64 { return a.s.welcome.Session }

// Close ends the connection.
func (a *Asker) Close() { a.s.close() }

// LivePlaces is where the things of live runs are, as those who ask from inside are judged by it.
func (c *Core) LivePlaces() []Place { return c.livePlaces() }

// OnceRead waits as a delivery does until earlier input is read.
func OnceRead(ctx context.Context, d Delivery, try func() console.Outcome) console.Outcome {
	return onceRead(ctx, d, try)
}
