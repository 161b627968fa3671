package dir

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// hint is what an event says about one directory given to us.
type hint struct {
	root    int
	path    string // look at this path; "" = scan it all
	renamed bool   // the path was renamed into place
	taken   bool   // something was taken away: scan it all as well
}

// hints is what an event means, given where the roots lie. It is empty for what does not matter. An event in a directory that is in no layout
// says nothing.
func hints(ev fsnotify.Event, layouts []layout) []hint {
	var out []hint
	dir, base := filepath.Dir(ev.Name), filepath.Base(ev.Name)
	taken := ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename)
	for i, l := range layouts {
		if ev.Name == l.root || l.links[ev.Name] {
			if ev.Op != fsnotify.Write {
				out = append(out, hint{root: i, taken: taken})
			}
			continue
		}
		if path, ok := l.targets[ev.Name]; ok {
			out = append(out, hint{root: i, path: path, renamed: renamedInto(ev), taken: taken})
		}
		if _, ok := l.dirs[ev.Name]; ok && (taken || ev.Has(fsnotify.Chmod)) {
			out = append(out, hint{root: i, taken: taken})
			continue
		}
		if l.isGit(dir) && gitMoved(base) {
			out = append(out, hint{root: i})
		}
		rel, ok := l.dirs[dir]
		if !ok {
			continue
		}
		switch classify(base) {
		case nameManifest:
			out = append(out, hint{root: i, path: join(rel, base), renamed: renamedInto(ev), taken: taken})
		case nameOther:
			if ev.Has(fsnotify.Create) { // perhaps a directory, or a link to one
				out = append(out, hint{root: i, path: join(rel, base)})
			}
		case nameLitter:
			if base == ".git" {
				out = append(out, hint{root: i})
			}
		}
	}
	return out
}

// isGit reports whether the directory is one of git's.
func (l layout) isGit(dir string) bool {
	for _, d := range l.git {
		if d == dir {
			return true
		}
	}
	return false
}

// gitMoved reports whether the name is one in which git shows that it moved on.
func gitMoved(base string) bool {
	switch base {
	case "HEAD", "index", "index.lock", "packed-refs":
		return true
	}
	return false
}

// renamedInto reports whether the event is the arrival of a file by rename from a watched directory. fsnotify knows, but
// tells it only in the event's text, after the name.
func renamedInto(ev fsnotify.Event) bool {
	if !ev.Has(fsnotify.Create) {
		return false
	}
	rest, ok := strings.CutPrefix(ev.String(), fmt.Sprintf("%-13s %q", ev.Op.String(), ev.Name))
	return ok && rest != ""
}

// watchTrouble is why a directory cannot be watched, in words for people.
func watchTrouble(err error) string {
	switch {
	case errors.Is(err, unix.ENOSPC):
		return "not every directory is watched, changes are found by looking every 2 s: the limit of inotify watches is reached; raise fs.inotify.max_user_watches"
	case errors.Is(err, unix.EMFILE):
		return "nothing is watched, changes are found by looking every 2 s: the limit of inotify instances or of open files is reached; raise fs.inotify.max_user_instances or the limit of open files"
	}
	return "not every directory is watched, changes are found by looking every 2 s: " + trouble(err)
}

// unwatchedNotice is for a directory that cannot be watched under its path although the kernel said yes: it is reached by two
// paths, as with a bind mount.
const unwatchedNotice = "not every directory is watched, changes are found by looking every 2 s: a directory is reached by two paths"

// foreignClock reports whether the open directory's file system is one whose time stamps another host may have made, and
// which sends no events for changes made there: NFS, SMB, 9p, FUSE, Ceph, AFS.
func foreignClock(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return true
	}
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.V9FS_MAGIC,
		unix.FUSE_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC:
		return true
	}
	return false
}
