package state

import (
	"bytes"
	"errors"
	"path/filepath"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"
)

// progressed puts a start and all its progress and returns the record as it is to be read.
func progressed(t *testing.T, s *Store) *Record {
	t.Helper()
	r := starting(scopeOf("town"), 1)
	must(t, s.Put(r))
	for p := next(r); p != nil; p = next(r) {
		after := *r
		after.Run = r.Run.Advanced(*p)
		must(t, s.PutProgress(&after, *p))
		r = &after
	}
	return r
}

func TestProgressIsReadBack(t *testing.T) {
	dir := privateDir(t)
	s, _, closed := openStore(t, LinuxDisk{}, dir)
	want := progressed(t, s)
	file, _, err := LinuxDisk{}.ReadFile(filepath.Join(s.records, recordName(want.Scope.ID())), MaxRecordSize)
	must(t, err)
	if n := bytes.Count(file, []byte("\n")); n != 3 {
		t.Errorf("the file has %d lines, want the record and two steps:\n%s", n, file)
	}
	closed()
	_, found, _ := openStore(t, LinuxDisk{}, dir)
	want.Seq = found.Records[0].Seq
	if got := found.Records[0]; !reflect.DeepEqual(got, want) || got.Seq != 3 {
		t.Errorf("read back as %+v, %+v\nwant %+v, %+v", got, got.Run, want, want.Run)
	}
}

// TestCutProgressIsNone: of a file that ends within a line of progress, as our death leaves it, what was whole before counts.
func TestCutProgressIsNone(t *testing.T) {
	s, disk := modelStore(t)
	progressed(t, s)
	file := disk.files["/s/records/default.town.game.json"].data
	ends := []int{bytes.IndexByte(file, '\n') + 1, bytes.LastIndexByte(file[:len(file)-1], '\n') + 1, len(file)}
	phases := []Phase{Launching, Released, Started}
	for size := ends[0]; size <= len(file); size++ {
		want := phases[0]
		for i, end := range ends {
			if size >= end {
				want = phases[i]
			}
		}
		r, err := DecodeRecord(file[:size])
		if err != nil || r.Run.Phase != want {
			t.Fatalf("of %d bytes: %+v, %v; want phase %s", size, r, err, want)
		}
	}
}

// TestDamagedProgressIsDamage: each bit of a line counts, and so does the record that it belongs to.
func TestDamagedProgressIsDamage(t *testing.T) {
	s, disk := modelStore(t)
	progressed(t, s)
	file := disk.files["/s/records/default.town.game.json"].data
	first := bytes.IndexByte(file, '\n') + 1
	for at := first; at < len(file); at++ {
		bad := bytes.Clone(file)
		bad[at] ^= 1
		if r, err := DecodeRecord(bad); err == nil && r.Run.Phase != Released { // the last line's end, turned over
			t.Errorf("with another byte %d it is read as phase %s", at, r.Run.Phase)
		}
	}
	other, err := EncodeRecord(starting(scopeOf("town"), 9))
	must(t, err)
	if _, err := DecodeRecord(append(other, file[first:]...)); !errors.Is(err, errTorn) {
		t.Errorf("progress of another record is taken: %v", err)
	}
	lines := bytes.SplitAfter(file, []byte("\n"))
	if _, err := DecodeRecord(bytes.Join([][]byte{lines[0], lines[2], lines[1]}, nil)); err == nil {
		t.Error("progress in another order is taken")
	}
}

// TestProgressThatCannotBeAppended is written as a whole record, and is an error when that fails too.
func TestProgressThatCannotBeAppended(t *testing.T) {
	for writes := range 3 {
		s, disk := modelStore(t)
		r := starting(scopeOf("town"), 1)
		must(t, s.Put(r))
		failing := writes
		disk.mu.Lock()
		disk.fail = func(op, _ string) error {
			if op != "write" || failing == 0 {
				return nil
			}
			failing--
			return unix.ENOSPC
		}
		disk.mu.Unlock()
		p := next(r)
		after := *r
		after.Run = r.Run.Advanced(*p)
		if err := s.PutProgress(&after, *p); (err == nil) != (writes < 2) {
			t.Errorf("%d writes fail: %v", writes, err)
		}
		must(t, s.PutProgress(&after, *p))
		if got, err := s.load(r.Scope.ID()); err != nil || got.Run.Phase != Released {
			t.Errorf("%d writes fail: %+v, %v", writes, got, err)
		}
	}
}

// TestStartKeepsNoFileOpen: whatever becomes of a start, its record's file is closed with it.
func TestStartKeepsNoFileOpen(t *testing.T) {
	s, _ := modelStore(t)
	r := progressed(t, s)
	if s.slot(r.Scope.ID()).start != nil {
		t.Error("a start that has come to its end still has its file")
	}
	must(t, s.Put(starting(scopeOf("town"), 9)))
	over := *r
	over.Run = &Run{Number: 9, ID: "r9", Phase: Exited, Launch: r.Run.Launch}
	must(t, s.Put(&over))
	if s.slot(r.Scope.ID()).start != nil {
		t.Error("a start that was given up still has its file")
	}
}
