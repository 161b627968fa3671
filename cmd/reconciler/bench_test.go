//go:build bench

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/keeper/anchor"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

var (
	benchScopes = flag.Int("bench-scopes", 1000, "how many servers the benchmark runs")
	benchRounds = flag.Int("bench-rounds", 3, "how often they are started, each time beside the bare loop")
)

// The samples of the rows that are medians.
const (
	crashSamples = 50
	dropSamples  = 20
	startSamples = 15
)

// TestBench measures the whole program with many servers, beside a bare loop of fork and exec of the same workload in
// the same run, and fails where a promise is broken. The times are this machine's: it should have nothing else to do. Its
// files are in TMPDIR; on an ext4 without a journal that has freed many files in the last minutes (other tests have),
// each new file is so dear (fs/ext4/ialloc.c, recently_deleted) that nothing else is seen: name another file system then.
func TestBench(t *testing.T) {
	p := buildPrograms(t)
	var rows []benchRow
	rows = append(rows, benchKeeper(t, p)...)
	rows = append(rows, benchThousand(t, p)...)
	rows = append(rows, benchLog(t, p), benchRecords(t))
	printRows(t, rows)
}

// benchKeeper measures a keeper that has nothing to do yet.
func benchKeeper(t *testing.T, p programs) []benchRow {
	var took, bare []time.Duration
	for range startSamples {
		began := time.Now()
		for range 2 { // the anchor, then the keeper
			if out, err := exec.Command(p.bare, "nothing").CombinedOutput(); err != nil {
				t.Fatalf("bare nothing: %v\n%s", err, out)
			}
		}
		bare = append(bare, time.Since(began))
		s := newStand(t, p)
		began = time.Now()
		s.start(p.reconciler, "keeper")
		for {
			if _, err := keeper.Ask(t.Context(), s.layout(), "bench"); err == nil {
				break
			}
			if time.Since(began) > benchPatience {
				t.Fatal("the keeper does not answer")
			}
			time.Sleep(200 * time.Microsecond)
		}
		took = append(took, time.Since(began))
		s.end()
	}
	s := newStand(t, p)
	s.declare(1)
	s.run() // a keeper is beside a reconciler, always: they share the program
	s.awaitCount("up", 1)
	time.Sleep(4 * time.Second) // as in startLoaded
	s.cgroup.quiet(t)
	memory := pss(t, s.our("keeper"))
	held := private(t, s.anchor())
	s.end()
	return []benchRow{
		{name: "keeper: start to first answer, median", measured: milliseconds(median(took)), bare: milliseconds(median(bare)), at: 4, unit: "ms", aim: 15, limit: 15},
		{name: "keeper: memory at rest beside a reconciler (PSS)", measured: float64(memory) / (1 << 20), unit: "MiB", aim: 10, limit: 10},
		{name: "anchor: memory of its own at rest (private)", measured: float64(held) / (1 << 20), unit: "MiB", aim: 2, limit: 3},
	}
}

// bareLoop is the bare fork and exec of the workload, at work.
type bareLoop struct {
	*stand
	cpu   time.Duration
	order io.Writer // one more for each line
}

func startBare(t *testing.T, p programs, n int) bareLoop {
	s := newStand(t, p)
	_, in := s.start(p.bare, "start", p.workload, s.fifo, fmt.Sprint(n))
	s.awaitCount("up", n)
	return bareLoop{s, s.cgroup.quiet(t), in}
}

// loaded is a reconciler with its servers up and everything at rest.
type loaded struct {
	*stand
	n    int
	cpu  time.Duration
	wall time.Duration
}

func startLoaded(t *testing.T, p programs, n int) loaded {
	s := newStand(t, p)
	s.declare(n)
	began := time.Now()
	s.run()
	s.awaitCount("up", n)
	wall := time.Since(began)
	s.cgroup.quiet(t)
	time.Sleep(4 * time.Second) // a while later both processes give memory back: that belongs to the start
	return loaded{s, n, s.cgroup.quiet(t), wall}
}

