package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// attached is one `reconciler attach` that goes on beside the script.
type attached struct {
	cmd    *exec.Cmd
	input  io.WriteCloser // of a terminal: both ways
	mode   *unix.Termios  // of a terminal, as it was at first; nil = pipes
	stdout lines          // on a terminal all that is seen there
	stderr lines
	ended  chan struct{}
}

func attach(ts *testscript.TestScript, neg bool, args []string) {
	tty := len(args) > 1 && args[1] == "-tty"
	if tty {
		args = slices.Delete(slices.Clone(args), 1, 2)
	}
	if neg || len(args) < 2 {
		ts.Fatalf("usage: attach NAME [-tty] ARG...")
	}
	w := worldOf(ts)
	if w.attached[args[0]] != nil {
		ts.Fatalf("%s is attached", args[0])
	}
	a := &attached{cmd: w.command(context.Background(), append([]string{"attach"}, args[1:]...)...), ended: make(chan struct{})}
	begin := a.onPipes
	if tty {
		begin = a.onTerminal
	}
	ts.Check(begin())
	w.attached[args[0]] = a
}

func (a *attached) onPipes() (err error) {
	a.cmd.Stdout, a.cmd.Stderr = &a.stdout, &a.stderr
	if a.input, err = a.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := a.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(a.ended)
		_ = a.cmd.Wait() // how it ended is in its ProcessState
	}()
	return nil
}

func feed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: feed FILE ARG...")
	}
	input := ts.ReadFile(args[0])
	var stdout, stderr lines
	cmd := worldOf(ts).command(context.Background(), append([]string{"attach"}, args[1:]...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	err := cmd.Run()
	fmt.Fprint(ts.Stdout(), stdout.String())
	fmt.Fprint(ts.Stderr(), stderr.String())
	ts.Check(err)
}

// onTerminal runs it as a shell on a terminal of its own would.
func (a *attached) onTerminal() error {
	master, slave, err := terminal()
	if err != nil {
		return err
	}
	if a.mode, err = unix.IoctlGetTermios(int(master.Fd()), unix.TCGETS); err != nil {
		return err
	}
	a.input = master
	a.cmd.Stdin, a.cmd.Stdout, a.cmd.Stderr = slave, slave, slave
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = a.cmd.Start()
	err = errors.Join(err, slave.Close())
	if err != nil {
		return errors.Join(err, master.Close())
	}
	go func() {
		defer close(a.ended)
		_, _ = io.Copy(&a.stdout, master) // it ends with EIO when nobody has the other end any more (pty(7))
		_ = a.cmd.Wait()
	}()
	return nil
}

// terminal is a new pseudoterminal.
func terminal() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	number := 0
	if err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err == nil {
		number, err = unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, slave, nil
}

// modeNow is that of the terminal.
func (a *attached) modeNow() (*unix.Termios, error) {
	return unix.IoctlGetTermios(int(a.input.(*os.File).Fd()), unix.TCGETS)
}

func raw(ts *testscript.TestScript, neg bool, args []string) {
	a := attachedOf(ts, neg, args, 1, "raw NAME")
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		mode, err := a.modeNow()
		ts.Check(err)
		if mode.Lflag&unix.ICANON == 0 {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s reads no keys:\n%s", args[0], &a.stdout)
		}
	}
}

func pressKeys(ts *testscript.TestScript, neg bool, args []string) {
	a := attachedOf(ts, neg, args, 2, "keys NAME TEXT [TIMES]")
	text, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	times := 1
	if len(args) == 3 {
		times, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	_, err = io.WriteString(a.input, strings.Repeat(text, times))
	ts.Check(err)
}

func screenSize(ts *testscript.TestScript, neg bool, args []string) {
	a := attachedOf(ts, neg, args, 3, "screen NAME ROWS COLUMNS")
	rows, err := strconv.ParseUint(args[1], 10, 16)
	ts.Check(err)
	columns, err := strconv.ParseUint(args[2], 10, 16)
	ts.Check(err)
	ts.Check(unix.IoctlSetWinsize(int(a.input.(*os.File).Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(columns)}))
}

// attachedOf is the console that a script names first.
func attachedOf(ts *testscript.TestScript, neg bool, args []string, least int, usage string) *attached {
	if neg || len(args) < least || len(args) > 3 {
		ts.Fatalf("usage: %s", usage)
	}
	a := worldOf(ts).attached[args[0]]
	if a == nil {
		ts.Fatalf("nothing is attached as %s", args[0])
	}
	return a
}

func typeLine(ts *testscript.TestScript, neg bool, args []string) {
	a := attachedOf(ts, neg, args, 2, "type NAME LINE")
	text := strings.NewReplacer("^C", "\x03", "^D", "\x04").Replace(args[1])
	if text == args[1] {
		text += "\n"
	}
	_, err := io.WriteString(a.input, text)
	ts.Check(err)
}

func told(ts *testscript.TestScript, neg bool, args []string) {
	a := attachedOf(ts, neg, args, 3, "told NAME LINE TEXT")
	for end := time.Now().Add(patience); a.stdout.awaitFor(args[2], 5*time.Second) != nil; {
		if time.Now().After(end) {
			ts.Fatalf("%q was never said:\n%s", args[2], &a.stdout)
		}
		_, err := io.WriteString(a.input, args[1]+"\n")
		ts.Check(err)
	}
}

func shows(ts *testscript.TestScript, neg bool, args []string) {
	a := attachedOf(ts, neg, args, 2, "shows NAME TEXT [TIMES]")
	ts.Check(awaitIn(&a.stdout, args))
}

func says(ts *testscript.TestScript, neg bool, args []string) {
	a := attachedOf(ts, neg, args, 2, "says NAME TEXT [TIMES]")
	ts.Check(awaitIn(&a.stderr, args))
}

func awaitIn(l *lines, args []string) error {
	times := 1
	if len(args) == 3 {
		var err error
		if times, err = strconv.Atoi(args[2]); err != nil {
			return err
		}
	}
	return l.awaitTimes(args[1], times)
}

func detach(ts *testscript.TestScript, neg bool, args []string) {
	a := attachedOf(ts, neg, args, 2, "detach NAME EOF|KEEP|SIGNAL")
	switch args[1] {
	case "EOF":
		ts.Check(a.input.Close())
	case "KEEP":
	default:
		sig, err := signalOf(args[1])
		ts.Check(err)
		ts.Check(a.cmd.Process.Signal(sig))
	}
	select {
	case <-a.ended:
	case <-time.After(patience):
		ts.Fatalf("%s does not end", args[0])
	}
	if a.mode != nil && args[1] != "KILL" {
		now, err := a.modeNow()
		ts.Check(err)
		if *now != *a.mode {
			ts.Fatalf("%s left its terminal in another mode:\n%+v\nnot\n%+v", args[0], *now, *a.mode)
		}
	}
	_ = a.input.Close() // it may be closed
	delete(worldOf(ts).attached, args[0])
	fmt.Fprintf(ts.Stdout(), "%s\n%s", a.cmd.ProcessState, a.stdout.String())
	fmt.Fprint(ts.Stderr(), a.stderr.String())
}

// detachAll ends what a script has left attached.
func (w *world) detachAll() {
	for _, a := range w.attached {
		_ = a.cmd.Process.Kill() // it may have ended
		<-a.ended
		_ = a.input.Close()
	}
	clear(w.attached)
}
