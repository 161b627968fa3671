package keeper_test

import (
	"testing"
)

// hosts are the kinds of host on which everything must hold.
func hosts(kind string) map[string]func(testing.TB) *world {
	make := func(noCgroups, initReaps bool) func(testing.TB) *world {
		return func(t testing.TB) *world {
			w := newWorld(t, kind)
			w.kernel.noCgroups, w.kernel.initReaps = noCgroups, initReaps
			return w
		}
	}
	return map[string]func(testing.TB) *world{
		"cgroups":             make(false, false),
		"cgroups, init reaps": make(false, true),
		"none":                make(true, false),
		"none, init reaps":    make(true, true),
	}
}

// life starts a server, stops it, starts and stops it again: every call that a run needs is made.
func life(w *world) {
	if w.kind == workBroken || w.kind == workExits {
		_ = w.start()
		_ = w.start()
	} else {
		w.drive(true)
		if w.kind != workLadder { // it is long by itself
			w.drive(false)
			w.drive(true)
		}
	}
	w.drive(false)
}

// I1-I6, EC-7: the keeper dies at every point of a server's life, before and after the effect of every call.
func TestDyingAtEveryPoint(t *testing.T) {
	for _, kind := range []string{workRuns, workIgnores, workExits, workFamily, workBroken, workTalks, workLadder} {
		for name, make := range hosts(kind) {
			t.Run(kind+" on "+name, func(t *testing.T) {
				for n := 1; ; n++ {
					w := make(t)
					w.kernel.crashAt = n
					life(w)
					w.gone()
					if w.crashes == 0 {
						if n < 20 {
							t.Fatalf("only %d points", n)
						}
						return
					}
				}
			})
		}
	}
}

// The keeper dies twice, the second time while it picks up the pieces.
func TestDyingTwice(t *testing.T) {
	for n := 1; ; n++ {
		died := 0
		for m := 1 + n%3; ; m += 3 {
			w := newWorld(t, workFamily)
			w.kernel.crashAt = n
			second := false
			again := func() {
				if w.crashes == 1 && !second {
					second = true
					w.kernel.crashAt = w.kernel.points + m
				}
			}
			for _, running := range []bool{true, false} {
				for range 100 {
					done := w.turn(running)
					again()
					if done {
						break
					}
				}
			}
			w.kernel.crashAt = 0
			w.drive(false)
			w.gone()
			died = max(died, w.crashes)
			if w.crashes < 2 {
				break
			}
		}
		if died == 0 {
			return
		}
	}
}

// EC-7: every call fails once, at every place where it is made; nothing is left and everything goes on.
func TestFailingAtEveryCall(t *testing.T) {
	for _, kind := range []string{workRuns, workIgnores, workExits, workFamily, workBroken, workTalks, workLadder} {
		for name, make := range hosts(kind) {
			t.Run(kind+" on "+name, func(t *testing.T) {
				for n := 1; ; n++ {
					w := make(t)
					w.kernel.failAt = n
					life(w)
					if w.facts() != nil && w.facts().Blocked != "" {
						_ = w.alive(func() error { w.core.Compare(); return nil })
						w.drive(false)
					}
					w.gone()
					if w.kernel.calls < n {
						return
					}
				}
			})
		}
	}
}

// A start that fails leaves nothing even before anybody looks again.
func TestFailedStartLeavesNothing(t *testing.T) {
	for n := 1; ; n++ {
		w := newWorld(t, workRuns)
		w.kernel.failAt = n
		err := w.start()
		if err == nil {
			if w.kernel.calls < n {
				return
			}
			continue // what failed was no part of the start
		}
		if name := w.kernel.names[n-1]; name == "Remove" || name == "Put" && w.facts() != nil && !w.facts().Run.Over() {
			continue // cleaning up failed: tried again later
		}
		if f := w.facts(); f != nil && f.Run.Over() {
			w.gone()
		}
		if f := w.facts(); f == nil {
			w.gone()
		}
	}
}
