package reconcile

import (
	"fmt"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
)

// allow sets the host's limits.
func (h *host) allow(concurrent, perMinute int64) {
	view := openHost
	view.StartConcurrency, view.RestartsPerMinute = concurrent, perMinute
	h.allows = &view
}

func probed(p *spec.ProfileSpec) {
	p.ReadinessProbe = &spec.Probe{Log: &spec.LogCheck{Contains: []string{"ready"}}}
}

// says has a server print what its log probe waits for.
func (h *host) says(name string) {
	h.change(scopeOf(name, "game"), func(f *observe.Facts) {
		run := *f.Run
		run.LogSeenAt = h.wall
		f.Run = &run
	})
	h.settle()
}

// A full host's boot: no more servers are Starting at once than the host allows.
func TestStartConcurrency(t *testing.T) {
	h := newHost(t)
	h.allow(2, 0)
	h.profile("game", probed)
	for i := range 5 {
		h.server(fmt.Sprintf("s%d", i), "game")
	}
	h.settle()
	h.wantOrders("Start s0/game Wanted", "Start s1/game Wanted")
	h.wantState("s2", spec.StatePending)
	h.wantCondition("s2", spec.ConditionReconciling, "True", "StartLimited")
	h.pass(time.Minute)
	h.wantOrders()
	h.says("s1")
	h.wantOrders("Start s2/game Wanted")
	h.crash("s0", "game") // what starts again takes room too
	h.settle()
	h.wantOrders("Start s3/game Wanted")
	h.wantCondition("s0", spec.ConditionReconciling, "True", "StartLimited")
	h.server("s4", "game", stopped) // wants no start any more
	h.says("s2")
	h.wantOrders("Start s0/game Crashed")
	h.wantCondition("s4", spec.ConditionReconciling, "False", "AsWished")

	// I12: one that never gets Ready does not keep others waiting for ever.
	h.server("s5", "game")
	h.settle()
	h.wantOrders()
	h.pass(startingFor)
	h.wantOrders("Start s5/game Wanted")

	h.allow(0, 0)
	h.server("s6", "game")
	h.server("s7", "game")
	h.settle()
	h.wantOrders("Start s6/game Wanted", "Start s7/game Wanted")
}

// A server whose start was carried out is Starting, whether or not the keeper's facts have come that say so.
func TestStartConcurrencyWithLateFacts(t *testing.T) {
	h := newHost(t)
	h.allow(1, 0)
	h.profile("game", probed)
	h.server("s0", "game")
	h.server("s1", "game")
	h.lateFacts = true
	h.settle()
	h.wantOrders("Start s0/game Wanted")
	h.lateFacts = false
	h.settle()
	h.wantOrders()
	h.says("s0")
	h.wantOrders("Start s1/game Wanted")
}

// A limit that is lifted, or a server that goes, leaves nobody waiting.
func TestStartConcurrencyIsLifted(t *testing.T) {
	h := newHost(t)
	h.allow(1, 0)
	h.profile("game", probed)
	for i := range 3 {
		h.server(fmt.Sprintf("s%d", i), "game")
	}
	h.settle()
	h.wantOrders("Start s0/game Wanted")
	h.remove("s0")
	h.settle()
	h.pass(time.Minute)
	h.wantOrders("Stop s0/game Removed", "Step s0/game 0", "Archive s0/game", "Start s1/game Wanted")
	h.allow(0, 0)
	h.publish()
	h.settle()
	h.wantOrders("Start s2/game Wanted")
}

// A bad day: no more crash restarts a minute than the host allows, and no other start is held up by it.
func TestRestartsPerMinute(t *testing.T) {
	h := newHost(t)
	h.allow(0, 2)
	h.profile("game")
	for i := range 3 {
		h.server(fmt.Sprintf("s%d", i), "game")
	}
	h.settle()
	h.took()
	for i := range 3 {
		h.crash(fmt.Sprintf("s%d", i), "game")
	}
	h.settle()
	h.wantOrders("Start s0/game Crashed", "Start s1/game Crashed")
	h.wantCondition("s2", spec.ConditionReconciling, "True", "StartLimited")
	h.server("s3", "game")
	h.settle()
	h.wantOrders("Start s3/game Wanted")
	h.pass(restartWindow - time.Second)
	h.wantOrders()
	h.pass(2 * time.Second)
	h.wantOrders("Start s2/game Crashed")
	h.wantState("s2", spec.StateRunning)
}

// A start counts from its answer on, also when the facts of its run come later.
func TestStartCountsBeforeItsFacts(t *testing.T) {
	h := newHost(t)
	view := openHost
	view.StartConcurrency = 1
	h.allows = &view
	h.profile("game", logProbe)
	h.server("a", "game")
	h.settle()
	h.wantState("a", spec.StateStarting)
	h.logs("a", "game")
	h.settle()
	h.took()
	h.lateFacts = true
	h.server("b", "game")
	h.settle()
	h.wantOrders("Start b/game Wanted")
	h.server("c", "game")
	h.settle()
	h.wantOrders()
	h.lateFacts = false
	h.settle()
	h.wantOrders()
	h.logs("b", "game")
	h.settle()
	h.wantOrders("Start c/game Wanted")
}
