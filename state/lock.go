package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Lock is the right to be the one writer of a directory. The kernel takes it back when the process dies, not before: a
// holder that hangs keeps it.
type Lock struct {
	file             File
	previous, holder Holder
}

// Holder is who wrote itself into a lock's file. It is for messages alone: the lock is the kernel's.
type Holder struct {
	Program    string    `json:"program"` // keeper, reconciler
	PID        int       `json:"pid"`
	PidfdInode uint64    `json:"pidfdInode,omitempty"` // 0 where the kernel has no pidfs
	BootID     string    `json:"bootID"`
	Since      time.Time `json:"since"`
	// Device and Inode are those of the directory that was written to in that boot; 0 = it does not tell.
	Device uint64 `json:"device,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
}

// HeldError says that another process has the lock.
type HeldError struct {
	Path   string
	Holder Holder // the zero value when its file does not tell
}

func (e *HeldError) Error() string {
	if e.Holder.PID == 0 {
		return fmt.Sprintf("%s: another process holds the lock and has not written who it is; try again, or end it (fuser %s shows it)", e.Path, e.Path)
	}
	return fmt.Sprintf("%s: locked by %s, process %d, since %s; end that one first, or name another state directory",
		e.Path, e.Holder.Program, e.Holder.PID, e.Holder.Since.Format(time.RFC3339))
}

// Unwrap makes errors.Is(err, ErrLocked) hold.
func (e *HeldError) Unwrap() error { return ErrLocked }

// holderSize is the fixed length of a lock's file: one sector, written by one call, is never seen half.
const holderSize = 512

// What a process has just forked has its lock too, until it executes another program: the lock of one that was killed right then
// outlives it by that moment, which is waited for.
const (
	forkTime  = 5 * time.Second
	forkPause = 2 * time.Millisecond
)

// TakeLock takes the lock at path for program, and waits for nobody who lives. Whoever has it already is named in a [*HeldError]. The file
// is made when it is missing and never removed: who locks a file that others may unlink holds nothing.
func TakeLock(disk Disk, path, program string) (*Lock, error) {
	f, err := disk.Lock(path)
	for until := time.Now().Add(forkTime); errors.Is(err, ErrLocked) && hasEnded(disk, path) && time.Now().Before(until); f, err = disk.Lock(path) {
		time.Sleep(forkPause) // the kernel tells nobody
	}
	if errors.Is(err, ErrLocked) {
		holder, _, _ := readHolder(disk, path) // a holder who cannot be named is one all the same
		return nil, &HeldError{Path: path, Holder: holder}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot lock: %w", err)
	}
	l := &Lock{file: f}
	if err := l.sign(disk, path, program); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot write who holds the lock %s: %w", path, err), f.Close())
	}
	return l, nil
}

func (l *Lock) sign(disk Disk, path, program string) error {
	previous, info, err := readHolder(disk, path)
	if err != nil {
		return err
	}
	if err := checkPrivate(path, info, 0o600); err != nil {
		return err
	}
	l.previous = previous
	boot, err := disk.BootID()
	if err != nil {
		return err
	}
	l.holder = Holder{Program: program, PID: os.Getpid(), PidfdInode: ownPidfdInode(), BootID: boot, Since: time.Now().UTC()}
	if previous.BootID == boot { // until it is found to be this one
		l.holder.Device, l.holder.Inode = previous.Device, previous.Inode
	}
	return l.write(l.holder)
}

// settle writes down which directory this is.
func (l *Lock) settle(dir Info) error {
	l.holder.Device, l.holder.Inode = dir.Device, dir.Inode
	return l.write(l.holder)
}

func (l *Lock) write(h Holder) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	block := bytes.Repeat([]byte{' '}, holderSize)
	block[holderSize-1] = '\n'
	if copy(block[:holderSize-1], b) < len(b) {
		return fmt.Errorf("%q is too long a name for a program", h.Program)
	}
	_, err = l.file.WriteAt(block, 0)
	return err
}

// readHolder reads a lock's file; one that does not tell yields the zero Holder.
func readHolder(disk Disk, path string) (h Holder, info Info, err error) {
	b, info, err := disk.ReadFile(path, holderSize)
	if err != nil {
		return Holder{}, info, err
	}
	if json.Unmarshal(b, &h) != nil {
		h = Holder{}
	}
	return h, info, nil
}

// ReadHolder is who wrote itself into a lock's file last, the zero value when it does not tell or is not there.
func ReadHolder(disk Disk, path string) Holder {
	h, _, _ := readHolder(disk, path)
	return h
}

// IsNot reports whether the process of a pidfd is certainly another one than the holder. Where the kernel names no process for the
// whole boot, nothing is certain.
func (h Holder) IsNot(pidfd int, boot string) bool {
	if h.PidfdInode == 0 || h.BootID != boot || pidfd < 0 {
		return false
	}
	inode := pidfdInode(pidfd)
	return inode != 0 && inode != h.PidfdInode
}

// ownPidfdInode names this process for the whole boot (pidfs, Linux 6.9).
func ownPidfdInode() uint64 {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	return pidfdInode(fd)
}

// pidfdInode names the process of a pidfd for the whole boot, 0 where the kernel has no pidfs.
func pidfdInode(fd int) uint64 {
	const pidfsMagic = 0x50494446 // PID_FS_MAGIC, include/uapi/linux/magic.h
	var fs unix.Statfs_t
	var st unix.Stat_t
	if unix.Fstatfs(fd, &fs) != nil || fs.Type != pidfsMagic || unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Ino
}

// Previous is who had the lock before, the zero value when nobody did or its file does not tell.
func (l *Lock) Previous() Holder { return l.previous }

// CopiedError says that the process which had a lock last lives and never gave it back, and that the lock is free all the same: its file,
// and what lies beside it, is a copy. It counts as held (ErrLocked), since for a moment this is true of a holder that is ending too.
type CopiedError struct {
	Path   string
	Holder Holder
}

func (e *CopiedError) Error() string {
	return fmt.Sprintf("%s was written by %s, process %d, which still runs and locks another file: this directory is a copy of one that is in use; end that one first, or begin with an empty state directory",
		e.Path, e.Holder.Program, e.Holder.PID)
}

// Unwrap makes errors.Is(err, ErrLocked) hold.
func (e *CopiedError) Unwrap() error { return ErrLocked }

// MovedError says that a store's records are of runs of this boot, and that they were written in another directory: it is a copy, whose
// original may be in use at any time, or was carried to another file system. Nothing of it is taken over.
type MovedError struct {
	Path  string // of the lock
	Scope string // one whose run may live
}

func (e *MovedError) Error() string {
	return fmt.Sprintf("%s was written in another directory since this host was started, and %s may still run: this directory is a copy; "+
		"start where it was, stop what runs there and begin here with an empty state directory; or, if that directory is gone for good, remove %s "+
		"and start again: what runs is then taken over from here (what does not any more can be retired: `reconciler retire NAME`)", e.Path, e.Scope, e.Path)
}

// Unwrap makes errors.Is(err, ErrMoved) hold.
func (e *MovedError) Unwrap() error { return ErrMoved }

// lives reports whether the holder is certainly another process that has not ended. Where the kernel names no process for the whole boot
// (PidfdInode 0), nothing is certain.
func (h Holder) lives(boot string) bool {
	if h.PidfdInode == 0 || h.PID == os.Getpid() || h.BootID != boot {
		return false
	}
	fd, err := unix.PidfdOpen(h.PID, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if pidfdInode(fd) != h.PidfdInode {
		return false
	}
	n := 0
	err = retry(func() error { // a poll that does not wait can be interrupted as well
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) // readable once it has ended, a zombie too
		return err
	})
	return err == nil && n == 0
}

// hasEnded reports whether who wrote itself into a lock's file is certainly no more.
func hasEnded(disk Disk, path string) bool {
	h, _, err := readHolder(disk, path)
	if err != nil || h.PidfdInode == 0 || h.PID == os.Getpid() {
		return false
	}
	boot, err := disk.BootID()
	return err == nil && h.BootID == boot && !h.lives(boot)
}

// Release gives the lock back.
func (l *Lock) Release() error { return l.file.Close() }
