package state

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"reconciler.dev/reconciler/spec"
)

// The names in a store: SCOPE.json in records, SCOPE@SEQ.json in archive, and in retired whatever name a file had, with a
// number behind it when that is taken. No scope id contains '@'.

const recordSuffix = ".json"

func recordName(id string) string { return id + recordSuffix }

func tempName(id string) string { return "." + recordName(id) + tempSuffix }

func archiveName(id string, seq uint64) string {
	return id + "@" + strconv.FormatUint(seq, 10) + recordSuffix
}

// parseRecordName is the reverse of recordName.
func parseRecordName(name string) (scope spec.Scope, ok bool) {
	id, ok := strings.CutSuffix(name, recordSuffix)
	if !ok {
		return spec.Scope{}, false
	}
	return spec.ParseScopeID(id)
}

// parseTempName is the reverse of tempName.
func parseTempName(name string) (id string, ok bool) {
	inner, dot := strings.CutPrefix(name, ".")
	inner, tmp := strings.CutSuffix(inner, tempSuffix)
	scope, ok := parseRecordName(inner)
	return scope.ID(), dot && tmp && ok
}

// parseArchiveName is the reverse of archiveName.
func parseArchiveName(name string) (id string, seq uint64, ok bool) {
	inner, suffix := strings.CutSuffix(name, recordSuffix)
	id, number, at := strings.Cut(inner, "@")
	number, _, _ = strings.Cut(number, "-") // freeName's number
	seq, err := strconv.ParseUint(number, 10, 64)
	_, scope := spec.ParseScopeID(id)
	return id, seq, suffix && at && scope && err == nil
}

// load reads a scope's record.
func (s *Store) load(id string) (*Record, error) {
	path := filepath.Join(s.records, recordName(id))
	b, _, err := s.disk.ReadFile(path, MaxRecordSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", id, ErrNoRecord)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read a record: %w", err)
	}
	r, err := DecodeRecord(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrBlocked, err)
	}
	return r, nil
}

// archived lists the names of a scope's archived records.
func (s *Store) archived(id string) (names []string, err error) {
	all, err := s.disk.List(s.archive)
	if err != nil {
		return nil, fmt.Errorf("cannot look into the archive: %w", err)
	}
	for _, name := range all {
		if of, _, ok := parseArchiveName(name); ok && of == id {
			names = append(names, name)
		}
	}
	return names, nil
}

// setAside moves whatever a path names to retired and returns its path there.
func (s *Store) setAside(path string) (to string, err error) {
	to, err = s.freeName(s.retired, filepath.Base(path))
	if err != nil {
		return "", err
	}
	if err := s.disk.Rename(path, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("cannot set a file aside: %w%s", err, remedy(err))
	}
	return to, nil
}

// freeName is name in dir, with a number before its suffix when something has that name.
func (s *Store) freeName(dir, name string) (string, error) {
	stem, suffix := name, ""
	if cut, ok := strings.CutSuffix(name, recordSuffix); ok {
		stem, suffix = cut, recordSuffix
	}
	path := filepath.Join(dir, name)
	for n := 2; ; n++ {
		_, err := s.disk.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
		if err != nil {
			return "", fmt.Errorf("cannot look for a free name: %w", err)
		}
		path = filepath.Join(dir, fmt.Sprintf("%s-%d%s", stem, n, suffix))
	}
}

// keepAside puts the journal's copy of a record whose file cannot be used beside that file in retired.
func (s *Store) keepAside(id string, file []byte) error {
	to, err := s.freeName(s.retired, id+".last"+recordSuffix)
	if err != nil {
		return err
	}
	f, err := s.disk.Create(to)
	if err != nil {
		return fmt.Errorf("cannot set the last good record aside: %w%s", err, remedy(err))
	}
	_, err = f.WriteAt(file, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot set the last good record aside: %w%s", err, remedy(err))
	}
	return nil
}
