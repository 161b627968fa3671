package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/api/apitest"
	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t *testing.T, loop *apitest.Loop, host *apitest.Host) *client.Client {
	t.Helper()
	c := client.New(filepath.Join(apitest.Serve(t, loop, host), "api.sock"))
	t.Cleanup(c.Close)
	return c
}

func town() spec.Key { return spec.Key{Namespace: "default", Name: "town"} }

// The whole of a server as an administrator gets it: what the file says, in its words, plus marked defaults (EC-2).
func TestServerObject(t *testing.T) {
	c := dial(t, apitest.NewLoop(apitest.Sample()), &apitest.Host{})
	var raw json.RawMessage
	village := spec.Key{Namespace: "default", Name: "village"}
	if err := c.Get(t.Context(), api.ObjectPath(api.Servers, village), nil, &raw); err != nil {
		t.Fatal(err)
	}
	var obj map[string]any
	if err := json.Unmarshal(raw, &obj); err != nil {
		t.Fatal(err)
	}
	sp := obj["spec"].(map[string]any)
	if sp["x-note"] != "kept" || sp["profile"] != "openttd" {
		t.Errorf("spec = %v, want what the file says", sp)
	}
	if sp["state"] != "Running" || !strings.Contains(string(raw), `"x-defaulted":`) {
		t.Errorf("the default of spec.state is not there or not marked: %s", raw)
	}
	meta := obj["metadata"].(map[string]any)
	for _, name := range []string{"uid", "generation", "resourceVersion", "creationTimestamp"} {
		if meta[name] == nil {
			t.Errorf("metadata has no %s", name)
		}
	}
	if meta["namespace"] != nil {
		t.Errorf("the default namespace is shown: %v", meta["namespace"])
	}
}

func TestErrorsAreStatuses(t *testing.T) {
	c := dial(t, apitest.NewLoop(apitest.Sample()), &apitest.Host{})
	for _, tt := range []struct {
		name, path string
		query      url.Values
		reason     api.StatusReason
		code       int
		message    string
	}{
		{"a server that is not there", api.ObjectPath(api.Servers, spec.Key{Namespace: "default", Name: "nowhere"}), nil, api.ReasonNotFound, 404, `servers "nowhere" not found`},
		{"a path that is not there", "/apis/other", nil, api.ReasonNotFound, 404, "there is no GET /apis/other"},
		{"a bad selector", api.ListPath(api.Servers, ""), url.Values{"labelSelector": {"a in b"}}, api.ReasonBadRequest, 400,
			`cannot parse the selector "a in b": "a in b" is no label key`},
		{"a bad flag", api.ListPath(api.Servers, ""), url.Values{"watch": {"perhaps"}}, api.ReasonBadRequest, 400, `watch="perhaps": must be true or false`},
		{"a bad tail", api.ObjectPath(api.Servers, town(), "log"), url.Values{"tailLines": {"-3"}}, api.ReasonBadRequest, 400, `tailLines="-3": must be a number, 0 or more`},
		{"events of nobody", api.ListPath(api.Events, "default"), url.Values{"name": {"nowhere"}}, api.ReasonNotFound, 404, `servers "nowhere" not found`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := c.Get(t.Context(), tt.path, tt.query, nil)
			var s *api.Status
			if !errors.As(err, &s) {
				t.Fatalf("error %v, want a Status", err)
			}
			if s.Reason != tt.reason || s.Code != tt.code || s.Message != tt.message || s.Kind != "Status" || s.APIVersion != "v1" || s.Status != "Failure" {
				t.Errorf("got %+v", *s)
			}
		})
	}
}

// BP-14: the actor is the kernel's word for the peer, whatever the request says.
func TestOrdersCarryTheActor(t *testing.T) {
	loop := apitest.NewLoop(apitest.Sample())
	c := dial(t, loop, &apitest.Host{})
	for _, verb := range []string{api.VerbStart, api.VerbStop, api.VerbRestart, api.VerbRelease} {
		var out api.Outcome
		if err := c.Post(t.Context(), api.ObjectPath(api.Servers, town(), verb), api.Order{Reason: "by somebody else", ForSeconds: 60, Force: true}, &out); err != nil {
			t.Fatalf("%s: %v", verb, err)
		}
		if out.Server.Status.Run.Number != 2 {
			t.Errorf("%s: the outcome does not show the server as it was: %+v", verb, out.Server)
		}
	}
	asks := loop.Asks()
	if len(asks) != 4 {
		t.Fatalf("the loop was asked %d times", len(asks))
	}
	for _, a := range asks {
		if a.Ask.By == "" || a.Ask.By == "by somebody else" || a.Ask.Reason != "by somebody else" || a.Ask.For.Seconds() != 60 || !a.Ask.Force || a.Ask.Server != town() {
			t.Errorf("%s was asked with %+v", a.Verb, a.Ask)
		}
	}
}

