package api_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/api/apitest"
)

// BenchmarkListServers is one list of 1,000 servers, whole with its spec, and as a table needs it.
func BenchmarkListServers(b *testing.B) {
	snap := apitest.Sample()
	one := snap.Servers[1]
	snap.Servers = nil
	for i := range 1000 {
		v := *one
		v.Key.Name = fmt.Sprintf("server-%04d", i)
		snap.Servers = append(snap.Servers, &v)
	}
	svc := &api.Service{Loop: apitest.NewLoop(snap), Host: &apitest.Host{}, UID: runner, Log: slog.New(slog.DiscardHandler)}
	h := svc.Control()
	for name, query := range map[string]string{"whole": "", "summary": "?view=summary"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, api.FromUser(httptest.NewRequest(http.MethodGet, api.ListPath(api.Servers, "")+query, nil), runner))
				if w.Code != http.StatusOK {
					b.Fatal(w.Body.String())
				}
			}
		})
	}
}
