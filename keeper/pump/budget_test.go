package pump

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe/logs"
)

// Whatever is printed and however the writes cut it: the files one after the other hold it, and every file but the last
// ends with whole lines of both streams, unless one of them does not come to a line's end.
func TestRotation(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		s := newStepped(t, map[string]bool{})
		s.cfg.fileSize = 2000
		var printed [3]strings.Builder
		s.life(-1, func() {
			for range 60 {
				to, stream := s.out, logs.Stdout
				if random.IntN(2) == 0 {
					to, stream = s.err, logs.Stderr
				}
				var b strings.Builder
				for range random.IntN(5) {
					b.WriteString(strings.Repeat(string(rune('a'+random.IntN(26))), random.IntN(300)))
					if random.IntN(4) > 0 {
						b.WriteByte('\n')
					}
				}
				printed[stream].WriteString(b.String())
				s.print(to, b.String())
				s.read()
				s.pump.writer.turn()
			}
		})
		pieces := s.pieces()
		for _, stream := range []logs.Stream{logs.Stdout, logs.Stderr} {
			if got, want := text(pieces, stream), printed[stream].String(); got != want {
				t.Fatalf("%s: files hold %d bytes, want %d: %q", stream, len(got), len(want), cut(got, want))
			}
		}
		s.checkFileEnds()
		s.closeAll()
	}
}

func (s *stepped) checkFileEnds() {
	s.t.Helper()
	folder := filepath.Join(s.cfg.Dir, testRun.Scope)
	files, err := logs.Files(folder)
	if err != nil || len(files) < 3 {
		s.t.Fatalf("%d files, %v", len(files), err)
	}
	var open [3]bool
	for _, file := range files[:len(files)-1] {
		b, err := os.ReadFile(filepath.Join(folder, logs.FileName(file.Run, file.Index)))
		if err != nil {
			s.t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			p, err := logs.Parse([]byte(strings.TrimSuffix(line, "\n")))
			if err != nil {
				s.t.Fatal(err)
			}
			open[p.Stream] = p.Partial
		}
		if (open[logs.Stdout] || open[logs.Stderr]) && len(b) < 2*2000 {
			s.t.Errorf("file %d of %d bytes ends within a line", file.Index, len(b))
		}
		if len(b) > 2*2000+maxLineSize {
			s.t.Errorf("file %d has %d bytes", file.Index, len(b))
		}
	}
}

