package state

import (
	"errors"
	"io/fs"
)

// Disk is the few file operations that the stores need. [LinuxDisk] is the real one; the simulation's model crashes at any
// call, loses or tears what was not synced when the power goes, and makes calls slow or fail.
//
// Paths are absolute. Errors wrap the errno, and fs.ErrNotExist and fs.ErrExist where they apply.
type Disk interface {
	// ReadFile reads a regular file of at most limit bytes whole; its last path element is not followed when it is a link.
	ReadFile(path string, limit int64) ([]byte, Info, error)
	// Stat looks at what a path names, not at what a link there leads to.
	Stat(path string) (Info, error)
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	// Create makes a new file with mode 0600 for writing. It fails with fs.ErrExist when there is anything of that name.
	Create(path string) (File, error)
	// Open opens an existing regular file for writing.
	Open(path string) (File, error)
	// Lock opens or makes a file with mode 0600 and takes the exclusive kernel lock on it, which lasts until it is
	// closed or the process dies. It never waits: [ErrLocked] says that another has it.
	Lock(path string) (File, error)
	// Mkdir makes one directory with exactly this mode.
	Mkdir(path string, mode fs.FileMode) error
	// Rename replaces what newPath names in one step.
	Rename(oldPath, newPath string) error
	// Exchange swaps what two paths name in one step. It is errors.ErrUnsupported where the file system cannot.
	Exchange(a, b string) error
	Remove(path string) error
	// SyncDir returns when the names in a directory would survive a power cut.
	SyncDir(dir string) error
	// BootID names the time since the host was started: what was not synced in an earlier boot may be lost or torn.
	BootID() (string, error)
}

// File is an open file of a [Disk]. The kernel closes it when another program is executed.
type File interface {
	// WriteAt writes all of p at off, or fails.
	WriteAt(p []byte, off int64) (int, error)
	Truncate(size int64) error
	// Sync returns when content and size would survive a power cut.
	Sync() error
	Close() error
}

// Info is what the stores ask of a file before they trust it.
type Info struct {
	Mode fs.FileMode // type and permission bits
	UID  int         // owner
	Size int64
	// Device and Inode name it on this host until the next boot; 0, 0 = not known.
	Device, Inode uint64
}

// ErrLocked says that another process holds a lock.
var ErrLocked = errors.New("another process holds the lock")
