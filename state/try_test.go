package state

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Try meets whatever a store would meet, says what helps and names no path, leaves nothing, and is good again when the disk is.
func TestTry(t *testing.T) {
	disk := newModelDisk(1)
	begin(t, disk)
	before := slices.Sorted(maps.Keys(disk.files))
	for _, tt := range []struct {
		op   string
		err  error
		says string
	}{
		{"create", unix.ENOSPC, "cannot write: no space left on device (free space on that file system; nothing is lost meanwhile, and it is tried again)"},
		{"write", unix.ENOSPC, "cannot write: no space left on device (free space"},
		{"write", unix.EDQUOT, "cannot write: disk quota exceeded (free space"},
		{"create", unix.EROFS, "cannot write: read-only file system (mount that file system writable again"},
		{"write", unix.EIO, "cannot write: input/output error (the disk fails"},
		{"rename", unix.EIO, "cannot write: input/output error (the disk fails"},
		{"create", unix.EMFILE, "cannot write: too many open files (raise the limit of open files)"},
	} {
		disk.fail = func(op, path string) error {
			if op == tt.op && strings.HasPrefix(filepath.Base(path), "tr") {
				return tt.err
			}
			return nil
		}
		err := Try(disk, "/s")
		if err == nil || !strings.HasPrefix(err.Error(), tt.says) || strings.Contains(err.Error(), "/s") {
			t.Errorf("%s fails with %v: %v", tt.op, tt.err, err)
		}
		disk.fail = nil
		must(t, Try(disk, "/s"))
		if after := slices.Sorted(maps.Keys(disk.files)); !slices.Equal(after, before) {
			t.Errorf("%s fails with %v: left are %q", tt.op, tt.err, after)
		}
	}
}

// What a try has left that was killed is removed by the next.
func TestTryAfterADeath(t *testing.T) {
	disk := newModelDisk(1)
	begin(t, disk)
	before := len(disk.files)
	for _, name := range []string{"/s/try.tmp", "/s/tried.tmp"} {
		f, err := disk.Create(name)
		must(t, err)
		must(t, f.Close())
		must(t, Try(disk, "/s"))
		if len(disk.files) != before {
			t.Errorf("%s is left", name)
		}
	}
}
