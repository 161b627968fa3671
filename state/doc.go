// Package state keeps on disk what has to outlive a process: the record of every scope ([Store]) and the small tables of the
// reconciler ([Table]). It owns the file formats and the paths ([Layout]), and knows nothing of processes: a record
// says what was done last, never that something lives.
//
// # What survives what
//
// A call that has returned without an error survives this:
//
//	                                 our crash or kill -9   power cut, reset of the host
//	Store.Put, PutProgress,
//	Table.Set, Delete                yes                    within a second, when Health is nil
//	Store.PutDurable, Retire,
//	Table.SetDurable, DeleteDurable  yes                    yes
//	Store.Archive                    yes                    within a second; until then the record may be back
//
// A call that failed, or during which the process died, leaves the old state or the new one, never a third. A power cut leaves,
// scope by scope and key by key, one of the states since the last flush. The end of a run is therefore on record before its
// zombie is reaped, and only a power cut within the second after it makes it unknown; it ended every process anyway.
//
// # How
//
// A record is a file, SCOPE.json. Its next version is written beside it and takes its place in one step: that is what survives a
// crash, at the price of five system calls and no wait for the disk. How far a start has come is a line at its end. Behind it one goroutine ([Store.Run]) copies what has
// changed into a journal and syncs that: one write and one sync for as many records as there are, and those who wait
// for it wait together. The journal is never asked as long as the host has not been reset. In the first [Open] of a new boot
// each record is taken from whichever of the two has the newer one, and a file that the reset tore is set aside. A table is such
// a journal alone.
//
// # Who may write
//
// One process a directory, by a kernel lock ([TakeLock]) that ends with it and is never taken from it. Files are 0600 in
// directories 0700 of the user who runs us; a store or table that is not is refused, as is one of a newer version. [Open]
// certifies every record; one that is unreadable, newer, not private, not a regular file, under another scope's name or naming
// a process that another record names is reported as [Blocked] and left untouched, until [Store.Retire] sets it aside.
// Nothing here deletes a record.
package state
