package state

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A record is read whole beside a writer that does nothing but replace it.
func TestReadRecordBesideItsWriter(t *testing.T) {
	dir := privateDir(t)
	s, _, closed := openStore(t, LinuxDisk{}, dir)
	defer closed()
	scope := scopeOf("town")
	must(t, s.Put(record(scope, 0)))
	path := filepath.Join(dir, "records", scope.ID()+".json")
	done := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for v := 1; ; v++ {
			select {
			case <-done:
				return
			default:
			}
			if err := s.Put(record(scope, v)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 500 {
		r, err := ReadRecord(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := record(scope, int(r.Counters.Starts)); r.UID != want.UID {
			t.Fatalf("version %d is not what was put", r.Counters.Starts)
		}
	}
	close(done)
	writing.Wait()
	must(t, os.WriteFile(path, []byte("torn"), 0o600))
	if _, err := ReadRecord(path); err == nil || !strings.Contains(err.Error(), "record") {
		t.Errorf("a record that stays torn: %v", err)
	}
	if _, err := ReadRecord(path + "-missing"); !os.IsNotExist(err) {
		t.Errorf("none: %v", err)
	}
}
