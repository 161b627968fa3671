package state

import (
	"io"
	"os"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// waitRole makes this binary wait for the end of its standard input.
const waitRole = "wait-for-end-of-input"

func TestMain(m *testing.M) {
	if os.Args[len(os.Args)-1] == waitRole {
		io.Copy(io.Discard, os.Stdin)
		return
	}
	if os.Args[len(os.Args)-1] == forkerRole {
		os.Exit(lockAndFork(os.Args[len(os.Args)-2]))
	}
	syscall.Umask(0o022) // the modes that tests give are those they mean
	goleak.VerifyTestMain(m)
}
