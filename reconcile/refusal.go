package reconcile

import (
	"context"
	"errors"
)

// public is what an error of an order may implement to be shown to everybody: its text names no path, argument,
// environment value or process.
type public interface {
	error
	Public() string
}

// publicError is what may be shown of an order's error.
func publicError(err error) (reason, message string) {
	var p public
	switch {
	case err == nil:
		return "NoEffect", "it had no effect"
	case errors.As(err, &p):
		return "Refused", p.Public()
	case errors.Is(err, context.DeadlineExceeded):
		return "NoAnswer", "the keeper did not answer in time"
	}
	return "OrderFailed", "see the reconciler's log"
}

// refusing is what an error of an order may implement to say which check it failed: nothing was done then.
type refusing interface {
	public
	FailedCheck() string
}

// refusalOf is the check that an order failed; false = nobody knows what was done.
func refusalOf(err error) (check, message string, refused bool) {
	var r refusing
	if !errors.As(err, &r) {
		return "", "", false
	}
	return r.FailedCheck(), r.Public(), true
}

// passing reports whether a check may be passed by the same order a little later: it was about the moment, not about the order.
func passing(check string) bool {
	switch check {
	case "session", "deadline", "busy", "after", "live":
		return true
	}
	return false
}
