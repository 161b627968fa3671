//go:build crash

package main

// points are all things that keeper and reconciler do to the world, by call and place (the words of [state.Layout] in capitals), and what
// each is for. A call that leads to none of them fails the test: whoever adds an effect says here what it is, and has it enumerated.
var points = map[string]string{
	// The directories of an installation, made once, each of which survives a power cut.
	"mkdir STATE": "the state directory", "chmod STATE": "whatever the umask says", "sync ABOVE": "its name", "sync STATE": "names within it",
	"mkdir RUNTIME": "the runtime directory", "chmod RUNTIME": "whatever the umask says",
	"mkdir KEEPER": "the keeper's own directory", "chmod KEEPER": "whatever the umask says", "sync KEEPER": "names within it",
	"mkdir RECONCILER": "the reconciler's own directory", "chmod RECONCILER": "whatever the umask says", "sync RECONCILER": "names within it",
	"mkdir RUNS": "where runs have their folders, on disk and in memory", "chmod RUNS": "whatever the umask says", "remove RUNS": "the one in memory, at the end",
	"mkdir LOGS": "where scopes have their logs", "chmod LOGS": "whatever the umask says",
	"mkdir STATE/secrets": "where secrets lie", "chmod STATE/secrets": "whatever the umask says",
	"symlink CLAIM": "whose a folder in memory is", "rename to CLAIM": "whose a folder in memory is", "remove CLAIM": "the folder is nobody's any more",
	"mkdir DATA": "the workspace data", "chmod DATA": "whatever the umask says",
	"mkdir KEEPER/records": "the store", "chmod KEEPER/records": "whatever the umask says", "sync KEEPER/records": "the names of records, where somebody waits for them",
	"mkdir KEEPER/archive": "the store", "chmod KEEPER/archive": "whatever the umask says", "sync KEEPER/archive": "the names of archived records",
	"mkdir KEEPER/retired": "the store", "chmod KEEPER/retired": "whatever the umask says", "sync KEEPER/retired": "the names of retired records",

	// Being the only one.
	"create KEEPER/lock": "the keeper's lock", "lock KEEPER/lock": "the keeper's lock is taken", "write KEEPER/lock": "who holds it",
	"create KEEPER/anchor":   "what shows that an anchor is there: it holds the lock of it",
	"create RECONCILER/lock": "the reconciler's lock", "lock RECONCILER/lock": "the reconciler's lock is taken", "write RECONCILER/lock": "who holds it",
	"remove RUNTIME/keeper.sock": "a predecessor's socket, or ours at the end", "bind a socket": "keeper.sock or api.sock", "chmod RUNTIME/keeper.sock": "for all: peers are asked who they are",
	"remove RUNTIME/notify.sock": "a predecessor's socket, or ours at the end", "chmod RUNTIME/notify.sock": "for all: peers are asked who they are",
	"remove RUNTIME/api.sock": "a predecessor's socket, or ours at the end", "chmod RUNTIME/api.sock": "for all: peers are asked who they are",
	"send a socket": "a message between the two, or an answer", "write a socket": "an answer, or the word of a started keeper",
	"open the gate of a stage": "the workload's first instruction follows",

	// Records: written beside, exchanged, and copied to the journal within a second.
	"create KEEPER/records/.SCOPE.json.tmp": "the spare file", "write KEEPER/records/.SCOPE.json.tmp": "the next record, over the one before the last",
	"truncate KEEPER/records/.SCOPE.json.tmp": "its end", "rename to KEEPER/records/SCOPE.json (Launching)": "the scope's first record",
	"exchange with KEEPER/records/SCOPE.json (Launching)":                      "from here on a process may come to be",
	"write KEEPER/records/SCOPE.json":                                          "how far the start has come: who it is, before its first instruction; it was executed",
	"exchange with KEEPER/records/SCOPE.json (Started)":                        "it was Ready, or its spec's live part has changed",
	"exchange with KEEPER/records/SCOPE.json (Started, stop)":                  "a stop was asked for, before its first step",
	"exchange with KEEPER/records/SCOPE.json (Started, step)":                  "a step, before it is sent",
	"exchange with KEEPER/records/SCOPE.json (Started, step sent)":             "it was sent",
	"exchange with KEEPER/records/SCOPE.json (Started, step, program)":         "a step's program, before it is forked",
	"exchange with KEEPER/records/SCOPE.json (Started, step, program known)":   "who it is, before its first instruction",
	"exchange with KEEPER/records/SCOPE.json (Started, step, program started)": "it was executed",
	"exchange with KEEPER/records/SCOPE.json (Started, main exit)":             "how the main process ended, while its tree lives",
	"exchange with KEEPER/records/SCOPE.json (Started, stop, main exit)":       "what is left is to be stopped",
	"exchange with KEEPER/records/SCOPE.json (Started, step, main exit)":       "the main process ended after a step whose sending is not on record",
	"exchange with KEEPER/records/SCOPE.json (Started, step sent, main exit)":  "the main process ended after a step",
	"exchange with KEEPER/records/SCOPE.json (Started, kill)":                  "the kill, before it is done",
	"exchange with KEEPER/records/SCOPE.json (Started, kill, main exit)":       "the kill of what the main process has left behind",
	"exchange with KEEPER/records/SCOPE.json (Exited)":                         "the run is over",
	"remove KEEPER/records/.SCOPE.json.tmp":                                    "a spare file that nobody can tell the content of, or of a scope that goes",
	"remove KEEPER/journal.tmp":                                                "what a predecessor has left", "create KEEPER/journal.tmp": "the journal anew", "write KEEPER/journal.tmp": "the journal anew",
	"sync KEEPER/journal.tmp": "the journal anew", "rename to KEEPER/journal": "the journal anew takes its place",
	"write KEEPER/journal": "the records' copies", "sync KEEPER/journal": "they survive a power cut from here on",
	"rename to KEEPER/archive/SCOPE@SEQ.json": "a removed scope's record", "sync KEEPER/archive/SCOPE@SEQ.json": "its content",

	// A run: its folder, its cgroup, its stage, its end.
	"mkdir RUNS/RUN": "the run's folder", "mknod RUNS/RUN/stdin": "a FIFO", "mknod RUNS/RUN/stdout": "a FIFO", "mknod RUNS/RUN/stderr": "a FIFO",
	"remove RUNS/RUN/stdin": "after the end", "remove RUNS/RUN/stdout": "after the end", "remove RUNS/RUN/stderr": "after the end", "remove RUNS/RUN": "after the end",
	"remove RUNS/RUN/.mail-new": "a letter that nobody will read",
	"mkdir DATA/SERVER":         "the server's directory", "remove DATA/SERVER": "the one that a start made which has failed", "chmod DATA/SERVER": "whatever the umask says",
	"mkdir CGROUPS/reconciler": "the base of all runs", "mkdir CGROUPS/reconciler/SELFTEST": "what cgroups can do here", "remove CGROUPS/reconciler/SELFTEST": "that is known",
	"mkdir CGROUPS/reconciler/RUN":             "the run's cgroup",
	"remove CGROUPS/reconciler/RUN":            "after the end",
	"write CGROUPS/reconciler/RUN/cgroup.kill": "the kill of the tree",
	"mkdir CGROUPS/reconciler/RUN/cmd-N":       "a program's leaf", "remove CGROUPS/reconciler/RUN/cmd-N": "after its end", "write CGROUPS/reconciler/RUN/cmd-N/cgroup.kill": "its time is over",
	"mkdir RUNS/RUN-PROBE": "the folder of a probe's program, by which a successor finds it", "mknod RUNS/RUN-PROBE/stdout": "a FIFO",
	"remove RUNS/RUN-PROBE/stdout": "after its end", "remove RUNS/RUN-PROBE": "after its end: nothing of it is left",
	"remove RUNS/RUN-PROBE/stdin": "it has none", "remove RUNS/RUN-PROBE/stderr": "it has none",
	"mkdir CGROUPS/reconciler/RUN/probe-X": "its leaf", "remove CGROUPS/reconciler/RUN/probe-X": "after its end", "write CGROUPS/reconciler/RUN/probe-X/cgroup.kill": "its time is over, its run ends, or it has left something",
	"fork a stage": "a process that waits for the byte", "fork a program": "the program itself again: to ask the kernel, or a keeper", "wait for a process": "its exit is taken",
	"signal a process": "a stop step, or the end of a stage",

	// Output.
	"mkdir POOL": "slots in shared memory", "create POOL/pump.pool": "slots", "truncate POOL/pump.pool": "slots", "allocate POOL/pump.pool": "slots",
	"remove POOL/pump.pool": "at the end", "remove POOL": "at the end",
	"mkdir LOGS/SCOPE": "a scope's logs", "create LOGS/SCOPE/N.log": "a run's first log file, or the next one", "write LOGS/SCOPE/N.log": "slots on their way to the file",
	"truncate LOGS/SCOPE/N.log": "a write that a predecessor's death left half done is taken back", "remove LOGS/SCOPE/N.log": "over the budget",

	// The reconciler's tables and what it read last.
	"create STATE/keeper.log":               "what a keeper has to say",
	"remove RECONCILER/servers.journal.tmp": "what a predecessor has left", "create RECONCILER/servers.journal.tmp": "the table anew", "write RECONCILER/servers.journal.tmp": "the table anew",
	"sync RECONCILER/servers.journal.tmp": "the table anew", "rename to RECONCILER/servers.journal": "the table anew takes its place",
	"write RECONCILER/servers.journal": "UIDs, generations, holds", "sync RECONCILER/servers.journal": "they survive a power cut from here on",
	"remove RECONCILER/jobs.journal.tmp": "what a predecessor has left", "create RECONCILER/jobs.journal.tmp": "the jobs anew", "write RECONCILER/jobs.journal.tmp": "the jobs anew",
	"sync RECONCILER/jobs.journal.tmp": "the jobs anew", "rename to RECONCILER/jobs.journal": "the jobs anew take their place",
	"mkdir RECONCILER/lastgood": "last good documents", "mkdir RECONCILER/lastgood/HASH": "those of a source",
	"create RECONCILER/lastgood/HASH/HASH": "a document", "write RECONCILER/lastgood/HASH/HASH": "a document", "sync RECONCILER/lastgood/HASH/HASH": "a document",
	"sync RECONCILER/lastgood/HASH": "the names of documents", "remove RECONCILER/lastgood/HASH/HASH": "one that is no longer the last good",
	"create RECONCILER/lastgood/.new-HASH.json": "the list", "write RECONCILER/lastgood/.new-HASH.json": "the list", "sync RECONCILER/lastgood/.new-HASH.json": "the list",
	"rename to RECONCILER/lastgood/HASH.json": "the list", "sync RECONCILER/lastgood": "the name of the list",
}
