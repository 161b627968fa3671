// Package dir is the directory source: it turns directories of manifests into a [spec.Set] and keeps it true.
//
// It owns the watching and reading of the directories given to it, the decision which object of which file counts, the
// decision that an object is gone, and the last good content of every file, on disk.
//
// It promises:
//   - Events are hints. What is on disk is the truth, and a full scan reads it again: every 30 s, after lost events, after
//     a symbolic link was swapped, and twice after a path was taken away.
//   - A file counts when it rests: renamed into place, or unchanged for 20 ms and open for writing by nobody.
//   - A file that is faulty, unreadable, empty or half written changes nothing: its last good content stays, across our
//     restart too.
//   - An object is removed only when two complete scans, at least 500 ms apart, did not find it and no more objects
//     vanished in between. A scan that did not see everything removes nothing. Removals that look like an accident wait
//     for a person.
//   - Of two files with the same object the one that had it first stays; of two newcomers neither counts.
//   - Files that did not change are not read again; an object that did not change keeps its pointer from Set to Set.
//
// It never writes to a directory of manifests, runs no program (git's files are read, git is not run), and shows no
// absolute path.
//
// Inside, the deciding is pure: [state.merge] takes what was and what one scan found and says what is. One goroutine, that
// of [Source.Run], owns the state; one more for each directory touches the directory, so that a file system that hangs
// holds up only its own directory; one writes the last good content.
package dir
