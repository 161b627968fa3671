package api_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/api/apitest"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

const (
	runner   = 4711 // runs the reconciler
	stranger = 4712
)

// BP-14: root and the user that runs the reconciler may do everything, everybody else sees states alone, and one whom
// the kernel does not name nothing.
func TestAccess(t *testing.T) {
	requests, public := api.Routes()
	for i, request := range requests {
		for _, who := range []struct {
			name string
			uid  int
			may  bool
		}{{"root", 0, true}, {"runner", runner, true}, {"stranger", stranger, public[i]}, {"nobody", -1, false}} {
			t.Run(request+" by "+who.name, func(t *testing.T) {
				method, path, _ := strings.Cut(request, " ")
				loop, host := apitest.NewLoop(apitest.Sample()), &apitest.Host{}
				svc := &api.Service{Loop: loop, Host: host, UID: runner, Log: slog.New(slog.DiscardHandler)}
				w := httptest.NewRecorder()
				svc.Control().ServeHTTP(w, api.FromUser(httptest.NewRequest(method, path, http.NoBody), who.uid))
				if allowed := w.Code != http.StatusForbidden; allowed != who.may {
					t.Fatalf("answered %d: %s", w.Code, w.Body)
				}
				if !who.may && (len(loop.Asks()) > 0 || len(host.Calls) > 0) {
					t.Errorf("was refused, and yet asked: %v %v", loop.Asks(), host.Calls)
				}
			})
		}
	}
}

// BP-10, I10: nothing that the public may see holds an argument, a value of the environment, or what names a run or a hash.
func TestPublicViewsHaveNoCanary(t *testing.T) {
	requests, public := api.Routes()
	seen := 0
	for i, request := range requests {
		method, path, _ := strings.Cut(request, " ")
		if !public[i] || method != http.MethodGet {
			continue
		}
		host := &apitest.Host{Lines: map[spec.Key][]observe.Written{}}
		for _, v := range apitest.Sample().Servers {
			host.Lines[v.Key] = []observe.Written{{Lines: []state.Written{{Text: apitest.Canary}}}}
		}
		svc := &api.Service{Loop: apitest.NewLoop(apitest.Sample()), Host: host, UID: runner, Log: slog.New(slog.DiscardHandler)}
		w := httptest.NewRecorder()
		svc.Control().ServeHTTP(w, api.FromUser(httptest.NewRequest(method, path, http.NoBody), stranger))
		text, err := io.ReadAll(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		seen += len(text)
		if strings.Contains(string(text), apitest.Canary) {
			t.Errorf("%s shows %q: %s", request, apitest.Canary, text)
		}
	}
	if seen < 1000 {
		t.Fatalf("only %d bytes were looked at", seen)
	}
}

// To an administrator, only what the manifest says holds them, and only below spec.
func TestAdministratorSeesSpecAlone(t *testing.T) {
	svc := &api.Service{Loop: apitest.NewLoop(apitest.Sample()), Host: &apitest.Host{}, UID: runner, Log: slog.New(slog.DiscardHandler)}
	for _, request := range []string{api.ListPath(api.Servers, ""), api.ListPath(api.Events, ""), api.ListPath(api.Holds, ""), api.ListPath(api.Sources, ""), api.ObjectPath(api.Servers, town(), "history")} {
		w := httptest.NewRecorder()
		svc.Control().ServeHTTP(w, api.FromUser(httptest.NewRequest("GET", request, http.NoBody), runner))
		if strings.Contains(w.Body.String(), apitest.Canary) {
			t.Errorf("%s shows %q: %s", request, apitest.Canary, w.Body)
		}
	}
	w := httptest.NewRecorder()
	svc.Control().ServeHTTP(w, api.FromUser(httptest.NewRequest("GET", api.ListPath(api.Profiles, ""), http.NoBody), runner))
	if !strings.Contains(w.Body.String(), apitest.Canary) {
		t.Errorf("the profile as its file says it is not shown: %s", w.Body)
	}
}
