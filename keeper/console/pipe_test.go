package console

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// output is a run's output in a test's hands.
type output struct {
	t       *testing.T
	wanted  string
	stopped int
	result  chan error
	refuse  error
}

func (o *output) Await(literal string) (<-chan error, func(), error) {
	if o.refuse != nil {
		return nil, nil, o.refuse
	}
	if literal != o.wanted {
		o.t.Errorf("%q is awaited, not %q", literal, o.wanted)
	}
	return o.result, func() { o.stopped++ }, nil
}

// fifo makes a FIFO in a directory of its own and opens its reading end. The directory's descriptor is O_PATH.
func fifo(t *testing.T) (p Pipe, reader int) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return Pipe{Directory: open(t, dir, unix.O_PATH|unix.O_DIRECTORY), Path: "fifo", Owner: uint32(os.Geteuid())}, open(t, path, unix.O_RDONLY|unix.O_NONBLOCK)
}

func open(t *testing.T, path string, flags int) int {
	t.Helper()
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) }) // a test may have closed it
	return fd
}

func readFD(t *testing.T, fd int) string {
	t.Helper()
	buf := make([]byte, 2*PipeLimit)
	n, err := unix.Read(fd, buf)
	if errors.Is(err, unix.EAGAIN) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

// stdin is a FIFO with both ends open.
func stdin(t *testing.T) (writer, reader int) {
	t.Helper()
	p, reader := fifo(t)
	w, err := p.open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(w) })
	return w, reader
}

