package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
	"reconciler.dev/reconciler/spec"
)

// errLines says that the server has no terminal now: its lines can be attached to.
var errLines = errors.New("there is no terminal to attach to")

// linesError is errLines of a server that declares a terminal.
type linesError struct{ why string }

func (e *linesError) Error() string        { return e.why }
func (e *linesError) Is(target error) bool { return target == errLines }

// errRunOver says that the run of the terminal is over.
var errRunOver = errors.New("the run is over")

// terminalAttachment is a server's terminal on somebody's own. One goroutine shows, one reads keys, one hands them over.
type terminalAttachment struct {
	e       *env
	c       *client.Client
	key     spec.Key
	view    bool
	tail    int
	in, out *os.File

	ending   *os.File      // can be read once the attachment ends
	begun    chan struct{} // closed when it is attached
	detached chan struct{} // closed when the keys for it came
	queue    *keyQueue
	detach   detachKeys // the reader's

	mu     sync.Mutex // of what follows, and of printing
	mode   *unix.Termios
	modes  screenModes
	open   bool // what was printed has not ended its line
	writer *api.ConsoleWriter
	warned string // the reason that was told last for keys that went nowhere
	code   int
	// unknown is how many of the bytes that were typed may have been handed over.
	unknown int
}

// attachTerminal attaches the terminal at in and out to a server's, until its run is over or somebody leaves, and leaves that terminal as
// it was. It fails with errLines when the server has none.
func attachTerminal(told context.Context, t *terminalAttachment) error {
	t.begun, t.detached, t.queue = make(chan struct{}), make(chan struct{}), newKeyQueue()
	told, stop := signal.NotifyContext(told, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancel(told)
	defer cancel()
	changes := make(chan os.Signal, 1) // before the size is told, so that no change of it is missed
	signal.Notify(changes, syscall.SIGWINCH, syscall.SIGCONT)
	defer signal.Stop(changes)
	ending, end, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot attach: %w", err)
	}
	defer ending.Close()
	defer end.Close()
	t.ending = ending
	defer context.AfterFunc(ctx, func() { _ = end.Close() })()
	viewed := make(chan error, 1)
	go func() { viewed <- t.look(ctx) }()
	select {
	case <-t.begun:
	case err := <-viewed:
		if told.Err() != nil {
			return nil
		}
		return ended(err)
	}
	var working sync.WaitGroup
	read, handed := make(chan struct{}), make(chan struct{})
	working.Go(func() { defer close(read); t.read(ctx) })
	trying, giveUp := context.WithCancel(ctx)
	defer giveUp()
	working.Go(func() { defer close(handed); t.handOver(ctx, trying) })
	working.Go(func() { t.follow(ctx, changes) })

	err = errDetached
	select {
	case err = <-viewed:
		viewed <- err
	case <-t.detached:
	case <-read: // its own end has gone
	case <-told.Done():
	}
	// What was typed before is handed over, if the server takes it soon.
	t.queue.close()
	for _, then := range []func(){giveUp, cancel} {
		select {
		case <-handed:
		case <-time.After(leavePatience):
		case viewErr := <-viewed:
			viewed <- viewErr
		}
		then()
	}
	working.Wait()
	<-viewed
	return t.leave(err)
}

// errDetached is the good end of an attachment.
var errDetached = errors.New("detached")

// leavePatience is how long the last keys may take when somebody leaves, and then those of them that are on their way.
const leavePatience = 2 * time.Second

// leave restores the terminal and says how it ended.
func (t *terminalAttachment) leave(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if restoreErr := t.restore(); restoreErr != nil {
		return restoreErr
	}
	if !errors.Is(err, errRunOver) { // there was nobody any more who could have read them
		t.tellLeft()
	}
	var status *api.Status
	switch {
	case errors.Is(err, errDetached):
		fmt.Fprintf(t.e.stderr, "detached from %s, which goes on\n", serverRef(t.key))
	case errors.Is(err, errRunOver):
		fmt.Fprintf(t.e.stderr, "the run of %s is over; 'reconciler history %s' says how it ended\n", serverRef(t.key), t.key.Name)
	case errors.As(err, &status):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, client.ErrEnded):
		return hintf(fmt.Errorf("the reconciler has ended; %s goes on without it", serverRef(t.key)), "attach again when there is another")
	default:
		return err
	}
	if t.code != 0 {
		return &exitError{code: t.code}
	}
	return nil
}

// tellLeft says which keys were not handed over, or may not have been.
func (t *terminalAttachment) tellLeft() {
	if n := t.queue.done(-1); n > 0 {
		t.code = max(t.code, 1)
		fmt.Fprintf(t.e.stderr, "%s: %d bytes that were typed were not handed over\n", serverRef(t.key), n)
	}
	if t.unknown > 0 {
		t.code = exitUnknown
		fmt.Fprintf(t.e.stderr, "%s: nobody knows whether the last %d bytes that were typed were handed over; they are not typed again\n", serverRef(t.key), t.unknown)
	}
}

