package reconcile

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// thousand is a loop that governs n running servers of n/10 profiles, at rest.
func thousand(b *testing.B, n int) *host {
	h := newHost(b)
	for i := range n / 10 {
		h.profile(fmt.Sprint("p", i), args("--port", "1"))
	}
	set := h.set
	for i := range n {
		s := &spec.Accepted[spec.Server]{Object: &spec.Server{}, Source: spec.ObjectSource{File: "s.yaml"}}
		s.Object.Meta = spec.Meta{Name: fmt.Sprint("s", i), Namespace: "default"}
		s.Object.Spec.Profile = fmt.Sprint("p", i/10)
		h.servers[s.Object.Name] = s
		set.Servers[s.Object.Key()] = s
	}
	h.settle()
	if got := len(h.took()); got != n {
		b.Fatalf("%d starts, want %d", got, n)
	}
	h.Facts()
	h.lateFacts = true // what the keeper's client does, too: the same slice while nothing changes
	h.restart()
	h.settle()
	return h
}

// A turn that finds nothing changed, as after a lost wake.
func BenchmarkTurnUnchanged1000(b *testing.B) {
	h := thousand(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if orders, _ := h.loop.Turn(h.now()); len(orders) != 0 {
			b.Fatal(orders)
		}
	}
}

// The whole plan anew, for every server: what a turn saves by looking at changes alone.
func BenchmarkDecide1000(b *testing.B) {
	h := thousand(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		for _, s := range h.loop.servers {
			if d := decide(&s.standing, h.now()); d.order != nil {
				b.Fatal(d.word())
			}
		}
	}
}

// From the facts of a crash to the order that starts the next run, among 1,000.
func BenchmarkCrashToOrder1000(b *testing.B) {
	h := thousand(b, 1000)
	scope := scopeOf("s500", "p50")
	up := h.records[scope]
	h.end(scope, spec.ExitStatus{Class: spec.Unexpected, Reason: spec.ReasonSignaled, Signal: "SIGSEGV"})
	down := h.records[scope]
	at := 0
	for i, f := range h.shown {
		if f == up {
			at = i
		}
	}
	show := func(f *observe.Facts) {
		h.shown = slices.Clone(h.shown)
		h.shown[at] = f
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		show(down)
		b.StartTimer()
		orders, _ := h.loop.Turn(h.now())
		b.StopTimer()
		if len(orders) != 1 || orders[0].Start == nil {
			b.Fatalf("orders: %v", orders)
		}
		h.loop.Done(h.now(), orders[0], nil)
		show(up)
		h.loop.Turn(h.now())
		h.wall, h.uptime = h.wall.Add(time.Minute), h.uptime+time.Minute // past the wait for late facts
		b.StartTimer()
	}
}

// A new Set in which one object of 1,000 is another.
func BenchmarkNewSet1000(b *testing.B) {
	h := thousand(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		h.server("s500", "p50")
		b.StartTimer()
		if orders, _ := h.loop.Turn(h.now()); len(orders) != 0 {
			b.Fatal(orders)
		}
	}
}

// Our own start with 1,000 running servers, up to the first turn's end.
func BenchmarkFirstTurn1000(b *testing.B) {
	h := thousand(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		h.restart()
		if orders, _ := h.loop.Turn(h.now()); len(orders) != 0 {
			b.Fatal(orders)
		}
	}
}

// What the loop holds for one server at rest, without its manifest, its memory in the store and its facts.
func BenchmarkMemoryAServer(b *testing.B) {
	h := thousand(b, 1000)
	h.loop = nil
	for b.Loop() {
		before := inUse()
		h.restart()
		h.settle()
		b.ReportMetric(float64(inUse()-before)/1000, "B/server")
		h.loop = nil
	}
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
