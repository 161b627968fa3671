package secret_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/secret"
)

// newDir makes a secrets directory with the secret town/rcon.
func newDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "secrets")
	makeSecret(t, dir)
	return dir
}

func makeSecret(tb testing.TB, dir string) {
	tb.Helper()
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(dir+"/town", 0o700), os.WriteFile(dir+"/town/rcon", []byte(canary+"\n"), 0o600)); err != nil {
		tb.Fatal(err)
	}
}

func write(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o600))
	must(t, os.Chmod(path, mode))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		mode    fs.FileMode
		want    string
	}{
		"with a newline":           {"geheim\n", 0o600, "geheim"},
		"without a newline":        {"geheim", 0o400, "geheim"},
		"only one newline goes":    {"geheim\n\n", 0o600, "geheim\n"},
		"a carriage return stays":  {"geheim\r\n", 0o600, "geheim\r"},
		"bytes that are no text":   {"\x00\xff", 0o600, "\x00\xff"},
		"one byte":                 {"g", 0o600, "g"},
		"the largest":              {strings.Repeat("g", secret.Limit), 0o600, strings.Repeat("g", secret.Limit)},
		"the largest and its line": {strings.Repeat("g", secret.Limit) + "\n", 0o600, strings.Repeat("g", secret.Limit)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newDir(t)
			write(t, filepath.Join(dir, "town", "rcon"), c.content, c.mode)
			v, err := secret.Store{Directory: dir}.Read("town/rcon")
			if err != nil || string(v.Reveal()) != c.want {
				t.Fatalf("read %d bytes (%v), not %d", len(v.Reveal()), err, len(c.want))
			}
		})
	}
}

// kubelet lays a Secret out as Kubernetes' atomic writer does, and returns what replaces its content in one step.
func kubelet(t *testing.T, dir string) (update func(version, content string)) {
	t.Helper()
	return func(version, content string) {
		t.Helper()
		must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "rcon"), content, 0o400)
		must(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		if err := os.Symlink("..data/rcon", filepath.Join(dir, "rcon")); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
}

func TestReadMountedSecret(t *testing.T) {
	dir := newDir(t)
	must(t, os.Mkdir(filepath.Join(dir, "mounted"), 0o700))
	update := kubelet(t, filepath.Join(dir, "mounted"))
	for _, version := range []string{"..2026_01", "..2026_02"} {
		update(version, version)
		v, err := secret.Store{Directory: dir}.Read("mounted/rcon")
		if err != nil || string(v.Reveal()) != version {
			t.Fatalf("read %q: %v", v.Reveal(), err)
		}
	}
}

// Swaps under the reader's feet never yield anything but one of the versions.
func TestReadWhileSwapped(t *testing.T) {
	dir := newDir(t)
	mounted := filepath.Join(dir, "mounted")
	must(t, os.Mkdir(mounted, 0o700))
	update := kubelet(t, mounted)
	update("..0", "..0")
	done := make(chan struct{})
	swapped := make(chan struct{})
	go func() {
		defer close(swapped)
		old := "..0"
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			next := []string{"..1", "..0"}[i%2]
			if os.Mkdir(filepath.Join(mounted, next), 0o700) != nil ||
				os.WriteFile(filepath.Join(mounted, next, "rcon"), []byte(next), 0o400) != nil ||
				os.Symlink(next, filepath.Join(mounted, "..data_tmp")) != nil ||
				os.Rename(filepath.Join(mounted, "..data_tmp"), filepath.Join(mounted, "..data")) != nil ||
				os.RemoveAll(filepath.Join(mounted, old)) != nil {
				t.Error("the swap failed")
				return
			}
			old = next
		}
	}()
	good := 0
	for range 300 {
		v, err := secret.Store{Directory: dir}.Read("mounted/rcon")
		if err == nil {
			good++
			if s := string(v.Reveal()); s != "..0" && s != "..1" {
				t.Errorf("read %q", s)
			}
		}
	}
	close(done)
	<-swapped
	if good == 0 {
		t.Error("no read succeeded")
	}
}

