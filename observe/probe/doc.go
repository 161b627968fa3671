// Package probe asks an endpoint whether it answers, and turns answers into a state by thresholds.
//
// A check is one bounded conversation: it ends with its context, reads a bounded reply, leaves no connection and no
// goroutine behind, and tells a failure of the endpoint from a probe that could not be carried out. Whoever calls decides
// when; between checks nothing of this package exists, so a thousand probes cost nothing at rest.
//
// It never looks at processes and never changes anything.
package probe
