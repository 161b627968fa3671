package keeper_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// scopes is how many scopes are started at once.
const scopes = 1000

// cpuOf is the processor time of a process's threads so far, without its children.
func cpuOf(pid int) time.Duration {
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/schedstat")
	if err != nil {
		return 0
	}
	var sum time.Duration
	for _, t := range tasks {
		b, err := os.ReadFile(t)
		if err != nil {
			continue
		}
		ns, _ := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
		sum += time.Duration(ns)
	}
	return sum
}

func sleeper(r *rig, name string) spec.Launch {
	l := r.launch(name)
	l.Workspace, l.Executable, l.Args, l.Readiness = "usr", "bin/sleep", []string{"300"}, nil
	return l
}

// BenchmarkStart starts a thousand scopes through the whole keeper; the CPU of keeper and children counts.
func BenchmarkStart(b *testing.B) {
	r := newRig(b)
	launches := make([]spec.Launch, scopes)
	for i := range launches {
		launches[i] = sleeper(r, fmt.Sprintf("s%d", i))
	}
	var wall, cpu time.Duration
	for b.Loop() {
		before, self, begin := cpuOf(r.keeper.Process.Pid), cpuOf(os.Getpid()), time.Now()
		startAll(b, r, launches)
		wall += time.Since(begin)
		cpu += cpuOf(r.keeper.Process.Pid) - before
		b.ReportMetric(float64((cpuOf(os.Getpid())-self).Microseconds())/scopes, "client-us/start")
		var children time.Duration
		for _, f := range started(r) {
			children += cpuOf(r.pid(f.Scope))
		}
		b.ReportMetric(float64(children.Microseconds())/scopes, "child-us/start")
		b.ReportMetric(float64(pss(r.keeper.Process.Pid))/1024, "KiB-PSS-keeper")
		killAll(b, r)
	}
	b.ReportMetric(float64(wall.Microseconds())/scopes/float64(b.N), "us/start")
	b.ReportMetric(float64(cpu.Microseconds())/scopes/float64(b.N), "keeper-us/start")
}

func startAll(b *testing.B, r *rig, launches []spec.Launch) {
	var wg sync.WaitGroup
	for _, l := range launches {
		o := r.order(l)
		wg.Go(func() {
			if err := r.client.Start(b.Context(), o); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}

func started(r *rig) []*observe.Facts {
	all, _ := r.client.Facts()
	return all
}

// killAll ends every run and waits until the keeper has seen it.
func killAll(b *testing.B, r *rig) {
	begin := time.Now()
	before := cpuOf(r.keeper.Process.Pid)
	for _, f := range started(r) {
		_ = unix.Kill(r.pid(f.Scope), unix.SIGKILL)
	}
	for {
		over := 0
		for _, f := range started(r) {
			if f.Run.Over() {
				over++
			}
		}
		if over == scopes {
			break
		}
		<-r.client.Changed()
	}
	b.ReportMetric(float64(time.Since(begin).Microseconds())/scopes, "us/exit")
	b.ReportMetric(float64((cpuOf(r.keeper.Process.Pid)-before).Microseconds())/scopes, "keeper-us/exit")
}

// pss is the proportional memory of a process in bytes.
func pss(pid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			n, _ := strconv.Atoi(f[1])
			return n << 10
		}
	}
	return 0
}

// BenchmarkBare is the floor: fork and exec of the same program, a thousand times.
func BenchmarkBare(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	fd := null.Fd()
	for b.Loop() {
		self, begin := cpuOf(os.Getpid()), time.Now()
		pids := make([]int, scopes)
		for i := range pids {
			pid, err := syscall.ForkExec("/usr/bin/sleep", []string{"sleep", "300"}, &syscall.ProcAttr{
				Files: []uintptr{fd, fd, fd}, Sys: &syscall.SysProcAttr{Setsid: true},
			})
			if err != nil {
				b.Fatal(err)
			}
			pids[i] = pid
		}
		wall := time.Since(begin)
		var children time.Duration
		for _, pid := range pids {
			children += cpuOf(pid)
		}
		b.ReportMetric(float64(wall.Microseconds())/scopes, "us/start")
		b.ReportMetric(float64((cpuOf(os.Getpid())-self).Microseconds())/scopes, "parent-us/start")
		b.ReportMetric(float64(children.Microseconds())/scopes, "child-us/start")
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
	}
}

// BenchmarkFacts lists a thousand scopes anew.
func BenchmarkFacts(b *testing.B) {
	k := newFakeKernel()
	store := newFakeStore(k)
	core := keeper.NewCore(k, store, store.contents(), fakeHost(), nil)
	w := newWorld(b, workRuns)
	for i := range scopes {
		l := w.launch()
		l.Scope = scopeOf(fmt.Sprintf("s%d", i))
		if err := core.Start(state.StartOrder{Launch: l, UID: "u"}, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for b.Loop() {
		if facts, _, _ := core.Facts(0); len(facts) != scopes {
			b.Fatal(len(facts))
		}
	}
}

// BenchmarkCrashToRunning kills a run, hears of its end, starts the next and hears that it runs.
func BenchmarkCrashToRunning(b *testing.B) {
	r := newRig(b)
	l := sleeper(r, "town")
	r.start(l)
	for b.Loop() {
		pid := r.pid(l.Scope)
		_ = unix.Kill(pid, unix.SIGKILL)
		r.awaitOver(l.Scope)
		r.start(l)
	}
}
