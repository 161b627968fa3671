package keeper

import (
	"errors"
	"fmt"
)

// Check names what an order failed.
type Check string

// The checks.
const (
	CheckVersion    Check = "version"    // the two processes do not understand each other
	CheckSession    Check = "session"    // a newer control session has taken over
	CheckPeer       Check = "peer"       // who asks may not
	CheckLock       Check = "lock"       // another process has taken the reconciler's lock since
	CheckDeadline   Check = "deadline"   // the asker waits no more
	CheckBlocked    Check = "blocked"    // the scope's record cannot be used, or its process not be verified
	CheckRun        Check = "run"        // the order is about another run
	CheckAfter      Check = "after"      // the asker missed a run
	CheckLaunch     Check = "launch"     // a field of the launch is faulty
	CheckWorkspace  Check = "workspace"  // not opened by this host
	CheckExecutable Check = "executable" // missing, not regular, not executable, or outside every opened workspace
	CheckDirectory  Check = "directory"
	CheckUser       Check = "user"
	CheckInherit    Check = "inherit"
	CheckSecret     Check = "secret"   // missing, not safe, or no text for its place
	CheckSpecHash   Check = "specHash" // restart-class fields differ
	CheckStop       Check = "stop"     // no stop is recorded, or it is of another kind
	CheckStep       Check = "step"     // not the step that is next
	CheckLive       Check = "live"     // a run is live
	CheckUsable     Check = "usable"   // the record can be used: there is nothing to retire
	CheckLog        Check = "log"      // nothing was ever written
	CheckConsole    Check = "console"  // the run has none
	CheckBusy       Check = "busy"     // another line is on its way
	CheckLine       Check = "line"     // not a line that a console takes
	CheckCommand    Check = "command"  // not declared, or what it requires is not so
	CheckParameters Check = "parameters"
	CheckInside     Check = "inside"  // the asker is part of no run
	CheckMessage    Check = "message" // malformed
	CheckRecord     Check = "record"  // it cannot be put on record, without which nothing is done
)

// Refused says that an order failed a check and has changed nothing. Detail is public.
type Refused struct {
	Check  Check  `json:"check"`
	Detail string `json:"detail"`
}

func (r *Refused) Error() string { return "refused: " + r.Detail }

// Public is what may be shown to everybody.
func (r *Refused) Public() string { return r.Detail }

// FailedCheck is the check's name, for those who do not know this package.
func (r *Refused) FailedCheck() string { return string(r.Check) }

func refuse(c Check, format string, args ...any) error {
	return &Refused{Check: c, Detail: fmt.Sprintf(format, args...)}
}

// IsRefused reports whether an order failed a check, and which.
func IsRefused(err error) (Check, bool) {
	var r *Refused
	if errors.As(err, &r) {
		return r.Check, true
	}
	return "", false
}

// ErrCancelled says that a start was cancelled, or its asker's time was over, before anything of the workload ran.
var ErrCancelled = errors.New("cancelled")

// StartFailedError says that a start was recorded and came to nothing. Message is public; Cause, which is known in the keeper
// alone, may name paths.
type StartFailedError struct {
	Message string
	Cause   error
}

func (e *StartFailedError) Error() string { return "start failed: " + e.Message }
