package console

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"reconciler.dev/reconciler/keeper/secret"
	"reconciler.dev/reconciler/observe/logs"
)

// Line is a line for a console.
type Line struct {
	Text string // one line of UTF-8 without control characters but tabs; the rail adds its end
	// Expect is awaited literally in the reply, until the context ends; terminal escape sequences are taken out of the reply
	// first. Empty: nothing is awaited.
	Expect string
}

// String hides the line: a reply or a log may show it, an error must not.
func (l Line) String() string { return fmt.Sprintf("a line of %d bytes", len(l.Text)) }

// check refuses what is not one line of at most limit bytes.
func (l Line) check(limit int) error {
	switch {
	case l.Text == "":
		return faulty(BadLine, "the line is empty: give one character at least")
	case len(l.Text) > limit:
		return faulty(BadLine, fmt.Sprintf("the line has %d bytes; this console takes %d: shorten it", len(l.Text), limit))
	case !utf8.ValidString(l.Text):
		return faulty(BadLine, "the line is not UTF-8: correct its encoding")
	case strings.ContainsFunc(l.Text, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		return faulty(BadLine, "the line holds a control character: send one line of plain text")
	}
	return nil
}

// checkInput is check for an input that is read up to the end of a line: one with nothing in it is the end alone.
func (l Line) checkInput() error {
	if l.Text == "" {
		return nil
	}
	return l.check(PipeLimit - 1)
}

// checkPassword refuses what no text protocol can carry as one line.
func checkPassword(password secret.Value, limit int) error {
	p := password.Reveal()
	switch {
	case len(p) == 0:
		return faulty(BadPassword, "this console needs a password: set `console.password`")
	case len(p) > limit:
		return faulty(BadPassword, fmt.Sprintf("the password is longer than the %d bytes that this console takes: shorten it", limit))
	}
	for _, c := range p {
		if c < 0x20 || c == 0x7f {
			return faulty(BadPassword, "the password holds a control character, which this console cannot carry: choose another")
		}
	}
	return nil
}

// ReplyLimit is how many bytes of a reply are kept.
const ReplyLimit = 4 << 10

// readLimit is how many bytes are read in a conversation. A peer that writes without an end must not keep us busy.
const readLimit = 16 << 20

// errEndless says that we stopped reading, which tells nothing against the line.
var errEndless = faulty(Protocol, "the reply has no end")

// reply is what has come back.
type reply struct {
	matcher *logs.Matcher // nil when nothing is expected
	scratch []byte
	kept    []byte
	total   int
	seen    bool
}

func newReply(expect string) reply {
	if expect == "" {
		return reply{}
	}
	return reply{matcher: logs.NewMatcher([]string{expect})}
}

// add takes the next part. An error says that it is too much.
func (r *reply) add(b []byte) error {
	r.total += len(b)
	// A little more is kept, so that a password across the border can be found.
	if room := 2*ReplyLimit - len(r.kept); room > 0 {
		r.kept = append(r.kept, b[:min(room, len(b))]...)
	}
	if r.matcher != nil && !r.seen {
		r.seen, r.scratch = r.matcher.Scan(b, r.scratch)
	}
	if r.total > readLimit {
		return errEndless
	}
	return nil
}

// into puts the reply into an outcome, as text that a terminal may show.
func (r *reply) into(o Outcome, secrets ...secret.Value) Outcome {
	// Plain first: an escape sequence within a secret would hide it from us and from nobody else.
	text := secret.Redact([]byte(logs.Plain(r.kept)), secrets...)
	if len(text) > ReplyLimit {
		text = text[:ReplyLimit]
	}
	o.Truncated = r.total > ReplyLimit
	o.Reply = strings.ToValidUTF8(string(text), "")
	return o
}

// Output is what the run prints, for the rails that do not answer themselves.
type Output interface {
	// Await looks for literal in what the run prints from this call on, and returns at once. The channel gets nil when it
	// was printed, or an error when it cannot be any more: the run is over. stop ends it and is always called. The channel
	// must be buffered, so that nobody waits for this package.
	Await(literal string) (result <-chan error, stop func(), err error)
}

// await waits for what is expected, after the line was handed over.
func await(ctx context.Context, result <-chan error) Outcome {
	if result == nil {
		return Outcome{Result: HandedOver}
	}
	var err error
	select {
	case err = <-result:
	case <-ctx.Done():
		select {
		case err = <-result: // both: what was seen counts
		default:
			err = faulty(NotSeen, "the expected text was not printed in time")
		}
	}
	if err == nil {
		return Outcome{Result: Done}
	}
	return Outcome{Result: HandedOver, Reason: NotSeen, Err: bareOutput(err)}
}
