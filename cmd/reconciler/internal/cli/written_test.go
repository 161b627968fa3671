package cli

import (
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api/apitest"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// sampleWritten has a delivery of each kind.
func sampleWritten() []observe.Written {
	at := func(ago time.Duration) time.Time { return apitest.Now.Add(-ago) }
	scope := spec.Scope{Namespace: "default", Server: "town", Profile: "openttd"}
	return []observe.Written{
		{
			Scope: scope,
			Delivery: state.Delivery{
				ID: apitest.Canary, RunID: apitest.Canary, Run: 1, Rail: "Stdin", By: "ann", At: at(3 * time.Hour), Result: state.Sent,
				Keys: &state.Keys{Bytes: 4711, Until: at(2 * time.Hour)},
			},
			Lines: []state.Written{
				{At: at(150 * time.Minute), Text: "kick eve", Earlier: 12},
				{At: at(149 * time.Minute), Withheld: 8},
				{At: at(148 * time.Minute), Text: "^C"},
			},
		},
		{
			Scope:    scope,
			Delivery: state.Delivery{ID: apitest.Canary, RunID: apitest.Canary, Run: 2, Rail: "Stdin", By: "root", At: at(time.Hour), Result: state.Undeliverable, Reason: "Unread"},
			Lines:    []state.Written{{At: at(time.Hour), Text: "rcon_pw [secret]"}},
		},
		{
			Scope:    scope,
			Delivery: state.Delivery{ID: apitest.Canary, RunID: apitest.Canary, Run: 2, Rail: "Stdin", By: "bob", At: at(time.Minute), Command: "save", Result: state.Done},
			Lines:    []state.Written{{At: at(time.Minute), Text: "save autosave"}},
		},
		{Scope: scope, Delivery: state.Delivery{ID: apitest.Canary, RunID: apitest.Canary, Run: 2, Rail: "Stdin", By: "bob", At: at(2 * time.Second), Keys: &state.Keys{}}},
	}
}
