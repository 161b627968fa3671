package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// patience bounds every wait of a script: far more than anything takes, on a loaded machine too.
const patience = 3 * time.Minute

type worldKey struct{}

// world is what a script has beside its files: a reconciler, and by its records a keeper and runs.
type world struct {
	env    *testscript.Env
	layout state.Layout

	reconciler *exec.Cmd // nil = none is running
	serving    chan struct{}
	ended      chan struct{}
	said       lines
	pages      atomic.Pointer[string] // address of the TCP listener
	seen       map[int]bool           // every process number that a record ever had here
	attached   map[string]*attached   // consoles that the script has open, by its names for them
	readers    []*exec.Cmd            // commands whose output nobody reads
}

func newWorld(e *testscript.Env) *world {
	return &world{
		env:    e,
		layout: state.Layout{State: filepath.Join(e.WorkDir, "s"), Runtime: filepath.Join(e.WorkDir, "r")},
		seen:   map[int]bool{},

		attached: map[string]*attached{},
	}
}

// lines is a process's output, line by line.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed at the next line
}

func (l *lines) add(line string) { _, _ = l.Write([]byte(line + "\n")) }

// Write adds what is no whole line, too.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
	return len(p), nil
}

// await waits until a text was said.
func (l *lines) await(text string) error { return l.awaitTimes(text, 1) }

// awaitTimes waits until a text was said some times.
func (l *lines) awaitTimes(text string, times int) error {
	return l.awaitTimesFor(text, times, patience)
}

// awaitFor waits some time until a text was said.
func (l *lines) awaitFor(text string, limit time.Duration) error {
	return l.awaitTimesFor(text, 1, limit)
}

func (l *lines) awaitTimesFor(text string, times int, limit time.Duration) error {
	timeout := time.After(limit)
	for {
		l.mu.Lock()
		said := strings.Count(l.text.String(), text) >= times
		if l.more == nil {
			l.more = make(chan struct{})
		}
		more := l.more
		l.mu.Unlock()
		if said {
			return nil
		}
		select {
		case <-more:
		case <-timeout:
			return fmt.Errorf("%q was never said:\n%s", text, l)
		}
	}
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// command is the program with the script's environment.
func (w *world) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(w.env.Getenv("BIN"), "reconciler"), args...)
	cmd.Dir = w.env.WorkDir
	cmd.Env = w.env.Vars
	return cmd
}

var address = regexp.MustCompile(`msg="serving metrics" address=(\S+)`)

// start starts a reconciler and waits until it serves, or has ended.
func (w *world) start(args []string) error {
	base := []string{"run", "--listen", "127.0.0.1:0"}
	if !slices.Contains(args, "--host-config") {
		base = append(base, "--manifests", "m", "--workspace", "bin="+w.env.Getenv("BIN"))
	}
	cmd := w.command(context.Background(), append(base, args...)...)
	out, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w.reconciler, w.serving, w.ended = cmd, make(chan struct{}), make(chan struct{})
	serving, ended := w.serving, w.ended
	var once sync.Once // one that begins anew serves again
	go func() {
		defer close(ended)
		sc := bufio.NewScanner(out)
		for sc.Scan() {
			w.said.add(sc.Text())
			if m := address.FindStringSubmatch(sc.Text()); m != nil {
				pages := "http://" + m[1]
				w.pages.Store(&pages)
				once.Do(func() { close(serving) })
			}
		}
		_ = cmd.Wait() // how it ended is in its ProcessState
	}()
	select {
	case <-w.serving:
		return nil
	case <-w.ended:
		w.reconciler = nil
		return fmt.Errorf("the reconciler ended: %v\n%s", cmd.ProcessState, w.said.String())
	case <-time.After(patience):
		return errors.New("the reconciler does not serve")
	}
}

// stop sends a signal to the reconciler and waits for its end.
func (w *world) stop(sig syscall.Signal) (*os.ProcessState, error) {
	if w.reconciler == nil {
		return nil, errors.New("no reconciler is running")
	}
	if err := w.reconciler.Process.Signal(sig); err != nil {
		return nil, err
	}
	return w.await()
}

func (w *world) await() (*os.ProcessState, error) {
	select {
	case <-w.ended:
	case <-time.After(patience):
		return nil, errors.New("the reconciler does not end")
	}
	st := w.reconciler.ProcessState
	w.reconciler = nil
	return st, nil
}

// end stops everything that the script has started, and looks that nothing is left.
func (w *world) end() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	t := w.env.T()
	w.detachAll()
	w.endUnread()
	w.note()
	if keeper, err := w.keeper(); err == nil {
		_ = syscall.Kill(keeper, syscall.SIGCONT) // a script may have left it stopped
	}
	if _, err := os.Stat(w.layout.Keeper()); err == nil {
		if out, err := w.command(ctx, "shutdown").CombinedOutput(); err != nil {
			t.Log("shutdown: " + err.Error() + "\n" + string(out))
		}
	}
	if w.reconciler != nil {
		_ = w.reconciler.Process.Signal(os.Interrupt)
		if _, err := w.await(); err != nil {
			t.Log(err.Error())
			_ = w.reconciler.Process.Kill()
		}
	}
	var left []string
	for pid := range w.seen {
		if alive(pid) && ours(pid, w.env.Getenv("BIN")) {
			left = append(left, strconv.Itoa(pid))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if len(left) > 0 {
		defer t.Fatal("processes are left: " + strings.Join(left, ", "))
	}
	t.Log("the reconciler said:\n" + w.said.String())
	if log, err := os.ReadFile(filepath.Join(w.layout.State, "keeper.log")); err == nil {
		t.Log("the keeper said:\n" + string(log))
	}
}

// alive reports whether a process is there and no zombie.
func alive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	after := data[bytes.LastIndexByte(data, ')')+1:]
	return len(after) > 2 && after[1] != 'Z' && after[1] != 'X' // the latter for a moment, while it is reaped
}

