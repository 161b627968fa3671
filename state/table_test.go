package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

type wish struct {
	Hold string `json:"hold"`
	N    int    `json:"n"`
}

var wishes = Format{Kind: "wishes", Version: 1}

// openTable opens a table whose flusher runs until the test is over or closed is called.
func openTable(t testing.TB, disk Disk, path string) (table *Table[wish], closed func()) {
	t.Helper()
	table, err := OpenTable[wish](disk, path, wishes)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- table.Run(ctx) }()
	closed = func() {
		cancel()
		if err, ok := <-done; ok {
			close(done)
			if err := errors.Join(err, table.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(closed)
	return table, closed
}

func TestTableKeepsWhatWasSet(t *testing.T) {
	path := filepath.Join(privateDir(t), "wishes.journal")
	table, closed := openTable(t, LinuxDisk{}, path)
	must(t, table.Set("a", wish{"Stopped", 1}))
	must(t, table.SetDurable(t.Context(), "b", wish{"Running", 2}))
	must(t, table.Set("a", wish{"Stopped", 3}))
	must(t, table.Set("c", wish{}))
	must(t, table.DeleteDurable(t.Context(), "c"))
	must(t, table.Delete("never"))
	closed()
	if err := table.Set("a", wish{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Set after Close: %v", err)
	}
	table, _ = openTable(t, LinuxDisk{}, path)
	want := map[string]wish{"a": {"Stopped", 3}, "b": {"Running", 2}}
	if got := table.All(); !maps.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if v, ok := table.Get("a"); !ok || v.N != 3 {
		t.Errorf("Get: %v, %v", v, ok)
	}
	if _, ok := table.Get("c"); ok {
		t.Error("Get finds what was deleted")
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestTableRefusesWhatItCannotTrust(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(path string) error
		is    error
	}{
		"open to others": {func(p string) error { return os.Chmod(p, 0o644) }, ErrUnsafe},
		"directory open": {func(p string) error { return os.Chmod(filepath.Dir(p), 0o755) }, ErrUnsafe},
		"newer":          {func(p string) error { return os.WriteFile(p, []byte("reconciler-journal 1 wishes 2\n"), 0o600) }, ErrNewer},
		"another table":  {func(p string) error { return os.WriteFile(p, []byte("reconciler-journal 1 uids 1\n"), 0o600) }, ErrDamaged},
		"value":          {func(p string) error { return appendTo(p, edit{key: "a", value: []byte(`"text"`)}) }, ErrDamaged},
		"link":           {func(p string) error { return errors.Join(os.Rename(p, p+"2"), os.Symlink(p+"2", p)) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(privateDir(t), "wishes.journal")
			table, closed := openTable(t, LinuxDisk{}, path)
			must(t, table.Set("a", wish{"Stopped", 1}))
			closed()
			must(t, c.spoil(path))
			_, err := OpenTable[wish](LinuxDisk{}, path, wishes)
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), "wishes") {
				t.Errorf("OpenTable: %v, want %v", err, c.is)
			}
		})
	}
}

func appendTo(path string, e edit) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b, _ = appendCommit(b, 0, []edit{e})
	return os.WriteFile(path, b, 0o600)
}

func TestTableAfterAnErrorIsAsItWas(t *testing.T) {
	disk := newModelDisk(1)
	table, closed := openTable(t, disk, "/s/wishes.journal")
	must(t, table.SetDurable(t.Context(), "a", wish{"Stopped", 1}))
	disk.mu.Lock()
	disk.fail = func(op, path string) error {
		if op == "write" {
			return unix.ENOSPC
		}
		return nil
	}
	disk.mu.Unlock()
	if err := table.Set("a", wish{"Running", 2}); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "free space") {
		t.Errorf("Set: %v", err)
	}
	if err := table.Delete("a"); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Delete: %v", err)
	}
	if v, _ := table.Get("a"); v.N != 1 {
		t.Errorf("the table holds %v", v)
	}
	disk.mu.Lock()
	disk.fail = nil
	disk.mu.Unlock()
	must(t, table.Set("b", wish{"Running", 3}))
	closed()
	table, _ = openTable(t, disk, "/s/wishes.journal")
	if got := table.All(); len(got) != 2 || got["a"].N != 1 {
		t.Errorf("found %v", got)
	}
}

func TestTableRecoversFromAFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newModelDisk(1)
		table, closed := openTable(t, disk, "/s/wishes.journal")
		disk.mu.Lock()
		disk.fail = func(op, path string) error {
			if op == "sync" {
				return unix.EIO
			}
			return nil
		}
		disk.mu.Unlock()
		if err := table.SetDurable(t.Context(), "a", wish{"Stopped", 1}); !errors.Is(err, unix.EIO) {
			t.Errorf("SetDurable: %v", err)
		}
		if table.Health() == nil {
			t.Error("Health is nil")
		}
		disk.mu.Lock()
		disk.fail = nil
		disk.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		must(t, table.Health())
		closed()
		disk.cutPower()
		table, _ = openTable(t, disk, "/s/wishes.journal")
		if v, _ := table.Get("a"); v.N != 1 {
			t.Errorf("found %v", table.All())
		}
	})
}

func TestTableSharesFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newModelDisk(1)
		table, _ := openTable(t, disk, "/s/wishes.journal")
		disk.syncTime = 10 * time.Millisecond
		before := disk.syncs
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				if err := table.SetDurable(t.Context(), fmt.Sprint(i), wish{"Stopped", i}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := disk.syncs - before; n > 3 {
			t.Errorf("1000 sets took %d syncs", n)
		}
	})
}

func TestTableIsRewrittenWhenItHasGrown(t *testing.T) {
	disk := newModelDisk(1)
	table, closed := openTable(t, disk, "/s/wishes.journal")
	for i := range 600 {
		must(t, table.Set(fmt.Sprint(i%10), wish{strings.Repeat("x", 4000), i}))
	}
	must(t, table.Flush(t.Context()))
	must(t, table.Set("0", wish{"last", 0}))
	must(t, table.Flush(t.Context()))
	if n := len(disk.files["/s/wishes.journal"].data); n > rewriteAt {
		t.Errorf("the journal of ten keys is %d bytes long", n)
	}
	want := table.All()
	closed()
	disk.cutPower()
	table, _ = openTable(t, disk, "/s/wishes.journal")
	if got := table.All(); !maps.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// TestTableSurvivesCrashesAndPowerCuts: key by key, a crash leaves what was set last or what was being set, and a power cut
// something since the last flush.
func TestTableSurvivesCrashesAndPowerCuts(t *testing.T) {
	for seed := range uint64(300) {
		disk, r := newModelDisk(seed), rand.New(rand.NewPCG(seed, 3))
		want := map[string]*expected{}
		for _, key := range []string{"a", "b", "c"} {
			want[key] = &expected{possible: map[int]bool{0: true}}
		}
		open := func(powerCut bool) *Table[wish] {
			for {
				table, err := OpenTable[wish](disk, "/s/t.journal", wishes)
				if errors.Is(err, errCrashed) {
					if r.IntN(2) == 0 {
						disk.cutPower()
						powerCut = true
					} else {
						disk.restart()
					}
					continue
				}
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				for key, e := range want {
					v, _ := table.Get(key)
					if ok := v.N == e.last || v.N == e.flight; !ok && !powerCut || powerCut && !e.possible[v.N] {
						t.Fatalf("seed %d: %s is %d after a power cut (%v); %+v", seed, key, v.N, powerCut, *e)
					}
					e.last, e.flight = v.N, v.N
					e.possible[v.N] = true
					if powerCut {
						e.possible = map[int]bool{v.N: true}
					}
				}
				disk.calls, disk.crashAt = 0, 1+r.IntN(60)
				return table
			}
		}
		disk.crashAt = 1 + r.IntN(10)
		table := open(false)
		for version := 1; version < 150; version++ {
			var err error
			key := string(rune('a' + r.IntN(3)))
			e := want[key]
			switch r.IntN(5) {
			case 0, 1:
				e.began(version)
				if err = table.Set(key, wish{strings.Repeat("x", version*13%900), version}); err == nil {
					e.last = version
				}
			case 2:
				e.began(0)
				if err = table.Delete(key); err == nil {
					e.last = 0
				}
			case 3:
				if err = table.group.turn(table.flush); err == nil {
					for _, e := range want {
						e.possible = map[int]bool{e.last: true}
					}
				}
			case 4: // as if it had grown
				if err = table.journal.rewrite(table.live); err == nil {
					for _, e := range want {
						e.possible = map[int]bool{e.last: true}
					}
				}
			}
			if err != nil && !errors.Is(err, errCrashed) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err != nil {
				cut := r.IntN(2) == 0
				if cut {
					disk.cutPower()
				} else {
					disk.restart()
				}
				table = open(cut)
			}
		}
	}
}
