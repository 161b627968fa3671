package api

import (
	"net/http"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// postSend hands a line to the one run of a server that lives now (EN-6). The run is named, so that a line which comes late
// reaches no other.
func (s *Service) postSend(w http.ResponseWriter, r *http.Request) error {
	var l Line
	if err := body(r, &l); err != nil {
		return err
	}
	check := spec.CheckLine
	if l.Attachment != "" {
		check = spec.CheckTyped
	}
	if detail := check(l.Line); detail != "" {
		return Failure(ReasonInvalid, "line: %s", detail)
	}
	v, err := s.view(r)
	if err != nil {
		return err
	}
	if l.Attachment != "" {
		if err := s.Host.Writes(v.Key, l.Attachment); err != nil {
			return err
		}
	}
	f, err := liveRun(v)
	if err != nil {
		return err
	}
	if err := s.awaitKeeper(w, r); err != nil {
		return err
	}
	receipt, err := s.Host.Send(r.Context(), f.Scope, f.Run.ID, l, peerOfRequest(r).name())
	if err != nil {
		return err
	}
	receipt.TypeMeta = typeMeta("Receipt")
	return reply(w, receipt)
}

// liveRun is the run of a server that a line may be meant for: there is exactly one (EN-3).
func liveRun(v *reconcile.ServerView) (live *observe.Facts, err error) {
	for _, f := range v.Facts {
		switch {
		case f.Run.Over():
		case live != nil:
			return nil, Failure(ReasonConflict, "server %q has a run of profile %q and one of profile %q: wait until one of them has ended", v.Key.Name, live.Scope.Profile, f.Scope.Profile)
		default:
			live = f
		}
	}
	if live == nil {
		return nil, Failure(ReasonConflict, "server %q does not run, and a line starts nothing; use start", v.Key.Name)
	}
	return live, nil
}
