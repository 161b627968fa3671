package state

import (
	"errors"
	"fmt"
	"path/filepath"
)

// Layout is where everything of one installation lies. Nothing else in the program puts these paths together.
//
//	State/                     0711
//	  keeper/                  0700  the keeper's alone
//	    lock                         its kernel lock
//	    journal                      the records' power-cut copy
//	    records/  SCOPE.json         the records; .SCOPE.json.tmp takes the next one
//	    archive/  SCOPE@SEQ.json     records of removed scopes
//	    retired/                     what an operator set aside
//	    runs/     RUN-ID/            FIFOs and mark of a run
//	    logs/     SCOPE/             log files
//	  reconciler/              0700  the reconciler's alone
//	    lock
//	    *.journal                    its tables
//	  data/                    0711  the workspace "data"
//	  secrets/                 0700  NAME/KEY: the host's secrets, unless its configuration has them elsewhere
//	Runtime/                   0711  may vanish and is made anew
//	  keeper.sock  api.sock    0666  guarded by peer credentials
//	  notify.sock              0666  what runs say of themselves, proven by the kernel
type Layout struct {
	State   string // absolute
	Runtime string // absolute
}

// MaxSocketPath is the longest path that the kernel takes as a Unix socket's address, in bytes (unix(7): sun_path is 108
// with its ending NUL).
const MaxSocketPath = 107

// DefaultLayout is where things lie when nobody says otherwise: /var/lib/reconciler and /run/reconciler for root, else by
// the XDG base directories. getenv is os.Getenv.
func DefaultLayout(uid int, getenv func(string) string) (Layout, error) {
	if uid == 0 {
		return Layout{State: "/var/lib/reconciler", Runtime: "/run/reconciler"}, nil
	}
	var l Layout
	switch xdg, home := getenv("XDG_STATE_HOME"), getenv("HOME"); {
	case filepath.IsAbs(xdg): // a relative one is to be ignored (XDG base directory specification)
		l.State = filepath.Join(xdg, "reconciler")
	case filepath.IsAbs(home):
		l.State = filepath.Join(home, ".local", "state", "reconciler")
	default:
		return Layout{}, errors.New("cannot tell where the state directory is: neither XDG_STATE_HOME nor HOME is an absolute path; name it with --state-dir")
	}
	l.Runtime = l.RuntimeBelowState()
	if xdg := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(xdg) {
		l.Runtime = filepath.Join(xdg, "reconciler")
	}
	return l, nil
}

// RuntimeBelowState is the runtime directory of an installation that was told its state directory alone and whose host has
// no better place.
func (l Layout) RuntimeBelowState() string { return filepath.Join(l.State, "runtime") }

// Keeper is the keeper's own directory, the one that [Open] takes.
func (l Layout) Keeper() string { return filepath.Join(l.State, "keeper") }

// AnchorLock is the file that is locked as long as an anchor lives that starts keepers for this state directory.
func (l Layout) AnchorLock() string { return filepath.Join(l.Keeper(), "anchor") }

// Runs is where every run has a directory, named by its id.
func (l Layout) Runs() string { return filepath.Join(l.Keeper(), "runs") }

// Logs is where every scope has a directory, named by its id.
func (l Layout) Logs() string { return filepath.Join(l.Keeper(), "logs") }

// Reconciler is the reconciler's own directory.
func (l Layout) Reconciler() string { return filepath.Join(l.State, "reconciler") }

// ReconcilerLock is the lock of the one reconciler.
func (l Layout) ReconcilerLock() string { return filepath.Join(l.Reconciler(), "lock") }

// Table is the file of one of the reconciler's tables.
func (l Layout) Table(kind string) string { return filepath.Join(l.Reconciler(), kind+".journal") }

// Data is the workspace "data".
func (l Layout) Data() string { return filepath.Join(l.State, "data") }

// Secrets is where secrets are read that the host's configuration has nowhere else.
func (l Layout) Secrets() string { return filepath.Join(l.State, "secrets") }

// KeeperSocket is where the keeper listens.
func (l Layout) KeeperSocket() string { return filepath.Join(l.Runtime, "keeper.sock") }

// NotifySocket is where runs say what they are about (sd_notify(3)).
func (l Layout) NotifySocket() string { return filepath.Join(l.Runtime, "notify.sock") }

// APISocket is where the reconciler listens.
func (l Layout) APISocket() string { return filepath.Join(l.Runtime, "api.sock") }

// Validate refuses paths that cannot work, before anything is made.
func (l Layout) Validate() error {
	for _, d := range []struct{ flag, path string }{{"--state-dir", l.State}, {"--runtime-dir", l.Runtime}} {
		if !filepath.IsAbs(d.path) || filepath.Clean(d.path) != d.path {
			return fmt.Errorf("%s %q: not an absolute path in its shortest form", d.flag, d.path)
		}
	}
	for _, s := range []string{l.KeeperSocket(), l.APISocket(), l.NotifySocket()} {
		if len(s) > MaxSocketPath {
			return fmt.Errorf("socket path %q is %d bytes long, the kernel takes %d: name a shorter --runtime-dir", s, len(s), MaxSocketPath)
		}
	}
	return nil
}