func TestScopeBudget(t *testing.T) {
	const budget = 64 << 10
	r := newRig(t, func(c *Config) { c.ScopeBudget = budget })
	folder := filepath.Join(r.cfg.Dir, testRun.Scope)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, number := range []int64{2, 3} {
		if err := os.WriteFile(filepath.Join(folder, logs.FileName(number, 0)), make([]byte, 20<<10), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.attach()
	r.start()
	n := 0
	print := func(bytes int) {
		for end := n + bytes/200; n < end; n++ {
			r.print(r.out, string(floodLine(n)))
			if n%50 == 0 {
				r.drain()
			}
		}
		r.drain()
	}
	print(25 << 10)
	if runs := runsOf(t, folder); fmt.Sprint(runs) != "[3 7]" {
		t.Errorf("runs %v have logs, want the oldest gone", runs)
	}
	print(400 << 10)
	if runs := runsOf(t, folder); fmt.Sprint(runs) != "[7]" {
		t.Errorf("runs %v have logs, want the newest alone", runs)
	}
	files, err := logs.Files(folder)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, f := range files {
		sum += f.Size
	}
	if sum > budget+budget/8 || sum < budget/2 {
		t.Errorf("the scope's logs have %d bytes, want near %d", sum, budget)
	}
	// What is left is the end of what was printed, without a gap.
	lines := strings.SplitAfter(text(r.pieces(), logs.Stdout), "\n")
	lines = lines[:len(lines)-1]
	for i, line := range lines {
		if want := string(floodLine(n - len(lines) + i)); line != want {
			t.Fatalf("line %d from the end is %q, want %q", len(lines)-i, line, want)
		}
	}
	if stats, _ := r.pump.Stats(testRun); stats.DroppedLines != 0 {
		t.Errorf("%d lines dropped: the budget takes old files, no new lines", stats.DroppedLines)
	}
}

func runsOf(t *testing.T, folder string) []int64 {
	t.Helper()
	files, err := logs.Files(folder)
	if err != nil {
		t.Fatal(err)
	}
	var runs []int64
	for _, f := range files {
		if len(runs) == 0 || runs[len(runs)-1] != f.Run {
			runs = append(runs, f.Run)
		}
	}
	return runs
}

func TestHostBudget(t *testing.T) {
	r := newRig(t, func(c *Config) { c.HostBudget = 100 << 10; c.fileSize = 16 << 10 })
	old := time.Now().Add(-time.Hour)
	write := func(scope string, number int64, age time.Duration) string {
		folder := filepath.Join(r.cfg.Dir, scope)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, logs.FileName(number, 0))
		if err := os.WriteFile(path, make([]byte, 20<<10), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old.Add(-age), old.Add(-age)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	oldest := write("default.a.x", 1, 3*time.Minute)
	older := write("default.b.x", 9, 2*time.Minute)
	newer := write("default.c.x", 1, time.Minute)
	exists := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}

	// A run of another scope whose log is the oldest of all and ends within a line: it goes on.
	other := &rig{t: t, dir: t.TempDir()}
	idle := logs.Run{Scope: "default.idle.x", Number: 4}
	attachAs(r, other, idle)
	r.attach()
	r.start()
	r.print(other.out, "prompt> ")
	if err := r.pump.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	drainRun(t, r.pump, idle)
	prompt := filepath.Join(r.cfg.Dir, idle.Scope, "4.log")
	if err := os.Chtimes(prompt, old.Add(-time.Hour), old.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	print := func(kib int) {
		for n := range kib << 10 / 160 {
			r.print(r.out, string(floodLine(n)))
		}
		r.drain()
	}
	print(60)
	if exists(oldest) || !exists(older) && !exists(newer) {
		t.Errorf("oldest is there: %v, older: %v, newer: %v", exists(oldest), exists(older), exists(newer))
	}
	print(300)
	if exists(older) || exists(newer) {
		t.Error("old files are there while the newest run has more than the budget")
	}
	if !exists(prompt) {
		t.Error("a file that ends within a line was removed")
	}
	if sum := allBytes(t, r.cfg.Dir); sum > 120<<10 {
		t.Errorf("all logs have %d bytes", sum)
	}
	r.print(other.out, "typed\n")
	drainRun(t, r.pump, idle)
	if got := text(readPieces(t, filepath.Join(r.cfg.Dir, idle.Scope), 4), logs.Stdout); got != "prompt> typed\n" {
		t.Errorf("the idle run's log holds %q", got)
	}
	if err := os.Chtimes(prompt, old, old); err != nil {
		t.Fatal(err)
	}
	print(200)
	if got := runsOf(t, filepath.Dir(prompt)); !exists(prompt) || len(got) != 1 {
		t.Errorf("the idle run's log went while files that nobody writes were there")
	}
}

func allBytes(t *testing.T, dir string) int64 {
	t.Helper()
	var sum int64
	scopes, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, scope := range scopes {
		files, err := logs.Files(filepath.Join(dir, scope.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			sum += f.Size
		}
	}
	return sum
}

// When live runs alone have more than the host's budget, the files of those that end with whole lines go, the longest
// silent first, and the runs go on.
func TestHostBudgetOfLiveRuns(t *testing.T) {
	r := newRig(t, func(c *Config) { c.HostBudget = 64 << 10; c.fileSize = 1 << 20 })
	r.attach()
	r.start()
	ids, rigs := make([]logs.Run, 10), make([]*rig, 10)
	for i := range ids {
		ids[i], rigs[i] = logs.Run{Scope: fmt.Sprintf("default.s%d.x", i), Number: 1}, &rig{t: t, dir: t.TempDir()}
		attachAs(r, rigs[i], ids[i])
	}
	for round := range 4 {
		for i := range ids {
			r.print(rigs[i].out, strings.Repeat("0123456789012345678901234567890123456789\n", 100)+fmt.Sprintf("end of round %d\n", round))
			drainRun(t, r.pump, ids[i])
		}
	}
	if sum := allBytes(t, r.cfg.Dir); sum > 80<<10 {
		t.Errorf("all logs have %d bytes", sum)
	}
	last := text(readPieces(t, filepath.Join(r.cfg.Dir, ids[9].Scope), 1), logs.Stdout)
	if !strings.HasSuffix(last, "end of round 3\n") {
		t.Errorf("the newest log ends with %q", last[max(0, len(last)-60):])
	}
}

func TestRemove(t *testing.T) {
	r := newRig(t, nil)
	r.attach()
	r.start()
	for _, scope := range []string{testRun.Scope, "default.gone.x"} {
		if err := os.MkdirAll(filepath.Join(r.cfg.Dir, scope), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.cfg.Dir, scope, "1.log"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.print(r.out, "live\n")
	r.drain()
	r.pump.Remove(testRun.Scope)
	r.pump.Remove("default.gone.x")
	if err := r.pump.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := runsOf(t, filepath.Join(r.cfg.Dir, testRun.Scope)); fmt.Sprint(got) != "[7]" {
		t.Errorf("runs %v have logs, want the attached one", got)
	}
	if _, err := os.Stat(filepath.Join(r.cfg.Dir, "default.gone.x")); err == nil {
		t.Error("the folder of a removed scope is there")
	}
}
