package faultd

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func ttyFlags(fs *flag.FlagSet) func(*process) int {
	var t tty
	fs.StringVar(&t.stop, "stop", "stop", "the `line` that stops it")
	fs.BoolVar(&t.raw, "raw", false, "read keys instead of lines, and say each; q stops it")
	return func(*process) int { return t.run() }
}

// tty is a program that wants a terminal. It obeys the lines password, which asks for one that is not shown, and size.
type tty struct {
	stop string
	raw  bool
	in   *bufio.Reader
}

func (t *tty) run() int {
	say("terminal stdin=%v stdout=%v stderr=%v", isTTY(0), isTTY(1), isTTY(2))
	if err := t.sayWhose(); err != nil {
		return fail(err)
	}
	if err := saySize(); err != nil {
		return fail(err)
	}
	go func() {
		for range caught(syscall.SIGWINCH) {
			_ = saySize() // of one that is gone there is none
		}
	}()
	go func() {
		for range caught(syscall.SIGHUP) {
			say("hung up")
			os.Exit(ExitFailure)
		}
	}()
	t.in = bufio.NewReader(os.Stdin)
	if t.raw {
		return t.keys()
	}
	return t.lines()
}

// sayWhose says whether this is the terminal's session leader, and in its foreground.
func (t *tty) sayWhose() error {
	session, err := unix.IoctlGetInt(0, unix.TIOCGSID)
	if err != nil {
		return fmt.Errorf("the terminal is not ours: %w", err)
	}
	foreground, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	if err != nil {
		return fmt.Errorf("the terminal is not ours: %w", err)
	}
	again, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer again.Close()
	say("session=%v foreground=%v", session == os.Getpid(), foreground == unix.Getpgrp())
	return nil
}

func isTTY(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

func saySize() error {
	size, err := unix.IoctlGetWinsize(1, unix.TIOCGWINSZ)
	if err == nil {
		say("size rows=%d columns=%d", size.Row, size.Col)
	}
	return err
}

func (t *tty) lines() int {
	say("tty ready")
	for {
		line, err := t.in.ReadString('\n')
		switch line = trimNewline(line); {
		case line == t.stop:
			say("stopping")
			return 0
		case line == "password":
			if err := t.password(); err != nil {
				return fail(err)
			}
		case line == "size":
			if err := saySize(); err != nil {
				return fail(err)
			}
		case line != "":
			say("unknown command %q", line)
		}
		if err != nil {
			say("end of input")
			return ExitFailure
		}
	}
}

// password reads a line that the terminal does not show, and says how long it was.
func (t *tty) password() error {
	mode, err := unix.IoctlGetTermios(0, unix.TCGETS)
	if err != nil {
		return err
	}
	hidden := *mode
	hidden.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(0, unix.TCSETS, &hidden); err != nil {
		return err
	}
	say("hiding what is typed")
	fmt.Print("Password: ")
	line, err := t.in.ReadString('\n')
	err = errors.Join(err, unix.IoctlSetTermios(0, unix.TCSETS, mode)) // before it says anything: who hears it may type
	fmt.Println()
	say("a password of %d bytes", len(trimNewline(line)))
	return err
}

// keys reads what is typed as it is typed.
func (t *tty) keys() int {
	mode, err := unix.IoctlGetTermios(0, unix.TCGETS)
	if err != nil {
		return fail(err)
	}
	raw := *mode
	raw.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG | unix.IEXTEN
	raw.Iflag &^= unix.ICRNL | unix.IXON
	if err := unix.IoctlSetTermios(0, unix.TCSETS, &raw); err != nil {
		return fail(err)
	}
	say("tty ready")
	for {
		key, err := t.in.ReadByte()
		if err != nil {
			return fail(err)
		}
		say("key %s", strings.ToUpper(fmt.Sprintf("%02x", key)))
		if key == 'q' {
			return 0
		}
	}
}
