package faultd

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// remote is what the consoles over the network have in common. On standard output it says who logs in and each line that it
// is sent, so that a test can count them.
type remote struct {
	kind string // as said on standard output

	addr, password, stop, mode string
	code                       int
	delay, lag                 time.Duration

	ended chan error // holds one: what ends the process, nil for the stop line
}

// The ways to misbehave.
const (
	modeNormal  = "normal"
	modeSilent  = "silent"  // takes connections and never says a byte
	modeMute    = "mute"    // lets clients log in and never answers a line
	modeGarbage = "garbage" // answers everything with bytes of no protocol
	modeHuge    = "huge"    // answers a line for ever
	modeHangUp  = "hang-up" // ends the connection instead of answering a line
	modeLockout = "lockout" // ends every connection at once
)

var modes = []string{modeNormal, modeSilent, modeMute, modeGarbage, modeHuge, modeHangUp, modeLockout}

func remoteFlags(kind string, serve func(*remote) error) func(*flag.FlagSet) func(*process) int {
	return func(fs *flag.FlagSet) func(*process) int {
		r := &remote{kind: kind, ended: make(chan error, 1)}
		fs.StringVar(&r.addr, "addr", "127.0.0.1:0", "listen on this `address`")
		fs.StringVar(&r.password, "password", "secret", "the password")
		variable := fs.String("password-env", "", "take the password from this environment `variable`")
		fs.StringVar(&r.stop, "stop", "stop", "the `command` that stops it")
		fs.StringVar(&r.mode, "mode", modeNormal, "one of "+strings.Join(modes, ", "))
		fs.IntVar(&r.code, "code", 0, "exit `code` after that command")
		fs.DurationVar(&r.delay, "delay", 0, "take this long to stop")
		fs.DurationVar(&r.lag, "lag", 0, "take this long to answer")
		own := fs.Bool("alone", false, "be in a network namespace of its own")
		return func(*process) int {
			if *own {
				return fail(alone("-alone"))
			}
			if *variable != "" {
				r.password = os.Getenv(*variable)
			}
			return r.run(serve)
		}
	}
}

func (r *remote) run(serve func(*remote) error) int {
	if !contains(modes, r.mode) {
		return fail(fmt.Errorf("-mode %q is none of %s", r.mode, strings.Join(modes, ", ")))
	}
	if err := serve(r); err != nil {
		return fail(err)
	}
	if err := <-r.ended; err != nil {
		return fail(err)
	}
	say("stopping")
	time.Sleep(r.delay)
	return r.code
}

func contains(list []string, s string) bool {
	for _, item := range list {
		if item == s {
			return true
		}
	}
	return false
}

// end ends the process, once.
func (r *remote) end(err error) {
	select {
	case r.ended <- err:
	default:
	}
}

// listen lets converse speak with every client that connects.
func (r *remote) listen(converse func(net.Conn) error) error {
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		return err
	}
	say("%s listening %s", r.kind, l.Addr())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				r.end(err)
				return
			}
			go r.client(c, converse)
		}
	}()
	return nil
}

func (r *remote) client(c net.Conn, converse func(net.Conn) error) {
	defer c.Close()
	switch r.mode {
	case modeLockout:
	case modeSilent:
		n, _ := io.Copy(io.Discard, c) // up to the client's end, whatever that is
		say("%s was sent %d bytes", r.kind, n)
	case modeGarbage:
		if _, err := c.Write(garbled(64 << 10)); err == nil {
			_, _ = io.Copy(io.Discard, c) // up to the client's end, whatever that is
		}
	default:
		_ = converse(c) // a client that breaks the protocol is hung up on
	}
}

// garbled is n bytes of no protocol.
func garbled(n int) []byte {
	return []byte(strings.Repeat("\xde\xad\xbe\xef\r\ngarbage\n", n/14+1)[:n])
}

// loggedIn says whether a client gave the password.
func (r *remote) loggedIn(ok bool) bool {
	if ok {
		say("%s logged in", r.kind)
	} else {
		say("%s refused a login", r.kind)
	}
	return ok
}

var errHangUp = errors.New("the connection ends")

// answer answers a line, each part of the answer by a call of write. An error ends the connection.
func (r *remote) answer(line string, write func(string) error) error {
	say("%s was told %q", r.kind, line)
	if line == r.stop {
		defer r.end(nil)
	}
	time.Sleep(r.lag)
	switch r.mode {
	case modeMute:
		return nil
	case modeHangUp:
		return errHangUp
	case modeHuge:
		for {
			if err := write(strings.Repeat("x", 4000)); err != nil {
				return err
			}
		}
	}
	if line == r.stop {
		return write("stopping")
	}
	return write("you said " + line)
}
