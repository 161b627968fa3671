// Package proc is what the kernel says of processes: who they are, whether they live, how they ended, who
// descends from them, what they use, and which sockets they have.
//
// A process is named by a [state.Identity] and touched through a [Process], which holds its pidfd: a number that was
// reused is never taken for the process that had it before, and never signalled (BP-6, BP-8, I3). What cannot be
// verified is said to be unknown, with the reason, never guessed; an exit status that the kernel does not tell is
// nil, never 0 (I4). Whose a connection's other end is is told by the tables of sockets and the descriptors of processes ([Receivers],
// [Cgroup.HoldsSockets]), never by a port's number (EC-11).
//
// What the kernel can do is probed at start by doing it ([Probe]), never read off a version.
//
// The package decides nothing, records nothing and starts no process. Sources of the formats: proc(5), cgroups(7),
// Documentation/admin-guide/cgroup-v2.rst, pidfd_open(2), waitid(2).
package proc
