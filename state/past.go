package state

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"reconciler.dev/reconciler/spec"
)

// pastLimit is how many archived records Past reads at most.
const pastLimit = 32

// Past is the newest archived records of a server, of all its profiles, oldest first; at most pastLimit. It may be called at any time; what
// cannot be read any more is left out.
func (s *Store) Past(server spec.Key) ([]*Record, error) {
	names, err := s.disk.List(s.archive)
	if err != nil {
		return nil, fmt.Errorf("cannot look into the archive: %w", err)
	}
	var of []archived
	for _, name := range names {
		id, seq, ok := parseArchiveName(name)
		if !ok {
			continue
		}
		if scope, _ := spec.ParseScopeID(id); scope.Namespace == server.Namespace && scope.Server == server.Name {
			of = append(of, archived{seq, filepath.Join(s.archive, name)})
		}
	}
	slices.SortFunc(of, func(a, b archived) int { return cmp.Compare(a.seq, b.seq) })
	var past []*Record
	for _, a := range of[max(0, len(of)-pastLimit):] {
		file, _, err := s.disk.ReadFile(a.path, MaxRecordSize)
		if err != nil {
			continue // it was retired meanwhile
		}
		if r, err := DecodeRecord(file); err == nil {
			past = append(past, r)
		}
	}
	return past, nil
}
