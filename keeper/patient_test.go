package keeper_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/keeper/console"
)

// Whoever is patient waits until earlier input is read, or until little of his time is left; another waits for a moment.
func TestOnceRead(t *testing.T) {
	const never = time.Hour
	for _, c := range []struct {
		patient bool
		read    time.Duration // when earlier input is read
		waits   time.Duration
		result  console.Result
	}{
		{false, 500 * time.Millisecond, 500 * time.Millisecond, console.HandedOver},
		{false, never, time.Second, console.Undeliverable},
		{true, 5 * time.Second, 5 * time.Second, console.HandedOver},
		{true, never, 8 * time.Second, console.Undeliverable},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			began := time.Now()
			o := keeper.OnceRead(ctx, keeper.Delivery{Within: 10 * time.Second, Patient: c.patient}, func() console.Outcome {
				if time.Since(began) < c.read {
					return console.Outcome{Result: console.Undeliverable, Reason: console.Unread, Err: console.ErrUnread}
				}
				return console.Outcome{Result: console.HandedOver}
			})
			if waited := time.Since(began); o.Result != c.result || waited != c.waits {
				t.Errorf("%+v: %v after %s", c, o.Result, waited)
			}
		})
	}
}
