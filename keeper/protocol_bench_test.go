package keeper

import (
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// BenchmarkMessage is an order on its way: what both sides do with it beside sending it, in a goroutine that does nothing else
// and in new ones, as a keeper has them.
func BenchmarkMessage(b *testing.B) {
	scope := spec.Scope{Namespace: spec.DefaultNamespace, Server: "town", Profile: "game"}
	order := state.StartOrder{UID: "0b7e6a5e-0000-4000-8000-000000000000", Generation: 1, Source: state.Source{File: "town.yaml"}, Cause: "Wanted"}
	order.Launch = spec.Launch{Scope: scope, Workspace: "usr", Executable: "games/game", Args: []string{"-D", "127.0.0.1:3979", "-x"}}
	order.Launch.Stop = []spec.StopStep{{}}
	relay := func() {
		packet, _, err := encodeMessage(Message{ID: 7, Op: OpStart, Session: 3, Within: 5000}, order)
		if err != nil {
			b.Error(err)
		}
		m, err := decodeMessage(packet)
		if err != nil {
			b.Error(err)
		}
		var got state.StartOrder
		if err := decodeBody(m, &got); err != nil {
			b.Error(err)
		}
	}
	anew := func(f func()) func() {
		return func() {
			var wg sync.WaitGroup
			wg.Go(f)
			wg.Wait()
		}
	}
	for _, way := range []struct {
		name string
		do   func()
	}{
		{"same goroutine", relay},
		{"deep goroutine", anew(func() { deepen(false); relay() })},
		{"growing goroutine", anew(relay)},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			loop(b, way.do)
		})
	}
}

// loop reports the CPU that each turn takes, which a loaded machine does not spoil as it does time.
func loop(b *testing.B, do func()) {
	b.Helper()
	used := func() int64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	for b.Loop() {
		do()
	}
	b.ReportMetric(float64(used()-before)/1e3/float64(b.N), "cpu-us/op")
}
