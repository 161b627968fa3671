package state

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestOneWriterADirectory(t *testing.T) {
	dir := privateDir(t)
	_, _, closed := openStore(t, LinuxDisk{}, dir)
	_, _, err := Open(LinuxDisk{}, dir)
	var held *HeldError
	if !errors.As(err, &held) || !errors.Is(err, ErrLocked) {
		t.Fatalf("a second writer: %v", err)
	}
	if held.Holder.PID != os.Getpid() || held.Holder.Program != "keeper" || held.Holder.BootID == "" || held.Holder.Since.IsZero() {
		t.Errorf("the holder is said to be %+v", held.Holder)
	}
	if held.Holder.PidfdInode != ownPidfdInode() {
		t.Errorf("pidfd inode %d, want %d", held.Holder.PidfdInode, ownPidfdInode())
	}
	if !strings.Contains(err.Error(), filepath.Join(dir, "lock")) {
		t.Errorf("the message does not name the lock: %v", err)
	}
	closed()
	_, _, _ = openStore(t, LinuxDisk{}, dir)
}

func TestLockTellsWhoHadIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := TakeLock(LinuxDisk{}, path, "keeper")
	must(t, err)
	if first.Previous() != (Holder{}) {
		t.Errorf("a new lock had %+v", first.Previous())
	}
	must(t, first.Release())
	second, err := TakeLock(LinuxDisk{}, path, "reconciler")
	must(t, err)
	defer second.Release()
	if p := second.Previous(); p.PID != os.Getpid() || p.Program != "keeper" {
		t.Errorf("the previous holder is said to be %+v", p)
	}
}

func TestHolderThatDoesNotTellIsAHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := TakeLock(LinuxDisk{}, path, "keeper")
	must(t, err)
	defer l.Release()
	must(t, os.Truncate(path, 0))
	_, err = TakeLock(LinuxDisk{}, path, "keeper")
	var held *HeldError
	if !errors.As(err, &held) || held.Holder != (Holder{}) || !strings.Contains(err.Error(), path) {
		t.Errorf("a second writer: %v", err)
	}
}

// TestLockIsNotInherited: a child that outlives the holder must not keep the lock.
func TestLockIsNotInherited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := TakeLock(LinuxDisk{}, path, "keeper")
	must(t, err)
	child := exec.Command(os.Args[0], "-test.run=^$", waitRole)
	in, err := child.StdinPipe()
	must(t, err)
	must(t, child.Start())
	defer func() {
		in.Close()
		must(t, child.Wait())
	}()
	must(t, l.Release())
	l, err = TakeLock(LinuxDisk{}, path, "keeper")
	must(t, err)
	must(t, l.Release())
}

// forkerRole takes a lock, gives it to a child that goes on, and ends.
const forkerRole = "lock-and-fork"

func lockAndFork(path string) int {
	l, err := TakeLock(LinuxDisk{}, path, "keeper")
	if err != nil {
		return 1
	}
	child := exec.Command(os.Args[0], "-test.run=^$", waitRole)
	child.Stdin = os.Stdin
	child.ExtraFiles = []*os.File{os.NewFile(uintptr(l.file.(*linuxFile).fd), "lock")}
	if child.Start() != nil {
		return 1
	}
	return 0
}

// lookedAt is a disk that says when somebody looked who has a lock.
type lookedAt struct {
	LinuxDisk
	looked func()
}

func (d lookedAt) ReadFile(path string, limit int64) ([]byte, Info, error) {
	b, info, err := d.LinuxDisk.ReadFile(path, limit)
	d.looked()
	return b, info, err
}

// A process that was killed while it forked has its lock for as long as what it forked has not executed: that is waited for.
func TestLockOutlivesItsHolderForAMoment(t *testing.T) {
	if ownPidfdInode() == 0 {
		t.Skip("this kernel names no process for the whole boot (pidfs, Linux 6.9)")
	}
	path := filepath.Join(t.TempDir(), "lock")
	forker := exec.Command(os.Args[0], "-test.run=^$", path, forkerRole)
	in, err := forker.StdinPipe()
	must(t, err)
	must(t, forker.Start())
	_, err = forker.Process.Wait()
	must(t, err)
	if _, err := (LinuxDisk{}).Lock(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("nobody has the lock: %v", err)
	}
	defer in.Close()
	l, err := TakeLock(lookedAt{looked: func() { in.Close() }}, path, "keeper") // so it was refused first
	must(t, err)
	must(t, l.Release())
}

func TestLockRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink("elsewhere", filepath.Join(dir, "lock")))
	if _, err := TakeLock(LinuxDisk{}, filepath.Join(dir, "lock"), "keeper"); err == nil {
		t.Error("a link was locked")
	}
	if _, err := TakeLock(LinuxDisk{}, dir, "keeper"); err == nil {
		t.Error("a directory was locked")
	}
}
