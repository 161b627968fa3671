// Package selftest proves on this very host what the guarantees say: it runs a keeper of its own over a scratch state
// directory, starts throw-away workloads in it, kills the keeper, and looks at what became of them.
//
// It touches nothing of any installation: its state, its sockets and its processes are its own, and gone afterwards. It needs no
// running reconciler, and may be run beside one.
package selftest
