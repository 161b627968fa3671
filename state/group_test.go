package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// modelStore is a store on a model disk whose flusher runs.
func modelStore(t *testing.T) (s *Store, disk *modelDisk) {
	disk = newModelDisk(1)
	s, _, _ = openStore(t, disk, "/s")
	return s, disk
}

func TestDurablePutsShareFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, disk := modelStore(t)
		disk.syncTime = 10 * time.Millisecond
		before, start := disk.syncs, time.Now()
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				r := record(scopeOf(fmt.Sprintf("s%d", i)), i)
				if err := s.PutDurable(t.Context(), r); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := disk.syncs - before; n > 3 {
			t.Errorf("1000 puts took %d syncs", n)
		}
		if d := time.Since(start); d > 30*time.Millisecond { // of the bubble's clock: only syncs take time
			t.Errorf("1000 puts took %v", d)
		}
		disk.cutPower()
		_, found, err := Open(disk, "/s")
		if err != nil || len(found.Records) != 1000 {
			t.Errorf("after the power cut: %d records, %v", len(found.Records), err)
		}
	})
}

func TestPutIsFlushedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, disk := modelStore(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		idle := disk.syncs
		must(t, s.Put(record(scopeOf("town"), 1)))
		time.Sleep(time.Second)
		synctest.Wait()
		if disk.syncs == idle {
			t.Error("nothing was synced within a second")
		}
		synced := disk.syncs
		time.Sleep(time.Hour)
		if synctest.Wait(); disk.syncs != synced {
			t.Error("an idle store syncs")
		}
	})
}

func TestPutNeverWaitsForASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, disk := modelStore(t)
		disk.syncTime = time.Hour // a disk that hangs
		must(t, s.Put(record(scopeOf("town"), 1)))
		time.Sleep(time.Minute)
		start := time.Now()
		must(t, s.Put(record(scopeOf("town"), 2)))
		must(t, s.Archive(scopeOf("town")))
		if time.Since(start) != 0 {
			t.Errorf("waited %v", time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.PutDurable(ctx, record(scopeOf("town"), 3)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("PutDurable on a disk that hangs: %v", err)
		}
	})
}

// TestDiskErrors: every error comes back to the caller, names the file and says what to do, and is over when the disk is well.
func TestDiskErrors(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOSPC, unix.EIO, unix.EROFS} {
		for _, op := range []string{"create", "open", "write", "truncate", "close", "rename", "exchange"} {
			t.Run(op+" "+errno.Error(), func(t *testing.T) {
				s, disk := modelStore(t)
				must(t, s.Put(record(scopeOf("town"), 0)))
				must(t, s.Put(record(scopeOf("town"), 1)))
				switch op {
				case "create", "rename": // as they are when there is no spare file, and where names cannot be exchanged
					must(t, s.dropSpare("default.town.game", s.slot("default.town.game")))
					s.swapless.Store(op == "rename")
				}
				disk.mu.Lock()
				disk.fail = func(o, path string) error {
					if o == op && strings.Contains(path, "/records/") {
						return errno
					}
					return nil
				}
				disk.mu.Unlock()
				err := s.Put(record(scopeOf("town"), 2))
				if !errors.Is(err, errno) || !strings.Contains(err.Error(), "/s/records/") || !strings.Contains(err.Error(), remedy(errno)) || remedy(errno) == "" {
					t.Errorf("Put: %v", err)
				}
				disk.mu.Lock()
				disk.fail = nil
				left := leftOver(disk, s)
				disk.mu.Unlock()
				if len(left) > 0 {
					t.Errorf("left over: %q", left)
				}
				if r, err := s.load("default.town.game"); err != nil || r.Counters.Starts != 1 {
					t.Errorf("the old record is gone: %v", err)
				}
				must(t, s.PutDurable(t.Context(), record(scopeOf("town"), 3)))
			})
		}
	}
}

