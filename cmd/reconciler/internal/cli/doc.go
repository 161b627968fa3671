// Package cli is the reconciler's command line: one file a command.
//
// Rules of its output, which scripts may rely on:
//
//   - stdout has the answer, and nothing else; stderr has errors, hints and progress.
//   - An error is one line, "error: ..."; a hint for a person follows on its own line, "hint: ...".
//   - Progress is drawn on a terminal alone; a pipe gets neither progress nor colour codes.
//   - Exit codes: 0 done, 1 refused, failed or timed out, 2 used wrongly. validate: 0 good, 1 bad, 2 could not look.
//   - Tables, phrases and -o forms are kubectl's where kubectl has them.
//   - No process identifier, host path, argument, environment value, socket or hash is printed (I10), but for what a
//     manifest itself says, shown to an administrator by -o yaml and -o json.
//
// The commands ask the running reconciler through package client; run, keeper, validate, example and completion need
// none. Nothing here decides what happens to a server.
package cli
