package keeper

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/pump"
	"reconciler.dev/reconciler/state"
)

// What a keeper has in shared memory is named for its state directory and outlives the keeper, as it must. It would outlive
// the state directory too, and nobody tidies up in memory. So a symbolic link beside each folder, of its name and this
// ending, says which state directory it is of, and each keeper that starts takes away what is of none. It says that of its own mount
// namespace alone: the same memory may be seen from others, in which other directories are there. The link leads to nothing:
//
//	mnt:[4026531841]:/var/lib/reconciler
const ofStateDir = ".in"

// claimText is what the link of a state directory says.
func claimText(stateDir string) (string, error) {
	namespace, err := os.Readlink("/proc/self/ns/mnt")
	return namespace + ":" + stateDir, err
}

// claimMemory says of each folder of ours in memory which state directory it is of. A folder may have been another's
// before: a new directory can have the number of one that was deleted.
func claimMemory(l state.Layout) error {
	text, err := claimText(l.State)
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range memoryFolders(l) {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		claim := dir + ofStateDir
		if of, err := os.Readlink(claim); err == nil && of == text {
			continue
		}
		temp := claim + strconv.Itoa(os.Getpid())
		if err := os.Symlink(text, temp); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, os.Rename(temp, claim))
	}
	return errors.Join(errs...)
}

// leaveMemory takes the claims of folders away that are gone.
func leaveMemory(l state.Layout) error {
	var errs []error
	for _, dir := range memoryFolders(l) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.Remove(dir + ofStateDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// memoryFolders is where the keeper of a state directory may have something in shared memory.
func memoryFolders(l state.Layout) []string {
	var dirs []string
	if dir, err := memoryPath(l); err == nil {
		dirs = append(dirs, dir)
	}
	for _, dir := range pump.PoolDirs(l.Runtime, l.State) {
		if filepath.Dir(dir) == sharedMemory {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// sweepMemory takes away what user has in the folder memory of state directories that are no more. Processes of such a
// state directory may live: they keep the FIFOs that they have open.
func sweepMemory(memory string, user int) error {
	claims, err := filepath.Glob(filepath.Join(memory, "reconciler-*"+ofStateDir))
	if err != nil {
		return err
	}
	ours, err := claimText("")
	if err != nil {
		return err
	}
	var errs []error
	for _, claim := range claims {
		var st unix.Stat_t
		if unix.Lstat(claim, &st) != nil || int(st.Uid) != user || st.Mode&unix.S_IFMT != unix.S_IFLNK {
			continue
		}
		text, err := os.Readlink(claim)
		of, known := strings.CutPrefix(text, ours)
		if err != nil || !known {
			continue // another keeper was first; or it is of another namespace
		}
		if _, err := os.Lstat(filepath.Join(of, "keeper")); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		dir := strings.TrimSuffix(claim, ofStateDir)
		if unix.Lstat(dir, &st) == nil && int(st.Uid) != user {
			continue
		}
		errs = append(errs, os.RemoveAll(dir), os.Remove(claim))
	}
	return errors.Join(errs...)
}