func TestRefusals(t *testing.T) {
	asRoot := os.Geteuid() == 0
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		ref   string
		want  string
		root  bool // only root can spoil it so
	}{
		"no such name":         {ref: "city/rcon", want: "there is no such file"},
		"no such key":          {ref: "town/rcom", want: "there is no such file"},
		"name of a file":       {ref: "file/key", want: "there is no such file", spoil: func(t *testing.T, dir string) { write(t, dir+"/file", "x", 0o600) }},
		"readable by group":    {want: "mode 0640", spoil: func(t *testing.T, dir string) { must(t, os.Chmod(dir+"/town/rcon", 0o640)) }},
		"readable by others":   {want: "mode 0604", spoil: func(t *testing.T, dir string) { must(t, os.Chmod(dir+"/town/rcon", 0o604)) }},
		"executable":           {want: "mode 0700", spoil: func(t *testing.T, dir string) { must(t, os.Chmod(dir+"/town/rcon", 0o700)) }},
		"set-uid":              {want: "mode 4600", spoil: func(t *testing.T, dir string) { must(t, os.Chmod(dir+"/town/rcon", 0o600|fs.ModeSetuid)) }},
		"an open directory":    {want: "the secrets directory has mode 0755", spoil: func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o755)) }},
		"an open name":         {want: "one of its directories has mode 0750", spoil: func(t *testing.T, dir string) { must(t, os.Chmod(dir+"/town", 0o750)) }},
		"no directory at all":  {want: "the secrets directory cannot be opened", spoil: func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) }},
		"a directory for file": {want: "not a regular file", spoil: func(t *testing.T, dir string) { replace(t, dir, func(p string) error { return os.Mkdir(p, 0o600) }) }},
		"a FIFO":               {want: "not a regular file", spoil: func(t *testing.T, dir string) { replace(t, dir, func(p string) error { return unix.Mkfifo(p, 0o600) }) }},
		"empty":                {want: "is empty", spoil: func(t *testing.T, dir string) { write(t, dir+"/town/rcon", "", 0o600) }},
		"only a newline":       {want: "is empty", spoil: func(t *testing.T, dir string) { write(t, dir+"/town/rcon", "\n", 0o600) }},
		"too large": {want: "larger than 256 KiB", spoil: func(t *testing.T, dir string) {
			write(t, dir+"/town/rcon", strings.Repeat("x", secret.Limit+1), 0o600)
		}},
		"far too large": {want: "larger than 256 KiB", spoil: func(t *testing.T, dir string) { must(t, os.Truncate(dir+"/town/rcon", 1<<40)) }},
		"a symlink out, absolute": {want: "leads out", spoil: func(t *testing.T, dir string) {
			write(t, filepath.Dir(dir)+"/outside", canary, 0o600)
			replace(t, dir, func(p string) error { return os.Symlink(filepath.Dir(dir)+"/outside", p) })
		}},
		"a symlink out, relative": {want: "leads out", spoil: func(t *testing.T, dir string) {
			write(t, filepath.Dir(dir)+"/outside", canary, 0o600)
			replace(t, dir, func(p string) error { return os.Symlink("../../outside", p) })
		}},
		"a symlink out and in again": {want: "leads out", spoil: func(t *testing.T, dir string) {
			write(t, dir+"/town/other", canary, 0o600)
			replace(t, dir, func(p string) error { return os.Symlink(dir+"/town/other", p) })
		}},
		"a symlink to itself": {want: "leads out", spoil: func(t *testing.T, dir string) { replace(t, dir, func(p string) error { return os.Symlink("rcon", p) }) }},
		"a magic link": {want: "leads out", spoil: func(t *testing.T, dir string) {
			replace(t, dir, func(p string) error { return os.Symlink("/proc/self/environ", p) })
		}},
		"an open directory behind a symlink": {want: "one of its directories has mode 0755", spoil: func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir+"/open", 0o700))
			write(t, dir+"/open/rcon", canary, 0o600)
			must(t, os.Chmod(dir+"/open", 0o755))
			replace(t, dir, func(p string) error { return os.Symlink("../open/rcon", p) })
		}},
		"another's file":                    {root: true, want: "the file belongs to another user", spoil: func(t *testing.T, dir string) { must(t, os.Chown(dir+"/town/rcon", 4711, 0)) }},
		"another's name":                    {root: true, want: "one of its directories belongs to another user", spoil: func(t *testing.T, dir string) { must(t, os.Chown(dir+"/town", 4711, 0)) }},
		"another's directory":               {root: true, want: "the secrets directory belongs to another user", spoil: func(t *testing.T, dir string) { must(t, os.Chown(dir, 4711, 0)) }},
		"a ref without key":                 {ref: "town", want: "not NAME/KEY"},
		"a ref to the parent":               {ref: "town/..", want: "not NAME/KEY"},
		"a ref through it":                  {ref: "town/../town/rcon", want: "not NAME/KEY"},
		"an absolute ref":                   {ref: "/town/rcon", want: "not NAME/KEY"},
		"a hidden key":                      {ref: "town/..data", want: "not NAME/KEY"},
		"a deep ref":                        {ref: "town/a/b", want: "not NAME/KEY"},
		"an upper-case name":                {ref: "Town/rcon", want: "not NAME/KEY"},
		"a ref with NUL":                    {ref: "town/rc\x00on", want: "not NAME/KEY"},
		"a ref that is a secret by mistake": {ref: canary, want: "not NAME/KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root && !asRoot {
				t.Skip("only root can give files away")
			}
			dir := newDir(t)
			if c.spoil != nil {
				c.spoil(t, dir)
			}
			ref := c.ref
			if ref == "" {
				ref = "town/rcon"
			}
			v, err := secret.Store{Directory: dir}.Read(ref)
			if err == nil || v.Set() {
				t.Fatal("the secret was read")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %q; it must say %q", err, c.want)
			}
			mustHide(t, "the error", err.Error())
			if strings.Contains(err.Error(), filepath.Dir(dir)) || strings.Contains(err.Error(), "/proc/self/fd") {
				t.Errorf("the error tells a path of the host: %v", err)
			}
			if strings.Contains(c.want, "no such file") != errors.Is(err, fs.ErrNotExist) && name != "no directory at all" {
				t.Errorf("is fs.ErrNotExist: %v", errors.Is(err, fs.ErrNotExist))
			}
			if c.ref == "" && !strings.Contains(err.Error(), "secret town/rcon: ") {
				t.Errorf("the error does not name the secret: %v", err)
			}
		})
	}
}

