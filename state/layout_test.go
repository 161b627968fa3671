package state

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/proc/proctest"
)

func TestDefaultLayout(t *testing.T) {
	for _, c := range []struct {
		name           string
		uid            int
		env            map[string]string
		state, runtime string
	}{
		{"root", 0, map[string]string{"HOME": "/root", "XDG_STATE_HOME": "/x"}, "/var/lib/reconciler", "/run/reconciler"},
		{"user", 1000, map[string]string{"HOME": "/home/u", "XDG_RUNTIME_DIR": "/run/user/1000"}, "/home/u/.local/state/reconciler", "/run/user/1000/reconciler"},
		{"state home", 1000, map[string]string{"HOME": "/home/u", "XDG_STATE_HOME": "/s"}, "/s/reconciler", "/s/reconciler/runtime"},
		{"relative ones are ignored", 1000, map[string]string{"HOME": "/home/u", "XDG_STATE_HOME": "s", "XDG_RUNTIME_DIR": "r"}, "/home/u/.local/state/reconciler", "/home/u/.local/state/reconciler/runtime"},
	} {
		l, err := DefaultLayout(c.uid, func(name string) string { return c.env[name] })
		if err != nil || l.State != c.state || l.Runtime != c.runtime {
			t.Errorf("%s: %+v, %v", c.name, l, err)
		}
	}
	if _, err := DefaultLayout(1000, func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("without a home: %v", err)
	}
}

func TestLayoutIsMadeWithItsModes(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	dir := proctest.Place(t) // its sockets have short names
	l := Layout{State: filepath.Join(dir, "a", "b", "state"), Runtime: filepath.Join(dir, "run")}
	for range 2 { // it is idempotent
		must(t, l.MakeKeeper())
		must(t, l.MakeReconciler())
	}
	must(t, os.RemoveAll(l.Runtime))
	must(t, l.MakeRuntime())
	for path, want := range map[string]os.FileMode{
		l.State: 0o711, l.Data(): 0o711, l.Runtime: 0o711,
		l.Secrets(): 0o700, l.Keeper(): 0o700, l.Runs(): 0o700, l.Logs(): 0o700, l.Reconciler(): 0o700,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Error(err)
		} else if info.Mode() != want|os.ModeDir {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
	}
	s, _, err := Open(LinuxDisk{}, l.Keeper())
	must(t, err)
	must(t, s.Close())
}

func TestLayoutRefusesWhatIsNotSafe(t *testing.T) {
	for name, spoil := range map[string]func(l Layout) error{
		"state writable":      func(l Layout) error { return os.Chmod(l.State, 0o777) },
		"runtime writable":    func(l Layout) error { return os.Chmod(l.Runtime, 0o731) },
		"keeper open":         func(l Layout) error { return os.Chmod(l.Keeper(), 0o711) },
		"logs open":           func(l Layout) error { return os.Chmod(l.Logs(), 0o755) },
		"state is a file":     func(l Layout) error { return errors.Join(os.RemoveAll(l.State), os.WriteFile(l.State, nil, 0o600)) },
		"data is a link":      func(l Layout) error { return errors.Join(os.Remove(l.Data()), os.Symlink("/", l.Data())) },
		"state of a stranger": func(l Layout) error { return os.Chown(l.State, 4242, -1) },
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasSuffix(name, "stranger") && os.Geteuid() != 0 {
				t.Skip("only root can give a directory away")
			}
			dir := proctest.Place(t) // its sockets have short names
			l := Layout{State: filepath.Join(dir, "state"), Runtime: filepath.Join(dir, "run")}
			must(t, l.MakeKeeper())
			must(t, spoil(l))
			if err := l.MakeKeeper(); !errors.Is(err, ErrUnsafe) {
				t.Errorf("MakeKeeper: %v", err)
			}
		})
	}
}

func TestLayoutValidate(t *testing.T) {
	long := "/" + strings.Repeat("r", MaxSocketPath-len("//keeper.sock"))
	for _, c := range []struct {
		l    Layout
		says string
	}{
		{Layout{"/s", "/r"}, ""},
		{Layout{"/s", long}, ""},
		{Layout{"/s", long + "r"}, "--runtime-dir"},
		{Layout{"s", "/r"}, "--state-dir"},
		{Layout{"/s", "/r/../r"}, "--runtime-dir"},
		{Layout{"/s", ""}, "--runtime-dir"},
	} {
		err := c.l.Validate()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.l, err, c.says)
		}
	}
}
