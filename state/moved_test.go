package state

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A copy of a store whose keeper is dead too: what runs is the original's, and is taken over by a copy only when somebody says that the
// original is gone.
func TestCopyOfAStoreWhoseKeeperIsDead(t *testing.T) {
	boot, err := LinuxDisk{}.BootID()
	must(t, err)
	for name, c := range map[string]struct {
		edit  func(*Record)
		after func(t *testing.T, copied string)
		moved bool
	}{
		"a run lives":            {moved: true},
		"a start was not at end": {edit: func(r *Record) { r.Run.Phase, r.Run.Identity = Launching, nil }, moved: true},
		"the run is over":        {edit: func(r *Record) { r.Run.Phase = Exited }},
		"a run of another boot":  {edit: func(r *Record) { r.Run.Identity.BootID = "another" }},
		"restored after a reboot": {after: func(t *testing.T, copied string) {
			path := filepath.Join(copied, "lock")
			b, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(b), boot, strings.Repeat("0", len(boot)))), 0o600))
		}},
		"the original is said to be gone": {after: func(t *testing.T, copied string) { must(t, os.Remove(filepath.Join(copied, "lock"))) }},
		"renamed": {after: func(t *testing.T, copied string) { // the directory is the same one
			must(t, os.RemoveAll(copied))
			must(t, os.Rename(filepath.Join(filepath.Dir(copied), "keeper"), copied))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := privateDir(t)
			s, _, closed := openStore(t, LinuxDisk{}, dir)
			r := sample("town")
			r.Run.Identity.BootID = boot
			if c.edit != nil {
				c.edit(r)
			}
			must(t, s.Put(r))
			closed()
			copied := filepath.Join(filepath.Dir(dir), "copy")
			must(t, exec.Command("/bin/cp", "-a", dir, copied).Run())
			if c.after != nil {
				c.after(t, copied)
			}
			for range 2 { // a refusal changes nothing
				s, _, err := Open(LinuxDisk{}, copied)
				if err == nil {
					must(t, s.Close())
				}
				if errors.Is(err, ErrMoved) != c.moved || err != nil && !c.moved {
					t.Errorf("the copy was opened with %v", err)
				}
				if c.moved && !strings.Contains(err.Error(), filepath.Join(copied, "lock")) {
					t.Errorf("%v does not name the lock", err)
				}
			}
			if name == "renamed" {
				return
			}
			original, _, err := Open(LinuxDisk{}, dir)
			must(t, err)
			must(t, original.Close())
		})
	}
}
