package terminal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newStager(t *testing.T) *stage.Stager {
	t.Helper()
	s, err := stage.New(stage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// made is a terminal whose other side is a file of the test's.
type made struct {
	*Terminal
	t      *testing.T
	slave  *os.File
	folder string
}

func newTerminal(t *testing.T, s Stager) *made {
	t.Helper()
	folder := t.TempDir()
	term, fd, err := Open(s, folder, Size{Rows: 24, Columns: 80}, os.Getuid(), os.Getgid())
	if err != nil {
		t.Fatal(err)
	}
	slave := os.NewFile(uintptr(fd), "slave")
	t.Cleanup(func() { slave.Close(); term.End() })
	return &made{Terminal: term, t: t, slave: slave, folder: folder}
}

// printed reads what the other side has written, which is this long.
func (m *made) printed(n int) string {
	m.t.Helper()
	fd, err := m.Reader()
	if err != nil {
		m.t.Fatal(err)
	}
	defer unix.Close(fd)
	var all []byte
	for len(all) < n {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); err != nil && !errors.Is(err, unix.EINTR) {
			m.t.Fatal(err)
		}
		buf := make([]byte, 4096)
		got, err := unix.Read(fd, buf)
		if err != nil {
			m.t.Fatal(err)
		}
		all = append(all, buf[:got]...)
	}
	return string(all)
}

// input writes input and fails the test when it is not taken.
func (m *made) input(s string) {
	m.t.Helper()
	if n, err := m.Write([]byte(s)); n != len(s) || err != nil {
		m.t.Fatalf("wrote %d of %d: %v", n, len(s), err)
	}
}

func (m *made) wantUnread(want bool) {
	m.t.Helper()
	if got, err := m.Unread(); got != want || err != nil {
		m.t.Errorf("unread: %v, %v, want %v", got, err, want)
	}
}

func (m *made) line() string {
	m.t.Helper()
	buf := make([]byte, 8192)
	n, err := m.slave.Read(buf)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(buf[:n])
}

func TestTerminalIsAsItShallBe(t *testing.T) {
	m := newTerminal(t, newStager(t))
	var st unix.Stat_t
	if err := unix.Fstat(int(m.slave.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if st.Mode&0o777 != 0o600 || int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid() {
		t.Errorf("mode %o, owner %d:%d", st.Mode, st.Uid, st.Gid)
	}
	mode, err := unix.IoctlGetTermios(int(m.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	const lflag = unix.ICANON | unix.ECHO | unix.ECHOE | unix.ISIG | unix.IEXTEN
	if mode.Lflag&lflag != lflag || mode.Iflag&(unix.ICRNL|unix.IUTF8) != unix.ICRNL|unix.IUTF8 || mode.Oflag&(unix.OPOST|unix.ONLCR) != unix.OPOST|unix.ONLCR {
		t.Errorf("the mode is %+v", mode)
	}
	for _, size := range []Size{{24, 80}, {1, 1000}} {
		if err := m.Resize(size); err != nil {
			t.Fatal(err)
		}
		got, err := unix.IoctlGetWinsize(int(m.slave.Fd()), unix.TIOCGWINSZ)
		if err != nil || got.Row != size.Rows || got.Col != size.Columns {
			t.Errorf("the size is %+v, %v", got, err)
		}
	}
}

func TestInput(t *testing.T) {
	m := newTerminal(t, newStager(t))
	m.wantUnread(false)
	m.input("one\n")
	m.wantUnread(true)
	if got := m.line(); got != "one\n" {
		t.Errorf("read %q", got)
	}
	m.wantUnread(false)
	if got := m.printed(5); got != "one\r\n" {
		t.Errorf("the terminal shows %q", got)
	}
	long := strings.Repeat("x", 4095) + "\n" // the longest line that the kernel does not cut off
	m.input(long)
	m.wantUnread(true)
	if got := m.line(); got != long {
		t.Errorf("of a line of %d bytes came %d", len(long), len(got))
	}
}

// Keys that are read one by one are unread input as well.
func TestUnreadKeys(t *testing.T) {
	m := newTerminal(t, newStager(t))
	mode, err := unix.IoctlGetTermios(int(m.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	mode.Lflag &^= unix.ICANON
	if err := unix.IoctlSetTermios(int(m.slave.Fd()), unix.TCSETS, mode); err != nil {
		t.Fatal(err)
	}
	m.input("q")
	m.wantUnread(true)
}

// What was typed without its end stands before no line; what the run has, or reads by keys, is left alone.
func TestDropTyped(t *testing.T) {
	m := newTerminal(t, newStager(t))
	drop := func() {
		t.Helper()
		if err := m.DropTyped(); err != nil {
			t.Fatal(err)
		}
	}
	drop() // there is nothing
	m.input("whole\nhalf a li")
	drop()
	m.input("stop\n")
	for _, want := range []string{"whole\n", "stop\n"} {
		if got := m.line(); got != want {
			t.Errorf("read %q, want %q", got, want)
		}
	}
	mode, err := unix.IoctlGetTermios(int(m.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*unix.Termios){
		"keys":              func(o *unix.Termios) { o.Lflag &^= unix.ICANON },
		"no kill character": func(o *unix.Termios) { o.Cc[unix.VKILL] = 0 },
	} {
		other := *mode
		edit(&other)
		if err := unix.IoctlSetTermios(int(m.slave.Fd()), unix.TCSETS, &other); err != nil {
			t.Fatal(err)
		}
		m.input("x")
		drop()
		m.input("y\n")
		got := m.line()
		for !strings.HasSuffix(got, "\n") { // keys may come one by one
			got += m.line()
		}
		if got != "xy\n" {
			t.Errorf("%s: read %q", name, got)
		}
	}
}

// Whoever writes without end is not waited for.
func TestWriteNeverBlocks(t *testing.T) {
	m := newTerminal(t, newStager(t))
	n, err := m.Write(bytes.Repeat([]byte("nobody reads this\n"), 10000))
	if !errors.Is(err, unix.EAGAIN) || n == 0 || n == 180000 {
		t.Errorf("wrote %d, %v", n, err)
	}
}

// A terminal is taken over with what was printed meanwhile, and the run does not notice.
func TestTakeOver(t *testing.T) {
	s := newStager(t)
	m := newTerminal(t, s)
	for range 20 {
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Unread(); !errors.Is(err, ErrGone) {
			t.Errorf("a closed terminal: %v", err)
		}
		if _, err := m.slave.WriteString("meanwhile\n"); err != nil {
			t.Fatal(err)
		}
		taken, err := Take(m.folder)
		if err != nil {
			t.Fatal(err)
		}
		custodian := m.custodian
		m.Terminal = taken
		taken.custodian = custodian // a predecessor's child is its own in this test
		if got := m.printed(11); got != "meanwhile\r\n" {
			t.Fatalf("printed %q", got)
		}
		m.input("line\n")
		if got := m.line(); got != "line\n" {
			t.Fatalf("read %q", got)
		}
		m.printed(6)
	}
}

// The end of a terminal hangs the other side up and leaves no door.
func TestEnd(t *testing.T) {
	s := newStager(t)
	for name, end := range map[string]func(*made) error{
		"by whoever made it": func(m *made) error { return m.End() },
		"by a successor": func(m *made) error {
			if err := m.Close(); err != nil {
				return err
			}
			taken, err := Take(m.folder)
			if err != nil {
				return err
			}
			return taken.End()
		},
		"by nobody who took it over": func(m *made) error { return errors.Join(m.Close(), EndIn(m.folder)) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newTerminal(t, s)
			if err := end(m); err != nil {
				t.Fatal(err)
			}
			if n, err := m.slave.Read(make([]byte, 1)); n != 0 { // waits for the hang-up
				t.Errorf("read %d, %v", n, err)
			}
			if HasDoor(m.folder) {
				t.Error("there is a door")
			}
			if err := EndIn(m.folder); err != nil {
				t.Errorf("where there is none: %v", err)
			}
			if err := m.custodian.End(); err != nil { // reaps it
				t.Error(err)
			}
		})
	}
}

// A door with nobody behind it is taken away.
func TestDoorWithoutCustodian(t *testing.T) {
	folder := t.TempDir()
	fd, err := makeDoor(folder)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	if _, err := Take(folder); err == nil {
		t.Error("taken from nobody")
	}
	if err := EndIn(folder); err != nil || HasDoor(folder) {
		t.Errorf("%v, a door: %v", err, HasDoor(folder))
	}
}

// Another custodian takes the place of one that was killed.
func TestRenew(t *testing.T) {
	s := newStager(t)
	m := newTerminal(t, s)
	first := m.custodian.PID
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := m.Renew(s); err != nil {
		t.Fatal(err)
	}
	if m.custodian.PID == first {
		t.Error("it is the same")
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	taken, err := Take(m.folder)
	if err != nil {
		t.Fatal(err)
	}
	m.inputBy(taken, "still there\n")
	if err := errors.Join(taken.End(), m.custodian.End()); err != nil {
		t.Error(err)
	}
	if err := m.Renew(s); !errors.Is(err, ErrGone) {
		t.Errorf("of what is closed: %v", err)
	}
}

// inputBy hands input over by another hold of the terminal.
func (m *made) inputBy(to *Terminal, s string) {
	m.t.Helper()
	if n, err := to.Write([]byte(s)); n != len(s) || err != nil {
		m.t.Fatalf("wrote %d of %d: %v", n, len(s), err)
	}
	if got := m.line(); got != s {
		m.t.Errorf("read %q", got)
	}
}

// Without anybody who has the other side open nothing is taken.
func TestNobodyHasItOpen(t *testing.T) {
	m := newTerminal(t, newStager(t))
	m.slave.Close()
	if _, err := m.Unread(); !errors.Is(err, ErrGone) {
		t.Errorf("unread: %v", err)
	}
	if n, err := m.Write([]byte("x\n")); n != 0 || !errors.Is(err, ErrGone) {
		t.Errorf("wrote %d, %v", n, err)
	}
}

// The path of a folder may be longer than that of a socket.
func TestLongFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), strings.Repeat("long/", 40))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	term, slave, err := Open(newStager(t), folder, Size{24, 80}, os.Getuid(), os.Getgid())
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(slave)
	if err := term.End(); err != nil {
		t.Error(err)
	}
}

// EC-7: a terminal that cannot be kept is none, and says what to do.
func TestOpenFails(t *testing.T) {
	s := newStager(t)
	for name, folder := range map[string]string{"no folder": t.TempDir() + "/missing", "a door that is there already": t.TempDir()} {
		if name != "no folder" {
			if err := os.WriteFile(filepath.Join(folder, DoorName), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before := descriptors(t)
		_, _, err := Open(s, folder, Size{24, 80}, os.Getuid(), os.Getgid())
		var e *Error
		if !errors.As(err, &e) || e.Remedy == "" || strings.Contains(e.Error(), folder) {
			t.Errorf("%s: %v", name, err)
		}
		if after := descriptors(t); after != before {
			t.Errorf("%s: %d descriptors were open, now %d", name, before, after)
		}
	}
	for errno, want := range map[unix.Errno]string{unix.ENOSPC: "kernel.pty.max", unix.ENOENT: "/dev/ptmx", unix.EMFILE: "limit of open files"} {
		if text := openError(errno).Error(); !strings.Contains(text, want) || !strings.HasPrefix(text, "cannot make a terminal: ") {
			t.Errorf("%v: %q", errno, text)
		}
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