func TestOrdersAreRefused(t *testing.T) {
	loop := apitest.NewLoop(apitest.Sample())
	c := dial(t, loop, &apitest.Host{})
	path := api.ObjectPath(api.Servers, town(), api.VerbStop)
	for _, tt := range []struct {
		name   string
		body   any
		answer error
		reason api.StatusReason
	}{
		{"an unknown field", map[string]any{"by": "root"}, nil, api.ReasonBadRequest},
		{"no object", "stop", nil, api.ReasonBadRequest},
		{"a reason that is too long", api.Order{Reason: strings.Repeat("x", api.MaxReason+1)}, nil, api.ReasonInvalid},
		{"a hold that ends before it begins", api.Order{ForSeconds: -1}, nil, api.ReasonInvalid},
		{"a server that has gone", api.Order{}, reconcile.ErrNoServer, api.ReasonNotFound},
		{"a server that is stopped", api.Order{}, reconcile.ErrStopped, api.ReasonConflict},
		{"a shutdown", api.Order{}, reconcile.ErrClosing, api.ReasonServiceUnavailable},
		{"a full disk", api.Order{}, fmt.Errorf("%w: secret/path: %w", reconcile.ErrUnrecorded, unix.ENOSPC), api.ReasonServiceUnavailable},
		{"a disk that fails", api.Order{}, fmt.Errorf("%w: secret/path: %w", reconcile.ErrUnrecorded, unix.EIO), api.ReasonServiceUnavailable},
		{"something of ours", api.Order{}, errors.New("a secret of ours"), api.ReasonInternalError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			loop.Answer = func(apitest.Asked) error { return tt.answer }
			err := c.Post(t.Context(), path, tt.body, nil)
			var s *api.Status
			if !errors.As(err, &s) || s.Reason != tt.reason {
				t.Fatalf("error %v, want a Status %s", err, tt.reason)
			}
			if strings.Contains(s.Message, "secret") {
				t.Errorf("an internal error was told: %s", s.Message)
			}
		})
	}
}

