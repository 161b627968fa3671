package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/api/apitest"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// A job is asked for with the object that a manifest has, held to the same rules, and carries the actor that the kernel names (BP-14).
func TestPostJob(t *testing.T) {
	for _, c := range []struct {
		name, body string
		answer     error
		reason     api.StatusReason // "" = it is taken
		says       string
	}{
		{"a restart", `{"apiVersion":"reconciler.dev/v1alpha1","kind":"Job","metadata":{"name":"j"},"spec":{"server":"town","type":"Restart","deadlineSeconds":5}}`, nil, "", ""},
		{"a stop", `{"apiVersion":"reconciler.dev/v1alpha1","kind":"Job","metadata":{"name":"j"},"spec":{"server":"town","type":"Stop"}}`, nil, "", ""},
		{"no object", `[]`, nil, api.ReasonInvalid, "must be an object with apiVersion, kind, metadata and spec"},
		{"nothing", `null`, nil, api.ReasonInvalid, "must be exactly one object of kind Job"},
		{"two", `{"apiVersion":"v1","kind":"List","items":[{"kind":"Job"},{"kind":"Job"}]}`, nil, api.ReasonInvalid, "must be exactly one object of kind Job"},
		{"a server", `{"apiVersion":"reconciler.dev/v1alpha1","kind":"Server","metadata":{"name":"j"},"spec":{"profile":"p"}}`, nil, api.ReasonInvalid, "kind: Unsupported value: \"Server\": must be 'Job'"},
		{"an unknown field", `{"apiVersion":"reconciler.dev/v1alpha1","kind":"Job","metadata":{"name":"j"},"spec":{"server":"town","type":"Restart","command":"x","when":"now"}}`, nil, api.ReasonInvalid, "spec.when: Forbidden: there is no such field"},
		{"a later type", `{"apiVersion":"reconciler.dev/v1alpha1","kind":"Job","metadata":{"name":"j"},"spec":{"server":"town","type":"Reload"}}`, nil, api.ReasonInvalid, "not available in this version"},
		{"an attempt", `{"apiVersion":"reconciler.dev/v1alpha1","kind":"Job","metadata":{"name":"j"},"spec":{"server":"town","type":"Restart","attempt":2}}`, nil, api.ReasonInvalid, "spec.attempt: Forbidden: is raised in a source alone: ask for another job"},
		{"a withdrawn one", `{"apiVersion":"reconciler.dev/v1alpha1","kind":"Job","metadata":{"name":"j"},"spec":{"server":"town","type":"Restart","cancel":true}}`, nil, api.ReasonInvalid, "spec.cancel: Forbidden"},
		{"another namespace", `{"apiVersion":"reconciler.dev/v1alpha1","kind":"Job","metadata":{"name":"j","namespace":"edge"},"spec":{"server":"town","type":"Restart"}}`, nil, api.ReasonBadRequest, `the job is of namespace "edge", the request of "default"`},
		{"a name that is taken", `{"apiVersion":"reconciler.dev/v1alpha1","kind":"Job","metadata":{"name":"j"},"spec":{"server":"town","type":"Restart"}}`, reconcile.ErrJobExists, api.ReasonConflict, `job "j" exists: another action is another name`},
		{"no such server", `{"apiVersion":"reconciler.dev/v1alpha1","kind":"Job","metadata":{"name":"j"},"spec":{"server":"town","type":"Restart"}}`, reconcile.ErrNoServer, api.ReasonNotFound, `servers "town" not found`},
		{"a full disk", `{"apiVersion":"reconciler.dev/v1alpha1","kind":"Job","metadata":{"name":"j"},"spec":{"server":"town","type":"Restart"}}`, fmt.Errorf("%w: %w", reconcile.ErrUnrecorded, unix.ENOSPC), api.ReasonServiceUnavailable, "it is not certain that job \"j\" is recorded, so look for it before you ask again: the disk of the state directory is full"},
		{"a shutdown", `{"apiVersion":"reconciler.dev/v1alpha1","kind":"Job","metadata":{"name":"j"},"spec":{"server":"town","type":"Restart"}}`, reconcile.ErrClosing, api.ReasonServiceUnavailable, "shutting down"},
	} {
		t.Run(c.name, func(t *testing.T) {
			loop := apitest.NewLoop(apitest.Sample())
			loop.JobAnswer = c.answer
			var got api.Job
			err := dial(t, loop, &apitest.Host{}).Post(t.Context(), api.ListPath(api.Jobs, "default"), json.RawMessage(c.body), &got)
			if c.reason == "" {
				asks := loop.JobAsks()
				if err != nil || len(asks) != 1 || asks[0].By == "" || asks[0].Key.Name != "j" || asks[0].Spec.Server != "town" || got.Metadata.Name != "j" {
					t.Errorf("%v; asked for %+v; the answer is %+v", err, asks, got)
				}
				return
			}
			var status *api.Status
			if !errors.As(err, &status) || status.Reason != c.reason || !strings.Contains(status.Message, c.says) {
				t.Errorf("the answer is %v", err)
			}
			if n := len(loop.JobAsks()); c.answer == nil && n > 0 {
				t.Error("the loop was asked")
			}
		})
	}
}

func TestCancelJob(t *testing.T) {
	loop := apitest.NewLoop(apitest.Sample())
	c := dial(t, loop, &apitest.Host{})
	var got api.Job
	k := spec.Key{Namespace: "default", Name: "village-restart-1"}
	if err := c.Post(t.Context(), api.ObjectPath(api.Jobs, k, api.VerbCancel), nil, &got); err != nil || got.Status.Phase != spec.JobPending {
		t.Errorf("%v, %+v", err, got)
	}
	if asks := loop.JobAsks(); len(asks) != 1 || asks[0].Key != k || asks[0].By == "" {
		t.Errorf("asked for %+v", asks)
	}
	loop.JobAnswer = reconcile.ErrNoJob
	var status *api.Status
	if err := c.Post(t.Context(), api.ObjectPath(api.Jobs, k, api.VerbCancel), nil, &got); !errors.As(err, &status) || status.Reason != api.ReasonNotFound {
		t.Errorf("the answer is %v", err)
	}
}
