package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// manyServers is a snapshot of n servers that run, and what they use.
func manyServers(n int) (*reconcile.Snapshot, map[spec.Scope]Usage) {
	snap := &reconcile.Snapshot{Keeper: true, Known: true}
	usage := map[spec.Scope]Usage{}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range n {
		key := spec.Key{Namespace: "default", Name: fmt.Sprintf("server-%04d", i)}
		scope := spec.Scope{Namespace: key.Namespace, Server: key.Name, Profile: "game"}
		v := &reconcile.ServerView{Key: key, Profile: "game", Status: spec.ServerStatus{State: spec.StateRunning}}
		for _, c := range spec.ConditionTypes {
			v.Status.Conditions = append(v.Status.Conditions, spec.Condition{Type: c, Status: "True"})
		}
		v.Facts = []*observe.Facts{{
			Scope:    scope,
			Run:      &observe.RunFacts{Number: 3, ID: "r3", Phase: state.Started, StartedAt: at, ReadyAt: at.Add(time.Second)},
			Exits:    []state.Exit{{Number: 2, RunID: "r2", ExitStatus: spec.ExitStatus{FinishedAt: at}}},
			Counters: state.Counters{Starts: 3, Exits: map[string]int64{"Unexpected/Exited": 2}, LogBytes: 4096},
		}}
		usage[scope] = Usage{CPU: time.Second, ResidentBytes: 1 << 20, OpenFDs: 12, LogBytes: 77}
		snap.Servers = append(snap.Servers, v)
	}
	return snap, usage
}

// BenchmarkScrape is one whole scrape of 1,000 scopes over HTTP's handler, without the keeper's part.
func BenchmarkScrape(b *testing.B) {
	snap, usage := manyServers(1000)
	c := NewCollector(func() *reconcile.Snapshot { return snap }, func() map[spec.Scope]Usage { return usage })
	h, err := NewPage(c, NewMeter())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	for b.Loop() {
		w := nowhere{header: http.Header{}}
		h.ServeHTTP(&w, request)
		if w.bytes < 1e6 {
			b.Fatalf("a page of %d bytes", w.bytes)
		}
	}
}

// nowhere counts what is written to it.
type nowhere struct {
	header http.Header
	bytes  int
}

func (w *nowhere) Header() http.Header { return w.header }

func (w *nowhere) WriteHeader(int) {}

func (w *nowhere) Write(b []byte) (int, error) {
	w.bytes += len(b)
	return len(b), nil
}
