package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxTyped is how much of a line is kept, in bytes: more than any console takes, so that one that is too long is seen to be.
const maxTyped = 4096

// typedLines cuts what is typed into lines.
type typedLines struct {
	empty bool // those are handed on too that have nothing in them
	line  []byte
}

// take hands on every line that ends in p, without its end: a newline, or a carriage return and a newline.
func (t *typedLines) take(p []byte, each func(string)) {
	for len(p) > 0 {
		text, rest, whole := bytes.Cut(p, []byte{'\n'})
		t.line = append(t.line, text[:min(len(text), maxTyped-len(t.line))]...)
		if !whole {
			return
		}
		t.end(each)
		p = rest
	}
}

// end hands on the line at hand.
func (t *typedLines) end(each func(string)) {
	line := bytes.TrimSuffix(t.line, []byte{'\r'})
	t.line = t.line[:0]
	if len(line) > 0 || t.empty {
		each(string(line))
	}
}

// readTyped hands on what is read until it ends or ctx does. Of a file it never reads unless there is something, so that it can be ended;
// another reader must end by itself.
func readTyped(ctx context.Context, in io.Reader, take func([]byte)) error {
	ready := func() (bool, error) { return ctx.Err() == nil, nil }
	if f, ok := in.(*os.File); ok {
		ended, end, err := os.Pipe()
		if err != nil {
			return fmt.Errorf("cannot read the input: %w", err)
		}
		defer ended.Close()
		defer end.Close()
		defer context.AfterFunc(ctx, func() { _ = end.Close() })()
		ready = func() (bool, error) { return await(f, ended) }
	}
	buf := make([]byte, 4096)
	for {
		if ok, err := ready(); !ok || err != nil {
			return err
		}
		n, err := in.Read(buf)
		take(buf[:n])
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, syscall.EIO): // a terminal that has gone (termios(3), hangup) is the end too
			return nil
		case err != nil:
			return fmt.Errorf("cannot read the input: %w", err)
		}
	}
}

// await waits until f can be read, which is also so at its end, and reports false when ended can.
func await(f, ended *os.File) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}, {Fd: int32(ended.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false, fmt.Errorf("cannot wait for the input: %w", err)
		default:
			return fds[1].Revents == 0, nil
		}
	}
}
