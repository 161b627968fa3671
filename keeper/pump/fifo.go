package pump

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// OpenReader opens the read end of a FIFO for [Pump.Attach]: read-only, non-blocking, close-on-exec, and only if path is a
// FIFO and no symbolic link. It does not wait for a writer.
func OpenReader(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, fmt.Errorf("cannot open FIFO %s: %w", path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, errors.Join(fmt.Errorf("cannot look at FIFO %s: %w", path, err), unix.Close(fd))
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return -1, errors.Join(fmt.Errorf("cannot read %s: it is not a FIFO", path), unix.Close(fd))
	}
	return fd, nil
}

// PoolDirs are the folders in which a pool file may lie, best first: the runtime folder when it is on tmpfs, a private
// folder for this state folder in /dev/shm when that is, and the keeper's own folder, where the pool works too but a
// page that is being written back may make the loop wait for the disk.
func PoolDirs(runtimeDir, stateDir string) []string {
	var dirs []string
	if onTmpfs(runtimeDir) {
		dirs = append(dirs, filepath.Join(runtimeDir, "pump"))
	}
	if onTmpfs("/dev/shm") {
		of := stateDir
		if abs, err := filepath.Abs(stateDir); err == nil {
			of = abs
		}
		sum := sha256.Sum256([]byte(of))
		dirs = append(dirs, filepath.Join("/dev/shm", "reconciler-"+strconv.Itoa(os.Geteuid())+"-"+hex.EncodeToString(sum[:8])))
	}
	return append(dirs, filepath.Join(stateDir, "keeper"))
}

func onTmpfs(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.TMPFS_MAGIC
}
