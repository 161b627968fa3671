// Package stage starts processes so that nothing of a workload runs before its owner says so.
//
// A start has two halves. [Stager.Hold] forks a stage: a static program of ours, under 1 KiB, in its own session,
// with the workload's user, cgroup, standard files, arguments and environment, that resets its signals and waits at a
// gate. The caller writes down who it is. [Held.Release] opens the gate and the stage executes the workload in its
// own place; [Held.Abandon] closes it and the stage exits. When the caller dies between the two, the kernel closes
// the gate and the stage exits too: no instruction of a workload runs that its owner did not release (I2).
//
// Promised: whatever fails, at whatever step, neither a file descriptor nor a process is left by this package (EC-7);
// the workload inherits the standard files and nothing else; all its signals have their default disposition and none
// is blocked; arguments reach it as they are, through no shell and no search path (EC-4); its environment is what the
// [Spec] says (EC-5).
//
// The same program, told another word at its gate, is a custodian ([Stager.Custodian]): it keeps the master side of a terminal
// beyond its starter's end.
//
// Not done here: what may be executed (the caller opens and checks the file), the umask (one per process: the caller
// sets its own, the workload inherits it), records, signals other than the kill of a stage, reaping of a released
// process.
//
// Safe for use by several goroutines; a [Held] belongs to one at a time.
package stage
