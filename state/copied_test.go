package state

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A store that was copied while its keeper lives is refused, each time: its records are of runs that the other one looks after. When that one has
// ended, it is a backup as any other.
func TestCopyOfAStoreInUse(t *testing.T) {
	if ownPidfdInode() == 0 {
		t.Skip("this kernel names no process for the whole boot (pidfs, Linux 6.9)")
	}
	dir := filepath.Join(t.TempDir(), "keeper")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	boot, err := LinuxDisk{}.BootID()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command("/bin/sleep", "120")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if !ended {
			ended = true
			_ = other.Process.Kill()
			_ = other.Wait()
		}
	}
	defer end()
	lock, err := TakeLock(LinuxDisk{}, filepath.Join(dir, "lock"), "keeper")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lock.write(Holder{Program: "keeper", PID: other.Process.Pid, PidfdInode: inodeOf(t, other.Process.Pid), BootID: boot}), lock.Release()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, _, err := Open(LinuxDisk{}, dir)
		if copied := new(CopiedError); !errors.As(err, &copied) || !errors.Is(err, ErrLocked) || copied.Holder.PID != other.Process.Pid {
			t.Fatalf("opened beside its keeper: %v", err)
		}
	}
	end()
	store, _, err := Open(LinuxDisk{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

func inodeOf(t *testing.T, pid int) uint64 {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	return pidfdInode(fd)
}
