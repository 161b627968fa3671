package state

import (
	"errors"
	"fmt"
	"io/fs"
)

// tempSuffix ends the name of a file that is being written, beside the one that it will replace.
const tempSuffix = ".tmp"

// removeTemp removes a file that was left half written. One that can be something else is left alone and reported: only a
// private, regular file of ours, in a directory that we hold the lock of, is certainly that.
func removeTemp(disk Disk, path string) (ours bool, err error) {
	ours, _, err = removeTempUnless(disk, path, false)
	return ours, err
}

// removeTempUnless is removeTemp, but one of ours is kept when keep is set.
func removeTempUnless(disk Disk, path string, keep bool) (ours, kept bool, err error) {
	info, err := disk.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, false, nil
	}
	if err != nil {
		return true, false, err
	}
	if !info.Mode.IsRegular() || checkPrivate(path, info, 0o600) != nil {
		return false, false, nil
	}
	if keep {
		return true, true, nil
	}
	return true, false, removeIfThere(disk, path)
}

func removeIfThere(disk Disk, path string) error {
	if err := disk.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove a file that was left half written: %w", err)
	}
	return nil
}
