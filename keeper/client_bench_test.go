package keeper

import (
	"fmt"
	"testing"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// BenchmarkMerge1000 takes one scope's new facts among a thousand: what every turn of a reconciler begins with.
func BenchmarkMerge1000(b *testing.B) {
	facts := make([]*observe.Facts, 1000)
	for i := range facts {
		facts[i] = &observe.Facts{Scope: spec.Scope{Namespace: spec.DefaultNamespace, Server: fmt.Sprintf("server-%d", i), Profile: "game"}}
	}
	all := merge(nil, facts)
	b.ReportAllocs()
	for b.Loop() {
		all = merge(all, facts[500:501])
	}
}