// A watch shows what there is, marks its end, and then every change: also a removal, by the object's last state.
func TestWatch(t *testing.T) {
	snap := apitest.Sample()
	loop := apitest.NewLoop(snap)
	c := dial(t, loop, &apitest.Host{})
	var got []string
	stop := errors.New("seen enough")
	err := c.Watch(t.Context(), api.ListPath(api.Servers, "default"), nil, func(ev api.WatchEvent) error {
		var s api.Server
		if err := json.Unmarshal(ev.Object, &s); err != nil {
			return err
		}
		got = append(got, ev.Type+" "+s.Metadata.Name+" "+string(s.Status.State))
		switch ev.Type {
		case api.Bookmark: // now village starts, hamlet goes, and a server of another namespace changes
			next := *snap
			village := *snap.Servers[2]
			village.Rev, village.Status.State = 43, spec.StateStarting
			proxy := *snap.Servers[3]
			proxy.Rev = 43
			next.Servers = []*reconcile.ServerView{snap.Servers[1], &village, &proxy}
			loop.Show(&next)
		case api.Deleted:
			return stop
		}
		return nil
	})
	if err != stop {
		t.Fatal(err)
	}
	want := []string{"ADDED hamlet Stopped", "ADDED town Running", "ADDED village BackOff", "BOOKMARK  ", "MODIFIED village Starting", "DELETED hamlet Stopped"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// BP-13: a reader of a log that reads nothing delays no other answer.
func TestUnreadLogDelaysNothing(t *testing.T) {
	loop := apitest.NewLoop(apitest.Sample())
	c := dial(t, loop, &apitest.Host{LogText: strings.Repeat("line\n", 16<<20/5)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body, err := c.Stream(ctx, api.ObjectPath(api.Servers, town(), "log"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	for range 100 {
		if err := c.Post(t.Context(), api.ObjectPath(api.Servers, town(), api.VerbRelease), api.Order{}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// A log that breaks off does not look like one that is whole.
func TestCutLogIsNoWholeLog(t *testing.T) {
	for _, tt := range []struct {
		cut  error
		want error
	}{{nil, nil}, {errors.New("the keeper has died"), io.ErrUnexpectedEOF}} {
		c := dial(t, apitest.NewLoop(apitest.Sample()), &apitest.Host{LogText: "line\n", LogCut: tt.cut})
		body, err := c.Stream(t.Context(), api.ObjectPath(api.Servers, town(), "log"), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(body)
		if string(text) != "line\n" || !errors.Is(err, tt.want) {
			t.Errorf("cut by %v: got %q, %v: want %v", tt.cut, text, err, tt.want)
		}
		if err := body.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestListsWarn(t *testing.T) {
	snap := apitest.Sample()
	snap.Keeper = false
	snap.Sources[0].PrunePaused = []spec.ObjectKey{{Kind: spec.KindServer, Key: town()}}
	for i, c := range []spec.Condition{
		{Type: spec.ConditionAccepted, Status: "False", Reason: "ProfileNotFound"}, {Type: spec.ConditionAccepted, Status: "False", Reason: "StaleManifest"},
		{Type: spec.ConditionAccepted, Status: "False", Reason: "Removed"}, {Type: spec.ConditionAccepted, Status: "False", Reason: "Invalid"},
	} {
		snap.Servers[i].Status.Conditions = []spec.Condition{c}
	}
	c := dial(t, apitest.NewLoop(snap), &apitest.Host{})
	var warned []string
	c.Warn = func(text string) { warned = append(warned, text) }
	if err := c.Get(t.Context(), api.ListPath(api.Servers, ""), nil, &api.List{}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1 objects are in no file of source manifests any more; their removal is held until 'reconciler prune --confirm'",
		"files have faults: bad.yaml; see 'reconciler get sources'",
		"servers are not accepted as declared: hamlet (ProfileNotFound), edge/proxy (Invalid); see 'reconciler why'",
		"the keeper has not been heard: states are the last known, and nothing is started or stopped",
	}
	if strings.Join(warned, "\n") != strings.Join(want, "\n") {
		t.Errorf("warned of\n%s", strings.Join(warned, "\n"))
	}
}

// The TCP door: nothing that changes anything is linked into it, whatever the method and path (DESIGN 7).
func TestPublicHasNoMutatingHandler(t *testing.T) {
	loop := apitest.NewLoop(apitest.Sample())
	host := &apitest.Host{LogText: "console text"}
	svc := &api.Service{Loop: loop, Host: host, Metrics: http.NotFoundHandler()}
	public := svc.Public()
	reachable := map[string]bool{"GET /": true, "GET /metrics": true, "GET /healthz": true, "GET /readyz": true}
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		for _, path := range append(api.ControlPaths(), "/", "/metrics", "/healthz", "/readyz") {
			w := httptest.NewRecorder()
			public.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			if got := w.Code != http.StatusNotFound && w.Code != http.StatusMethodNotAllowed; got && !reachable[method+" "+path] {
				t.Errorf("%s %s is answered with %d", method, path, w.Code)
			}
			if strings.Contains(w.Body.String(), "console text") || strings.Contains(w.Body.String(), apitest.Canary) {
				t.Errorf("%s %s shows what is not public: %s", method, path, w.Body)
			}
		}
	}
	if len(loop.Asks()) != 0 || len(host.Calls) != 0 {
		t.Errorf("something was asked of the loop: %v %v", loop.Asks(), host.Calls)
	}
}

func TestReadyz(t *testing.T) {
	for _, tt := range []struct {
		name string
		snap reconcile.Snapshot
		code int
		text string
	}{
		{"all heard", reconcile.Snapshot{Keeper: true, Known: true}, 200, "ok\n"},
		{"no keeper", reconcile.Snapshot{Known: true}, 503, "the keeper has not been heard whole\n"},
		{"no source", reconcile.Snapshot{Keeper: true}, 503, "not every source has been read whole\n"},
		{"closing", reconcile.Snapshot{Keeper: true, Known: true, Closing: true}, 503, "a shutdown is under way\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			svc := &api.Service{Loop: apitest.NewLoop(&tt.snap)}
			w := httptest.NewRecorder()
			svc.Public().ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
			if w.Code != tt.code || w.Body.String() != tt.text {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Body, tt.code, tt.text)
			}
		})
	}
}
