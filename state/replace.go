package state

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// A scope has two files that change places: the next record is written over the one before the last, in place, and then
// exchanged with the last. To make, replace and free files instead costs a file system like ext4, which writes a file that
// a rename has replaced out at once, some fifty times the CPU of that; see BenchmarkPut.

// fileState is what the store knows of one file.
type fileState struct {
	exists bool
	size   int // in bytes; -1 when it is not known
}

// replace writes a scope's record, and returns its file if that is to stay open. The exchange, or rename, makes it survive us. Only the journal
// makes it survive a power cut: that may leave names from before, which lead to files that were written over since.
func (s *Store) replace(id string, slot *slot, file []byte, stay bool) (File, error) {
	temp, path := filepath.Join(s.records, tempName(id)), filepath.Join(s.records, recordName(id))
	reserved := slot.spare.exists
	f, err := s.writeSpare(temp, slot, file, stay)
	if err != nil {
		if reserved && fullDisk(err) {
			return nil, err // removed, its room would be anybody's
		}
		return nil, errors.Join(err, s.dropSpare(id, slot))
	}
	swapped, err := s.swap(temp, path, slot.file.exists)
	if err != nil {
		if stay {
			err = errors.Join(err, f.Close())
		}
		return nil, errors.Join(err, s.dropSpare(id, slot))
	}
	old := slot.file
	slot.file, slot.spare = slot.spare, fileState{}
	if swapped {
		slot.spare = old
	}
	return f, nil
}

// writeSpare makes the spare file exactly this, and returns it if it is to stay open.
func (s *Store) writeSpare(temp string, slot *slot, file []byte, stay bool) (f File, err error) {
	if slot.spare.exists {
		f, err = s.disk.Open(temp)
	} else {
		f, err = s.disk.Create(temp)
	}
	if err != nil {
		return nil, err
	}
	old := slot.spare
	slot.spare = fileState{exists: true, size: -1}
	_, err = f.WriteAt(file, 0)
	if err == nil && old.exists && old.size != len(file) {
		err = f.Truncate(int64(len(file)))
	}
	if err == nil && stay {
		slot.spare.size = len(file)
		return f, nil
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		slot.spare.size = len(file)
	}
	return nil, err
}

// swap gives what temp names the name path, and reports whether temp now names what path did.
func (s *Store) swap(temp, path string, exists bool) (swapped bool, err error) {
	if !exists || s.swapless.Load() {
		return false, s.disk.Rename(temp, path)
	}
	err = s.disk.Exchange(temp, path)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		s.swapless.Store(true)
		return false, s.disk.Rename(temp, path)
	case errors.Is(err, fs.ErrNotExist): // somebody has removed the record: else nothing could be recorded of its run, not even its stop
		return false, s.disk.Rename(temp, path)
	}
	return err == nil, err
}

// dropSpare removes the spare file, if there is one.
func (s *Store) dropSpare(id string, slot *slot) error {
	if !slot.spare.exists {
		return nil
	}
	if err := removeIfThere(s.disk, filepath.Join(s.records, tempName(id))); err != nil {
		return err
	}
	slot.spare = fileState{}
	return nil
}
