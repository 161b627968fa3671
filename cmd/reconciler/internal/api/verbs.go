package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

func (s *Service) postStart(w http.ResponseWriter, r *http.Request) error {
	return s.order(w, r, s.Loop.Start, func(v *reconcile.ServerView) bool {
		return v.Status.State == spec.StateRunning && (v.Status.Hold == nil || v.Status.Hold.State == spec.WishRunning)
	})
}

func (s *Service) postStop(w http.ResponseWriter, r *http.Request) error {
	return s.order(w, r, s.Loop.Stop, func(v *reconcile.ServerView) bool {
		return v.Status.State == spec.StateStopped && v.Status.Hold != nil && v.Status.Hold.State == spec.WishStopped
	})
}

func (s *Service) postRestart(w http.ResponseWriter, r *http.Request) error {
	return s.order(w, r, s.Loop.Restart, func(*reconcile.ServerView) bool { return false })
}

func (s *Service) postRelease(w http.ResponseWriter, r *http.Request) error {
	return s.order(w, r, s.Loop.Release, func(v *reconcile.ServerView) bool { return v.Status.Hold == nil })
}

// order hands what is asked for to the loop, with the actor that the kernel names (BP-14), and answers with the server as
// it was just before; so reports whether it already was as asked for.
func (s *Service) order(w http.ResponseWriter, r *http.Request, do func(context.Context, reconcile.Ask) error, so func(*reconcile.ServerView) bool) error {
	var o Order
	if err := body(r, &o); err != nil {
		return err
	}
	switch {
	case len(o.Reason) > MaxReason:
		return Failure(ReasonInvalid, "reason: has %d bytes, %d is the most", len(o.Reason), MaxReason)
	case o.ForSeconds < 0 || o.ForSeconds > maxHoldSeconds:
		return Failure(ReasonInvalid, "forSeconds: Invalid value: %d: must be 0 to %d", o.ForSeconds, maxHoldSeconds)
	}
	v, err := s.view(r)
	if err != nil {
		return err
	}
	ask := reconcile.Ask{
		Server: v.Key,
		By:     peerOfRequest(r).name(),
		Reason: o.Reason,
		For:    time.Duration(o.ForSeconds) * time.Second,
		Force:  o.Force,
	}
	if err := do(r.Context(), ask); err != nil {
		return refusal(err, v.Key)
	}
	return reply(w, Outcome{TypeMeta: typeMeta("Outcome"), Server: *publicServer(v), Unchanged: so(v)})
}

// maxHoldSeconds is the longest hold that ends by itself: ten years.
const maxHoldSeconds = 10 * 366 * 24 * 3600

// refusal is the loop's answer in the API's words.
func refusal(err error, k spec.Key) error {
	switch {
	case errors.Is(err, reconcile.ErrNoServer):
		return NotFound(Servers, k.Name)
	case errors.Is(err, reconcile.ErrStopped):
		return Failure(ReasonConflict, "server %q is stopped; use start", k.Name)
	case errors.Is(err, reconcile.ErrClosing):
		return Failure(ReasonServiceUnavailable, "the reconciler is shutting down")
	case errors.Is(err, reconcile.ErrUnrecorded):
		return Failure(ReasonServiceUnavailable, "it could not be recorded, so it does not count: %s", diskTrouble(err))
	}
	return err
}

// diskTrouble is what a person may know of why something is not on the disk, and can do about it. The rest is in our own log, with the path.
func diskTrouble(err error) string {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "the disk of the state directory is full; free space there, and ask again"
	case errors.Is(err, unix.EROFS):
		return "the disk of the state directory is read-only"
	}
	return "the reconciler's own log says why"
}

func (s *Service) postRetire(w http.ResponseWriter, r *http.Request) error {
	k := spec.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	if !spec.IsLabel(k.Namespace) || !spec.IsLabel(k.Name) {
		return NotFound(Servers, k.Name)
	}
	if err := s.Host.Retire(r.Context(), k, peerOfRequest(r).name()); err != nil {
		return err
	}
	return reply(w, success("server %q retired", k.Name))
}

func (s *Service) postPrune(w http.ResponseWriter, r *http.Request) error {
	removed, err := s.Host.Prune(r.Context())
	if err != nil {
		return err
	}
	out := Prune{TypeMeta: typeMeta("Prune"), Removed: []string{}}
	for _, k := range removed {
		out.Removed = append(out.Removed, k.String())
	}
	return reply(w, out)
}

// postShutdown answers when no run is left. The asker may go away before: what was begun goes on.
func (s *Service) postShutdown(w http.ResponseWriter, r *http.Request) error {
	err := s.Host.Shutdown(r.Context(), peerOfRequest(r).name())
	if left := new(reconcile.UntoldError); errors.As(err, &left) {
		return Failure(ReasonConflict, "%s", left)
	}
	if err != nil {
		return err
	}
	return reply(w, success("every run is stopped"))
}
