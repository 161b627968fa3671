package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// checkPrivate refuses a file or directory that somebody else owns, or may do more with than mode says.
func checkPrivate(path string, info Info, mode fs.FileMode) error {
	if uid := os.Geteuid(); info.UID != uid {
		return fmt.Errorf("%s belongs to user %d, not to user %d who runs this: %w; give it back (chown %d %s) or run as its owner",
			path, info.UID, uid, ErrUnsafe, uid, path)
	}
	if info.Mode.Perm()&^mode != 0 {
		return fmt.Errorf("%s has mode %04o, at most %04o is allowed: %w; chmod %04o %s, if nobody has changed what is in it",
			path, info.Mode.Perm(), mode, ErrUnsafe, mode, path)
	}
	return nil
}

// checkDir refuses a directory that is not private.
func checkDir(disk Disk, dir string, mode fs.FileMode) error {
	info, err := disk.Stat(dir)
	if err != nil {
		return fmt.Errorf("cannot look at the directory: %w", err)
	}
	if !info.Mode.IsDir() {
		return fmt.Errorf("%s is not a directory: %w; move it away", dir, ErrUnsafe)
	}
	return checkPrivate(dir, info, mode)
}

// makeDir makes a directory that is missing and refuses one that is not private.
func makeDir(disk Disk, dir string, mode fs.FileMode) error {
	switch err := disk.Mkdir(dir, mode); {
	case errors.Is(err, fs.ErrExist):
		return checkDir(disk, dir, mode)
	case err != nil:
		return fmt.Errorf("cannot make the directory: %w%s", err, remedy(err))
	}
	if err := disk.SyncDir(filepath.Dir(dir)); err != nil { // or a power cut takes it with all that will be in it
		return fmt.Errorf("cannot make the directory: %w%s", err, remedy(err))
	}
	return nil
}
