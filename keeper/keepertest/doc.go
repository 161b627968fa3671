// Package keepertest holds every keeper to the same behaviour: the shipped core on the kernel of this host, in its own
// process, and the same core on a model of a kernel. What passes on both may be relied upon by a simulation.
//
// It is imported by tests alone. [Run] is the suite; a [Host] is what it drives.
package keepertest
