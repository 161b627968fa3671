package faultd

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func exitFlags(fs *flag.FlagSet) func(*process) int {
	code := fs.Int("code", 0, "exit `code`")
	after := fs.Duration("after", 0, "wait first")
	text := fs.String("stderr", "", "write this `line` to standard error first")
	return func(*process) int {
		if *text != "" {
			fmt.Fprintln(os.Stderr, *text)
		}
		time.Sleep(*after)
		return *code
	}
}

func flakyFlags(fs *flag.FlagSet) func(*process) int {
	path := fs.String("state", "", "`file` that counts the starts; required")
	fails := fs.Int("fails", 3, "fail this many starts")
	code := fs.Int("code", 1, "exit `code` of a start that fails")
	after := fs.Duration("after", 0, "wait before failing")
	return func(*process) int {
		stop := caught(syscall.SIGTERM, syscall.SIGINT)
		n, err := countStart(*path)
		if err != nil {
			return fail(err)
		}
		say("start %d", n)
		if n <= *fails {
			time.Sleep(*after)
			fmt.Fprintln(os.Stderr, "failing")
			return *code
		}
		say("ready")
		<-stop
		return 0
	}
}

func countStart(path string) (n int, err error) {
	if path == "" {
		return 0, errors.New("-state is required")
	}
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return 0, err
	default:
		if n, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
			return 0, fmt.Errorf("%s does not hold a number: %w", path, err)
		}
	}
	return n + 1, os.WriteFile(path, []byte(strconv.Itoa(n+1)), 0o666)
}

func ignoreTermFlags(fs *flag.FlagSet) func(*process) int {
	var list signalList
	if err := list.Set(deaf); err != nil {
		panic(err) // the constant is wrong
	}
	fs.Var(&list, "signals", "`list` of signals to ignore")
	catch := fs.Bool("catch", false, "catch them and say so, instead of ignoring them")
	return func(*process) int {
		if !*catch {
			list.ignore()
			say("ignoring %s", list.String())
			return forever()
		}
		got := caught(list...)
		say("catching %s", list.String())
		for s := range got {
			say("got %s, staying", s)
		}
		return 0
	}
}

func crashFlags(fs *flag.FlagSet) func(*process) int {
	list := signalList{syscall.SIGSEGV}
	fs.Var(&list, "signal", "die of this `signal`")
	after := fs.Duration("after", time.Second, "run this long first")
	goPanic := fs.Bool("panic", false, "panic as Go does: code 2 and a trace on standard error")
	return func(*process) int {
		if len(list) != 1 {
			return fail(errors.New("-signal takes one signal"))
		}
		say("ready")
		time.Sleep(*after)
		if *goPanic {
			panic("asked to panic")
		}
		return die(list[0].(syscall.Signal))
	}
}

func freezeFlags(fs *flag.FlagSet) func(*process) int {
	after := fs.Duration("after", time.Second, "run this long first")
	return func(*process) int {
		stop := caught(syscall.SIGTERM)
		say("ready")
		time.Sleep(*after)
		say("freezing")
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return fail(err)
		}
		say("thawed") // the signal has stopped every thread before kill returned, or stops this one now
		<-stop
		return 0
	}
}
