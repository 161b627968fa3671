package api_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/api/apitest"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// EN-3, EN-6: a line is for the one run that lives, by its id; where there is none, or more than one, nobody is asked.
func TestSend(t *testing.T) {
	twoRuns := func(v *reconcile.ServerView) {
		other := *v.Facts[0]
		other.Scope.Profile = "other"
		v.Facts = append(slices.Clone(v.Facts), &other)
	}
	ended := func(v *reconcile.ServerView) {
		over := *v.Facts[0]
		over.Run = &observe.RunFacts{Number: 2, Phase: state.Exited}
		v.Facts = []*observe.Facts{&over}
	}
	for _, c := range []struct {
		name, line string
		edit       func(*reconcile.ServerView)
		reason     api.StatusReason // "" = it is handed over
		says       string
	}{
		{"a run", "say hello", nil, "", ""},
		{"two runs", "say hello", twoRuns, api.ReasonConflict, "has a run of profile"},
		{"no run", "say hello", ended, api.ReasonConflict, "does not run, and a line starts nothing"},
		{"never run", "say hello", func(v *reconcile.ServerView) { v.Facts = nil }, api.ReasonConflict, "does not run"},
		{"no line", "", nil, api.ReasonInvalid, "line: "},
		{"two lines", "a\nb", nil, api.ReasonInvalid, "line: must be one line"},
		{"an escape", "\x1b[2J", nil, api.ReasonInvalid, "line: must be one line"},
		{"a long line", strings.Repeat("a", 1025), nil, api.ReasonInvalid, "line: must be at most 1024"},
	} {
		t.Run(c.name, func(t *testing.T) {
			snap := *apitest.Sample()
			if c.edit != nil {
				snap.Servers = slices.Clone(snap.Servers)
				i := slices.IndexFunc(snap.Servers, func(v *reconcile.ServerView) bool { return v.Key == town() })
				v := *snap.Servers[i]
				c.edit(&v)
				snap.Servers[i] = &v
			}
			host := &apitest.Host{Receipt: api.Receipt{DeliveryStatus: spec.DeliveryStatus{Result: "Sent"}}}
			var got api.Receipt
			err := dial(t, apitest.NewLoop(&snap), host).Post(t.Context(), api.ObjectPath(api.Servers, town(), api.VerbSend), api.Line{Line: c.line}, &got)
			if c.reason == "" {
				if err != nil || got.Result != "Sent" || got.Kind != "Receipt" || got.By == "" {
					t.Errorf("the receipt is %+v, %v", got, err)
				}
				if want := "send say hello to run " + apitest.Canary + " of "; len(host.Calls) != 1 || !strings.HasPrefix(host.Calls[0], want) || !strings.HasSuffix(host.Calls[0], " by "+got.By) {
					t.Errorf("calls %q", host.Calls)
				}
				return
			}
			var status *api.Status
			if !errors.As(err, &status) || status.Reason != c.reason || !strings.Contains(status.Message, c.says) {
				t.Errorf("the answer is %v", err)
			}
			if len(host.Calls) > 0 {
				t.Errorf("calls %q", host.Calls)
			}
		})
	}
}
