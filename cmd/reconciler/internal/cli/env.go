package cli

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/cmd/reconciler/internal/client"
)

// env is what a command gets of the world, so that a test can give it another one.
type env struct {
	stdin    io.Reader
	stdout   io.Writer
	stderr   io.Writer
	getenv   func(string) string
	now      func() time.Time
	uid      int
	self     string // this program, as it was called
	progress bool   // stderr is a terminal: progress may be drawn
}

func hostEnv() *env {
	return &env{
		stdin:    os.Stdin,
		stdout:   os.Stdout,
		stderr:   os.Stderr,
		getenv:   os.Getenv,
		now:      time.Now,
		uid:      os.Getuid(),
		self:     os.Args[0],
		progress: isTerminal(os.Stderr) && os.Getenv("TERM") != "dumb",
	}
}

// isTerminal reports whether f is a terminal: only there does TCGETS succeed (ioctl_tty(2)).
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// dial is a client of the reconciler at p.
func (e *env) dial(p place) (*client.Client, error) {
	l, err := p.layout(e)
	if err != nil {
		return nil, err
	}
	return client.New(l.APISocket()), nil
}
