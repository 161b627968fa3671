package pump

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkPump reports the CPU seconds of this process that a GB of 100-byte lines costs beside those of a bare loop
// of read and write, at different sizes of the workload's writes.
func BenchmarkPump(b *testing.B) {
	for _, size := range []int{100, 4000, 64000} {
		for _, kind := range []string{"bare", "pump"} {
			b.Run(fmt.Sprintf("write=%d/%s", size, kind), func(b *testing.B) { benchPump(b, size, 64<<20, 0, kind == "pump") })
		}
	}
	for _, kind := range []string{"bare", "pump"} {
		b.Run("write=100/pace=20MBps/"+kind, func(b *testing.B) { benchPump(b, 100, 10<<20, 20_000_000, kind == "pump") })
	}
}

func benchPump(b *testing.B, size, total, rate int, pumped bool) {
	for b.Loop() {
		dir := b.TempDir()
		for _, name := range []string{"stdout", "stderr"} {
			if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
				b.Fatal(err)
			}
		}
		keep, err := os.OpenFile(filepath.Join(dir, "stdout"), os.O_RDWR, 0)
		if err != nil {
			b.Fatal(err)
		}
		before, began := cpuTime(b), time.Now()
		if pumped {
			err = throughPump(dir, size, total, rate)
		} else {
			err = throughBareLoop(dir, size, total, rate)
		}
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric((cpuTime(b)-before).Seconds()/(float64(total)/1e9), "cpu-s/GB")
		b.ReportMetric(float64(total)/1e6/time.Since(began).Seconds(), "MB/s")
		keep.Close()
		os.RemoveAll(dir)
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func throughPump(dir string, size, total, rate int) error {
	loop, err := NewLoop()
	if err != nil {
		return err
	}
	p, err := New(Config{Dir: filepath.Join(dir, "logs"), PoolDirs: PoolDirs(dir, dir), Loop: loop, ScopeBudget: 1 << 30})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 2)
	go func() { ended <- loop.Run(ctx) }()
	go func() { ended <- p.Run(ctx) }()
	out, err := OpenReader(filepath.Join(dir, "stdout"))
	if err != nil {
		return err
	}
	errs, err := OpenReader(filepath.Join(dir, "stderr"))
	if err != nil {
		return err
	}
	if err := p.Attach(testRun, out, errs); err != nil {
		return err
	}
	if err := flood(dir, size, total, rate); err != nil {
		return err
	}
	done := make(chan bool, 1)
	if err := p.Drain(testRun, time.Minute, func(complete bool) { done <- complete }); err != nil {
		return err
	}
	if !<-done {
		return fmt.Errorf("not drained")
	}
	stats, _ := p.Stats(testRun)
	if stats.Bytes != int64(total/size*size) || stats.DroppedLines != 0 {
		return fmt.Errorf("stats %+v after %d bytes", stats, total/size*size)
	}
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			return err
		}
	}
	if err := p.Close(); err != nil {
		return err
	}
	return loop.Close()
}

func throughBareLoop(dir string, size, total, rate int) error {
	in, err := os.OpenFile(filepath.Join(dir, "stdout"), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer out.Close()
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		buf := make([]byte, 32<<10)
		for left := total / size * size; left > 0; {
			n, err := unix.Read(int(in.Fd()), buf)
			if err != nil {
				ended <- err
				return
			}
			if _, err := unix.Write(int(out.Fd()), buf[:n]); err != nil {
				ended <- err
				return
			}
			left -= n
		}
		ended <- nil
	}()
	if err := flood(dir, size, total, rate); err != nil {
		return err
	}
	return <-ended
}

// flood has another process write total bytes in lines of 100, at a rate in bytes a second or, with 0, as fast as it can.
func flood(dir string, size, total, rate int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(dir, "stdout"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer out.Close()
	p, err := os.StartProcess(self, []string{self}, &os.ProcAttr{
		Env:   []string{"PUMP_TEST_ROLE=block", fmt.Sprint("PUMP_TEST_SIZE=", size), fmt.Sprint("PUMP_TEST_TOTAL=", total), fmt.Sprint("PUMP_TEST_RATE=", rate)},
		Files: []*os.File{nil, out, os.Stderr},
	})
	if err != nil {
		return err
	}
	state, err := p.Wait()
	if err == nil && !state.Success() {
		err = fmt.Errorf("flood: %v", state)
	}
	return err
}

// playBlock writes the same block again and again.
func playBlock(size, total, rate int) int {
	began := time.Now()
	line := append(bytes.Repeat([]byte{'x'}, 99), '\n')
	block := bytes.Repeat(line, size/100)
	for n := range total / size {
		if rate > 0 {
			if ahead := time.Duration(float64(n*size)/float64(rate)*1e9) - time.Since(began); ahead > time.Millisecond {
				time.Sleep(ahead) // the pace is the point
			}
		}
		if _, err := os.Stdout.Write(block); err != nil {
			return 1
		}
	}
	return 0
}
