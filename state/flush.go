package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
)

// Run writes what was put to where a power cut cannot reach it, in groups: within a second, or at once when somebody waits.
// It returns after a last flush, with its error, when ctx ends. It must be called once.
func (s *Store) Run(ctx context.Context) error { return s.group.run(ctx, s.flush) }

// flush is one turn of the flusher. What could not be written is pending again.
func (s *Store) flush() error {
	s.mu.Lock()
	pending, moved, renamed := s.pending, s.moved, s.renamed
	s.pending, s.moved, s.renamed = map[string][]byte{}, nil, false
	s.mu.Unlock()
	err := s.syncMoved(moved, renamed)
	if err == nil {
		err = s.commit(pending)
	}
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, file := range pending {
		if _, newer := s.pending[id]; !newer {
			s.pending[id] = file
		}
	}
	s.moved = append(moved, s.moved...)
	s.renamed = s.renamed || renamed
	return fmt.Errorf("what was recorded last would not survive a power cut: %w", err)
}

// syncMoved makes what lies in the archive survive a power cut, before the journal forgets its copy.
func (s *Store) syncMoved(moved []string, renamed bool) error {
	for _, path := range moved {
		f, err := s.disk.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // retired meanwhile
		}
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return fmt.Errorf("%w%s", err, remedy(err))
		}
	}
	if len(moved) == 0 && !renamed {
		return nil
	}
	for _, dir := range []string{s.archive, s.retired, s.records} {
		if err := s.disk.SyncDir(dir); err != nil {
			return fmt.Errorf("%w%s", err, remedy(err))
		}
	}
	return nil
}

// commit brings the journal up to date.
func (s *Store) commit(pending map[string][]byte) error {
	if s.journal.grown() {
		return s.journal.rewrite(s.live)
	}
	edits := make([]edit, 0, len(pending))
	for _, id := range slices.Sorted(maps.Keys(pending)) {
		edits = append(edits, edit{key: id, value: pending[id]})
	}
	if err := s.journal.append(edits); err != nil {
		return err
	}
	return s.journal.sync(&sync.Mutex{}) // nobody else appends
}

// live emits what the journal has to hold: the boot, every record as its file has it now, which is at least as new as
// what is pending, and the last good copy of those that cannot be used.
func (s *Store) live(emit func(edit) error) error {
	boot, err := s.disk.BootID()
	if err != nil {
		return err
	}
	if err := emit(edit{key: bootKey, value: []byte(boot)}); err != nil {
		return err
	}
	names, err := s.disk.List(s.records)
	if err != nil {
		return err
	}
	for _, name := range names {
		scope, ok := parseRecordName(name)
		if !ok {
			continue
		}
		file, err := s.copyOf(scope.ID())
		if err != nil {
			return err
		}
		if file == nil {
			continue
		}
		if err := emit(edit{key: scope.ID(), value: file}); err != nil {
			return err
		}
	}
	return nil
}

// copyOf is what the journal should hold of a scope, nil for nothing.
func (s *Store) copyOf(id string) ([]byte, error) {
	slot := s.slot(id)
	slot.busy.Lock() // two puts later the file that is read now would be written over
	defer slot.busy.Unlock()
	s.mu.Lock()
	blocked, kept := slot.blocked, slot.kept
	s.mu.Unlock()
	if blocked {
		return kept, nil
	}
	file, _, err := s.disk.ReadFile(filepath.Join(s.records, recordName(id)), MaxRecordSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // archived meanwhile
	}
	return file, err
}