func TestStdin(t *testing.T) {
	w, r := stdin(t)
	mustBe(t, Stdin(within(t, patience), w, Line{Text: testLine}, nil), HandedOver, "")
	if got := readFD(t, r); got != testLine+"\n" {
		t.Errorf("the server reads %q", got)
	}
	// What is unread is never followed.
	mustBe(t, Stdin(within(t, patience), w, Line{Text: "one"}, nil), HandedOver, "")
	o := Stdin(within(t, patience), w, Line{Text: "two"}, nil)
	mustBe(t, o, Undeliverable, Unread)
	if !errors.Is(o.Err, ErrUnread) {
		t.Errorf("the error is %v", o.Err)
	}
	if got := readFD(t, r); got != "one\n" {
		t.Errorf("the server reads %q", got)
	}
	longest := strings.Repeat("x", PipeLimit-1)
	mustBe(t, Stdin(within(t, patience), w, Line{Text: longest + "x"}, nil), Undeliverable, BadLine)
	mustBe(t, Stdin(within(t, patience), w, Line{Text: longest}, nil), HandedOver, "")
	if got := readFD(t, r); got != longest+"\n" {
		t.Errorf("the server reads %d bytes", len(got))
	}
	mustBe(t, Stdin(within(t, patience), w, Line{Text: "a\nb"}, nil), Undeliverable, BadLine)
	mustBe(t, Stdin(within(t, patience), w, Line{}, nil), HandedOver, "")
	if got := readFD(t, r); got != "\n" {
		t.Errorf("of an empty line the server reads %q", got)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	mustBe(t, Stdin(ended, w, Line{Text: testLine}, nil), Undeliverable, NoAnswer)
	if err := unix.Close(r); err != nil {
		t.Fatal(err)
	}
	mustBe(t, Stdin(within(t, patience), w, Line{Text: testLine}, nil), Undeliverable, NotListening)
}

func TestStdinRefusesOtherDescriptors(t *testing.T) {
	p, _ := fifo(t)
	blocking := open(t, "/proc/self/fd/"+itoa(p.Directory)+"/fifo", unix.O_RDWR)
	for name, fd := range map[string]int{"none": -1, "a directory": p.Directory, "a device": open(t, os.DevNull, unix.O_WRONLY|unix.O_NONBLOCK), "one that blocks": blocking} {
		o := Stdin(within(t, patience), fd, Line{Text: testLine}, nil)
		if name == "none" {
			mustBe(t, o, Undeliverable, Failed)
			continue
		}
		mustBe(t, o, Undeliverable, Failed)
	}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

func TestStdinAwaits(t *testing.T) {
	w, r := stdin(t)
	out := &output{t: t, wanted: "saved", result: make(chan error, 1)}
	line := Line{Text: testLine, Expect: "saved"}

	out.result <- nil
	mustBe(t, Stdin(within(t, patience), w, line, out), Done, "")
	readFD(t, r)

	out.result <- errors.New("the run is over")
	mustBe(t, Stdin(within(t, patience), w, line, out), HandedOver, NotSeen)
	readFD(t, r)

	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		// Not before the line was written: an ended context would refuse it.
		_ = poll(r, unix.POLLIN)
		cancel()
	}()
	mustBe(t, Stdin(ctx, w, line, out), HandedOver, NotSeen)
	readFD(t, r)
	if out.stopped != 3 {
		t.Errorf("%d of 3 watches were stopped", out.stopped)
	}

	// What cannot be awaited is not said.
	out.refuse = errors.New("the run is not known")
	mustBe(t, Stdin(within(t, patience), w, line, out), Undeliverable, Failed)
	mustBe(t, Stdin(within(t, patience), w, line, nil), Undeliverable, Failed)
	if got := readFD(t, r); got != "" {
		t.Errorf("the server reads %q", got)
	}
}

func TestFIFO(t *testing.T) {
	p, r := fifo(t)
	mustBe(t, FIFO(within(t, patience), p, Line{Text: "shut_down now"}, nil), HandedOver, "")
	if got := readFD(t, r); got != "shut_down now\n" {
		t.Errorf("the server reads %q", got)
	}
	out := &output{t: t, wanted: "x", result: make(chan error, 1)}
	out.result <- nil
	mustBe(t, FIFO(within(t, patience), p, Line{Text: "one", Expect: "x"}, out), Done, "")
	mustBe(t, FIFO(within(t, patience), p, Line{Text: "two"}, nil), Undeliverable, Unread)
	mustBe(t, FIFO(within(t, patience), p, Line{Text: "\x1b"}, nil), Undeliverable, BadLine)
}

func TestFIFORefuses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(t *testing.T, dir string, p *Pipe)
		reason Reason
	}{
		"nobody reads":      {func(t *testing.T, dir string, p *Pipe) { do(t, unix.Mkfifo(dir+"/lonely", 0o600)); p.Path = "lonely" }, NotListening},
		"nothing there":     {func(t *testing.T, dir string, p *Pipe) { p.Path = "none" }, NotListening},
		"no such directory": {func(t *testing.T, dir string, p *Pipe) { p.Path = "fifo/none" }, NotListening},
		"a file": {func(t *testing.T, dir string, p *Pipe) {
			do(t, os.WriteFile(dir+"/file", []byte("keep"), 0o600))
			p.Path = "file"
		}, Stranger},
		"a symlink beneath": {func(t *testing.T, dir string, p *Pipe) { do(t, os.Symlink("fifo", dir+"/link")); p.Path = "link" }, Stranger},
		"a symlink out":     {func(t *testing.T, dir string, p *Pipe) { do(t, os.Symlink("/dev/null", dir+"/link")); p.Path = "link" }, Stranger},
		"the parent":        {func(t *testing.T, dir string, p *Pipe) { p.Path = "../" + filepath.Base(dir) + "/fifo" }, Stranger},
		"an absolute path":  {func(t *testing.T, dir string, p *Pipe) { p.Path = dir + "/fifo" }, Stranger},
		"another's FIFO":    {func(t *testing.T, dir string, p *Pipe) { p.Owner++ }, Stranger},
	} {
		t.Run(name, func(t *testing.T) {
			p, r := fifo(t)
			dir, err := os.Readlink("/proc/self/fd/" + itoa(p.Directory))
			do(t, err)
			c.spoil(t, dir, &p)
			mustBe(t, FIFO(within(t, patience), p, Line{Text: testLine}, nil), Undeliverable, c.reason)
			if got := readFD(t, r); got != "" {
				t.Errorf("the server reads %q", got)
			}
			if b, err := os.ReadFile(dir + "/file"); err == nil && string(b) != "keep" {
				t.Errorf("the file holds %q", b)
			}
		})
	}
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDescriptorsAreGivenBack(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		do(t, err)
		return len(entries)
	}
	p, r := fifo(t)
	closed := closedPort(t)
	deliver := func() {
		FIFO(within(t, patience), p, Line{Text: testLine}, nil)
		readFD(t, r)
		stranger := p
		stranger.Owner++
		FIFO(within(t, patience), stranger, Line{Text: testLine}, nil)
		RCON(within(t, patience), closed, password(), Line{Text: testLine})
	}
	deliver() // the poller of the runtime stays
	before := count()
	for range 20 {
		deliver()
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors were open, then %d", before, after)
	}
}
