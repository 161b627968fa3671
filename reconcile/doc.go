// Package reconcile decides. It compares the whole wish with the whole observation and says what to do now.
//
// It owns the one loop, the plan that the loop follows, the backoff, the roll-outs, the holds of people, the jobs, and the
// status that everybody else shows. It promises: deciding is pure (plan.go and the files it calls know neither a clock
// nor the host); an unchanged wish causes no step; one server's trouble delays no other; at most one order is in flight
// for a server, and beside it one command of a job; an attempt of a job is carried out at most once, on what it was bound
// to; nothing is decided before the keeper has been heard whole, and nothing is removed before every source was.
//
// It never starts, signals or reads a process, opens no file and no port: those are behind [Executor], [Store],
// [JobStore] and [Checker]. What it must not forget is in [Memory] and [JobMemory]; all else it learns again from facts.
package reconcile
