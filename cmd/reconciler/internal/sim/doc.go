// Package sim runs the shipped reconcile, keeper.Core and state code against a model of kernel, disk, clock and source,
// in one goroutine, from one stream of choices.
//
// It promises that a run is its choices and nothing else: the same choices give the same run, a failing run is shrunk to
// fewer choices that still fail, and told as a story. Between any two calls to kernel or disk either process may die.
// After every step the invariants I1 to I9 are checked against the truth that the model knows; when the faults stop,
// everything must come to what is wished (DC-1), and a restart of the reconciler must then order nothing (I8).
//
// It is part of the tests: no program imports it.
package sim