// benchThousand measures what many servers cost: to start, to have, and when something happens.
func benchThousand(t *testing.T, p programs) []benchRow {
	n := *benchScopes
	var bareCPU, ourCPU, wall []float64
	var bare bareLoop
	var ours loaded
	for round := range *benchRounds {
		if round > 0 {
			bare.end()
			ours.end()
		}
		bare = startBare(t, p, n)
		ours = startLoaded(t, p, n)
		bareCPU, ourCPU, wall = append(bareCPU, bare.cpu.Seconds()), append(ourCPU, ours.cpu.Seconds()), append(wall, ours.wall.Seconds())
	}
	rows := []benchRow{
		{name: fmt.Sprintf("start of %d: CPU of all processes", n), measured: median(ourCPU), bare: median(bareCPU), unit: "s", times: true, aim: 2, limit: 3},
		{name: fmt.Sprintf("start of %d: to the last one's first instruction", n), measured: median(wall), unit: "s"},
		{name: fmt.Sprintf("memory of all our processes at %d (PSS), a scope", n), measured: float64(pss(t, ours.helpers()...)) / 1024 / float64(n), unit: "KiB", aim: 40, limit: 60},
		benchRest(t, ours),
		{name: "crash to running again, median", measured: crash(ours.stand, n), bare: crash(bare.stand, n), at: 1.2, unit: "ms", aim: 2.5, limit: 10},
	}
	rows = append(rows, benchDrop(ours, bare)...)
	rows = append(rows, benchResync(t, ours), benchScrape(t, ours))
	return append(rows, benchRestart(t, ours)...)
}

// benchRest measures what is used while nothing happens.
func benchRest(t *testing.T, s loaded) benchRow {
	const rest = 20 * time.Second
	before := s.cgroup.cpu(t)
	time.Sleep(rest) // nothing shall happen: there is no event to wait for
	return benchRow{name: "CPU at rest in 20 s", measured: milliseconds(s.cgroup.cpu(t) - before), unit: "ms", aim: noneAtAll}
}

// crash kills workloads, each once, and is the median of the times to the first instruction of the next, in milliseconds.
func crash(s *stand, n int) float64 {
	var took []time.Duration
	for i := range min(crashSamples, n) {
		name := fmt.Sprintf("w%d", i*(n/min(crashSamples, n)))
		took = append(took, s.crash(name))
		rarely()
	}
	return milliseconds(median(took))
}

// crash kills a workload and waits for the next.
func (s *stand) crash(name string) time.Duration {
	pid := s.newest(name).pid
	at := now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	return s.await("up", name, at).at - at
}

// rarely waits for a while of no particular length, so that samples do not fall into step with anything.
func rarely() { time.Sleep(time.Duration(20+rand.IntN(60)) * time.Millisecond) }

// benchDrop measures the way of a new manifest to the first instruction of its server.
func benchDrop(s loaded, bare bareLoop) []benchRow {
	var renamed, written, asked []time.Duration
	for i := range dropSamples {
		name := fmt.Sprintf("renamed-%d", i)
		tmp := filepath.Join(s.dir, "next.yaml")
		s.write(tmp, s.manifest(name))
		at := now()
		if err := os.Rename(tmp, filepath.Join(s.manifests(), name+".yaml")); err != nil {
			s.t.Fatal(err)
		}
		renamed = append(renamed, s.await("up", name, at).at-at)
		rarely()

		name = fmt.Sprintf("written-%d", i)
		at = now()
		s.write(filepath.Join(s.manifests(), name+".yaml"), s.manifest(name))
		written = append(written, s.await("up", name, at).at-at)
		rarely()

		name = fmt.Sprintf("asked-%d", i)
		at = now()
		if _, err := fmt.Fprintln(bare.order, name); err != nil {
			s.t.Fatal(err)
		}
		asked = append(asked, bare.await("up", name, at).at-at)
		rarely()
	}
	const stability = 20 // ms: what is not renamed into place has to stand still first
	what := fmt.Sprintf(" among %d to first instruction, median", s.n)
	return []benchRow{
		{name: "file renamed into place" + what, measured: milliseconds(median(renamed)), bare: milliseconds(median(asked)), unit: "ms", aim: 10},
		{name: "file written in place" + what, measured: milliseconds(median(written)), bare: milliseconds(median(asked)), unit: "ms", aim: stability + 10},
	}
}

