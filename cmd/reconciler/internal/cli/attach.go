package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
	"reconciler.dev/reconciler/spec"
)

// attachTail is how many lines of what was written come first, when nothing is said.
const attachTail = 20

type attachCommand struct {
	e     *env
	place place
	scope scopeFlags
	tail  int
	view  bool
	raw   bool
	lines bool
}

func newAttach(e *env) *cobra.Command {
	a := &attachCommand{e: e}
	cmd := &cobra.Command{
		Use:   "attach NAME",
		Short: "Show a server's console, live, and write to it",
		Long: `Shows what a server has written to stdout and stderr, beginning with the last lines, and goes on as 'logs -f' does: into later
runs, and through restarts of the keeper and the reconciler, which it awaits for five minutes. Each line that is typed is handed over as by 'reconciler send': once, recorded
with who and when ('history'). One that is not handed over is told with its reason, and the view goes on.

From a terminal to a server that has one too (console.tty), the two are one: every key goes to the server as it is pressed, Ctrl-C too, every byte
that it writes is shown as it comes, and the size of your window is its own. Ctrl-P Ctrl-Q detaches, and it ends with the run, the keeper or the
reconciler. What is typed is recorded, but for what the terminal does not show. --lines has lines there as well.

One attachment writes at a time: the first, until it ends, then the next. The others look, and are told who writes. --view
looks and reads no input. 'reconciler send' goes on beside it.

Elsewhere Ctrl-C or the end of the input detaches; nothing happens to the server. Input that is no terminal is handed over line by line: each
waits some seconds until the server has read what came before it, and the receipt of the last line is awaited. Empty lines are left out
there; on a terminal Enter alone is one.

Of lines on a terminal the colours of the server's output are kept, and other control characters are shown instead of obeyed: ^[ for
escape. With --raw, and in a pipe or a file, its bytes are as it wrote them.

It exits with 0 when every line or key was handed over, 1 when one was not, and 3 when nobody knows of one.`,
		Example: "  reconciler attach town\n  reconciler attach town --view --tail 100",
		Args:    exactly(1, "the name of a server"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), args[0]) },
	}
	placeFlags(cmd, &a.place)
	namespaceFlag(cmd, &a.scope)
	f := cmd.Flags()
	f.IntVar(&a.tail, "tail", attachTail, "begin with the last N lines; -1 = all of the last run")
	f.BoolVar(&a.view, "view", false, "look, and never write")
	f.BoolVar(&a.lines, "lines", false, "lines, also of a server that has a terminal (console.tty)")
	f.BoolVar(&a.raw, "raw", false, "print the server's control characters to a terminal as they are")
	return cmd
}

func (a *attachCommand) run(ctx context.Context, name string) error {
	k, err := parseServer(name, a.scope.namespace)
	if err != nil {
		return err
	}
	if a.tail < -1 {
		return usagef("--tail %d: must be 0 or more, or -1 for all lines", a.tail)
	}
	c, err := a.e.dial(a.place)
	if err != nil {
		return err
	}
	defer c.Close()
	in, out := terminalFile(a.e.stdin), terminalFile(a.e.stdout)
	if in != nil && out != nil && !a.lines {
		err := attachTerminal(ctx, &terminalAttachment{e: a.e, c: c, key: k, view: a.view, tail: a.tail, in: in, out: out})
		if !errors.Is(err, errLines) {
			return err
		}
		if lines := new(linesError); errors.As(err, &lines) {
			a.e.note(serverRef(k) + ": " + lines.why + "; these are lines, attach again for the terminal")
		}
	}
	at := &attachment{
		e: a.e, c: c, key: k, view: a.view, tail: a.tail, begun: make(chan struct{}),
		screen: screen{out: a.e.stdout, err: a.e.stderr},
	}
	if isTerminalFile(a.e.stdout) {
		at.screen.harmless, at.screen.shared = !a.raw, isTerminalFile(a.e.stderr)
	}
	at.standing.Store(&standing{})
	if err := present(ctx, c, at.screen.say); err != nil {
		return err
	}
	return at.run(ctx)
}

func isTerminalFile(v any) bool { return terminalFile(v) != nil }

// terminalFile is v when that is a terminal, else nil.
func terminalFile(v any) *os.File {
	if f, ok := v.(*os.File); ok && isTerminal(f) {
		return f
	}
	return nil
}

// attachment is one console on one terminal.
type attachment struct {
	e      *env
	c      *client.Client
	key    spec.Key
	view   bool
	screen screen

	// The viewer's.
	tail  int                // of the next try
	after string             // where what was shown ends
	told  *api.ConsoleWriter // who was told to write, the zero one = nobody; nil = nothing was told since it was attached
	begun chan struct{}      // closed when it was attached for the first time

	standing atomic.Pointer[standing] // the viewer's to write
	code     int                      // the writer's: how a line went that was not handed over
}

// standing is what the viewer knows of its attachment.
type standing struct {
	attached bool
	writer   *api.ConsoleWriter // nil = nobody
}

// run looks and writes until the input ends, ctx does, or there is nothing more to look at.
func (a *attachment) run(told context.Context) error {
	ctx, cancel := context.WithCancel(told)
	defer cancel()
	viewed := make(chan error, 1)
	go func() {
		defer cancel()
		viewed <- a.look(ctx)
	}()
	select {
	case <-a.begun:
	case <-ctx.Done():
	}
	var inputErr error
	if a.view {
		<-ctx.Done()
	} else if ctx.Err() == nil {
		inputErr = a.write(ctx)
	}
	cancel()
	err := <-viewed
	switch {
	case inputErr != nil:
		return inputErr
	case !errors.Is(err, context.Canceled):
		return err
	case a.code != 0:
		return &exitError{code: a.code}
	}
	return nil
}

