// Package console hands one line, or one request, to a server over one rail, once.
//
// The rails: the run's standard input ([Stdin]) or terminal ([Terminal]), a FIFO of the server ([FIFO]), Source RCON ([RCON]), the remote console of
// ioquake3 ([QuakeRCON]), that of Rust ([WebRCON]), text over TCP ([Telnet]), and HTTP ([HTTP]).
//
// A delivery is one function call that promises:
//
//   - It ends with its context, and long before it when the server cannot be reached: connecting and logging in together
//     take 5 seconds at most. Nothing of it is left behind: no goroutine, no connection, no descriptor.
//   - The line is sent once. Nothing is tried again and no other rail is taken.
//   - What came of it is an [Outcome], which tells apart what has certainly not been handed over from what may have been.
//     See [Result] for how that is known.
//   - Reads and writes are bounded: a message of the peer's has a limit in each protocol, at most 16 MiB are read in all, and
//     at most 4 KiB of a reply are kept.
//   - An outcome and its error hold no password, address, path, and nothing of the line; a reply is the server's text with
//     the password taken out.
//
// Before the first byte goes to a network peer, [Peer.Vet] may look at the connection: a port that the server lost to another
// process must not get the server's password.
//
// It knows nothing of runs, records and jobs, decides nothing, listens nowhere, and takes no lock: who calls sees to it that
// a target has one delivery at a time.
package console
