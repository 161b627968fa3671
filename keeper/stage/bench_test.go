package stage

import (
	"context"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkStart compares a start through the stage with the bare fork and exec of the same program, each waited for
// and reaped. The aim is at most twice the bare CPU.
func BenchmarkStart(b *testing.B) {
	const program = "/bin/true"
	b.Run("bare", func(b *testing.B) {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			b.Fatal(err)
		}
		defer null.Close()
		n := null.Fd()
		measured(b, func() {
			pidfd := -1
			pid, err := syscall.ForkExec(program, []string{"true"}, &syscall.ProcAttr{
				Env: []string{}, Files: []uintptr{n, n, n}, Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
			})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := wait(pid); err != nil {
				b.Fatal(err)
			}
			unix.Close(pidfd)
		})
	})
	b.Run("stage", func(b *testing.B) {
		s := newBench(b, Options{}, program, "true")
		measured(b, func() { startAndReap(b, s) })
	})
	b.Run("stage-cgroup", func(b *testing.B) {
		s := newBench(b, Options{}, program, "true")
		c := cgroups(b)
		if _, err := s.SelfTest(c.Base()); err != nil {
			b.Fatal(err)
		}
		s.spec.Cgroup = freshCgroup(b)
		measured(b, func() { startAndReap(b, s) })
	})
}

// BenchmarkStartWithManyOpen is a start when a thousand others run: what it costs must not grow with what the process has open.
func BenchmarkStartWithManyOpen(b *testing.B) {
	for name, shared := range map[string]bool{"own-table": false, "shared-table": true} {
		b.Run(name, func(b *testing.B) {
			s := newBench(b, Options{SharedTable: shared}, "/bin/true", "true")
			for range 3000 {
				open(b, os.DevNull, unix.O_RDONLY)
			}
			measured(b, func() { startAndReap(b, s) })
		})
	}
}

func startAndReap(b *testing.B, s *bench) {
	h, err := s.Hold(s.spec)
	if err != nil {
		b.Fatal(err)
	}
	if err := h.Release(context.Background()); err != nil {
		b.Fatal(err)
	}
	if _, err := wait(h.PID); err != nil {
		b.Fatal(err)
	}
}

// measured reports CPU times, which a loaded machine does not spoil.
func measured(b *testing.B, f func()) {
	self, children := cpu(b, unix.RUSAGE_SELF), cpu(b, unix.RUSAGE_CHILDREN)
	for b.Loop() {
		f()
	}
	b.ReportMetric((cpu(b, unix.RUSAGE_SELF)-self)/float64(b.N), "parent-cpu-us/op")
	b.ReportMetric((cpu(b, unix.RUSAGE_CHILDREN)-children)/float64(b.N), "child-cpu-us/op")
}

func cpu(b *testing.B, who int) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(who, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1000
}