// ours reports whether a process executes one of our programs: the number may be another's by now.
func ours(pid int, bin string) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && filepath.Dir(exe) == bin
}

// record is a scope's private record, the only place where a process number stands.
func (w *world) record(server, profile string) (*state.Record, error) {
	scope := spec.Scope{Namespace: spec.DefaultNamespace, Server: server, Profile: profile}
	r, err := state.ReadRecord(filepath.Join(w.layout.Keeper(), "records", scope.ID()+".json"))
	if err != nil {
		return nil, err
	}
	if r.Run == nil || r.Run.Identity == nil {
		return nil, fmt.Errorf("the record of %s has no process", scope)
	}
	w.seen[r.Run.Identity.PID] = true
	return r, nil
}

// note remembers the process numbers of all records.
func (w *world) note() {
	files, _ := filepath.Glob(filepath.Join(w.layout.Keeper(), "records", "*.json"))
	for _, f := range files {
		id, ok := spec.ParseScopeID(strings.TrimSuffix(filepath.Base(f), ".json"))
		if ok {
			_, _ = w.record(id.Server, id.Profile) // one without a process has none to note
		}
	}
	if keeper, err := w.keeper(); err == nil {
		w.seen[keeper] = true
	}
	if w.reconciler != nil {
		w.seen[w.reconciler.Process.Pid] = true
	}
}

// keeper is the process number of the keeper, as its lock tells.
func (w *world) keeper() (int, error) {
	data, err := os.ReadFile(filepath.Join(w.layout.Keeper(), "lock"))
	if err != nil {
		return 0, err
	}
	var h state.Holder
	if err := json.Unmarshal(bytes.TrimRight(data, "\x00 \n"), &h); err != nil {
		return 0, err
	}
	return h.PID, nil
}

// kill sends a signal to a process that this script has started, and with wait waits for its end.
func kill(pid int, sig syscall.Signal, wait bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
		return err
	}
	if sig == unix.SIGSTOP {
		return stopped(pid)
	}
	if !wait {
		return nil
	}
	// A pidfd is readable when its process has ended, be it a zombie or not.
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	for errors.Is(err, unix.EINTR) { // by a signal to us: another child has ended
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	}
	if err == nil && n == 0 {
		err = errors.New("it does not end")
	}
	return err
}

// stopped waits until every thread of a process is stopped: until then one of them may answer. The kernel tells nobody but
// its parent.
func stopped(pid int) error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			return err
		}
		running := slices.ContainsFunc(tasks, func(file string) bool {
			data, err := os.ReadFile(file)
			return err == nil && !bytes.Contains(data, []byte(") T "))
		})
		if len(tasks) > 0 && !running {
			return nil
		}
	}
	return errors.New("it does not stop")
}

func signalOf(name string) (syscall.Signal, error) {
	sig := unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG"))
	if sig == 0 {
		return 0, fmt.Errorf("no signal %s", name)
	}
	return sig, nil
}

// fetch is a page of the TCP listener.
func fetch(url string) (string, error) {
	resp, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return string(data), err
}

// watchFor runs a command that goes on until its output has text, and ends it then.
func (w *world) watchFor(text string, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := w.command(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	var seen []byte
	buf := make([]byte, 4096)
	for !strings.Contains(string(seen), text) {
		n, err := out.Read(buf)
		seen = append(seen, buf[:n]...)
		if err != nil {
			break
		}
	}
	found := strings.Contains(string(seen), text)
	_ = cmd.Process.Signal(os.Interrupt)
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // it was interrupted
	if !found {
		return string(seen), fmt.Errorf("%q was never printed by reconciler %s\n%s", text, strings.Join(args, " "), stderr.String())
	}
	return string(seen), nil
}

// ask runs a command with longer and longer times until the reconciler has taken what it asks for, which may have come to be by then.
func (w *world) ask(args []string) (done bool, said string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return askUntilTaken(ctx, func(args ...string) *exec.Cmd { return w.command(ctx, args...) }, args)
}

func askUntilTaken(ctx context.Context, command func(args ...string) *exec.Cmd, args []string) (done bool, said string, err error) {
	for d := 100 * time.Millisecond; ; d *= 2 {
		out, err := command(append(slices.Clone(args), "--timeout", d.String())...).CombinedOutput()
		if err == nil {
			return true, string(out), nil
		}
		if !strings.Contains(string(out), "was taken is not known") || ctx.Err() != nil {
			return false, string(out), ctx.Err()
		}
	}
}

// answered sends a line until more is said than that it was handed over.
func (w *world) answered(server, line string) (said string, times int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		out, err := w.command(ctx, "send", server, line).CombinedOutput()
		times++
		if err != nil || bytes.Count(out, []byte{'\n'}) > 1 {
			return string(out), times, err
		}
	}
}

func sortedInts(m map[int]bool) []int {
	var list []int
	for n := range m {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}
