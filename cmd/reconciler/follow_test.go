package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// followFlood follows the log of a server that writes numbered lines (faultd flood) and kills three keepers meanwhile: whoever
// follows sees every line once. It prints how many keepers were killed.
func followFlood(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	server := one(ts, neg, args, "followflood SERVER")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := w.command(ctx, "logs", server, "-f")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	killed, err := w.killKeepers(bufio.NewScanner(out))
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait() // it was interrupted
	if err != nil {
		ts.Fatalf("%v\n%s", err, said.String())
	}
	fmt.Fprintf(ts.Stdout(), "%d keepers killed\n", killed)
}

// killKeepers kills a keeper every thousand lines, until three were and a thousand more lines have come.
func (w *world) killKeepers(sc *bufio.Scanner) (killed int, err error) {
	last, next := 0, int64(1000)
	for n := int64(0); sc.Scan(); n++ {
		if want := fmt.Sprintf("flood %012d ", n); !strings.HasPrefix(sc.Text(), want) {
			return killed, fmt.Errorf("%q where %q was due, after %d keepers were killed", sc.Text(), want, killed)
		}
		if n < next {
			continue
		}
		if killed == 3 {
			return killed, nil
		}
		pid, err := w.keeper()
		if err != nil {
			return killed, err
		}
		if pid == last {
			continue // these lines were on their way; the next keeper's are still to come
		}
		if err := kill(pid, unix.SIGKILL, true); err != nil {
			return killed, err
		}
		killed, last, next = killed+1, pid, n+1000
	}
	return killed, fmt.Errorf("the log ends: %w", sc.Err())
}

// unread runs a command that goes on, and reads no more than the first byte of what it prints.
func (w *world) unread(args []string) error {
	cmd := w.command(context.Background(), args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w.readers = append(w.readers, cmd)
	if _, err := out.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("reconciler %s prints nothing: %w", strings.Join(args, " "), err)
	}
	return nil
}

// endUnread ends what nobody reads.
func (w *world) endUnread() {
	for _, cmd := range w.readers {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	}
	w.readers = nil
}
