package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// commands are what scripts may say beside testscript's own commands. Those that wait are woken by an event.
var commands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	// up [FLAG...] starts a reconciler and waits until it serves: over ./m and the workspace bin, where no host configuration is named.
	"up": func(ts *testscript.TestScript, neg bool, args []string) {
		err := worldOf(ts).start(args)
		switch {
		case neg && err == nil:
			ts.Fatalf("the reconciler runs")
		case neg:
			fmt.Fprint(ts.Stderr(), err)
		default:
			ts.Check(err)
		}
	},
	// down SIGNAL sends a signal to the reconciler, waits for its end and prints its exit status and all that it said.
	"down": func(ts *testscript.TestScript, neg bool, args []string) {
		w := worldOf(ts)
		sig, err := signalOf(one(ts, neg, args, "down SIGNAL"))
		ts.Check(err)
		st, err := w.stop(sig)
		ts.Check(err)
		fmt.Fprintf(ts.Stdout(), "%s\n%s", st, w.said.String())
	},
	// tell SIGNAL sends a signal to the reconciler, and waits for nothing but that STOP has stopped it.
	"tell": func(ts *testscript.TestScript, neg bool, args []string) {
		sig, err := signalOf(one(ts, neg, args, "tell SIGNAL"))
		ts.Check(err)
		ts.Check(kill(worldOf(ts).reconciler.Process.Pid, sig, false))
	},
	// hears TEXT waits until the reconciler has said a text.
	"hears": func(ts *testscript.TestScript, neg bool, args []string) {
		text := one(ts, neg, args, "hears TEXT")
		ts.Check(worldOf(ts).said.await(text))
	},
	// gone waits until the reconciler has ended by itself.
	"gone": func(ts *testscript.TestScript, neg bool, args []string) {
		w := worldOf(ts)
		st, err := w.await()
		ts.Check(err)
		fmt.Fprintf(ts.Stdout(), "%s\n%s", st, w.said.String())
	},
	// killkeeper SIGNAL signals the keeper, and waits for its end if the signal is KILL.
	"killkeeper": func(ts *testscript.TestScript, neg bool, args []string) {
		sig, err := signalOf(one(ts, neg, args, "killkeeper SIGNAL"))
		ts.Check(err)
		pid, err := worldOf(ts).keeper()
		ts.Check(err)
		ts.Check(kill(pid, sig, args[0] == "KILL"))
	},
	// killserver SERVER PROFILE SIGNAL signals a server's main process behind everybody's back, and waits for its end.
	"killserver": func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 3 {
			ts.Fatalf("usage: killserver SERVER PROFILE SIGNAL")
		}
		r, err := worldOf(ts).record(args[0], args[1])
		ts.Check(err)
		sig, err := signalOf(args[2])
		ts.Check(err)
		ts.Check(kill(r.Run.Identity.PID, sig, true))
	},
	// anchor VAR puts the number of the keeper's anchor into a variable.
	"anchor": func(ts *testscript.TestScript, neg bool, args []string) {
		name := one(ts, neg, args, "anchor VAR")
		w := worldOf(ts)
		pid, err := w.keeper()
		ts.Check(err)
		anchor := anchorOf(pid)
		if anchor == 0 {
			ts.Fatalf("the keeper has no anchor")
		}
		w.seen[anchor] = true
		ts.Setenv(name, strconv.Itoa(anchor))
	},
	// signal PID SIGNAL sends a signal to a process that this script has started; what KILL and STOP do is waited for.
	"signal": func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 2 {
			ts.Fatalf("usage: signal PID SIGNAL")
		}
		pid, err := strconv.Atoi(args[0])
		ts.Check(err)
		sig, err := signalOf(args[1])
		ts.Check(err)
		ts.Check(kill(pid, sig, sig == unix.SIGKILL))
	},
	// pid SERVER PROFILE VAR puts the number of a server's main process into a variable, and fails if it does not live.
	"pid": func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 3 {
			ts.Fatalf("usage: pid SERVER PROFILE VAR")
		}
		r, err := worldOf(ts).record(args[0], args[1])
		ts.Check(err)
		if !alive(r.Run.Identity.PID) {
			ts.Fatalf("process %d of %s is not alive", r.Run.Identity.PID, args[0])
		}
		ts.Setenv(args[2], strconv.Itoa(r.Run.Identity.PID))
	},
	// alive PID fails if the process does not live; with ! if it does.
	"alive": func(ts *testscript.TestScript, neg bool, args []string) {
		if len(args) != 1 {
			ts.Fatalf("usage: alive PID")
		}
		pid, err := strconv.Atoi(args[0])
		ts.Check(err)
		if alive(pid) == neg {
			ts.Fatalf("process %d is alive: %v", pid, !neg)
		}
	},
	// ended FILE waits until every process has ended whose number a file lists.
	"ended": func(ts *testscript.TestScript, neg bool, args []string) {
		text := ts.ReadFile(one(ts, neg, args, "ended FILE"))
		for _, field := range strings.Fields(text) {
			pid, err := strconv.Atoi(field)
			ts.Check(err)
			if err := kill(pid, 0, true); err != nil && !errors.Is(err, unix.ESRCH) {
				ts.Fatalf("process %d: %v", pid, err)
			}
		}
	},
	// same A B fails if the two words differ; with ! if they are equal.
	"same": func(ts *testscript.TestScript, neg bool, args []string) {
		if len(args) != 2 {
			ts.Fatalf("usage: same A B")
		}
		if (args[0] == args[1]) == neg {
			ts.Fatalf("%q and %q: equal is %v", args[0], args[1], !neg)
		}
	},
	// watchfor TEXT ARG... runs `reconciler ARG...`, which goes on by itself, until it has printed TEXT.
	"watchfor": func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < 2 {
			ts.Fatalf("usage: watchfor TEXT ARG...")
		}
		out, err := worldOf(ts).watchFor(args[0], args[1:])
		fmt.Fprint(ts.Stdout(), out)
		ts.Check(err)
	},
	// ask VERB SERVER asks for something and goes on when the reconciler has taken it.
	"ask": func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 2 {
			ts.Fatalf("usage: ask VERB SERVER")
		}
		_, said, err := worldOf(ts).ask(args)
		fmt.Fprint(ts.Stderr(), said)
		ts.Check(err)
	},
	// timesout VERB SERVER asks for something that does not come to be, and prints what is said of it when the time is over. On a
	// busy host a short time may be over before the reconciler has taken the order: it is asked again, and waited longer.
	"timesout": func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 2 {
			ts.Fatalf("usage: timesout VERB SERVER")
		}
		done, said, err := worldOf(ts).ask(args)
		fmt.Fprint(ts.Stderr(), said)
		ts.Check(err)
		if done {
			ts.Fatalf("it has come to be")
		}
	},
	// answered SERVER LINE TIMES sends a line until its answer comes within the second that it is awaited, in which a server may not get to
	// run on a busy host, prints that, and puts into a variable how often it was sent.
	"answered": func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 3 {
			ts.Fatalf("usage: answered SERVER LINE TIMES")
		}
		said, times, err := worldOf(ts).answered(args[0], args[1])
		fmt.Fprint(ts.Stdout(), said)
		ts.Check(err)
		ts.Setenv(args[2], strconv.Itoa(times))
	},
	// port NETWORK VAR puts the number of a port of tcp or udp that nobody has into a variable.
	"port": func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 2 {
			ts.Fatalf("usage: port NETWORK VAR")
		}
		port, err := findPort(args[0])
		ts.Check(err)
		ts.Setenv(args[1], strconv.Itoa(port))
	},
	// fetch PATH prints a page of the TCP listener.
	"fetch": func(ts *testscript.TestScript, neg bool, args []string) {
		text, err := fetch(*worldOf(ts).pages.Load() + one(ts, neg, args, "fetch PATH"))
		ts.Check(err)
		fmt.Fprint(ts.Stdout(), text)
	},
	// put FROM TO copies a file into place as git does: written beside, renamed.
	"put": func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 2 {
			ts.Fatalf("usage: put FROM TO")
		}
		data := ts.ReadFile(args[0])
		to := ts.MkAbs(args[1])
		tmp := filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+".tmp")
		ts.Check(os.WriteFile(tmp, []byte(data), 0o644))
		ts.Check(os.Rename(tmp, to))
	},
	// edit FILE OLD NEW replaces a text in a file, as put does.
	"edit": func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 3 {
			ts.Fatalf("usage: edit FILE OLD NEW")
		}
		data := ts.ReadFile(args[0])
		if !strings.Contains(data, args[1]) {
			ts.Fatalf("%s has no %q", args[0], args[1])
		}
		to := ts.MkAbs(args[0])
		tmp := filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+".tmp")
		ts.Check(os.WriteFile(tmp, []byte(strings.ReplaceAll(data, args[1], args[2])), 0o644))
		ts.Check(os.Rename(tmp, to))
	},
	// ages replaces, in the output of the last command, every age by T and what is behind it by three spaces, so that it can be compared
	// however long a busy host has taken.
	"ages": func(ts *testscript.TestScript, neg bool, args []string) {
		fmt.Fprint(ts.Stdout(), agePattern.ReplaceAllString(ts.ReadFile("stdout"), "T$1"))
	},
	// crowd N starts N reconcilers at once over the same state, and prints how often each way to end was seen.
	"crowd": crowd,
	// attach NAME [-tty] ARG... runs `reconciler attach ARG...` with input that stays open, under a name of the script's; with -tty on a
	// terminal of its own.
	"attach": attach,
	// feed FILE ARG... runs `reconciler attach ARG...` with a file as its input.
	"feed": feed,
	// type NAME LINE types a line there, and presses Enter, unless there are the keys ^C or ^D in it.
	"type": typeLine,
	// raw NAME waits until keys are read there as they are pressed, and keys NAME TEXT [TIMES] presses some, with the escapes of Go's strings.
	"raw":  raw,
	"keys": pressKeys,
	// screen NAME ROWS COLUMNS changes the size of its terminal.
	"screen": screenSize,
	// shows NAME TEXT [TIMES] waits until it has printed a text, and says NAME TEXT [TIMES] until it has said one beside it.
	"shows": shows,
	"says":  says,
	// told NAME LINE TEXT types a line until it has printed a text: an answer is awaited for a second, in which a server may not get to run
	// on a busy host.
	"told": told,
	// detach NAME EOF|KEEP|SIGNAL ends its input, or sends it a signal, or waits for its end, and prints how it ended and all that it printed.
	// A terminal must have its mode again then.
	"detach": detach,
	// unread ARG... runs `reconciler ARG...`, which goes on by itself, until the end of the script, and reads nothing of what it prints.
	"unread": func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) == 0 {
			ts.Fatalf("usage: unread ARG...")
		}
		ts.Check(worldOf(ts).unread(args))
	},
	// followflood SERVER follows a log through the deaths of three keepers.
	"followflood": followFlood,
	// numbers makes the processes to come have numbers that are nothing else's: in a young pid namespace they are a few, and
	// those stand everywhere.
	"numbers": func(ts *testscript.TestScript, neg bool, args []string) { ts.Check(longNumbers()) },
	// secrets TEXT... runs every command that looks, and fetches every page, and fails if one of them shows a text, or the number
	// of any process of this script.
	"secrets": secrets,
}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

