// Package query asks a game server, in the game's own protocol, whether it answers and how many play.
//
// A query is one short conversation over a connection that the caller has made and bounds: closing the connection, or its
// deadline, ends it at once. What comes from the server is never trusted: no length of an answer makes anything large, every
// answer is bounded in bytes, every conversation in answers, and what does not fit the question is passed over (a datagram) or
// is a fault (a stream). Nothing is started and nothing is left behind.
//
// The facts of each protocol, and where they are from, are in the comment of its client.
package query
