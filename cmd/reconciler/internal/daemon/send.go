package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Send has the keeper hand a line over. When its answer is lost nobody here knows what became of the line; it is not sent again,
// and the record tells once the keeper is heard.
func (d *daemon) Send(ctx context.Context, s spec.Scope, runID string, l api.Line, by string) (api.Receipt, error) {
	if d.client.Problem() != nil {
		return api.Receipt{}, api.Failure(api.ReasonServiceUnavailable, "the keeper, which holds the console, does not answer: nothing was sent")
	}
	o := state.SendOrder{Scope: s, RunID: runID, ID: strings.ToLower(rand.Text()), Line: l.Line, By: by, Patient: l.Patient}
	ctx, cancel := context.WithTimeout(ctx, sendPatience)
	defer cancel()
	got, err := d.client.Send(ctx, o)
	var refused *keeper.Refused
	switch {
	case errors.As(err, &refused):
		return api.Receipt{}, api.Failure(api.ReasonConflict, "%s", refused.Detail)
	case err != nil:
		d.log.Warn("it is not known what became of a line", "scope", s.String(), "by", by, "error", err)
		return api.Receipt{DeliveryStatus: spec.DeliveryStatus{By: by, At: time.Now(), Result: string(state.Indeterminate)}}, nil
	}
	d.log.Info("sent a line", "scope", s.String(), "by", by, "result", string(got.Result))
	return api.Receipt{
		DeliveryStatus: spec.DeliveryStatus{By: got.By, At: got.At, Run: got.Run, Rail: got.Rail, Result: string(got.Result), Reason: got.Reason},
		Message:        got.Detail, Reply: got.Reply,
	}, nil
}
