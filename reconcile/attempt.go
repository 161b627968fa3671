package reconcile

import "time"

// The delays between two tries of the same order: the first, and the longest.
const (
	retryFirst = 100 * time.Millisecond
	retryMost  = 30 * time.Second
)

// stalledAfter is how many refusals of the same order make a server Stalled: about six seconds of trying.
const stalledAfter = 6

// attempt is the last order that was answered for a server. While plan asks for the very same one again, it was refused
// or did not lead on: it is repeated with growing delays. Facts that are a moment behind an answer so cause no second order.
type attempt struct {
	key   orderKey
	tries int
	until time.Duration // not before this uptime again
	err   error         // of the last try; nil = it was carried out
}

// of reports whether the order is the one that was tried.
func (a *attempt) of(o Order) bool { return a.tries > 0 && a.key == o.key() }

// note takes an answer.
func (a *attempt) note(o Order, err error, now time.Duration) {
	if !a.of(o) {
		*a = attempt{key: o.key()}
	}
	a.tries++
	a.err = err
	a.until = now + min(retryFirst<<min(a.tries-1, 20), retryMost)
}

// orderKey tells orders for the keeper apart: two with the same key ask for the same thing.
type orderKey struct {
	kind    string
	profile string
	run     string
	number  int64
	version int64
	partly  bool
}

func (o Order) key() orderKey {
	k := orderKey{kind: o.Kind(), profile: o.Scope.Profile}
	switch {
	case o.Start != nil:
		k.run, k.number, k.version = o.Start.UID, o.Start.After, o.Start.Generation
	case o.Stop != nil:
		k.run, k.version = o.Stop.RunID, o.Stop.Generation
	case o.Step != nil:
		k.run, k.number = o.Step.RunID, int64(o.Step.Index)
	case o.Live != nil:
		k.run, k.version, k.partly = o.Live.RunID, o.Live.Generation, o.Live.RestartOnly
	case o.Reload != nil:
		k.run, k.version = o.Reload.RunID, o.Reload.Generation
	case o.Ready != nil:
		k.run, k.partly = o.Ready.RunID, o.Ready.Reload != ""
	}
	return k
}
