// Package logs is the format of the log files and their reading side.
//
// A line of a log file is one piece of output in the format of the container runtime interface (CRI):
//
//	2026-01-02T03:04:05.000000006Z stdout F text
//
// time (RFC 3339 with nine digits, UTC), stream, and a tag: F ends a line of the workload, P does not, the next piece
// of the same stream goes on with it. Text is any bytes but the newline. (CRI:
// https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md)
//
// The files of a scope lie in one folder, named by scope, run and index:
//
//	DIR/<scope id>/<run number>.log      index 0
//	DIR/<scope id>/<run number>.log.1    index 1, and so on; the highest index is the one being written
//
// A file never changes its name, so a reader keeps its place over a rotation, and the lowest indexes of the lowest runs
// are what a budget removes first. Pieces are in the order in which they were read from the workload; the two streams of
// a run share its files.
//
// The package reads and joins; it never writes a file (the keeper's pump does, with the formatter from here), starts no
// goroutine, and holds at most one file and [MaxLine] bytes a stream and reader.
package logs