// look shows the terminal until ctx or the run ends.
func (t *terminalAttachment) look(ctx context.Context) error {
	in := api.Attach{View: t.view, Keys: true}
	if t.tail >= 0 {
		in.TailLines = &t.tail
	}
	return t.c.Attach(ctx, api.ObjectPath(api.Servers, t.key, api.VerbAttach), in, t.take)
}

func (t *terminalAttachment) take(e api.AttachEvent) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.Type {
	case api.AttachTerminal:
		return t.begin(e.Writer)
	case api.AttachOutput:
		if err := t.print(e.Text); err != nil {
			return err
		}
		if e.Lost > 0 {
			t.say(fmt.Sprintf("%d bytes of output are not shown: this terminal was too slow; 'reconciler logs %s' has them", e.Lost, t.key.Name))
		}
	case api.AttachWriter:
		t.setWriter(e.Writer)
	case api.AttachEnded:
		return errRunOver
	}
	if e.Type == api.AttachLines && e.Why != "" {
		return &linesError{e.Why}
	}
	if !t.attached() {
		return errLines
	}
	return nil
}

func (t *terminalAttachment) attached() bool {
	select {
	case <-t.begun:
		return true
	default:
		return false
	}
}

// begin says what is attached and makes the terminal one of keys.
func (t *terminalAttachment) begin(w *api.ConsoleWriter) error {
	who := writerText(w, t.e.now())
	if t.view {
		who += "; Ctrl-C detaches"
	} else {
		who += "; Ctrl-P Ctrl-Q detaches"
	}
	fmt.Fprintf(t.e.stderr, "attached to the terminal of %s: %s\n", serverRef(t.key), who)
	if err := t.makeRaw(); err != nil {
		return err
	}
	t.writer = w
	if isWriter(w) {
		t.queue.resize()
	}
	close(t.begun)
	return nil
}

// isWriter reports whether it is this attachment that writes.
func isWriter(w *api.ConsoleWriter) bool { return w != nil && w.Attachment != "" }

func (t *terminalAttachment) setWriter(w *api.ConsoleWriter) {
	was := t.writer
	t.writer = w
	if w == was || w != nil && was != nil && w.By == was.By && w.Since.Equal(was.Since) {
		return
	}
	t.warned = ""
	t.say(writerText(w, t.e.now()))
	if isWriter(w) {
		t.queue.resize()
	}
}

// print shows what the server has written. The caller holds the attachment, as those of what follows do.
func (t *terminalAttachment) print(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	t.modes.take(text)
	t.open = !bytes.HasSuffix(text, []byte{'\n'})
	return t.write(text)
}

// A terminal that can be written to has room for so many bytes at least (tty_io.c, WAKEUP_CHARS).
const terminalWrite = 256

// write writes to the terminal, which may have been stopped: then it waits until that goes on, or the attachment ends.
func (t *terminalAttachment) write(text []byte) error {
	for len(text) > 0 {
		fds := []unix.PollFd{{Fd: int32(t.out.Fd()), Events: unix.POLLOUT}, {Fd: int32(t.ending.Fd()), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err == nil && fds[0].Revents == 0:
			err = errDetached
		}
		if err == nil {
			var n int
			n, err = t.out.Write(text[:min(len(text), terminalWrite)])
			text = text[n:]
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errNoScreen, err)
		}
	}
	return nil
}

// say prints a notice on a line of its own.
func (t *terminalAttachment) say(text string) {
	begin := ""
	if t.open {
		begin = "\r\n"
	}
	_ = t.write(fmt.Appendf(nil, "%s[%s: %s]\r\n", begin, serverRef(t.key), text)) // the next output meets the error
	t.open = false
}

// warn says once why keys go nowhere, and rings the bell for the others.
func (t *terminalAttachment) warn(reason string) {
	if t.warned == reason {
		_ = t.write([]byte{'\a'})
		return
	}
	t.warned = reason
	t.say(reason)
}

// read takes keys until ctx or the input ends, or those that detach come.
func (t *terminalAttachment) read(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := readTyped(ctx, t.in, func(p []byte) {
		if ctx.Err() == nil && t.typed(p) {
			close(t.detached)
			cancel()
		}
	})
	if err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.say(err.Error())
	}
}

// typed takes keys, and reports whether they detach.
func (t *terminalAttachment) typed(p []byte) bool {
	if t.view {
		_, detached := t.detach.take(p)
		return detached || bytes.IndexByte(p, ctrlC) >= 0
	}
	keys, detached := t.detach.take(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(keys) == 0:
	case !isWriter(t.writer):
		t.warn("your keys are not handed over: " + writerText(t.writer, t.e.now()) + "; Ctrl-P Ctrl-Q detaches")
	default:
		if lost := t.queue.add(keys); lost > 0 {
			t.code = 1
			t.warn("keys are lost: the server does not read its input, and no more can wait; Ctrl-P Ctrl-Q detaches")
		}
	}
	return detached
}

// follow tells of every change of the screen's size, and makes the terminal one of keys again when somebody has stopped this process.
func (t *terminalAttachment) follow(ctx context.Context, changes <-chan os.Signal) {
	for {
		select {
		case s := <-changes:
			if s == syscall.SIGCONT {
				_ = setMode(t.in, rawMode(*t.mode)) // it was set before
			}
			t.queue.resize()
		case <-ctx.Done():
			return
		}
	}
}

