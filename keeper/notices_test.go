package keeper

import (
	"net"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNoticeIsReady(t *testing.T) {
	for text, want := range map[string]bool{
		"READY=1": true, "READY=1\n": true, "STATUS=up\nREADY=1\nMAINPID=3": true, "READY=1\nREADY=0": false,
		"": false, "READY": false, "READY=": false, "READY=10": false, "XREADY=1": false, "STATUS=READY=1": false, "ready=1": false,
		"READY=1\x00": false, "\n\nREADY=1": true,
	} {
		if got := (Notice{text}).ready(); got != want {
			t.Errorf("%q is ready: %v", text, got)
		}
	}
}

func TestNoticeIsASignOfLife(t *testing.T) {
	for text, want := range map[string]bool{"WATCHDOG=1": true, "STATUS=a\nWATCHDOG=1\n": true, "WATCHDOG=trigger": false, "WATCHDOG_USEC=1": false, "READY=1": false} {
		if got := (Notice{text}).lives(); got != want {
			t.Errorf("%q is a sign of life: %v", text, got)
		}
	}
}

// FuzzSenderOf reads control messages as a kernel could never send them: no descriptor is made up, for each is closed.
func FuzzSenderOf(f *testing.F) {
	f.Add(unix.UnixCredentials(&unix.Ucred{Pid: 2, Uid: 1}), "READY=1")
	f.Add([]byte{1, 2, 3}, "READY=1\nREADY=0\n")
	f.Add([]byte{}, "")
	f.Fuzz(func(t *testing.T, control []byte, text string) {
		who, passed := senderOf(control)
		if who.pidfd < -1 || len(passed) > len(control)/4 {
			t.Errorf("%+v, %v", who, passed)
		}
		_ = Notice{text}.ready()
	})
}

// clogged is a socket whose close takes an hour, for whoever closes it last: it lingers, and nobody reads what it has sent.
func clogged(t *testing.T) int {
	t.Helper()
	there, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { there.Close() })
	conn, err := net.Dial("tcp", there.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	conn.Close()
	fd, err := unix.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = unix.Write(fd, make([]byte, 1<<16))
	}
	if err != unix.EAGAIN {
		t.Fatal(err)
	}
	return fd
}

// passClogged sends a message with so many descriptors, the last of which is a clogged socket that nobody else has.
func passClogged(t *testing.T, to int, text string, count int) {
	t.Helper()
	fd := clogged(t)
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 3600}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendmsg(to, []byte(text), unix.UnixRights(append(slices.Repeat([]int{to}, count-1), fd)...), nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
}

// What is passed along with a notice holds up no notice after it, whoever sends it.
func TestNoticesAreNotHeldUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	s, err := makeNoticeSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	heard, ended := make(chan string), make(chan error)
	go func() { ended <- s.serve(func(_ peer, n Notice) { heard <- n.Text }) }()
	to, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(to)
	if err := unix.Connect(to, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	for _, count := range []int{1, 253} {
		passClogged(t, to, "STATUS=slow", count)
		if _, err := unix.Write(to, []byte("WATCHDOG=1")); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"STATUS=slow", "WATCHDOG=1"} {
			if got := <-heard; got != want {
				t.Errorf("heard %q, want %q", got, want)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-ended // the socket is closed
}

// A connection with such descriptors in it can be dropped.
func TestPassedDescriptorsHoldUpNoConnection(t *testing.T) {
	for _, count := range []int{1, 253} {
		theirs, ours := pair(t)
		to, err := theirs.File()
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		r := newReceiver(ours)
		passClogged(t, int(to.Fd()), `{}`, count)
		if m, err := r.receive(); err == nil {
			t.Errorf("received %+v", m)
		}
		if err := r.conn.Close(); err != nil {
			t.Error(err)
		}
	}
}
