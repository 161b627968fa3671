package state

import (
	"errors"
	"fmt"
	"path/filepath"
)

// tryName is the file that [Try] makes, and tryAs what it then calls it. tryRoom is its size in bytes, that of a record of a server which has
// seen much.
const (
	tryName = "try" + tempSuffix
	tryAs   = "tried" + tempSuffix
	tryRoom = 16 << 10
)

// Try does in dir what the stores do there: it makes a file, writes it, gives it another name and removes it. The error says why that cannot
// be done and what can be done about it, without a path. A disk that hangs is waited for. One at a time may try.
func Try(disk Disk, dir string) error {
	path, as := filepath.Join(dir, tryName), filepath.Join(dir, tryAs)
	err := removeIfThere(disk, path) // by an earlier one that was killed
	if err == nil {
		err = try(disk, path, as)
	}
	err = errors.Join(err, removeIfThere(disk, path), removeIfThere(disk, as))
	if err != nil {
		return fmt.Errorf("cannot write: %s", Cause(err))
	}
	return nil
}

func try(disk Disk, path, as string) error {
	f, err := disk.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, tryRoom), 0)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return disk.Rename(path, as)
}
