package pump

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/logs"
)

// openTerminal makes a terminal; the slave is the workload's.
func openTerminal(t *testing.T) (master int, slave *os.File) {
	t.Helper()
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		t.Fatal(errno)
	}
	slave = os.NewFile(fd, "slave")
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

func newTerminalRig(t *testing.T) (*rig, *os.File) {
	t.Helper()
	r := newRig(t, nil)
	master, slave := openTerminal(t)
	if err := r.pump.AttachTerminal(testRun, master); err != nil {
		t.Fatal(err)
	}
	return r, slave
}

// A terminal's lines end in a carriage return and a newline: the return is not logged, and all else is, as it comes.
func TestTerminalLines(t *testing.T) {
	r, slave := newTerminalRig(t)
	r.start()
	r.print(slave, "one\n\n\x1b[31mtwo\x1b[0m\n10 %\r20 %\nprompt> ")
	r.drain()
	pieces := r.pieces()
	if got, want := text(pieces, logs.Stdout), "one\n\n\x1b[31mtwo\x1b[0m\n10 %\r20 %\nprompt> "; got != want {
		t.Errorf("the log holds %q, want %q", got, want)
	}
	if got := text(pieces, logs.Stderr); got != "" {
		t.Errorf("stderr is %q", got)
	}
}

// All that was written by the time of a drain is in the log, however much it is and though the other side is closed since.
func TestTerminalDrain(t *testing.T) {
	for range 50 {
		r, slave := newTerminalRig(t)
		r.start()
		written := make(chan error, 1)
		want := strings.Repeat("a line of a terminal\n", 1000)
		go func() {
			_, err := slave.WriteString(want) // it is more than the kernel holds
			slave.Close()
			written <- err
		}()
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		r.drain()
		if got := text(r.pieces(), logs.Stdout); got != want {
			t.Fatalf("%d bytes of %d are in the log", len(got), len(want))
		}
		r.end()
	}
}

// A terminal that was closed everywhere and is opened again goes on.
func TestTerminalOpenedAgain(t *testing.T) {
	r := newRig(t, nil)
	master, slave := openTerminal(t)
	keep, err := unix.FcntlInt(uintptr(master), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(keep)
	if err := r.pump.AttachTerminal(testRun, master); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.print(slave, "before\n")
	slave.Close()
	r.drain()
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(keep), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		t.Fatal(errno)
	}
	again := os.NewFile(fd, "again")
	defer again.Close()
	r.print(again, "after\n")
	r.drain()
	if got := text(r.pieces(), logs.Stdout); got != "before\nafter\n" {
		t.Errorf("the log holds %q", got)
	}
}

// What was printed before an Await is not what is awaited, also when it is still on its way; probes look at all of it.
func TestTerminalExpectAndWatch(t *testing.T) {
	r, slave := newTerminalRig(t)
	hit := r.watch("old")
	r.print(slave, "old\n")
	r.start()
	<-hit
	r.print(slave, strings.Repeat("x", 3000)+"done\n"+strings.Repeat("y", 3000)+"\n")
	result := r.await("done")
	r.nothingYet(result)
	r.print(slave, "do")
	r.drain()
	r.print(slave, "ne\n")
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// A slot that a killed pump left is a terminal's for its successor too, before that knows the run.
func TestTerminalAcrossPumps(t *testing.T) {
	s := newStepped(t, map[string]bool{})
	master, slave := openTerminal(t)
	life := func(crashAt int) string {
		fd, err := unix.FcntlInt(uintptr(master), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			t.Fatal(err)
		}
		return s.lifeOf(crashAt, func() {
			if err := s.pump.AttachTerminal(testRun, fd); err != nil {
				t.Fatal(err)
			}
		}, func() {
			s.read()
			s.pump.writer.turn()
		})
	}
	defer unix.Close(master)
	want := ""
	for crashAt := 1; ; crashAt++ {
		if _, err := slave.WriteString("a line\n"); err != nil {
			t.Fatal(err)
		}
		want += "a line\n"
		if life(crashAt) == "" {
			break
		}
	}
	if life(0) != "" {
		t.Fatal("it ended without a crash")
	}
	if got := text(s.pieces(), logs.Stdout); got != want || strings.Count(want, "\n") < 5 {
		t.Errorf("the log holds %q, want %q", got, want)
	}
}

// Wherever a read ends, the text is the same: line ends are those of the whole, and a carriage return elsewhere stays.
func FuzzAppendTerminalLine(f *testing.F) {
	for _, seed := range []string{"one\r\ntwo\r\n", "\r\r\n\r", "a\rb\r\n", "\n\r\n", "10 %\r20 %\r"} {
		for cut := range len(seed) {
			f.Add([]byte(seed), 1, cut)
		}
	}
	f.Add(bytes.Repeat([]byte("x"), 100), 700, logs.MaxPiece)
	f.Add([]byte("\r"), logs.MaxPiece+2, logs.MaxPiece+1)
	f.Fuzz(func(t *testing.T, data []byte, times, cut int) {
		data = bytes.Repeat(data, max(1, min(times, 64<<10/max(1, len(data)))))
		cut = max(0, min(cut, len(data)))
		var s logs.Stamper
		head := s.Header(1_767_323_045_000_000_006, logs.Stdout)
		var got []byte
		held := false
		for _, part := range [][]byte{data[:cut], data[cut:]} {
			for len(part) > 0 {
				var took int
				var ended bool
				var line []byte
				line, took, ended, held = appendTerminalLine(nil, &head, part, held)
				if took < 1 || took > len(part) || len(line) > maxLineSize || bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' || held && ended {
					t.Fatalf("took %d of %d for a line of %d bytes", took, len(part), len(line))
				}
				p, err := logs.Parse(line[:len(line)-1])
				if err != nil || p.Partial == ended {
					t.Fatalf("%q: %+v, %v", line, p, err)
				}
				got = append(got, p.Text...)
				if ended {
					got = append(got, '\n')
				}
				part = part[took:]
			}
		}
		if held {
			got = append(got, '\r')
		}
		if want := bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")); !bytes.Equal(got, want) {
			t.Fatalf("%q became %q, want %q", data, got, want)
		}
	})
}
