package dir

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// request asks to look at one path that an event named.
type request struct {
	path     string
	print    fingerprint // of the look before
	rested   bool        // it may be read if it still has that fingerprint
	renamed  bool        // it was renamed into place: it may be read at once
	evenOpen bool        // although somebody has it open for writing
}

// lookResult is what was found at some paths, and what is left to be done.
type lookResult struct {
	scan   *scanResult
	unread []unread
	rescan bool // something is there that only a full scan can judge: a directory or a symbolic link
}

// look looks at the paths.
func (s *scanner) look(requests []request) lookResult {
	r := lookResult{scan: &scanResult{start: s.now()}}
	where := s.last.places()
	for _, q := range requests {
		real := where.of(q.path)
		if real == "" {
			r.rescan = true
			continue
		}
		s.lookAt(q, real, where.behind[q.path] == "", &r)
	}
	r.scan.end = s.now()
	return r
}

// lookAt looks at one path. A symbolic link is left to a full scan, unless it is known what is behind it.
func (s *scanner) lookAt(q request, real string, nofollow bool, r *lookResult) {
	var st unix.Stat_t
	err := s.failing("stat", q.path)
	if err == nil {
		flags := 0
		if nofollow {
			flags = unix.AT_SYMLINK_NOFOLLOW
		}
		err = unix.Fstatat(unix.AT_FDCWD, real, &st, flags)
	}
	manifest := classify(filepath.Base(q.path)) == nameManifest
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		if !nofollow {
			r.rescan = true // the link leads elsewhere, or nowhere
			return
		}
		r.scan.gone = append(r.scan.gone, q.path)
		return
	case err != nil:
		r.rescan = true
		return
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR, unix.S_IFLNK:
		r.rescan = true
		return
	case unix.S_IFREG:
		if !manifest {
			return
		}
	default:
		return
	}
	print := fingerprintOf(&st)
	rests := func(p fingerprint) bool { return q.renamed || q.rested && p == q.print }
	f, left := s.take(unix.AT_FDCWD, real, q.path, print, rests, q.evenOpen)
	switch {
	case left != nil && left.print == (fingerprint{}):
		r.scan.gone = append(r.scan.gone, q.path)
		return
	case left != nil:
		r.unread = append(r.unread, *left)
		if q.rested { // it takes its time, so that it is shown; the first look at every save is not worth a Set
			r.scan.files = append(r.scan.files, f)
		}
		return
	}
	r.scan.files = append(r.scan.files, f)
}

// parent is the path of the directory that holds the path; "" is the source's own.
func parent(path string) string {
	if dir := filepath.Dir(path); dir != "." {
		return dir
	}
	return ""
}

// places finds the real path of a path in the source.
type places struct {
	dirs   map[string]string // path in the source -> real directory
	behind map[string]string // path in the source -> real path behind a symbolic link
}

// places is the layout by paths in the source.
func (l layout) places() places {
	p := places{dirs: make(map[string]string, len(l.dirs)), behind: make(map[string]string, len(l.targets))}
	for real, rel := range l.dirs {
		p.dirs[rel] = real
	}
	for real, rel := range l.targets {
		p.behind[rel] = real
	}
	return p
}

// of is the real path of a path in the source, "" when its directory is not known.
func (p places) of(path string) string {
	if real, ok := p.behind[path]; ok {
		return real
	}
	dir, ok := p.dirs[parent(path)]
	if !ok {
		return ""
	}
	return filepath.Join(dir, filepath.Base(path))
}
