package api_test

import (
	"io"
	"net/url"
	"strings"
	"testing"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/api/apitest"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// The history of a removed server is what is kept of it, of all its lives and profiles; one that never was is not found.
func TestHistoryOfARemovedServer(t *testing.T) {
	gone := spec.Key{Namespace: "default", Name: "gone"}
	end := func(number int64) state.Exit {
		var x state.Exit
		x.Number, x.FinishedAt = number, apitest.Now
		return x
	}
	host := &apitest.Host{Gone: map[spec.Key][]*observe.Facts{gone: {
		{Scope: spec.Scope{Namespace: "default", Server: "gone", Profile: "old"}, Exits: []state.Exit{end(1), end(2)}},
		{Scope: spec.Scope{Namespace: "default", Server: "gone", Profile: "new"}, Exits: []state.Exit{end(3)}},
	}}}
	c := dial(t, apitest.NewLoop(apitest.Sample()), host)
	var h api.History
	if err := c.Get(t.Context(), api.ObjectPath(api.Servers, gone, "history"), nil, &h); err != nil {
		t.Fatal(err)
	}
	if len(h.Items) != 3 || h.Items[1].Number != 2 || h.Items[1].Profile != "old" || h.Items[2].Profile != "new" || h.Current != nil || h.Metadata.Name != "gone" {
		t.Errorf("history %+v", h)
	}
	// So is its log, and who asks for anything else is told of both.
	host.LogText = "its last words"
	log, err := c.Stream(t.Context(), api.ObjectPath(api.Servers, gone, "log"), url.Values{api.QueryFollow: {"true"}})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if text, err := io.ReadAll(log); err != nil || string(text) != host.LogText || host.LastLog.Scope.Profile != "new" {
		t.Errorf("its log is %q of %s: %v", text, host.LastLog.Scope, err)
	}
	for _, path := range []string{api.ObjectPath(api.Servers, gone), api.ListPath(api.Events, "default")} {
		if err := c.Get(t.Context(), path, url.Values{api.QueryName: {gone.Name}}, nil); err == nil || !strings.Contains(err.Error(), "it was removed; 'reconciler history gone'") {
			t.Errorf("%s: %v", path, err)
		}
	}
	never := spec.Key{Namespace: "default", Name: "never"}
	if err := c.Get(t.Context(), api.ObjectPath(api.Servers, never, "history"), nil, &h); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("of a server that never was: %v", err)
	}
}
