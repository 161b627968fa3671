package state

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// begin opens the store as a new keeper does; nothing of it outlives a restart of the disk.
func begin(t *testing.T, disk *modelDisk) *Store {
	t.Helper()
	s, _, err := Open(disk, "/s")
	must(t, err)
	return s
}

// fillUp leaves no room for a file more.
func (d *modelDisk) fillUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = func(op, _ string) error {
		if op == "create" {
			return unix.ENOSPC
		}
		return nil
	}
}

// What runs can be stopped on a full disk, also by a keeper that was killed there and began anew: the room of the next record is kept
// from one to the other, and through a write that found too little of it.
func TestAKeeperThatBeginsOnAFullDiskCanRecord(t *testing.T) {
	disk := newModelDisk(1)
	s := begin(t, disk)
	for v := range 2 { // the second leaves a spare file
		must(t, s.Put(record(scopeOf("town"), v)))
	}
	for v := 2; v < 6; v++ {
		disk.restart() // the keeper was killed
		disk.fillUp()
		s = begin(t, disk)
		full := disk.fail
		disk.mu.Lock()
		disk.fail = func(op, path string) error {
			if op == "write" && strings.Contains(path, "/records/") {
				return unix.ENOSPC
			}
			return full(op, path)
		}
		disk.mu.Unlock()
		if err := s.Put(record(scopeOf("town"), v)); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("version %d: Put without room: %v", v, err)
		}
		disk.fillUp()
		if err := s.Put(record(scopeOf("town"), v)); err != nil {
			t.Fatalf("version %d: %v", v, err)
		}
		if r, err := s.load("default.town.game"); err != nil || r.Counters.Starts != int64(v) {
			t.Fatalf("version %d: the record is %+v, %v", v, r, err)
		}
		if left := leftOver(disk, s); len(left) > 0 {
			t.Fatalf("left over: %q", left)
		}
	}
}

// A spare file is kept beside a sound record alone, and in the boot that it was written in: a reset may leave it as a second name of the record.
func TestSpareFilesAreKeptBesideSoundRecordsOnly(t *testing.T) {
	const temp = "/s/records/.default.town.game.json.tmp"
	for name, tc := range map[string]struct {
		before func(*modelDisk)
		kept   bool
	}{
		"killed": {func(d *modelDisk) { d.restart() }, true},
		"no record": {func(d *modelDisk) {
			d.restart()
			delete(d.files, "/s/records/default.town.game.json")
		}, false},
		"another boot": {func(d *modelDisk) { d.restart(); d.boot++ }, false},
		"the same file": {func(d *modelDisk) {
			d.restart()
			d.boot++
			d.files[temp] = d.files["/s/records/default.town.game.json"]
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newModelDisk(1)
			s := begin(t, disk)
			for v := range 2 {
				must(t, s.Put(record(scopeOf("town"), v)))
			}
			tc.before(disk)
			s = begin(t, disk)
			if kept := disk.files[temp] != nil; kept != tc.kept {
				t.Errorf("kept: %t", kept)
			}
			must(t, s.Put(record(scopeOf("town"), 2)))
		})
	}
}
