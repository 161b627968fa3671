//go:build bench

package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"
)

// What the rows of isolation are made of.
const (
	isolationServers = 200
	isolationPasses  = 10 // how often each server that behaves is crashed
	isolationBlock   = 20 // crashes in one condition before it is the other's turn
	isolationTimes   = 1.2
)

// TestBenchIsolation crashes the servers that behave, one after the other, beside twenty that misbehave and beside twenty that
// do not (BP-13, I12). The two conditions take turns every second or so, each while the other is frozen: what else the
// machine does falls on both, and nothing that one does falls on the other.
func TestBenchIsolation(t *testing.T) {
	p := buildPrograms(t)
	without, beside := newIsolation(t, p, false), newIsolation(t, p, true)
	without.cgroup.freeze(t, true)
	both := []*isolation{without, beside}
	for range isolationPasses {
		for _, c := range both {
			c.order = rand.Perm(len(c.calm))
		}
		for len(both[0].order) > 0 {
			rand.Shuffle(len(both), func(i, j int) { both[i], both[j] = both[j], both[i] })
			for i, c := range both {
				both[1-i].cgroup.freeze(t, true)
				c.cgroup.freeze(t, false)
				time.Sleep(250 * time.Millisecond) // what was due meanwhile is done first
				c.crashSome()
			}
		}
	}
	without.cgroup.freeze(t, false)
	beside.cgroup.freeze(t, false)
	beside.trouble.check()
	without.end()
	beside.end()
	what := fmt.Sprintf("crash to running again beside %d of %d that misbehave, ", troubled, isolationServers)
	row := func(name string, part float64) benchRow {
		return benchRow{
			name: what + name, measured: milliseconds(quantile(beside.took, part)), bare: milliseconds(quantile(without.took, part)),
			unit: "ms", times: true, limit: isolationTimes,
		}
	}
	printRows(t, []benchRow{row("p50", 0.50), row("p99", 0.99)})
}

// isolation is one condition.
type isolation struct {
	*stand
	calm    []string // the servers that behave in either condition
	order   []int    // of them: who is crashed next
	took    []time.Duration
	trouble *trouble // nil = all others behave as well
}

func newIsolation(t *testing.T, p programs, misbehave bool) *isolation {
	c := &isolation{stand: newStand(t, p)}
	c.write(filepath.Join(c.manifests(), "calm.yaml"), c.calmProfile())
	for i := range isolationServers - troubled {
		c.calm = append(c.calm, fmt.Sprintf("w%d", i))
	}
	c.declareCalm(c.calm...)
	if misbehave {
		c.trouble = newTrouble(c.stand)
	} else {
		c.declareCalm(troubleNames()...)
	}
	c.run()
	t.Cleanup(c.end) // before the stand's, which would wait for the ladders
	for _, name := range c.calm {
		c.await("up", name, 0)
	}
	if misbehave {
		c.trouble.begin()
	}
	time.Sleep(4 * time.Second) // as in startLoaded
	return c
}

func (c *isolation) crashSome() {
	n := min(isolationBlock, len(c.order))
	for _, i := range c.order[:n] {
		c.took = append(c.took, c.crash(c.calm[i]))
		briefly()
	}
	c.order = c.order[n:]
}

// end ends everything at once: ladders and commands would go on for an hour.
func (c *isolation) end() {
	if c.trouble != nil {
		c.trouble.end()
	}
	c.cgroup.remove(c.t)
}

// briefly waits like rarely, for less long: many samples are needed to see the worst hundredth of them.
func briefly() { time.Sleep(time.Duration(5+rand.IntN(20)) * time.Millisecond) }

// calmProfile is a profile whose servers run the workload, and begin anew at once however often they crash.
func (s *stand) calmProfile() []byte {
	return fmt.Appendf(nil, `apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: calm}
spec:
  actions: {start: {workspace: bench, executable: workload, args: [%q, $(server.name)]}}
  restart: {initialSeconds: 0, maxSeconds: 0}
`, s.fifo)
}

func (s *stand) declareCalm(names ...string) {
	for _, name := range names {
		s.declareServer(name, "calm", "")
	}
}

// declareServer renames a server's manifest into place: more is what its spec has beside the profile.
func (s *stand) declareServer(name, profile, more string) {
	s.replace(name+".yaml", fmt.Sprintf(`apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: %s}
spec: {profile: %s%s}
`, name, profile, more))
}
