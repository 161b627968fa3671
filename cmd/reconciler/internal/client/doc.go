// Package client asks the reconciler's API on its Unix socket.
//
// It owns connections and the turning of answers into values and errors: an answer that is a failed Status becomes
// that *api.Status, a socket that nobody serves becomes [ErrNotRunning]. Every call takes a connection of its own from
// the pool; a watch or a log that nobody reads holds up nothing else (BP-13). It prints nothing and retries nothing.
package client
