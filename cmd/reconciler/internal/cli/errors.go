package cli

import (
	"errors"
	"fmt"
	"io"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
)

// The exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a command that was used wrongly; it exits 2.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// exitError ends the command with a code. Its error, if any, is printed as every error is.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// hintError is an error with a line for a person about what to do.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

func hintf(err error, format string, args ...any) error {
	return &hintError{err, fmt.Sprintf(format, args...)}
}

// report prints err as the rules of this package say, and returns the exit code.
func report(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	code := exitFailed
	var usage *usageError
	if errors.As(err, &usage) {
		code = exitUsage
	}
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
	}
	if msg := message(err); msg != "" {
		fmt.Fprintln(w, msg)
	}
	if hint := hintOf(err); hint != "" {
		fmt.Fprintf(w, "hint: %s\n", hint)
	}
	return code
}

// message is kubectl's first line for err.
func message(err error) string {
	var status *api.Status
	if errors.As(err, &status) {
		return fmt.Sprintf("Error from server (%s): %s", status.Reason, status.Message)
	}
	if err.Error() == "" {
		return ""
	}
	return "error: " + err.Error()
}

func hintOf(err error) string {
	var hint *hintError
	if errors.As(err, &hint) {
		return hint.hint
	}
	if errors.Is(err, client.ErrNotRunning) {
		return "start one with 'reconciler run --manifests DIR'; if it runs with another state directory, name it with --state-dir or $" + envStateDir
	}
	return ""
}
