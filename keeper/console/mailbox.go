package console

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The bounds of a mailbox: lines that wait, and what is taken out of it at once, in bytes.
const (
	MailboxLimit = 256
	takeLimit    = 32 << 10
)

// mailPrefix begins the name of a waiting line's file; a number of fixed width follows, so that names sort as lines came.
const mailPrefix = "mail-"

// Mailbox is a queue of lines in a private directory, for a program that fetches them. One at a time puts; who takes
// may do so meanwhile.
type Mailbox struct {
	Directory string // absolute; it may hold other files
}

// Put hands a line to the mailbox: it is there whole or not at all, also when this process dies. A full mailbox takes none
// ([Unread]). What is expected is awaited in output, which may be nil otherwise.
func (m Mailbox) Put(ctx context.Context, line Line, output Output) Outcome {
	if err := line.check(PipeLimit - 1); err != nil {
		return undeliverable(err)
	}
	if ctx.Err() != nil {
		return undeliverable(faulty(NoAnswer, "the time was over before the line could be put"))
	}
	names, err := m.names()
	if err != nil {
		return undeliverable(err)
	}
	if len(names) >= MailboxLimit {
		return undeliverable(faulty(Unread, fmt.Sprintf("the mailbox is full: %d lines wait there until the server fetches them", len(names))))
	}
	next := 1
	if len(names) > 0 {
		next = numberOf(names[len(names)-1]) + 1
	}
	var result <-chan error
	if line.Expect != "" { // from before on: the answer may be quick
		if output == nil {
			return undeliverable(faulty(Failed, "nothing can be awaited: the run's output is not at hand"))
		}
		var stop func()
		if result, stop, err = output.Await(line.Expect); err != nil {
			return undeliverable(&fault{Failed, err})
		}
		defer stop()
	}
	if err := m.write(fmt.Sprintf("%s%012d", mailPrefix, next), line.Text); err != nil {
		return undeliverable(err)
	}
	return await(ctx, result)
}

func (m Mailbox) write(name, text string) error {
	temp := filepath.Join(m.Directory, "."+mailPrefix+"new") // one at a time puts, and one that died has left it
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return os.Rename(temp, filepath.Join(m.Directory, name))
}

// Take takes the oldest lines out, as many as fit into one answer. A line is gone from the mailbox before it is returned: it is
// never given twice, and is lost when its taker dies with it.
func (m Mailbox) Take() ([]string, error) {
	names, err := m.names()
	if err != nil {
		return nil, err
	}
	var lines []string
	size := 0
	for _, name := range names {
		path := filepath.Join(m.Directory, name)
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another has taken it
		}
		if err != nil {
			return lines, fmt.Errorf("cannot read a line of the mailbox: %w", bare(err))
		}
		if size += len(text); size > takeLimit && len(lines) > 0 {
			break
		}
		if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return lines, fmt.Errorf("cannot take a line out of the mailbox: %w", bare(err))
		}
		lines = append(lines, string(text))
	}
	return lines, nil
}

// Clear removes all lines, and what a death has left of one.
func (m Mailbox) Clear() error {
	names, err := m.names()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range append(names, "."+mailPrefix+"new") {
		if err := os.Remove(filepath.Join(m.Directory, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// names are the files of the lines that wait, oldest first.
func (m Mailbox) names() ([]string, error) {
	d, err := os.Open(m.Directory)
	if err != nil {
		return nil, err
	}
	all, err := d.Readdirnames(-1)
	if err := errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(all, func(name string) bool { return numberOf(name) == 0 })
	slices.Sort(names)
	return names, nil
}

// numberOf is the number of a line's file, 0 of any other.
func numberOf(name string) int {
	digits, ok := strings.CutPrefix(name, mailPrefix)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || len(digits) != 12 {
		return 0
	}
	return n
}
