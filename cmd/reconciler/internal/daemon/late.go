package daemon

import (
	"context"
	"errors"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/keeper"
)

// How long somebody who asks waits for the keeper until he is told so, and until it is given up.
const (
	lateAfter      = 2 * time.Second
	keeperPatience = 10 * time.Second
	sendPatience   = 30 * time.Second // for a line, which a keeper that answers has handed over, or given up, within a third of it
)

// Keeper returns when the keeper answers, tells late when it has not after a while, and gives up in the end.
func (d *daemon) Keeper(ctx context.Context, late func(string)) error {
	ask, cancel := context.WithTimeout(ctx, keeperPatience)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- d.client.Ping(ask) }()
	timer := time.NewTimer(lateAfter)
	defer timer.Stop()
	var err error
	select {
	case err = <-answered:
	case <-timer.C:
		late("the keeper does not answer yet; every server goes on untouched")
		err = <-answered
	}
	if errors.Is(err, keeper.ErrUnresponsive) && ctx.Err() == nil {
		return api.Failure(api.ReasonServiceUnavailable,
			"the keeper does not answer: it may be stopped or overloaded; nothing was asked of it, and every server goes on untouched. 'reconciler doctor' says more")
	}
	return nil // it answers; or there is none, which what is asked next finds out and may await
}
