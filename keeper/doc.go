// Package keeper is the process that is the parent of all runs: it starts, signals, pumps output, reaps and writes
// records. It decides nothing.
//
// It promises: at most one live run a scope (I1); no instruction of a workload before its identity is on record (I2);
// a signal only to a process that is proven to be the recorded one (I3); every exit recorded once, with the kernel's
// own status word or as unknown, never as success by default (I4); an exit is asked for only when a stop was recorded
// and its first step journaled before it (I5); a run is over only when its tree is gone (I6). Every order is checked
// against the host's configuration again, whoever sent it (EC-17). A line, a request and a program beside a run are journaled before
// they are handed over or forked, which happens once (EN-6); a program is over when its tree is gone, and its run is not over before.
//
// Two halves. [Core] is the logic: synchronous, without goroutines, clocks or system calls of its own; what it needs
// of the operating system is the [Kernel] interface, what it writes goes through state.Store, so that the very same
// code runs in a simulation. Around it stands the process: socket, event loop, start workers ([Main]), and beside it
// the [Client] with which the reconciler talks to it.
//
// A line or a request is handed over beside everything else, with a time limit of its own, and over a network only to sockets that
// the run's own processes hold (EN-6).
//
// It never parses a manifest, never opens a network port, and never runs a shell.
package keeper
