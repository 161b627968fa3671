package proctest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// longest is how many bytes the path of a place may have: those of a socket, 107 (unix(7)), less what tests have below.
const longest = 60

// Place makes a directory (mode 0755) that goes with the test: where TMPDIR says, or, when that is too long or not
// every user's to enter, in the first of the usual places that is neither.
func Place(t testing.TB) string {
	t.Helper()
	for _, parent := range []string{os.TempDir(), "/tmp", "/var/tmp", "/dev/shm"} {
		parent, err := filepath.Abs(parent)
		if err != nil {
			t.Fatal(err)
		}
		if !open(parent) {
			continue
		}
		dir, err := os.MkdirTemp(parent, "test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		if len(dir) > longest {
			continue
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Fatalf("no directory for temporary files has a path of less than %d bytes that every user may enter: set TMPDIR to one", longest)
	return ""
}

// open reports whether every user may go through a directory and all above it.
func open(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// Program is this test binary in a place of its own, for every user to execute. It goes with the test.
func Program(t testing.TB) string {
	t.Helper()
	path := filepath.Join(Place(t), "program")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(self)
	if err == nil && info.Mode()&0o005 == 0o005 && os.Link(self, path) == nil {
		return path
	}
	if err := copyProgram(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// copyProgram copies this test binary, where it cannot be linked: to another file system, or with another mode.
func copyProgram(path string) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	copied, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(copied, self)
	if err := errors.Join(err, copied.Close()); err != nil {
		return err
	}
	return os.Chmod(path, 0o755) // whatever the umask is
}
