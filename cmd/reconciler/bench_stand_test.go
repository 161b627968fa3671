//go:build bench

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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/state"
)

// benchPatience bounds every wait of the benchmark.
const benchPatience = 2 * time.Minute

// programs are what the benchmark runs, built for it.
type programs struct{ dir, reconciler, bare, workload string }

func buildPrograms(t *testing.T) programs {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Fatalf("the benchmark's workload is written in C: install gcc and libc6-dev (%v)", err)
	}
	dir := t.TempDir()
	p := programs{dir, filepath.Join(dir, "reconciler"), filepath.Join(dir, "bare"), filepath.Join(dir, "workload")}
	for _, args := range [][]string{
		{"go", "build", "-trimpath", "-ldflags", "-s -w", "-o", p.reconciler, "."},
		{"go", "build", "-trimpath", "-ldflags", "-s -w", "-o", p.bare, "./testdata/bench/bare"},
		{"go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "faultd"), "./testdata/trial/faultd"},
		{"gcc", "-O2", "-Wall", "-static", "-o", p.workload, "testdata/bench/workload.c"},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return p
}

// word is what a workload has said.
type word struct {
	kind, name string
	pid        int
	at         time.Duration // CLOCK_MONOTONIC
}

// stand is a place to measure in: a folder, a cgroup, and the FIFO that the workloads speak to.
type stand struct {
	t        *testing.T
	programs programs
	dir      string
	fifo     string
	cgroup   *benchCgroup
	runs     int // how many reconcilers were started

	mu    sync.Mutex
	words map[string][]word // by kind and name
	count map[string]int    // by kind
	heard chan struct{}     // closed and made anew with each word
}

func newStand(t *testing.T, p programs) *stand {
	t.Helper()
	s := &stand{t: t, programs: p, dir: t.TempDir(), words: map[string][]word{}, count: map[string]int{}, heard: make(chan struct{})}
	s.fifo = filepath.Join(s.dir, "fifo")
	if err := unix.Mkfifo(s.fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// Read-write, so that it has a writer of ours and never ends.
	f, err := os.OpenFile(s.fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.listen(f)
	}()
	t.Cleanup(func() {
		f.Close()
		<-done
	})
	s.cgroup = newBenchCgroup(t) // ended before the FIFO is closed
	t.Cleanup(s.end)
	return s
}

// end stops everything in the stand as a person would, so that nothing is left anywhere, and then for sure.
func (s *stand) end() {
	if _, err := os.Stat(s.layout().KeeperSocket()); err == nil && s.cgroup.dir != nil {
		ctx, cancel := context.WithTimeout(context.Background(), benchPatience)
		defer cancel()
		cmd := exec.CommandContext(ctx, s.programs.reconciler, "shutdown")
		cmd.Env = s.env()
		if out, err := cmd.CombinedOutput(); err != nil {
			s.t.Errorf("shutdown: %v\n%s", err, out)
		}
	}
	s.cgroup.remove(s.t)
}

func (s *stand) env() []string {
	l := s.layout()
	return []string{"HOME=" + s.dir, "PATH=/usr/bin:/bin", "RECONCILER_STATE_DIR=" + l.State, "RECONCILER_RUNTIME_DIR=" + l.Runtime}
}

func (s *stand) listen(f *os.File) {
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		field := strings.Fields(sc.Text())
		pid, err := strconv.Atoi(field[2])
		ns, err2 := strconv.ParseInt(field[3], 10, 64)
		if err != nil || err2 != nil {
			panic("the workload said " + sc.Text())
		}
		s.mu.Lock()
		key := field[0] + " " + field[1]
		s.words[key] = append(s.words[key], word{field[0], field[1], pid, time.Duration(ns)})
		s.count[field[0]]++
		close(s.heard)
		s.heard = make(chan struct{})
		s.mu.Unlock()
	}
}

// now is the workloads' clock.
func now() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // it cannot fail
	return time.Duration(ts.Nano())
}

// await waits for the first word of a kind that name says after a moment.
func (s *stand) await(kind, name string, after time.Duration) word {
	s.t.Helper()
	deadline := time.After(benchPatience)
	for {
		s.mu.Lock()
		heard := s.heard
		for _, w := range s.words[kind+" "+name] {
			if w.at >= after {
				s.mu.Unlock()
				return w
			}
		}
		s.mu.Unlock()
		select {
		case <-heard:
		case <-deadline:
			s.t.Fatalf("%s has not said %q", name, kind)
		}
	}
}

