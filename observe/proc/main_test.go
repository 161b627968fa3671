package proc

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The test binary plays the processes that are looked at: the variable says which.
const roleVar = "PROC_TEST_ROLE"

func init() {
	if os.Getenv(roleVar) == "headless" {
		runtime.LockOSThread() // main is to run on the first thread
	}
}

func TestMain(m *testing.M) {
	roles := map[string]func(){"play": play, "headless": headless, "chain": chain}
	role := os.Getenv(roleVar)
	if role == "" {
		unix.Umask(0o022) // the modes that tests give are those they mean
		goleak.VerifyTestMain(m)
		return
	}
	f, ok := roles[role]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such role:", role)
		os.Exit(2)
	}
	f()
	os.Exit(0)
}

// play obeys lines on standard input and answers each with one. At the end of the input it exits with 0.
//
//	exit N     exit code N            raise N    end by signal N, by its default
//	child      start a player with a pipe as its input; answers its number
//	daemon     the same, in a session of its own, through a process in between that exits
//	tell LINE  pass a line to the last child, answer what it answers
//	reap       reap the last child; answers its wait status word
//	hold PATH  open PATH read-write and keep it
//	listen A   listen on the TCP address A; answers the address
//	accept     take a connection of it and keep it
//	bind A     have the UDP address A; answers the address
//	ignore     ignore SIGTERM
//	chain      start a chain; answers its first number, next answers the next
func play() {
	var child struct {
		process *os.Process
		in      io.Writer
		out     *bufio.Reader
	}
	var listener net.Listener
	var kept []any // so that nothing is closed
	in := bufio.NewScanner(os.Stdin)
	answer := func(format string, v ...any) { fmt.Printf(format+"\n", v...) }
	answer("%d", os.Getpid())
	for in.Scan() {
		word, rest, _ := strings.Cut(in.Text(), " ")
		switch word {
		case "exit":
			n, _ := strconv.Atoi(rest)
			os.Exit(n)
		case "raise":
			n, _ := strconv.Atoi(rest)
			signal.Reset()
			raise(syscall.Signal(n))
		case "child", "daemon":
			if rest == "between" { // we are the process in between: our child gets our input and output
				if _, err := player(os.Stdin, os.Stdout, &syscall.SysProcAttr{Setsid: true}); err != nil {
					answer("error %v", err)
				}
				os.Exit(0)
			}
			childIn, in, _ := os.Pipe()
			out, childOut, _ := os.Pipe()
			p, err := player(childIn, childOut, nil)
			if err != nil {
				answer("error %v", err)
				continue
			}
			childIn.Close()
			childOut.Close()
			child.process, child.in, child.out = p, in, bufio.NewReader(out)
			line, _ := child.out.ReadString('\n')
			if word == "daemon" {
				fmt.Fprintln(child.in, "daemon between")
				_, _ = p.Wait()
				line, _ = child.out.ReadString('\n')
			}
			answer("%s", strings.TrimSpace(line))
		case "tell":
			fmt.Fprintln(child.in, rest)
			line, err := child.out.ReadString('\n')
			if err != nil {
				line = "end"
			}
			answer("%s", strings.TrimSpace(line))
		case "reap":
			var status syscall.WaitStatus
			_, err := syscall.Wait4(child.process.Pid, &status, 0, nil)
			if err != nil {
				answer("error %v", err)
				continue
			}
			answer("%d", uint32(status))
		case "chain":
			out, childOut, _ := os.Pipe()
			if _, err := actor("chain", nil, childOut, nil); err != nil {
				answer("error %v", err)
				continue
			}
			childOut.Close()
			child.out = bufio.NewReader(out)
			fallthrough
		case "next": // the next of the chain
			line, _ := child.out.ReadString('\n')
			answer("%s", strings.TrimSpace(line))
		case "hold":
			if _, err := unix.Open(rest, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
				answer("error %v", err)
				continue
			}
			answer("held")
		case "listen":
			l, err := net.Listen("tcp", rest)
			if err != nil {
				answer("error %v", err)
				continue
			}
			listener = l
			answer("%s", l.Addr())
		case "accept":
			c, err := listener.Accept()
			if err != nil {
				answer("error %v", err)
				continue
			}
			kept = append(kept, c)
			answer("accepted")
		case "hangup": // of what was accepted last
			if err := kept[len(kept)-1].(net.Conn).Close(); err != nil {
				answer("error %v", err)
				continue
			}
			answer("hung up")
		case "bind":
			c, err := net.ListenPacket("udp", rest)
			if err != nil {
				answer("error %v", err)
				continue
			}
			kept = append(kept, c)
			answer("%s", c.LocalAddr())
		case "ignore":
			signal.Ignore(syscall.SIGTERM)
			answer("ignored")
		default:
			answer("error no such word %q", word)
		}
	}
}