func replace(t *testing.T, dir string, with func(path string) error) {
	t.Helper()
	path := filepath.Join(dir, "town", "rcon")
	must(t, os.Remove(path))
	must(t, with(path))
}

func TestReadLeavesNoDescriptor(t *testing.T) {
	dir := newDir(t)
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(entries)
	}
	before := count()
	for _, ref := range []string{"town/rcon", "town/none", "none/rcon"} {
		for range 20 {
			_, _ = secret.Store{Directory: dir}.Read(ref) // both ways are meant
		}
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors were open, then %d", before, after)
	}
}

func BenchmarkRead(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "secrets")
	makeSecret(b, dir)
	for b.Loop() {
		v, err := secret.Store{Directory: dir}.Read("town/rcon")
		if err != nil {
			b.Fatal(err)
		}
		v.Zero()
	}
}

func FuzzRef(f *testing.F) {
	for _, ref := range []string{"town/rcon", "town/..", "../x", "a//b", "town/..data/rcon", "town/rc\x00on", "/etc/shadow"} {
		f.Add(ref)
	}
	dir := filepath.Join(f.TempDir(), "secrets")
	makeSecret(f, dir)
	f.Fuzz(func(t *testing.T, ref string) {
		v, err := secret.Store{Directory: dir}.Read(ref)
		if (err == nil) != (ref == "town/rcon") {
			t.Errorf("%q: %v", ref, err)
		}
		if err == nil && string(v.Reveal()) != canary {
			t.Errorf("%q reads %q", ref, v.Reveal())
		}
	})
}