// benchResync measures full readings of the directory in which nothing has changed.
func benchResync(t *testing.T, s loaded) benchRow {
	const times = 5
	births := s.births()
	var cpu time.Duration
	for range times {
		litter := filepath.Join(s.manifests(), "notes.yaml")
		s.write(litter, []byte("not: ours\n"))
		s.cgroup.quiet(t)
		before := s.cgroup.cpu(t)
		if err := os.Remove(litter); err != nil { // what takes a path away is followed by two full readings
			t.Fatal(err)
		}
		time.Sleep(600 * time.Millisecond) // the second comes half a second later
		cpu += s.cgroup.quiet(t) - before
	}
	if s.births() != births {
		t.Errorf("a resync of unchanged manifests has started %d", s.births()-births)
	}
	return benchRow{name: fmt.Sprintf("resync of %d unchanged, CPU", s.n), measured: milliseconds(cpu) / times / 2, bare: milliseconds(bareScan(t, s.manifests())), unit: "ms"}
}

// bareScan is what it costs to look at every file of a directory.
func bareScan(t *testing.T, dir string) time.Duration {
	const times = 10
	before := processTime(t)
	for range times {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if _, err := e.Info(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return (processTime(t) - before) / times
}

func processTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchScrape measures a whole scrape over TCP, by one who has room for the page, as Prometheus has from its second scrape on.
func benchScrape(t *testing.T, s loaded) benchRow {
	var took []time.Duration
	var page bytes.Buffer
	for range startSamples {
		began := time.Now()
		if err := s.page(t.Context(), &page); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
		if running := int(metric(page.String(), "reconciler_start_time_seconds")); running == 0 {
			t.Fatal("the page shows no start times")
		}
	}
	return benchRow{name: fmt.Sprintf("scrape of %d, median", s.n), measured: milliseconds(median(took)), unit: "ms", aim: 50, limit: 50}
}

// benchRestart kills our own processes, and waits until everything is known again and a crash is repaired again.
func benchRestart(t *testing.T, s loaded) []benchRow {
	births := s.births()
	live := s.status().Live
	began := time.Now()
	s.endOur("run")
	s.run()
	s.awaitReady()
	reconciler := time.Since(began)

	old := s.status().Since
	began = time.Now()
	s.endOur("keeper")
	for st := s.status(); st.Since.Equal(old) || st.Live != live; st = s.status() {
		if time.Since(began) > benchPatience {
			t.Fatalf("the new keeper knows of %d live runs, not %d", st.Live, live)
		}
		time.Sleep(time.Millisecond)
	}
	known := time.Since(began)
	s.crash("w1")
	repaired := time.Since(began)
	if started := s.births() - births - 1; started != 0 {
		t.Errorf("the ends of our own processes have started %d workloads", started)
	}
	return []benchRow{
		{name: fmt.Sprintf("kill -9 of the reconciler with %d, until all is known to the next", s.n), measured: milliseconds(reconciler), unit: "ms"},
		{name: fmt.Sprintf("kill -9 of the keeper with %d, until all is known to the next", s.n), measured: milliseconds(known), unit: "ms"},
		{name: "... until a crash just after it is repaired", measured: milliseconds(repaired), unit: "ms"},
	}
}

// status is what the keeper says of itself; the zero value while there is none.
func (s *stand) status() keeper.Status {
	ctx, cancel := context.WithTimeout(s.t.Context(), benchPatience)
	defer cancel()
	st, err := keeper.Ask(ctx, s.layout(), "bench")
	if err != nil {
		return keeper.Status{}
	}
	return st
}

// endOur kills the process that runs a command of ours, and waits for its end.
func (s *stand) endOur(command string) {
	s.t.Helper()
	if err := kill(s.our(command), syscall.SIGKILL, true); err != nil {
		s.t.Fatal(err)
	}
}

// our is the number of the process that runs a command of ours.
func (s *stand) our(command string) int {
	s.t.Helper()
	for _, pid := range s.helpers() {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		comm, commErr := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		isAnchor := strings.TrimSpace(string(comm)) == anchor.Comm // its command line is the keeper's
		if err == nil && commErr == nil && !isAnchor && strings.HasPrefix(string(line), s.programs.reconciler+"\x00"+command+"\x00") {
			return pid
		}
	}
	s.t.Fatalf("no process runs %q", command)
	return 0
}

// anchor is the number of the anchor's process.
func (s *stand) anchor() int {
	s.t.Helper()
	for _, pid := range s.helpers() {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err == nil && strings.TrimSpace(string(comm)) == anchor.Comm {
			return pid
		}
	}
	s.t.Fatal("there is no anchor")
	return 0
}

// awaitReady waits until the newest reconciler says that it knows all manifests and all runs.
func (s *stand) awaitReady() {
	s.t.Helper()
	for deadline := time.Now().Add(benchPatience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		url, err := s.url("/readyz")
		if err != nil {
			continue
		}
		resp, err := http.Get(url)
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	s.t.Fatal("the reconciler is not ready")
}

// benchLog measures what it costs to take in a workload's output.
func benchLog(t *testing.T, p programs) benchRow {
	const total, size = 256 << 20 / 4000 * 4000, 4000
	args := []string{fmt.Sprint(total), fmt.Sprint(size)}
	bare := newStand(t, p)
	bare.start(p.bare, append([]string{"log", filepath.Join(bare.dir, "copy"), p.workload, bare.fifo}, args...)...)
	bareCPU := bare.poured("log")

	ours := newStand(t, p)
	ours.write(filepath.Join(ours.manifests(), "log.yaml"), ours.manifest("log", args...))
	ours.run()
	ourCPU := ours.poured("log")
	var page bytes.Buffer
	if err := ours.page(t.Context(), &page); err != nil {
		t.Fatal(err)
	}
	taken, dropped := metric(page.String(), "reconciler_log_bytes_total"), metric(page.String(), "reconciler_log_dropped_lines_total")
	if dropped > 0 || taken < total {
		t.Errorf("of %d bytes %.0f were taken into the log and %.0f lines were dropped", total, taken, dropped)
	}
	return benchRow{name: "log: CPU a GB of lines written 4,000 bytes at a time", measured: ourCPU / total * 1e9, bare: bareCPU / total * 1e9, unit: "s", aim: 2.4}
}

// poured waits for the end of a workload's output, and returns what taking it in has cost, in seconds.
func (s *stand) poured(name string) float64 {
	up := s.await("up", name, 0)
	done := s.await("done", name, up.at)
	return (s.cgroup.quiet(s.t) - ownTime(s.t, done.pid)).Seconds()
}

// benchRecords measures the store of records beside writing and renaming the same bytes.
func benchRecords(t *testing.T) benchRow {
	dir := filepath.Join(t.TempDir(), "keeper")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	store, _, err := state.Open(state.LinuxDisk{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- store.Run(ctx) }()
	records := make([]*state.Record, 1000)
	for i := range records {
		records[i] = benchRecord(i)
	}
	const times = 4 // as often as a start writes
	before := processTime(t)
	for range times {
		for _, r := range records {
			if err := store.Put(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := store.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	ours := processTime(t) - before
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	before = processTime(t)
	for range times {
		for i, r := range records {
			path := filepath.Join(dir, fmt.Sprint("bare-", i))
			data, err := state.EncodeRecord(r)
			if err == nil {
				err = os.WriteFile(path+"~", data, 0o600)
			}
			if err == nil {
				err = os.Rename(path+"~", path)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	bare := processTime(t) - before
	micro := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(times*len(records)) }
	return benchRow{name: "record store: CPU a record, power cut considered", measured: micro(ours), bare: micro(bare), unit: "us"}
}

func benchRecord(i int) *state.Record {
	scope := spec.Scope{Namespace: spec.DefaultNamespace, Server: fmt.Sprint("w", i), Profile: "bench"}
	return &state.Record{
		Version: state.RecordVersion, Scope: scope, UID: "0b7e6a5e-0000-4000-8000-000000000000",
		Run: &state.Run{
			Number: 1, ID: fmt.Sprintf("%026d", i), Phase: state.Started, Cgroup: fmt.Sprintf("reconciler/%026d", i), LaunchingAt: time.Now(),
			Identity: &state.Identity{BootID: "bench", PID: i + 2, PidfdInode: uint64(i + 1), StartTicks: 1},
			Launch:   spec.Launch{Scope: scope, Workspace: "usr", Executable: "bin/sleep", Args: []string{"300"}},
		},
	}
}