// awaitCount waits until that many words of a kind were said in all.
func (s *stand) awaitCount(kind string, n int) {
	s.t.Helper()
	deadline := time.After(benchPatience)
	for {
		s.mu.Lock()
		heard, count := s.heard, s.count[kind]
		s.mu.Unlock()
		if count >= n {
			return
		}
		select {
		case <-heard:
		case <-deadline:
			s.t.Fatalf("%d of %d have said %q", count, n, kind)
		}
	}
}

// births is how many workloads came to be.
func (s *stand) births() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count["up"]
}

// newest is the workload of a name that came last.
func (s *stand) newest(name string) word {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.words["up "+name]
	return all[len(all)-1]
}

// helpers are the processes of the cgroup that are no workloads.
func (s *stand) helpers() []int {
	s.t.Helper()
	s.mu.Lock()
	workload := map[int]bool{}
	for _, all := range s.words {
		for _, w := range all {
			workload[w.pid] = true
		}
	}
	s.mu.Unlock()
	var helpers []int
	for _, pid := range s.cgroup.pids(s.t) {
		if !workload[pid] {
			helpers = append(helpers, pid)
		}
	}
	return helpers
}

// start starts a process in the cgroup. Its standard error is a file of the stand's.
func (s *stand) start(path string, args ...string) (*exec.Cmd, io.Writer) {
	s.t.Helper()
	out, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = s.env()
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(s.cgroup.dir.Fd())}
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it was killed
		close(ended)
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
		if s.t.Failed() && s.runs > 0 {
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			keeper, _ := os.ReadFile(filepath.Join(s.layout().State, "keeper.log"))
			s.t.Logf("%s said:\n%.4000s\nthe keeper said:\n%.4000s", filepath.Base(path), text, keeper)
		}
	})
	return cmd, in
}

func (s *stand) layout() state.Layout {
	return state.Layout{State: filepath.Join(s.dir, "state"), Runtime: filepath.Join(s.dir, "run")}
}

func (s *stand) manifests() string { return filepath.Join(s.dir, "manifests") }

// manifest is a server with a profile of its own, that runs the workload.
func (s *stand) manifest(name string, args ...string) []byte {
	list, err := json.Marshal(append([]string{s.fifo, name}, args...))
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Appendf(nil, `apiVersion: reconciler.dev/v1alpha1
kind: Profile
metadata: {name: %[1]s}
spec:
  actions:
    start: {workspace: bench, executable: workload, args: %[2]s}
    stop: {steps: [{signal: {name: SIGTERM}, waitSeconds: 10}]}
---
apiVersion: reconciler.dev/v1alpha1
kind: Server
metadata: {name: %[1]s}
spec: {profile: %[1]s}
`, name, list)
}

func (s *stand) write(path string, data []byte) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// replace renames a manifest into place.
func (s *stand) replace(name, text string) {
	s.t.Helper()
	tmp := filepath.Join(s.dir, "next.yaml")
	s.write(tmp, []byte(text))
	if err := os.MkdirAll(s.manifests(), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(s.manifests(), name)); err != nil {
		s.t.Fatal(err)
	}
}

// declare writes the manifests of w0, w1, and so on, before anybody reads them.
func (s *stand) declare(n int) {
	for i := range n {
		name := fmt.Sprintf("w%d", i)
		s.write(filepath.Join(s.manifests(), name+".yaml"), s.manifest(name))
	}
}

// run starts a reconciler over the manifests.
func (s *stand) run() *exec.Cmd {
	s.runs++
	cmd, _ := s.start(s.programs.reconciler, "run", "--manifests", s.manifests(), "--workspace", "bench="+s.programs.dir, "--listen", "127.0.0.1:0")
	return cmd
}

// url is where the newest reconciler serves a page.
func (s *stand) url(path string) (string, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return "", err
	}
	all := address.FindAllSubmatch(text, -1)
	if len(all) < s.runs {
		return "", errors.New("it does not serve yet")
	}
	return "http://" + string(all[len(all)-1][1]) + path, nil
}

// page reads the newest reconciler's metrics page.
func (s *stand) page(ctx context.Context, into *bytes.Buffer) error {
	url, err := s.url("/metrics")
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	into.Reset()
	_, err = into.ReadFrom(resp.Body)
	return err
}

// metric is the sum of a family's series on the page.
func metric(page, family string) float64 {
	var sum float64
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, family+"{") && !strings.HasPrefix(line, family+" ") {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
		if err == nil {
			sum += v
		}
	}
	return sum
}
