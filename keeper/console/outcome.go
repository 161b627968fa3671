package console

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// Result is how far a delivery came.
type Result uint8

const (
	// Undeliverable: nothing was handed over, for certain. The peer was not reached, would not have us, or told that it
	// did not take the line; or the line cannot be sent on this rail.
	Undeliverable Result = iota
	// Indeterminate: the line may have been handed over, or not. The connection broke before it was written whole, or was
	// reset before any answer: Linux sends a reset instead of an end when bytes were left unread (RFC 2525 2.17), so that
	// an end proves that the peer took the line, and a reset leaves it open.
	Indeterminate
	// HandedOver: the line was written whole. With an empty Reason nothing more was asked for; else what was asked for
	// (the expected text, a good status) was not seen, and the action failed.
	HandedOver
	// Done: the expected text was seen, or an HTTP status from 200 to 399.
	Done
)

func (r Result) String() string {
	switch r {
	case Undeliverable:
		return "Undeliverable"
	case Indeterminate:
		return "Indeterminate"
	case HandedOver:
		return "HandedOver"
	case Done:
		return "Done"
	}
	return "Result(?)"
}

// Reason is why a delivery did not come to what was asked for.
type Reason string

const (
	BadLine      Reason = "BadLine"      // the line or the request cannot be sent on this rail
	BadPassword  Reason = "BadPassword"  // there is none, or this rail cannot carry it
	NotListening Reason = "NotListening" // nobody takes lines there
	Stranger     Reason = "Stranger"     // Peer.Vet refused the one who listens, or a FIFO is not the server's
	Unverified   Reason = "Unverified"   // it could not be told who listens
	NoAnswer     Reason = "NoAnswer"     // the peer did not answer in time, before anything was handed over
	Rejected     Reason = "Rejected"     // the peer rejected the password
	Unread       Reason = "Unread"       // earlier input has not been read yet (ErrUnread)
	Closed       Reason = "Closed"       // the peer ended the connection
	Protocol     Reason = "Protocol"     // the peer broke the protocol
	NotSeen      Reason = "NotSeen"      // there was a reply, or output, without the expected text
	NoReply      Reason = "NoReply"      // there was none
	BadStatus    Reason = "BadStatus"    // HTTP: Status is not from 200 to 399
	Failed       Reason = "Failed"       // a fault of this host: no descriptors, for example
)

// ErrUnread says that the server has not read its earlier input, so that no line may follow it.
var ErrUnread = errors.New("earlier input is still unread: wait until the server has read it")

// Outcome is what came of a delivery.
type Outcome struct {
	Result Result
	Reason Reason
	// Status is the HTTP status that was read, 0 when there was none.
	Status int
	// Reply is the beginning of what the server said, at most [ReplyLimit] bytes of UTF-8, without the password, and without escape
	// sequences and control characters other than tabs and line ends. On a rail that
	// does not say where a reply ends (QuakeRCON, Telnet), and on WebRCON, it may hold other output of the same moment.
	Reply string
	// Truncated says that there was more.
	Truncated bool
	// Mute says that a terminal did not show the line that was typed: the server, which reads whole lines, has asked for a password.
	Mute bool
	// Err says more about Reason; nil when Reason is empty. It never holds a password, an address or a part of the line.
	Err error
}

// OK reports whether the action is done: the line was handed over and what was expected, if anything, was seen.
func (o Outcome) OK() bool { return o.Result == Done || o.Result == HandedOver && o.Reason == "" }

// fault is an error with its reason.
type fault struct {
	reason Reason
	err    error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func faulty(r Reason, text string) error { return &fault{r, errors.New(text)} }

// undeliverable is the outcome of an error before anything was handed over.
func undeliverable(err error) Outcome {
	return Outcome{Result: Undeliverable, Reason: reasonOf(err), Err: bare(err)}
}

func reasonOf(err error) Reason {
	var f *fault
	switch {
	case errors.As(err, &f):
		return f.reason
	case isTimeout(err):
		return NoAnswer
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENOENT):
		return NotListening
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Closed
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return NotListening
	}
	return Failed
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// bare takes what net and os wrap around an error off it: addresses and paths.
func bare(err error) error {
	var f *fault
	if errors.As(err, &f) {
		return f.err
	}
	if isTimeout(err) {
		return errNoAnswer
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		return no
	}
	for _, known := range []error{io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, known) {
			return errClosed
		}
	}
	if errors.Is(err, os.ErrClosed) || errors.Is(err, net.ErrClosed) {
		return os.ErrClosed
	}
	return errors.New("the connection failed")
}

var (
	errNoAnswer = errors.New("no answer in time: see whether the server is busy or hung")
	errClosed   = errors.New("the server ended the connection")
)
