// Package anchor is what outlives the keeper: its parent, the reaper of what it leaves behind, and the place for descriptors that must not
// be closed when it dies (the master side of a terminal, say).
//
// Two halves that talk over a socket pair which the keeper is started with. The [Shelf] is the anchor's: it holds descriptors by name, and
// tells and reaps ended children, each by a pidfd, so that no number of a process is ever believed. The [Store] is the keeper's:
// each call ends within its context's deadline and [Patience], whatever the other side does, and once the other side has not
// answered, the next calls fail at once until it has.
//
// The anchor's side decides nothing, opens no file and understands nothing but this protocol. It keeps no list of children either: an ended one
// is a zombie, which is the kernel's own record of its end, until the keeper has written that down and says so.
//
// The package imports next to nothing, on purpose: what is initialised before it is what the anchor's memory and start cost.
package anchor