// TestFileSystemWithoutExchange goes on with renames.
func TestFileSystemWithoutExchange(t *testing.T) {
	s, disk := modelStore(t)
	disk.mu.Lock()
	disk.fail = func(op, path string) error {
		if op == "exchange" {
			return errors.ErrUnsupported
		}
		return nil
	}
	disk.mu.Unlock()
	for v := range 3 {
		must(t, s.PutDurable(t.Context(), record(scopeOf("town"), v)))
	}
	if temps := disk.temps(); len(temps) > 0 {
		t.Errorf("left over: %q", temps)
	}
	if r, err := s.load("default.town.game"); err != nil || r.Counters.Starts != 2 {
		t.Errorf("the record is %+v, %v", r, err)
	}
}

// TestRemovedRecordIsWrittenAgain removes what only the store should, beside its writer.
func TestRemovedRecordIsWrittenAgain(t *testing.T) {
	for _, name := range []string{"default.town.game.json", ".default.town.game.json.tmp"} {
		t.Run(name, func(t *testing.T) {
			s, disk := modelStore(t)
			for v := range 2 {
				must(t, s.Put(record(scopeOf("town"), v)))
			}
			must(t, disk.Remove("/s/records/"+name))
			put := func(v int) error { return s.Put(record(scopeOf("town"), v)) }
			if err := put(2); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			must(t, put(3)) // at the latest
			if r, err := s.load("default.town.game"); err != nil || r.Counters.Starts != 3 {
				t.Errorf("the record is %+v, %v", r, err)
			}
		})
	}
}

func TestFailedFlushIsReportedAndTriedAgain(t *testing.T) {
	for _, op := range []string{"sync", "write"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, disk := modelStore(t)
				must(t, s.Flush(t.Context()))
				fail := func(o, path string) error {
					if o == op && strings.HasPrefix(path, "/s/journal") {
						return unix.EIO
					}
					return nil
				}
				disk.mu.Lock()
				disk.fail = fail
				disk.mu.Unlock()
				if err := s.PutDurable(t.Context(), record(scopeOf("town"), 1)); !errors.Is(err, unix.EIO) {
					t.Errorf("PutDurable: %v", err)
				}
				if err := s.Health(); !errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), "power cut") {
					t.Errorf("Health: %v", err)
				}
				disk.mu.Lock()
				disk.fail = nil
				disk.mu.Unlock()
				time.Sleep(time.Second)
				synctest.Wait()
				must(t, s.Health())
				disk.cutPower()
				_, found, err := Open(disk, "/s")
				if err != nil || len(found.Records) != 1 {
					t.Errorf("after the power cut: %+v, %v", found, err)
				}
			})
		})
	}
}

func TestRunEndsWithALastFlush(t *testing.T) {
	disk := newModelDisk(1)
	s, _, closed := openStore(t, disk, "/s")
	must(t, s.Put(record(scopeOf("town"), 1)))
	closed()
	if err := s.group.wait(t.Context(), s.group.newest()+1); !errors.Is(err, ErrClosed) {
		t.Errorf("a wait for what nobody will flush: %v", err)
	}
	disk.cutPower()
	_, found, err := Open(disk, "/s")
	if err != nil || len(found.Records) != 1 {
		t.Errorf("after the power cut: %+v, %v", found, err)
	}
}

func TestJournalIsRewrittenWhenItHasGrown(t *testing.T) {
	disk := newModelDisk(1)
	s, _, err := Open(disk, "/s")
	must(t, err)
	const last = 100
	for v := range last + 1 {
		r := record(scopeOf("town"), v)
		r.UID = strings.Repeat("u", 64<<10)
		must(t, s.Put(r))
		must(t, s.group.turn(s.flush))
	}
	must(t, s.Close())
	if n := len(disk.files["/s/journal"].data); n > 2*rewriteAt {
		t.Errorf("the journal of one record is %d bytes long", n)
	}
	disk.cutPower()
	_, found, err := Open(disk, "/s")
	if err != nil || len(found.Records) != 1 || found.Records[0].Counters.Starts != last {
		t.Errorf("after the power cut: %+v, %v", found, err)
	}
}
