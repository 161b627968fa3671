package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
)

// lateAfter is how long an answer may take until whoever waits is told for whom.
const lateAfter = 2 * time.Second

// present returns when the reconciler answers, before something is asked whose answer may take any time. say hears of everybody who
// lets us wait, from then on.
func present(ctx context.Context, c *client.Client, say func(string)) error {
	c.Warn = say
	answered := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(answered)
	wg.Go(func() {
		select {
		case <-time.After(lateAfter):
			say("the reconciler does not answer yet; every server goes on untouched")
		case <-answered:
		}
	})
	var v api.Versions
	return c.Get(ctx, api.PathVersion, nil, &v)
}

// note prints what is no part of an answer.
func (e *env) note(text string) { fmt.Fprintln(e.stderr, "note: "+text) }
