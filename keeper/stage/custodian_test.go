package stage

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// door listens in a directory of the test's.
func door(t *testing.T) (fd int, path string) {
	t.Helper()
	path = t.TempDir() + "/d"
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Listen(fd, 1)); err != nil {
		t.Fatal(err)
	}
	return fd, path
}

// knock connects to a custodian and takes what it keeps.
func knock(t *testing.T, path string) (conn, got int) {
	t.Helper()
	conn, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(conn, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	fds, err := take(conn, make([]byte, 1), 1)
	if err != nil {
		t.Fatal(err)
	}
	return conn, fds[0]
}

// A custodian keeps what it was given, hands it to one after the other, and is a process of its own session with nothing else open.
func TestCustodian(t *testing.T) {
	b := newBench(t, Options{}, "/bin/true", "true")
	nothingLeft(t, func() {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		fd, path := door(t)
		c, err := b.Custodian(int(w.Fd()), fd)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		w.Close()
		for range 3 {
			conn, got := knock(t, path)
			if _, err := unix.Write(got, []byte("x")); err != nil {
				t.Error(err)
			}
			if n, err := r.Read(make([]byte, 2)); n != 1 || err != nil {
				t.Errorf("read %d, %v", n, err)
			}
			comm, err := os.ReadFile("/proc/" + strconv.Itoa(c.PID) + "/comm")
			if err != nil || strings.TrimSpace(string(comm)) != CustodianComm {
				t.Errorf("it is called %q, %v", comm, err)
			}
			if sid, err := unix.Getsid(c.PID); sid != c.PID || err != nil {
				t.Errorf("its session is %d, %v", sid, err)
			}
			open, err := os.ReadDir("/proc/" + strconv.Itoa(c.PID) + "/fd")
			if err != nil || len(open) != 6 { // the standard files, the connection, the keepsake, the door
				t.Errorf("it has %v open, %v", open, err)
			}
			unix.Close(got)
			unix.Close(conn)
		}
		if err := c.End(); err != nil {
			t.Error(err)
		}
		if err := c.End(); err != nil {
			t.Errorf("ended again: %v", err)
		}
		if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("somebody still keeps it: %d, %v", n, err)
		}
	})
}

// awaitCode waits for the end of a custodian and tells of which kind it is (CLD_*, waitid(2)).
func awaitCode(t *testing.T, c *Custodian) int32 {
	t.Helper()
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PIDFD, c.pidfd, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return info.Code
	}
}

// A byte over its connection ends a custodian, and so does the hang-up of what it keeps when nobody is connected and nothing is unread.
func TestCustodianEnds(t *testing.T) {
	b := newBench(t, Options{}, "/bin/true", "true")
	tests := map[string]func(t *testing.T, path string, peer int){
		"a byte": func(t *testing.T, path string, peer int) {
			conn, got := knock(t, path)
			if _, err := unix.Write(conn, []byte("E")); err != nil {
				t.Error(err)
			}
			unix.Close(got)
			unix.Close(conn)
		},
		"a hang-up": func(t *testing.T, path string, peer int) { unix.Close(peer) },
		"a hang-up, and the unread is read": func(t *testing.T, path string, peer int) {
			if _, err := unix.Write(peer, []byte("last words")); err != nil {
				t.Error(err)
			}
			unix.Close(peer)
			conn, got := knock(t, path)
			buf := make([]byte, 64)
			if n, err := unix.Read(got, buf); err != nil || string(buf[:n]) != "last words" {
				t.Errorf("unread was %q, %v", buf[:max(n, 0)], err)
			}
			unix.Close(got)
			unix.Close(conn)
		},
		"a hang-up while somebody is connected": func(t *testing.T, path string, peer int) {
			conn, got := knock(t, path)
			unix.Close(peer)
			unix.Close(got)
			unix.Close(conn)
		},
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			var pair [2]int // the reading end of a pipe hangs up as a terminal does
			if err := unix.Pipe2(pair[:], unix.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			fd, path := door(t)
			c, err := b.Custodian(pair[0], fd)
			if err != nil {
				t.Fatal(err)
			}
			unix.Close(pair[0])
			end(t, path, pair[1])
			const exited = 1 // CLD_EXITED
			if code := awaitCode(t, c); code != exited {
				t.Errorf("it did not exit: code %d", code)
			}
			if err := c.End(); err != nil {
				t.Error(err)
			}
		})
	}
}

// EC-7: a custodian that cannot be started leaves nothing.
func TestCustodianFaultsLeaveNothing(t *testing.T) {
	fault := errors.New("injected")
	for _, step := range []Step{StepGate, StepFork, StepSend} {
		b := newBench(t, Options{Fault: func(s Step) error {
			if s == step {
				return fault
			}
			return nil
		}}, "/bin/true", "true")
		fd, _ := door(t)
		nothingLeft(t, func() {
			if c, err := b.Custodian(fd, fd); !errors.Is(err, fault) || c != nil {
				t.Errorf("%s: %v, %v", step, c, err)
			}
		})
	}
}

// The controlling terminal of a workload is its standard input, where that was asked for.
func TestControllingTerminal(t *testing.T) {
	master := open(t, "/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY)
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		t.Fatal(errno)
	}
	defer unix.Close(int(slave))
	for _, shared := range []bool{false, true} {
		b := newBench(t, Options{SharedTable: shared}, "/bin/sleep", "sleep", "600")
		b.spec.Stdio, b.spec.Terminal = [3]int{int(slave), int(slave), int(slave)}, true
		h, err := b.Hold(b.spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Release(ctx(t)); err != nil {
			t.Fatal(err)
		}
		session, err := unix.IoctlGetInt(master, unix.TIOCGSID)
		if err != nil || session != h.PID {
			t.Errorf("the terminal's session is %d, %v, want %d", session, err, h.PID)
		}
		if err := unix.Kill(h.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if _, err := wait(h.PID); err != nil {
			t.Fatal(err)
		}
	}
	b := newBench(t, Options{}, "/bin/true", "true")
	b.spec.Terminal = true // its standard input is none
	nothingLeft(t, func() {
		if h, err := b.Hold(b.spec); err == nil {
			t.Error("held without a terminal")
			_ = h.Kill()
		}
	})
}
