package faultd

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func consoleFlags(fs *flag.FlagSet) func(*process) int {
	var c console
	fs.StringVar(&c.stop, "stop", "stop", "the `line` that stops it")
	fs.IntVar(&c.code, "code", 0, "exit `code` after that line")
	fs.DurationVar(&c.delay, "delay", 0, "take this long to stop")
	fs.StringVar(&c.prompt, "prompt", "", "write this `text`, without a newline, before each read")
	fs.DurationVar(&c.pause, "pause", 0, "look at no input for this long after a line")
	fs.StringVar(&c.eof, "eof", "ignore", "at the end of input: ignore it, exit with code 0, or spin: read again at once, for ever")
	return func(*process) int { return c.run() }
}

// console obeys lines on standard input.
type console struct {
	stop, prompt, eof string
	code              int
	delay, pause      time.Duration
}

func (c *console) run() int {
	switch c.eof {
	case "ignore", "exit", "spin":
	default:
		return fail(fmt.Errorf("-eof %q is none of ignore, exit, spin", c.eof))
	}
	say("console ready")
	in := bufio.NewReader(os.Stdin)
	for {
		fmt.Fprint(os.Stdout, c.prompt)
		line, err := in.ReadString('\n')
		switch line = trimNewline(line); line {
		case c.stop:
			say("stopping")
			time.Sleep(c.delay)
			return c.code
		case "":
		default:
			say("unknown command %q", line)
			time.Sleep(c.pause)
		}
		if err == nil || c.eof == "spin" {
			continue
		}
		say("end of input")
		if c.eof == "exit" {
			return 0
		}
		return forever()
	}
}

func trimNewline(s string) string { return strings.TrimRight(s, "\r\n") }
