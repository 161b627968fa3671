package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The modes: strangers may walk through the roots to what is meant for them (sockets, workspaces), and see nothing of ours.
const (
	rootMode    = fs.FileMode(0o711)
	privateMode = fs.FileMode(0o700)
)

// MakeKeeper makes what the keeper needs and is missing, and refuses what is not safe. It is idempotent.
func (l Layout) MakeKeeper() error {
	if err := l.makeRoots(); err != nil {
		return err
	}
	for _, dir := range []string{l.Keeper(), l.Runs(), l.Logs()} {
		if err := makeDir(LinuxDisk{}, dir, privateMode); err != nil {
			return err
		}
	}
	if err := l.makeSecrets(); err != nil {
		return err
	}
	return makeRoot(l.Data()) // people make servers' directories in it, with whatever umask they have
}

// makeSecrets makes the directory of secrets, with the mode that it must have. One that is there is judged when a secret is
// read: what is wrong with it concerns the servers that need one, not the keeper.
func (l Layout) makeSecrets() error {
	if _, err := os.Lstat(l.Secrets()); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return makeDir(LinuxDisk{}, l.Secrets(), privateMode)
}

// MakeReconciler makes what the reconciler needs and is missing, and refuses what is not safe. It is idempotent.
func (l Layout) MakeReconciler() error {
	if err := l.makeRoots(); err != nil {
		return err
	}
	return makeDir(LinuxDisk{}, l.Reconciler(), privateMode)
}

// MakeRuntime makes the runtime directory anew when it is gone. It is idempotent.
func (l Layout) MakeRuntime() error { return makeRoot(l.Runtime) }

func (l Layout) makeRoots() error {
	if err := l.Validate(); err != nil {
		return err
	}
	if err := makeRoot(l.State); err != nil {
		return err
	}
	return makeRoot(l.Runtime)
}

// makeRoot makes a root and the directories above it. One that exists may belong to root instead of to us (a root keeper
// beside a user's reconciler); nobody else may be able to change it.
func makeRoot(dir string) error {
	disk := LinuxDisk{}
	info, err := disk.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeAbove(dir); err != nil {
			return err
		}
		if err := makeDir(disk, dir, rootMode); !errors.Is(err, ErrUnsafe) {
			return err
		}
		info, err = disk.Stat(dir) // somebody else was first
	}
	if err != nil {
		return fmt.Errorf("cannot look at the directory: %w", err)
	}
	if !info.Mode.IsDir() {
		return fmt.Errorf("%s is not a directory: %w; name another one", dir, ErrUnsafe)
	}
	if info.UID != 0 && info.UID != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, neither to root nor to user %d who runs this: %w; name another directory", dir, info.UID, os.Geteuid(), ErrUnsafe)
	}
	if info.Mode.Perm()&0o022 != 0 {
		return fmt.Errorf("%s has mode %04o, others can change it: %w; chmod go-w %s", dir, info.Mode.Perm(), ErrUnsafe, dir)
	}
	return nil
}

// makeAbove makes the directories above one, each of which survives a power cut. Those that exist are the host's affair.
func makeAbove(dir string) error {
	parent := filepath.Dir(dir)
	if _, err := os.Stat(parent); !errors.Is(err, fs.ErrNotExist) {
		return nil // any other fault shows when something is made in it
	}
	if err := makeAbove(parent); err != nil {
		return err
	}
	if err := (LinuxDisk{}).Mkdir(parent, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot make the directory above %s: %w%s", dir, err, remedy(err))
	}
	if err := (LinuxDisk{}).SyncDir(filepath.Dir(parent)); err != nil {
		return fmt.Errorf("cannot make the directory above %s: %w%s", dir, err, remedy(err))
	}
	return nil
}
