package logs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// File is one log file of a scope.
type File struct {
	Run     int64
	Index   int
	Size    int64 // bytes
	ModTime time.Time
}

// LastRun is the highest number of a run that has a file in a scope's folder, 0 when none has or it cannot be listed.
func LastRun(folder string) int64 {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return 0
	}
	last := int64(0)
	for _, e := range entries {
		if run, _, ok := ParseFileName(e.Name()); ok {
			last = max(last, run)
		}
	}
	return last
}

// Files lists a scope's folder, oldest first: by run, then index. A folder that is not there has no files.
func Files(folder string) ([]File, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list logs: %w", err)
	}
	files := make([]File, 0, len(entries))
	for _, e := range entries {
		run, index, ok := ParseFileName(e.Name())
		if !ok || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list logs: %w", err)
		}
		files = append(files, File{Run: run, Index: index, Size: info.Size(), ModTime: info.ModTime()})
	}
	slices.SortFunc(files, func(a, b File) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Index, b.Index))
	})
	return files, nil
}
