package dir

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/spec"
)

// linked is a symbolic link in the tree that is followed after everything real has been seen.
type linked struct {
	dir, name, rel string
	depth          int
}

// directory lists an open directory and everything below it.
func (w *walk) directory(fd int, real, rel string, st *unix.Stat_t, depth int) {
	id := [2]uint64{uint64(st.Dev), st.Ino}
	if _, twice := w.visited[id]; twice {
		return
	}
	w.visited[id] = rel
	w.layout.dirs[real] = rel
	if depth > depthLimit {
		w.problem(rel, "lies too deep")
		return
	}
	w.watched(real)
	names, err := w.list(fd, rel)
	if err != nil {
		w.problem(rel, trouble(err))
		return
	}
	for _, name := range names {
		w.entry(fd, real, rel, name, st, depth)
	}
}

// list is the names in an open directory that may matter, in order.
func (w *walk) list(fd int, rel string) ([]string, error) {
	if err := w.failing("list", rel); err != nil {
		return nil, err
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(dup), "")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return classify(n) == nameLitter })
	slices.Sort(names)
	return names, nil
}

// entry looks at one name of a directory.
func (w *walk) entry(fd int, real, rel, name string, parent *unix.Stat_t, depth int) {
	path := join(rel, name)
	var st unix.Stat_t
	err := w.failing("stat", path)
	if err == nil {
		err = unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		// It went while we looked. If it matters, look again.
		w.flipped = w.flipped || classify(name) == nameManifest || w.wasDirectory(path)
		return
	case err != nil:
		w.problem(path, trouble(err))
		return
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		w.later = append(w.later, linked{dir: real, name: name, rel: path, depth: depth})
	case unix.S_IFDIR:
		sub, err := openRetry(fd, name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) {
			w.flipped = true
			return
		}
		if err != nil {
			w.problem(path, trouble(err))
			return
		}
		defer unix.Close(sub)
		if err := unix.Fstat(sub, &st); err != nil {
			w.problem(path, trouble(err))
			return
		}
		if st.Dev != parent.Dev {
			w.result.devices[path] = uint64(st.Dev)
		}
		w.directory(sub, filepath.Join(real, name), path, &st, depth+1)
	case unix.S_IFREG:
		if classify(name) != nameManifest {
			w.skip(path, "its name does not end in .yaml, .yml or .json")
			return
		}
		w.visited[[2]uint64{uint64(st.Dev), st.Ino}] = path
		w.manifest(fd, name, path, &st)
	default:
		if classify(name) == nameManifest {
			w.skip(path, "is not a regular file")
		}
	}
}

// manifest takes a regular file: from memory when it did not change, else by reading it, if it rests.
func (w *walk) manifest(fd int, name, path string, st *unix.Stat_t) {
	f, left := w.take(fd, name, path, fingerprintOf(st), w.rests, false)
	switch {
	case left != nil && left.print == (fingerprint{}):
		w.flipped = true
		return
	case left != nil:
		w.unread = append(w.unread, *left)
	}
	if f.trouble != "" {
		w.problem(path, f.trouble)
	}
	if c, ok := w.cache[path]; ok {
		w.seen[path] = c
	}
	w.result.files = append(w.result.files, f)
}

// followLinks looks behind the symbolic links of the tree, in the order of their paths. What has been seen by its real
// path is not taken twice.
func (w *walk) followLinks() {
	for len(w.later) > 0 {
		slices.SortFunc(w.later, func(a, b linked) int { return cmp.Compare(a.rel, b.rel) })
		l := w.later[0]
		w.later = w.later[1:]
		w.follow(l)
	}
}

// follow looks behind one link.
func (w *walk) follow(l linked) {
	real, links, err := resolve(filepath.Join(l.dir, l.name), w.watched)
	w.addLinks(links)
	manifest := classify(l.name) == nameManifest
	var st unix.Stat_t
	if err == nil {
		err = w.failing("stat", l.rel)
	}
	if err == nil {
		err = unix.Stat(real, &st)
	}
	if err != nil {
		switch {
		case manifest:
			w.problem(l.rel, trouble(err))
			f := found{path: l.rel, trouble: trouble(err)}
			if c, ok := w.cache[l.rel]; ok {
				f.content, w.seen[l.rel] = c.content, c
			}
			w.result.files = append(w.result.files, f)
		case w.wasDirectory(l.rel), filepath.Ext(l.name) == "":
			w.problem(l.rel, trouble(err)) // a directory of manifests may be behind it
		}
		return
	}
	id := [2]uint64{uint64(st.Dev), st.Ino}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if _, twice := w.visited[id]; twice {
			return
		}
		fd, err := openRetry(unix.AT_FDCWD, real, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_DIRECTORY)
		if err != nil {
			w.problem(l.rel, trouble(err))
			return
		}
		defer unix.Close(fd)
		w.result.devices[l.rel] = uint64(st.Dev)
		w.directory(fd, real, l.rel, &st, l.depth+1)
	case unix.S_IFREG:
		if !manifest {
			w.skip(l.rel, "its name does not end in .yaml, .yml or .json")
			return
		}
		if first, twice := w.visited[id]; twice {
			w.skip(l.rel, "is a link to "+first+", which is read already")
			return
		}
		w.visited[id] = l.rel
		w.layout.targets[real] = l.rel
		w.watched(filepath.Dir(real))
		w.manifest(unix.AT_FDCWD, real, l.rel, &st)
	default:
		if manifest {
			w.skip(l.rel, "is not a regular file")
		}
	}
}

// single takes a root that is one file.
func (w *walk) single(fd int, real string) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		w.problem("", trouble(err))
		return
	}
	w.manifest(unix.AT_FDCWD, real, filepath.Base(w.path), &st)
}

// addLinks notes links that were followed.
func (w *walk) addLinks(links []link) {
	w.links = append(w.links, links...)
	for _, l := range links {
		w.layout.links[l.path] = true
	}
}

// watched has a directory watched from now on.
func (w *walk) watched(dir string) {
	if w.watch == nil {
		return
	}
	if w.layout.watched[dir] {
		return
	}
	switch err := w.watch(dir); {
	case err == nil:
		w.layout.watched[dir] = true
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR): // the scan will meet it
	case w.layout.trouble == "":
		w.layout.trouble = watchTrouble(err)
	}
}

// wasDirectory reports whether the last scan saw a directory at that path of the source.
func (s *scanner) wasDirectory(rel string) bool {
	for _, r := range s.last.dirs {
		if r == rel {
			return true
		}
	}
	return false
}

// skip notes a file that is not read.
func (w *walk) skip(path, reason string) {
	w.skipped++
	if w.skipped <= skippedLimit {
		w.result.skipped = append(w.result.skipped, spec.FileState{Path: path, State: spec.FileSkipped, Reason: reason})
	}
}

// problem notes something that is there and cannot be read.
func (w *walk) problem(path, what string) {
	if path != "" {
		what = path + " " + what
	}
	w.problems = append(w.problems, what)
}

// failing is the error that a test wants here.
func (s *scanner) failing(op, path string) error {
	if s.fail == nil {
		return nil
	}
	return s.fail(op, path)
}

// sameDirectory reports whether the path still is the directory of that stat.
func sameDirectory(path string, st *unix.Stat_t) bool {
	var now unix.Stat_t
	return unix.Stat(path, &now) == nil && now.Dev == st.Dev && now.Ino == st.Ino
}

// join joins a path in the source and a name.
func join(rel, name string) string {
	if rel == "" {
		return name
	}
	return rel + "/" + name
}