func one(ts *testscript.TestScript, neg bool, args []string, usage string) string {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: %s", usage)
	}
	return args[0]
}

// agePattern is an age as tables show it, or what stands over it, and the distance to the next column.
var agePattern = regexp.MustCompile(`(?m)\b(?:AGE|\d+(?:ms|s|m|h|d)(?:\d+(?:s|m|h))?)(?:(   ) *|$| *$)`)

func crowd(ts *testscript.TestScript, neg bool, args []string) {
	n, err := strconv.Atoi(one(ts, neg, args, "crowd N"))
	ts.Check(err)
	w := worldOf(ts)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	ends := map[string]int{}
	for range n {
		wg.Go(func() {
			cmd := w.command(ctx, "run", "--manifests", "m", "--listen", "")
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			err := cmd.Run()
			mu.Lock()
			defer mu.Unlock()
			line, _, _ := strings.Cut(said.String(), "\n")
			ends[fmt.Sprintf("%v: %s", err, sincePattern.ReplaceAllString(line, "since T"))]++
		})
	}
	wg.Wait()
	for end, times := range ends {
		fmt.Fprintf(ts.Stdout(), "%d %s\n", times, end)
	}
}

var sincePattern = regexp.MustCompile(`since \S+`)

func secrets(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: secrets TEXT...")
	}
	w := worldOf(ts)
	w.note()
	looked := 0
	check := func(what, text string) {
		looked += len(text)
		for _, secret := range args {
			if strings.Contains(text, secret) {
				ts.Fatalf("%s shows %q:\n%s", what, secret, text)
			}
		}
		for _, pid := range sortedInts(w.seen) {
			// Part of a time, an identifier or a longer number is no process number: 2026 is a year too.
			if regexp.MustCompile(`(^|[^0-9A-Za-z.:-])` + strconv.Itoa(pid) + `($|[^0-9A-Za-z.:-])`).MatchString(text) {
				ts.Fatalf("%s shows the process number %d:\n%s", what, pid, text)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, line := range looks {
		out, err := w.command(ctx, strings.Fields(line)...).CombinedOutput()
		if err != nil && !strings.HasPrefix(line, "doctor") {
			ts.Fatalf("%s: %v\n%s", line, err, out)
		}
		check("reconciler "+line, string(out))
	}
	for _, path := range []string{"/", "/metrics", "/healthz", "/readyz", "/nothing"} {
		text, err := fetch(*w.pages.Load() + path)
		ts.Check(err)
		check(path, seriesValue.ReplaceAllString(text, "}"))
	}
	check("the log of reconciler run", withoutPaths(w.said.String(), w))
	if looked < 4000 {
		ts.Fatalf("only %d bytes were looked at", looked)
	}
}

// seriesValue is the value of a series, which may be any number.
var seriesValue = regexp.MustCompile(`(?m)} \S+$`)

// withoutPaths is our own log without the directories that it may name.
func withoutPaths(text string, w *world) string { return strings.ReplaceAll(text, w.env.WorkDir, "") }

// looks is every command that shows something of a server, but for the spec as its file has it (EC-2).
var looks = []string{
	"get servers", "get servers -o wide", "get servers -o name", "get servers town -o jsonpath={.status}", "get servers town -o jsonpath={.metadata}",
	"get profiles", "get profiles -o wide", "get profiles -o jsonpath={.items[*].status}", "get holds", "get holds -o yaml", "get sources", "get sources -o yaml",
	"describe server town", "describe profile game", "why town", "history town", "history town -o json", "history town -o wide", "events", "events -o yaml",
	"events town", "wait server/town --for=condition=Accepted", "doctor", "doctor -o json", "version", "version -o yaml", "prune", "release town",
	"get jobs", "get jobs -o wide", "get jobs -o name", "get jobs -o jsonpath={.items[*].status}", "get jobs -o jsonpath={.items[*].metadata}",
}
