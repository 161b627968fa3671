// Package daemon is the running reconciler: it puts the rooms together and keeps them together until it is told to end.
//
// It owns the order of things. Before anything has an effect it has read and checked what it was given, and has the lock
// of its state directory; then it listens, makes sure that a keeper lives, and lets the loop turn. A keeper that dies
// is replaced by a new one, one that does not answer is not (KeeperUnresponsive). At the end it leaves every run alone,
// unless it was asked to stop them.
//
// It decides nothing about servers: that is the loop's.
package daemon
