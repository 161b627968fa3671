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
// ending, says which state directory it is of, and each keeper that starts takes away what is of none.
const ofStateDir = ".of"

// claimMemory says of each folder of ours in memory which state directory it is of. A folder may have been another's
// before: a new directory can have the number of one that was deleted.
func claimMemory(l state.Layout) error {
	var errs []error
	for _, dir := range memoryFolders(l) {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		claim := dir + ofStateDir
		if of, err := os.Readlink(claim); err == nil && of == l.State {
			continue
		}
		temp := claim + strconv.Itoa(os.Getpid())
		if err := os.Symlink(l.State, temp); err != nil {
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
	var errs []error
	for _, claim := range claims {
		var st unix.Stat_t
		if unix.Lstat(claim, &st) != nil || int(st.Uid) != user || st.Mode&unix.S_IFMT != unix.S_IFLNK {
			continue
		}
		of, err := os.Readlink(claim)
		if err != nil {
			continue // another keeper was first
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