// fullPause is the time between two tries to hand keys to a server that does not read.
const fullPause = 50 * time.Millisecond

// handOver hands keys to the server, one request at a time and each once, until trying ends; what is on its way then goes on until ctx does.
func (t *terminalAttachment) handOver(ctx, trying context.Context) {
	var offset int64
	for {
		keys, resized, ok := t.queue.next(trying)
		if !ok {
			return
		}
		taken, err := t.hand(ctx, keys, resized, offset)
		offset += int64(taken)
		t.queue.done(taken)
		t.mu.Lock()
		var status *api.Status
		again := taken < len(keys)
		switch {
		case errors.As(err, &status) && status.Reason == api.ReasonServiceUnavailable: // nothing was typed: the keeper is being replaced
			t.warnOnce(status.Message + "; what is typed waits; Ctrl-P Ctrl-Q detaches")
			if resized {
				t.queue.resize()
			}
			status, err, again = nil, nil, true
		case errors.As(err, &status):
			if n := t.queue.done(-1); n > 0 {
				t.code = max(t.code, 1)
				t.warn("keys were not handed over: " + status.Message)
			}
		case err != nil:
			t.unknown = t.queue.done(len(keys))
			if ctx.Err() == nil && t.unknown > 0 {
				t.say("nobody knows whether your last keys were handed over, and no more are; Ctrl-P Ctrl-Q detaches")
			}
		case taken < len(keys):
			t.warnOnce("it does not read its input: what is typed waits; Ctrl-P Ctrl-Q detaches")
		}
		t.mu.Unlock()
		if err != nil && status == nil {
			return
		}
		if again && status == nil && !pause(trying, fullPause) {
			return
		}
	}
}

// warnOnce is warn without the bell: nobody has pressed a key.
func (t *terminalAttachment) warnOnce(reason string) {
	if t.warned != reason {
		t.warn(reason)
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// errUnknownKeys says that nobody knows what became of keys.
var errUnknownKeys = errors.New("nobody knows whether they were handed over")

// hand hands over keys and, when it has changed, the size. It returns how many bytes the server took.
func (t *terminalAttachment) hand(ctx context.Context, keys []byte, resized bool, offset int64) (taken int, err error) {
	t.mu.Lock()
	w := t.writer
	t.mu.Unlock()
	if !isWriter(w) {
		return 0, api.Failure(api.ReasonConflict, "another writes")
	}
	in := api.Keys{Attachment: w.Attachment, Offset: offset, Keys: keys}
	if resized {
		if size, err := unix.IoctlGetWinsize(int(t.out.Fd()), unix.TIOCGWINSZ); err == nil && size.Row > 0 && size.Col > 0 {
			in.Rows, in.Columns = min(int64(size.Row), 1000), min(int64(size.Col), 1000)
		}
	}
	var got api.Typed
	if err := t.c.Post(ctx, api.ObjectPath(api.Servers, t.key, api.VerbKeys), in, &got); err != nil {
		return 0, err
	}
	if got.Unknown {
		return 0, errUnknownKeys
	}
	return got.Taken, nil
}

// makeRaw has the terminal hand on keys as they are pressed, and print what it is given as it is (termios(3), cfmakeraw).
func (t *terminalAttachment) makeRaw() error {
	mode, err := unix.IoctlGetTermios(int(t.in.Fd()), unix.TCGETS)
	if err != nil {
		return fmt.Errorf("cannot read the terminal's mode: %w", err)
	}
	t.mode = mode
	return setMode(t.in, rawMode(*mode))
}

func rawMode(m unix.Termios) *unix.Termios {
	m.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	m.Oflag &^= unix.OPOST
	m.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	m.Cflag = m.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	m.Cc[unix.VMIN], m.Cc[unix.VTIME] = 1, 0
	return &m
}

func setMode(f *os.File, m *unix.Termios) error {
	if err := unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, m); err != nil {
		return fmt.Errorf("cannot set the terminal's mode: %w", err)
	}
	return nil
}

// restore switches back what the server has switched and makes the terminal what it was. One that has gone is as it may be.
func (t *terminalAttachment) restore() error {
	undo := t.modes.undo()
	if t.open {
		undo = append(undo, '\r', '\n')
	}
	fds := []unix.PollFd{{Fd: int32(t.out.Fd()), Events: unix.POLLOUT}}
	if n, err := unix.Poll(fds, 0); err == nil && n > 0 { // else it was stopped, and would keep us here
		_, _ = t.out.Write(undo)
	}
	if err := setMode(t.in, t.mode); err != nil && !errors.Is(err, unix.EIO) {
		return err
	}
	return nil
}

// writerText says who writes.
func writerText(w *api.ConsoleWriter, now time.Time) string {
	switch {
	case w == nil || w.Since.IsZero():
		return "nobody writes"
	case w.Attachment != "":
		return "you write"
	}
	return fmt.Sprintf("%s writes since %s (%s ago)", w.By, w.Since.Local().Format(time.TimeOnly), age(now, &w.Since))
}
