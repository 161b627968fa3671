package faultd

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"syscall"
	"time"
)

func partialLineFlags(fs *flag.FlagSet) func(*process) int {
	text := fs.String("text", "no newline at the end", "the `text` without a newline")
	code := fs.Int("code", 0, "exit `code`")
	after := fs.Duration("after", 0, "wait between writing and exiting")
	return func(*process) int {
		if _, err := os.Stdout.WriteString("a whole line\n" + *text); err != nil {
			return fail(err)
		}
		time.Sleep(*after)
		return *code
	}
}

// Garbage is what garbage writes before its huge line: each line upsets another kind of reader.
const Garbage = "colour \x1b[31mred\x1b[0m, bell \a, backspace\b, tab\t\n" +
	"title \x1b]0;taken over\a, nul \x00, end\n" +
	"broken utf-8 \xff\xfe\xc3(, overlong \xc0\xaf\n" +
	"10%\r20%\r30%\r\n" +
	"> \r\n\r\n"

func garbageFlags(fs *flag.FlagSet) func(*process) int {
	huge := fs.Int("huge", 10<<20, "`bytes` in the line that does not end")
	return func(*process) int {
		block := bytes.Repeat([]byte{'h'}, 64<<10)
		_, err := os.Stdout.WriteString(Garbage)
		for left := *huge; left > 0 && err == nil; left -= len(block) {
			_, err = os.Stdout.Write(block[:min(left, len(block))])
		}
		if err == nil {
			_, err = os.Stdout.WriteString("\nend of garbage\n")
		}
		if err != nil {
			return fail(err)
		}
		return 0
	}
}

func closeStdoutFlags(fs *flag.FlagSet) func(*process) int {
	both := fs.Bool("stderr", false, "close standard error too")
	after := fs.Duration("after", 0, "wait first")
	return func(*process) int {
		stop := caught(syscall.SIGTERM)
		say("closing stdout")
		time.Sleep(*after)
		err := os.Stdout.Close()
		if *both {
			err = errors.Join(err, os.Stderr.Close())
		}
		if err != nil {
			return fail(err)
		}
		<-stop
		return 0
	}
}
