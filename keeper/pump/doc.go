// Package pump brings the output of all runs from their FIFOs into their log files, and loses, doubles or tears no line
// when its process is killed at any instruction.
//
// It owns the read ends of every run's stdout and stderr, the log files below its log folder, and one pool file of
// slots. It promises that neither a workload nor the loop ever waits for a disk: what a disk does not take in time is
// dropped in whole lines and counted. It never looks at a record, never signals, never decides.
//
// Two goroutines do all the work. The [Loop] waits for events (the keeper adds its own there) and moves bytes from FIFOs
// into slots; the writer, [Pump.Run], moves slots into files. Between them lie the slots, in memory that outlives the
// process:
//
//	IDLE -> READING(n) -> HAVE -> WRITING(file, offset) -> IDLE
//
// A successor ([New]) finds in each slot what was under way. READING: canaries at both ends of the n bytes tell whether
// the read took place. HAVE: it is written. WRITING: the file is cut back to the offset and the slot written again. The
// pool file lies on tmpfs where there is one (see [PoolDirs]).
//
// Output that ends within a line is written at once as a P piece, so that no text waits in memory that dies with the
// process. A line is an F piece; one of more than 16 KiB comes in P pieces and an F. A file ends at a line's end of both
// streams, or at twice its size when one of them comes to none.
//
// When the oldest slot has waited for the disk for 500 ms and all slots are taken, what a FIFO holds is dropped once it
// is half full. When a write fails, what it was to write is dropped. Either way the log goes on with the next whole
// line, and a P before the gap is ended by an empty F. That there was a gap is the one thing that does not outlive a
// killed pump: when it ended within a line, or a P stands before it, its successor writes one line that is not as printed.
package pump
