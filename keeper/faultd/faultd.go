package faultd

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Exit codes beside those that a flag asks for.
const (
	ExitUsage   = 64 // no such behaviour or flag
	ExitFailure = 70 // faultd itself could not do what was asked
	ExitLife    = 99 // -life ran out
)

// behaviour is one way to misbehave. flags declares its flags and returns what it does, whose result is the exit code.
type behaviour struct {
	name, summary string
	flags         func(*flag.FlagSet) func(*process) int
}

// behaviours is a function because some of them start others.
func behaviours() []behaviour {
	return []behaviour{
		{"run", "serve, be ready, reload and stop gracefully", runFlags},
		{"inspect", "print as JSON what this process was given", inspectFlags},
		{"hold", "wait", holdFlags},
		{"exit", "exit with a code", exitFlags},
		{"flaky", "fail the first starts, then run", flakyFlags},
		{"console", "stop on a line read from standard input", consoleFlags},
		{"tty", "want a terminal, say its size, and ask for a password that it does not show", ttyFlags},
		{"rcon", "stop on a command sent over Source RCON", remoteFlags("rcon", serveRCON)},
		{"quakercon", "stop on a command sent over the remote console of Quake III", remoteFlags("quakercon", serveQuake)},
		{"webrcon", "stop on a command sent over Rust's web console", remoteFlags("webrcon", serveWebRCON)},
		{"telnet", "stop on a command sent as text over TCP", remoteFlags("telnet", serveTelnet)},
		{"rest", "stop on an HTTP request", remoteFlags("rest", serveREST)},
		{"game", "answer queries as a file says", gameFlags},
		{"socks", "be a SOCKS5 proxy", socksFlags},
		{"ignore-term", "ignore the signals that stop others", ignoreTermFlags},
		{"crash", "die of a signal", crashFlags},
		{"freeze", "stop itself with SIGSTOP", freezeFlags},
		{"partial-line", "write a line without its newline and exit", partialLineFlags},
		{"flood", "write numbered lines at a given rate", floodFlags},
		{"garbage", "write control bytes, broken UTF-8 and one huge line", garbageFlags},
		{"close-stdout", "close standard output and go on", closeStdoutFlags},
		{"late-port", "open a port after a while", latePortFlags},
		{"unready", "serve, and fail after a while", unreadyFlags},
		{"daemonise", "leave a daemon behind that keeps standard output open", daemoniseFlags},
		{"spawn", "start children that outlive it", spawnFlags},
		{"forkbomb", "multiply up to a number of processes", forkbombFlags},
		{"rename", "change what ps shows of it", renameFlags},
		{"become", "execute another program", becomeFlags},
		{"mem", "hold memory", memFlags},
		{"spin", "burn CPU", spinFlags},
		{daemonMiddle, "the session leader between daemonise and its daemon", daemonMiddleFlags},
	}
}

// process is this process while it behaves.
type process struct {
	role []string // arguments before faultd's own, which make this program behave as faultd
	life time.Duration
	pids string
}

// Main runs the behaviour that args name and returns the exit code. It may also end the process by itself, in the ways
// that the behaviours are for.
func Main(args []string) (exitCode int) {
	args = cloneAll(args) // rename overwrites the memory that they lie in
	if len(args) == 0 {
		return usage(os.Stderr)
	}
	all := behaviours()
	i := slices.IndexFunc(all, func(b behaviour) bool { return b.name == args[0] })
	if i < 0 {
		return usage(os.Stderr)
	}
	p := &process{role: cloneAll(os.Args[1 : len(os.Args)-len(args)])}
	fs := flag.NewFlagSet("faultd "+args[0], flag.ContinueOnError)
	fs.DurationVar(&p.life, "life", 10*time.Minute, "end after this long, with code "+strconv.Itoa(ExitLife))
	fs.StringVar(&p.pids, "pids", "", "append the process ids of this process and its children to this `file`")
	fs.String("note", "", "`text` that means nothing: something to be seen among the arguments")
	behave := all[i].flags(fs)
	if err := fs.Parse(args[1:]); err != nil {
		return ExitUsage // the flag set has said why
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "faultd: %q is not a flag\n", fs.Arg(0))
		return ExitUsage
	}
	if err := p.leaveTrail(); err != nil {
		return fail(err)
	}
	end := time.AfterFunc(p.life, func() { os.Exit(ExitLife) })
	defer end.Stop()
	return behave(p)
}

func cloneAll(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = strings.Clone(a)
	}
	return out
}

func usage(w io.Writer) int {
	fmt.Fprintln(w, "usage: faultd BEHAVIOUR [flags]   (-h lists the flags of one)")
	for _, b := range behaviours() {
		fmt.Fprintf(w, "  %-14s%s\n", b.name, b.summary)
	}
	return ExitUsage
}

// leaveTrail writes the process id in one call to a file opened for appending: lines of concurrent processes do not mix.
func (p *process) leaveTrail() error {
	if p.pids == "" {
		return nil
	}
	f, err := os.OpenFile(p.pids, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	return errors.Join(err, f.Close())
}

// child prepares another behaviour of this program, with this process's output, -life and -pids.
func (p *process) child(args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	all := append(slices.Clone(p.role), args...)
	all = append(all, "-life", p.life.String())
	if p.pids != "" {
		all = append(all, "-pids", p.pids)
	}
	cmd := exec.Command(exe, all...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	return cmd, nil
}

// say writes one line to standard output in one write. Whether anybody reads it is what a test may be about.
func say(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "faultd:", err)
	return ExitFailure
}

// forever waits for the end of life.
func forever() int { select {} }

// caught delivers signals from now on.
func caught(signals ...os.Signal) <-chan os.Signal {
	c := make(chan os.Signal, 16)
	signal.Notify(c, signals...)
	return c
}

// pause waits, or reports false when a signal came first.
func pause(d time.Duration, stop <-chan os.Signal) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-stop:
		return false
	}
}
