package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// cpuTime is what this process has used, in microseconds.
func cpuTime(b *testing.B) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3
}

func reportCPU(b *testing.B, before float64) {
	b.ReportMetric((cpuTime(b)-before)/float64(b.N), "cpu-us/op")
}

// BenchmarkPut is one record replaced, beside the same bytes written and renamed by hand.
func BenchmarkPut(b *testing.B) {
	r := sample("town")
	file, err := EncodeRecord(r)
	must(b, err)
	b.Run("store", func(b *testing.B) {
		s, _, _ := openStore(b, LinuxDisk{}, privateDir(b))
		before := cpuTime(b)
		for b.Loop() {
			must(b, s.Put(r))
		}
		reportCPU(b, before)
	})
	b.Run("bare write and rename", func(b *testing.B) {
		dir := b.TempDir()
		before := cpuTime(b)
		for b.Loop() {
			must(b, os.WriteFile(filepath.Join(dir, "tmp"), file, 0o600))
			must(b, os.Rename(filepath.Join(dir, "tmp"), filepath.Join(dir, "record")))
		}
		reportCPU(b, before)
	})
	b.Run("bare write and exchange", func(b *testing.B) {
		dir := b.TempDir()
		temp, path := filepath.Join(dir, "tmp"), filepath.Join(dir, "record")
		must(b, errors.Join(os.WriteFile(temp, file, 0o600), os.WriteFile(path, file, 0o600)))
		before := cpuTime(b)
		for b.Loop() {
			fd, err := unix.Open(temp, unix.O_RDWR|unix.O_CLOEXEC, 0)
			must(b, err)
			_, err = unix.Pwrite(fd, file, 0)
			must(b, errors.Join(err, unix.Close(fd)))
			must(b, LinuxDisk{}.Exchange(temp, path))
		}
		reportCPU(b, before)
	})
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			_, err := EncodeRecord(r)
			must(b, err)
		}
	})
}

// BenchmarkPutDurable is what a crowd of callers sees, beside one append and fdatasync each.
func BenchmarkPutDurable(b *testing.B) {
	b.Run("store", func(b *testing.B) {
		s, _, _ := openStore(b, LinuxDisk{}, privateDir(b))
		var n atomic.Int64
		b.SetParallelism(500)
		b.RunParallel(func(p *testing.PB) {
			r := record(scopeOf(fmt.Sprintf("s%d", n.Add(1))), 7)
			for p.Next() {
				must(b, s.PutDurable(context.Background(), r))
			}
		})
	})
	b.Run("bare append and fdatasync", func(b *testing.B) {
		f, err := os.OpenFile(filepath.Join(b.TempDir(), "f"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		must(b, err)
		defer f.Close()
		block := make([]byte, 1024)
		for b.Loop() {
			_, err := f.Write(block)
			must(b, err)
			must(b, unix.Fdatasync(int(f.Fd())))
		}
	})
}

// BenchmarkOpen is a keeper's start over 1,000 records, beside reading the same files.
func BenchmarkOpen(b *testing.B) {
	dir := privateDir(b)
	s, _, closed := openStore(b, LinuxDisk{}, dir)
	for i := range 1000 {
		r := sample(fmt.Sprintf("s%d", i))
		r.Run.Identity.PidfdInode = uint64(i + 1)
		must(b, s.Put(r))
	}
	closed()
	b.Run("store", func(b *testing.B) {
		for b.Loop() {
			s, found, err := Open(LinuxDisk{}, dir)
			must(b, err)
			if len(found.Records) != 1000 {
				b.Fatalf("%d records", len(found.Records))
			}
			must(b, s.Close())
		}
	})
	b.Run("bare read", func(b *testing.B) {
		for b.Loop() {
			entries, err := os.ReadDir(filepath.Join(dir, "records"))
			must(b, err)
			for _, e := range entries {
				_, err := os.ReadFile(filepath.Join(dir, "records", e.Name()))
				must(b, err)
			}
		}
	})
}

func BenchmarkTableSet(b *testing.B) {
	table, _ := openTable(b, LinuxDisk{}, filepath.Join(privateDir(b), "t.journal"))
	for b.Loop() {
		must(b, table.Set("default/town", wish{"Stopped", 1}))
	}
}
