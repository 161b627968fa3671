package console

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// PipeLimit is how many bytes a line and its newline have at most on [Stdin] and [FIFO]: PIPE_BUF of Linux, up to which a
// write to a pipe is whole or nothing (pipe(7)). A server that gets half a line may wait for the rest in a blocking read, and
// does nothing else meanwhile (OpenTTD).
const PipeLimit = 4096

// Stdin hands a line to a server's standard input. fd is the writing end of its FIFO, opened with O_NONBLOCK; it stays open.
// A server that has not read its earlier input gets nothing: [Unread], [ErrUnread]. What is expected is awaited in output,
// which may be nil otherwise.
func Stdin(ctx context.Context, fd int, line Line, output Output) Outcome {
	if err := line.checkInput(); err != nil {
		return undeliverable(err)
	}
	if err := checkPipe(fd); err != nil {
		return undeliverable(err)
	}
	return writeLine(ctx, pipeInput(fd), line, output)
}

// Pipe is a FIFO of the server's own making.
type Pipe struct {
	Directory int    // descriptor of the server's directory, as O_PATH opens it
	Path      string // relative, beneath Directory
	Owner     uint32 // the server's user; nobody else's FIFO is written to
}

// FIFO hands a line to a FIFO that the server reads, as wesnothd does (its `fifo_path`). The way to it stays beneath the
// directory and goes through no symlink. A FIFO that nobody has open for reading is [NotListening]. What is expected is
// awaited in output, which may be nil otherwise.
func FIFO(ctx context.Context, p Pipe, line Line, output Output) Outcome {
	if err := line.checkInput(); err != nil {
		return undeliverable(err)
	}
	fd, err := p.open()
	if err != nil {
		return undeliverable(err)
	}
	defer unix.Close(fd)
	return writeLine(ctx, pipeInput(fd), line, output)
}

func (p Pipe) open() (int, error) {
	// O_PATH first: opening a device, unlike looking at it, may do something.
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	if err := p.vet(how); err != nil {
		return -1, err
	}
	how.Flags = unix.O_WRONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY
	fd, err := openat2(p.Directory, p.Path, how)
	if err != nil {
		return -1, pipeError(err)
	}
	if err := p.check(fd); err != nil { // it may be another by now
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func (p Pipe) vet(how *unix.OpenHow) error {
	fd, err := openat2(p.Directory, p.Path, how)
	if err != nil {
		return pipeError(err)
	}
	return errors.Join(p.check(fd), unix.Close(fd))
}

func (p Pipe) check(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFIFO:
		return faulty(Stranger, "`console.path` is not a FIFO: name the one that the server makes")
	case st.Uid != p.Owner:
		return faulty(Stranger, "`console.path` is a FIFO of another user: let the server make it")
	}
	return nil
}

func openat2(dir int, path string, how *unix.OpenHow) (int, error) {
	for {
		fd, err := unix.Openat2(dir, path, how)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) { // EAGAIN: a rename elsewhere got in the way
			continue
		}
		return fd, err
	}
}

func pipeError(err error) error {
	switch {
	case errors.Is(err, unix.ENXIO):
		return faulty(NotListening, "nobody reads the FIFO: see whether the server is up")
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return faulty(NotListening, "there is no FIFO at `console.path`: see whether the server makes it")
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP):
		return faulty(Stranger, "`console.path` leads out of the directory, or through a symlink: name a FIFO beneath it")
	}
	return err
}

func checkPipe(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO || flags&unix.O_NONBLOCK == 0 {
		return faulty(Failed, "standard input is not a FIFO that is open without blocking")
	}
	return nil
}

// pipeInput is the writing end of a pipe, open without blocking.
type pipeInput int

func (p pipeInput) Unread() (bool, error) {
	n, err := unix.IoctlGetInt(int(p), unix.TIOCINQ) // FIONREAD by its other name
	return n > 0, err
}

// Write writes all or nothing, as pipe(7) has it.
func (p pipeInput) Write(b []byte) (int, error) {
	for {
		n, err := unix.Write(int(p), b)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

// input is where a line is written to. Neither call blocks.
type input interface {
	// Unread reports whether earlier input waits there.
	Unread() (bool, error)
	Write([]byte) (int, error)
}

// writeLine writes the line to an input that is read up to its end.
func writeLine(ctx context.Context, in input, line Line, output Output) Outcome {
	if err := ctx.Err(); err != nil {
		return undeliverable(faulty(NoAnswer, "the time was over before the line could be written"))
	}
	unread, err := in.Unread()
	if err != nil {
		return undeliverable(err)
	}
	if unread {
		return undeliverable(&fault{Unread, ErrUnread})
	}
	var result <-chan error
	if line.Expect != "" { // from before the write on: the answer may be quick
		var stop func()
		if output == nil {
			return undeliverable(faulty(Failed, "nothing can be awaited: the run's output is not at hand"))
		}
		if result, stop, err = output.Await(line.Expect); err != nil {
			return undeliverable(&fault{Failed, err})
		}
		defer stop()
	}
	b := append([]byte(line.Text), '\n')
	n, err := in.Write(b)
	switch {
	case n > 0 && n < len(b): // pipe(7) rules it out, and a terminal that is read has room
		return Outcome{Result: Indeterminate, Reason: Failed, Err: errors.New("a part of the line was written")}
	case errors.Is(err, unix.EAGAIN): // no room, though it was empty: another writer
		return undeliverable(&fault{Unread, ErrUnread})
	case errors.Is(err, unix.EPIPE):
		return undeliverable(faulty(NotListening, "nobody reads it: see whether the server is up"))
	case err != nil:
		return undeliverable(err)
	}
	return await(ctx, result)
}

func bareOutput(err error) error {
	var f *fault
	if errors.As(err, &f) {
		return f.err
	}
	return err
}
