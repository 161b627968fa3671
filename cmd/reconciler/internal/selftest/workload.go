package selftest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Flag is the flag of the doctor by which this program plays a workload; its value is the trial's mark.
const Flag = "self-test-server"

// strayEnd follows the mark of a descendant that hides.
const strayEnd = "/stray"

// commandLine makes this program play a workload.
func commandLine(mark string) []string { return []string{"doctor", "--" + Flag, mark} }

// lifetime ends a workload that everybody has forgotten.
const lifetime = 2 * time.Minute

// terminated is the exit code of a workload that SIGTERM has ended.
const terminated = 9

// Workload is what the self-test runs: it does what the lines on its input say, until one tells it to exit.
//
//	exit N     exit with code N
//	count      write numbered lines until then
//	leave      leave a descendant behind, in a session of its own and without a file of ours
//	listen A   listen on an address
//
// With the mark of one it is that descendant.
func Workload(mark string, in io.Reader, out io.Writer) int {
	time.AfterFunc(lifetime, func() { os.Exit(1) })
	if strings.HasSuffix(mark, strayEnd) {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		select {}
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		<-term
		os.Exit(terminated)
	}()
	fmt.Fprintln(out, "ready")
	counting, counted := make(chan struct{}), make(chan int, 1)
	for sc := bufio.NewScanner(in); sc.Scan(); {
		word, rest, _ := strings.Cut(sc.Text(), " ")
		switch word {
		case "count":
			go count(out, counting, counted)
		case "counted":
			close(counting)
			fmt.Fprintf(out, "counted %d\n", <-counted)
		case "leave":
			leave(mark, out)
		case "listen":
			if _, err := net.Listen("tcp", rest); err != nil {
				fmt.Fprintln(out, "listens not:", err)
				continue
			}
			fmt.Fprintln(out, "listens yes")
		case "exit":
			code, err := strconv.Atoi(rest)
			if err != nil {
				return 1
			}
			return code
		}
	}
	return 1
}

func count(out io.Writer, until <-chan struct{}, counted chan<- int) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-until:
			counted <- n - 1
			return
		case <-ticker.C:
			fmt.Fprintf(out, "line %d\n", n)
		}
	}
}

// leave starts a descendant that nothing but its cgroup tells to be one.
func leave(mark string, out io.Writer) {
	cmd := exec.Command("/proc/self/exe", commandLine(mark+strayEnd)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = []string{}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(out, "left nothing:", err)
		return
	}
	fmt.Fprintln(out, "left", cmd.Process.Pid)
}