// raise ends the process by sig.
func raise(sig syscall.Signal) {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	_ = syscall.Kill(os.Getpid(), sig)
	select {}
}

// headless ends its first thread and lives on until its input ends.
func headless() {
	go func() {
		fmt.Println(os.Getpid())
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0) // not RawSyscall, which would keep what may be the only processor from the other
}

// chain starts its like and exits, for ever: whoever looks finds another number. It ends when its output cannot be
// written.
func chain() {
	if _, err := fmt.Println(os.Getpid()); err != nil {
		os.Exit(1)
	}
	if _, err := actor("chain", os.Stdin, os.Stdout, &syscall.SysProcAttr{Setsid: true}); err != nil {
		os.Exit(1)
	}
}

func player(in, out *os.File, sys *syscall.SysProcAttr) (*os.Process, error) {
	return actor("play", in, out, sys)
}

func actor(role string, in, out *os.File, sys *syscall.SysProcAttr) (*os.Process, error) {
	return os.StartProcess("/proc/self/exe", []string{role}, &os.ProcAttr{
		Env: []string{roleVar + "=" + role}, Files: []*os.File{in, out, os.Stderr}, Sys: sys,
	})
}

// cast is a player that a test talks to.
type cast struct {
	t      testing.TB
	pid    int
	pidfd  int // the test's own
	in     *os.File
	out    *bufio.Reader
	reap   sync.Once
	status syscall.WaitStatus
}

// newCast starts a process of the test, which ends with it.
func newCast(t testing.TB, role string, sys *syscall.SysProcAttr) *cast {
	t.Helper()
	childIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := actor(role, childIn, childOut, sys)
	if err != nil {
		t.Fatal(err)
	}
	childIn.Close()
	childOut.Close()
	fd, err := unix.PidfdOpen(p.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := &cast{t: t, pid: p.Pid, pidfd: fd, in: in, out: bufio.NewReader(out)}
	p.Release()
	t.Cleanup(func() {
		in.Close()
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		c.wait()
		unix.Close(fd)
		out.Close()
	})
	c.line() // it is up
	return c
}

// ask says a line and returns the answer.
func (c *cast) ask(line string) string {
	c.t.Helper()
	c.say(line)
	return c.line()
}

func (c *cast) say(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cast) line() string {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatalf("the process said %q, then: %v", line, err)
	}
	return strings.TrimSpace(line)
}

// number asks for a number.
func (c *cast) number(line string) int {
	c.t.Helper()
	n, err := strconv.Atoi(c.ask(line))
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// wait reaps the process once.
func (c *cast) wait() syscall.WaitStatus {
	c.reap.Do(func() {
		awaitEnd(c.t, c.pidfd)
		_, _ = syscall.Wait4(c.pid, &c.status, 0, nil)
	})
	return c.status
}

// awaitEnd waits until the process of a pidfd has ended.
func awaitEnd(t testing.TB, pidfd int) { awaitPoll(t, pidfd, unix.POLLIN) }

// awaitReaped waits until it was reaped.
func awaitReaped(t testing.TB, pidfd int) { awaitPoll(t, pidfd, unix.POLLHUP) }

func awaitPoll(t testing.TB, pidfd int, want int16) {
	t.Helper()
	for {
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: want}}
		_, err := unix.Poll(fds, 60_000)
		if err == unix.EINTR {
			continue
		}
		if err != nil || fds[0].Revents&want == 0 {
			t.Fatalf("poll of a pidfd: %#x, %v", fds[0].Revents, err)
		}
		return
	}
}

func probe(t testing.TB) *Kernel {
	t.Helper()
	k, err := Probe()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// process opens the process with a number that is known to be its own.
func process(t testing.TB, k *Kernel, pid int) *Process {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	id, err := k.Identify(pid, fd)
	if err != nil {
		t.Fatal(err)
	}
	p := k.Own(id, fd)
	t.Cleanup(func() { p.Close() })
	return p
}
