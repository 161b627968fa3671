package sim

import (
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
)

var (
	steps = flag.Int("sim.steps", 60_000, "how many steps the simulation takes in all")
	seed  = flag.Uint64("sim.seed", 1, "the first seed")
	whole = flag.Bool("sim.whole", false, "tell a failing run as it is, without looking for a smaller one")
)

// TestSimulation takes steps in many runs, each from a seed of its own. A seed gives the same run again.
func TestSimulation(t *testing.T) {
	taken := 0
	for s := *seed; taken < *steps; s++ {
		n, failure := Run(streamOf(s))
		taken += n
		if failure != nil && *whole {
			t.Fatalf("seed %d: %s: %s", s, failure.Invariant, failure.What)
		}
		if failure != nil {
			t.Fatalf("seed %d, shrunk: %v", s, shrunk(failure))
		}
	}
	t.Logf("%d steps", taken)
}

func streamOf(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	stream := make([]byte, 200+r.IntN(1800))
	for i := range stream {
		stream[i] = byte(r.Uint32())
	}
	return stream
}

// shrunk is the same breach with fewer choices.
func shrunk(f *Failure) *Failure {
	small := shrink(f.Stream, 2000, func(stream []byte) bool {
		_, g := Run(stream)
		return g != nil && g.Invariant == f.Invariant
	})
	_, g := Run(small)
	return g
}

// TestReproducible runs the same seeds twice and compares their stories.
func TestReproducible(t *testing.T) {
	for s := range uint64(20) {
		a, b := storyOf(streamOf(s)), storyOf(streamOf(s))
		if a != b {
			t.Fatalf("seed %d tells two stories:\n%s\n%s", s, a, b)
		}
	}
}

func storyOf(stream []byte) string {
	w := newWorld(stream)
	w.live()
	return strings.Join(w.story, "\n")
}
