package keeper

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"reconciler.dev/reconciler/observe/proc/proctest"
	"reconciler.dev/reconciler/state"
)

func TestSweepMemory(t *testing.T) {
	memory, gone, there := t.TempDir(), filepath.Join(t.TempDir(), "gone"), t.TempDir()
	if err := os.Mkdir(filepath.Join(there, "keeper"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := func(dir string) string {
		text, err := claimText(dir)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, of := range map[string]string{
		"reconciler-a": text(gone), "reconciler-b": text(there), "reconciler-c": "", "other-d": text(gone),
		"reconciler-e": "mnt:[1]:" + gone, // which may be there, in that namespace
	} {
		dir := filepath.Join(memory, name)
		if err := os.MkdirAll(filepath.Join(dir, "run"), 0o700); err != nil {
			t.Fatal(err)
		}
		if of == "" {
			continue
		}
		if err := os.Symlink(of, dir+ofStateDir); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweepMemory(memory, os.Geteuid()+1); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(memory, "reconciler-a")); err != nil {
		t.Errorf("another user's folder was taken away: %v", err)
	}
	if err := sweepMemory(memory, os.Geteuid()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"reconciler-a": false, "reconciler-a.in": false, "reconciler-b": true, "reconciler-c": true, "other-d": true, "reconciler-e": true} {
		if _, err := os.Lstat(filepath.Join(memory, name)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", name, err == nil, want)
		}
	}
}

// A new state directory may have the number, and so the folder in memory, of one that is gone.
func TestClaimMemoryAnew(t *testing.T) {
	l := state.Layout{State: proctest.Place(t), Runtime: proctest.Place(t)}
	if err := l.MakeKeeper(); err != nil {
		t.Fatal(err)
	}
	folders := memoryFolders(l)
	for _, dir := range folders {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/gone", dir+ofStateDir); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(dir+ofStateDir)); err != nil {
				t.Error(err)
			}
		})
	}
	if err := claimMemory(l); err != nil {
		t.Fatal(err)
	}
	want, err := claimText(l.State)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range folders {
		if of, err := os.Readlink(dir + ofStateDir); err != nil || of != want {
			t.Errorf("%s is of %q, %v", dir, of, err)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := leaveMemory(l); err != nil {
		t.Fatal(err)
	}
	for _, dir := range folders {
		for _, name := range []string{dir, dir + ofStateDir} {
			if _, err := os.Lstat(name); err == nil {
				t.Errorf("%s is left", name)
			}
		}
	}
}
