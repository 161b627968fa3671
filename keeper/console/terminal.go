package console

import (
	"context"
	"errors"
	"strings"

	"reconciler.dev/reconciler/keeper/terminal"
)

// Terminal hands a line to a server by its terminal, as if it were typed. A line and its newline are what the kernel keeps of one that
// nobody has read yet ([PipeLimit], N_TTY_BUF_SIZE); it is cut off there without a word where nothing is in front of it that is unread.
// A server that has not read its earlier input gets nothing: [Unread], [ErrUnread]. A terminal shows what is typed, unless the server has
// turned that off: a line that holds what is expected would answer itself, and is [BadLine].
func Terminal(ctx context.Context, t *terminal.Terminal, line Line, output Output) Outcome {
	if err := line.checkInput(); err != nil {
		return undeliverable(err)
	}
	if line.Expect != "" && strings.Contains(line.Text, line.Expect) {
		return undeliverable(faulty(BadLine, "the line holds the text that is expected after it, and a terminal shows what is typed: expect a text of the server's own"))
	}
	in := &typed{Terminal: t}
	o := writeLine(ctx, in, line, output)
	o.Mute = in.mute
	return o
}

// typed is a terminal as an input.
type typed struct {
	*terminal.Terminal
	mute bool // what was written is not shown
}

func (t *typed) Unread() (bool, error) {
	unread, err := t.Terminal.Unread()
	return unread, t.fault(err)
}

// Write types a line where nothing stands before it: somebody may have left without the end of theirs.
func (t *typed) Write(b []byte) (int, error) {
	if err := t.DropTyped(); err != nil {
		return 0, t.fault(err)
	}
	// As it is now: a prompt comes when the echo is off, and it is this line that may ask for one.
	mode, err := t.Mode()
	if err != nil {
		return 0, t.fault(err)
	}
	t.mute = mode == terminal.Mute
	n, err := t.Terminal.Write(b)
	return n, t.fault(err)
}

func (*typed) fault(err error) error {
	if errors.Is(err, terminal.ErrGone) {
		return faulty(NotListening, "the server has closed its terminal")
	}
	return err
}