// write hands over what is typed, line by line.
func (a *attachment) write(ctx context.Context) error {
	lines := typedLines{empty: isTerminalFile(a.e.stdin)}
	each := func(line string) {
		if ctx.Err() != nil {
			return // it was detached
		}
		if err := a.send(ctx, line); err != nil {
			a.code = max(a.code, a.screen.tell(err))
		}
	}
	if err := readTyped(ctx, a.e.stdin, func(p []byte) { lines.take(p, each) }); err != nil {
		return err
	}
	if !isTerminalFile(a.e.stdin) { // what was left unfinished there was not meant to be sent
		lines.end(each)
	}
	return nil
}

func (a *attachment) send(ctx context.Context, line string) error {
	if detail := spec.CheckTyped(line); detail != "" {
		return fmt.Errorf("%s: the line was not handed over: it %s", serverRef(a.key), detail)
	}
	now := a.standing.Load()
	switch {
	case !now.attached:
		return fmt.Errorf("%s: the line was not handed over: the reconciler is not there", serverRef(a.key))
	case now.writer == nil || now.writer.Attachment == "":
		return fmt.Errorf("%s: the line was not handed over: %s", serverRef(a.key), a.whoWrites(now.writer))
	}
	r, err := handOver(ctx, a.c, a.key, api.Line{Line: line, Attachment: now.writer.Attachment, Patient: !isTerminalFile(a.e.stdin)})
	switch {
	case ctx.Err() != nil:
		return unknownLine(a.key)
	case err != nil:
		return err
	}
	if r.Reply != "" {
		if err := a.screen.show([]byte(r.Reply), true); err != nil {
			return err
		}
	}
	return failedReceipt(a.key, r)
}

// The reconciler may go and come back, when it is upgraded for example: an attachment waits for it and goes on.
const (
	awayPatience = 5 * time.Minute
	awayPause    = 200 * time.Millisecond
)

// look shows the console until ctx ends or it cannot be shown.
func (a *attachment) look(ctx context.Context) error {
	var away time.Time
	for {
		err := a.lookOnce(ctx)
		was := a.standing.Swap(&standing{}).attached
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !a.hasBegun() || !was && time.Since(away) > awayPatience || errors.Is(err, errNoScreen):
			return ended(err)
		case was && !errors.Is(err, io.EOF) && !errors.Is(err, client.ErrEnded):
			return err
		case was:
			away = time.Now()
			a.told = nil
			a.screen.say("the reconciler has ended; this goes on when it is back")
		}
		select {
		case <-ctx.Done():
		case <-time.After(awayPause):
		}
	}
}

func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return client.ErrEnded
	}
	return err
}

func (a *attachment) hasBegun() bool {
	select {
	case <-a.begun:
		return true
	default:
		return false
	}
}

func (a *attachment) lookOnce(ctx context.Context) error {
	in := api.Attach{View: a.view, After: a.after}
	if a.tail >= 0 {
		in.TailLines = &a.tail
	}
	return a.c.Attach(ctx, api.ObjectPath(api.Servers, a.key, api.VerbAttach), in, func(e api.AttachEvent) error {
		if e.After != "" {
			a.after = e.After
		}
		switch e.Type {
		case api.AttachOutput:
			return a.screen.show(e.Text, false)
		case api.AttachWriter:
			a.standing.Store(&standing{attached: true, writer: e.Writer})
			a.tellWriter(e.Writer)
			a.tail = -1 // what comes after this is shown whole, whenever that is
			if !a.hasBegun() {
				close(a.begun)
			}
		}
		return nil
	})
}

// tellWriter says who writes, when that is another than was told.
func (a *attachment) tellWriter(w *api.ConsoleWriter) {
	first := a.told == nil
	if w == nil {
		w = &api.ConsoleWriter{}
	}
	if !first && a.told.By == w.By && a.told.Since.Equal(w.Since) {
		return
	}
	a.told = w
	if first {
		a.screen.say("attached to " + serverRef(a.key) + ": " + a.whoWrites(w) + "; Ctrl-C detaches")
		return
	}
	a.screen.say(serverRef(a.key) + ": " + a.whoWrites(w))
}

func (a *attachment) whoWrites(w *api.ConsoleWriter) string { return writerText(w, a.e.now()) }

// errNoScreen is why nothing more is shown.
var errNoScreen = errors.New("cannot print")

// screen is where viewer and writer print, one at a time.
type screen struct {
	mu       sync.Mutex
	out, err io.Writer
	harmless bool // out is a terminal, and gets no control of the server's
	shared   bool // out and err are one terminal
	open     bool // what was printed to out has not ended its line
}

// show prints what the server has written; whole = as lines, whether it ends as one or not.
func (s *screen) show(text []byte, whole bool) error {
	if whole && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	if s.harmless {
		text = harmless(text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.out.Write(text); err != nil {
		return fmt.Errorf("%w: %w", errNoScreen, err)
	}
	s.open = !bytes.HasSuffix(text, []byte{'\n'})
	return nil
}

// begin leaves a prompt of the server's, where one stands, on a line of its own.
func (s *screen) begin() {
	if s.shared && s.open {
		fmt.Fprintln(s.out)
		s.open = false
	}
}

// say prints a notice, which is no answer.
func (s *screen) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	fmt.Fprintln(s.err, text)
}

// tell prints an error and returns its exit code.
func (s *screen) tell(err error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	return report(s.err, err)
}
