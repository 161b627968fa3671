package dir

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/spec"
)

const (
	// depthLimit is how deep a directory may lie below its root.
	depthLimit = 32
	// entryLimit is how many manifests one root may hold.
	entryLimit = 65536
	// skippedLimit is how many files of other names are listed by name.
	skippedLimit = 200
)

// scanner reads one directory. It remembers what it has read, so that what did not change is not read again. It is used by
// one goroutine at a time.
type scanner struct {
	path   string // absolute, clean, links not followed
	file   bool   // a single file may stand in the place of the directory
	decode func(string, []byte) spec.File
	watch  func(dir string) error // called before a directory is listed or a link in it read; nil = nobody watches
	now    func() time.Time
	settle bool // files must rest before they count
	keep   bool // content keeps its bytes, for the last good ones
	strict bool // the file system's time stamps are not of this host's clock: every change has to be seen twice
	fail   func(op, path string) error

	cache map[string]cached
	repo  repository
	last  layout // of the last full scan
}

// cached is what the scanner remembers of a path.
type cached struct {
	print   fingerprint
	content *content
	racy    bool // read so soon after its change that another change could have the same time stamp
}

// layout is where the parts of a scanned directory lie in the file system, for the watcher.
type layout struct {
	root    string            // real path of the root, "" when it is not there
	dirs    map[string]string // real directory -> path in the source
	links   map[string]bool   // paths of symbolic links that were followed
	targets map[string]string // real path of a linked file -> path in the source
	git     []string          // directories in which git shows that it is at work or moved on
	watched map[string]bool   // directories that are watched
	foreign bool              // changes may come without an event
	trouble string            // why some directory is not watched
}

// unread is a file that changed and does not rest yet.
type unread struct {
	path  string
	print fingerprint
}

// fullResult is a full scan and what it leaves to be done.
type fullResult struct {
	scan   *scanResult
	unread []unread
	layout layout
}

// walk is one full scan under way.
type walk struct {
	*scanner
	result   *scanResult
	unread   []unread
	layout   layout
	links    []link
	visited  map[[2]uint64]string // device and inode of directories and of regular files -> path
	later    []linked
	seen     map[string]cached
	skipped  int
	problems []string // what could not be read
	flipped  bool
}

// full looks at everything.
func (s *scanner) full() fullResult {
	w := &walk{scanner: s, seen: make(map[string]cached, len(s.cache)), visited: map[[2]uint64]string{},
		layout: layout{dirs: map[string]string{}, links: map[string]bool{}, targets: map[string]string{}, watched: map[string]bool{}},
		result: &scanResult{full: true, start: s.now(), devices: map[string]uint64{}}}
	w.result.verdict = w.run()
	w.result.end = s.now()
	w.result.notice = w.layout.trouble
	if w.result.verdict.cause.saw() {
		s.cache = w.seen
		slices.SortFunc(w.result.files, func(a, b found) int { return strings.Compare(a.path, b.path) })
		if more := w.skipped - skippedLimit; more > 0 {
			w.result.notice = strings.TrimPrefix(w.result.notice+"; "+plural(more, "more file")+" with other names not listed", "; ")
		}
	} else {
		w.unread = nil
	}
	s.last = w.layout
	return fullResult{scan: w.result, unread: w.unread, layout: w.layout}
}

// run makes the scan and judges it.
func (w *walk) run() verdict {
	real, links, err := resolve(w.path, w.watched)
	w.addLinks(links)
	w.layout.root = real
	w.watched(filepath.Dir(real))
	if err == nil {
		err = w.failing("open", "")
	}
	var fd int
	if err == nil {
		fd, err = openRetry(unix.AT_FDCWD, real, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return verdict{vanished, "is not there; what it declared stays as it was"}
	case err != nil:
		return verdict{unreachable, trouble(err)}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return verdict{unreachable, trouble(err)}
	}
	w.layout.foreign = foreignClock(fd)
	w.strict = w.layout.foreign
	if st.Mode&unix.S_IFMT == unix.S_IFREG && w.file {
		w.single(fd, real)
		return w.judge()
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return verdict{vanished, "is not a directory; what it declared stays as it was"}
	}
	w.repo.open(real, links)
	busy := w.repo.busy(w.now())
	before := w.repo.revision()
	w.layout.git = w.repo.watch()
	for _, d := range w.layout.git {
		w.watched(d)
	}
	w.result.devices[""] = uint64(st.Dev)
	w.directory(fd, real, "", &st, 0)
	w.followLinks()
	if w.flipped || !stillLead(w.links) || !sameDirectory(real, &st) {
		return verdict{moved, "was replaced while it was read"}
	}
	w.result.revision = w.repo.revision()
	if !busy {
		busy = w.repo.busy(w.now()) || before != w.result.revision
	}
	v := w.judge()
	if busy && (v.cause == complete || v.cause == empty) {
		return verdict{gitBusy, "git is at work in it; nothing is removed until it has finished"}
	}
	w.result.dirty = w.repo.dirty(w.seen, w.layout)
	return v
}

// judge is the verdict over what was seen.
func (w *walk) judge() verdict {
	switch {
	case len(w.result.files) > entryLimit:
		return verdict{unreadable, "holds more than " + plural(entryLimit, "manifest") + "; split it"}
	case len(w.problems) > 0:
		slices.Sort(w.problems)
		reason := w.problems[0]
		if n := len(w.problems) - 1; n > 0 {
			reason += " (and " + plural(n, "more problem") + ")"
		}
		return verdict{unreadable, reason}
	case len(w.unread) > 0:
		return verdict{cause: unsettled}
	case len(w.result.files) == 0:
		return verdict{empty, "holds no manifest; that alone removes nothing"}
	}
	return verdict{}
}

// rests reports whether a file of that fingerprint may be read now.
func (s *scanner) rests(p fingerprint) bool {
	return !s.settle || !s.strict && p.age(s.now()) >= restTime
}

// take is the file as it counts now. A file that does not rest is left as it was, and is returned as unread too; one that is gone is
// unread without a fingerprint.
func (s *scanner) take(fd int, name, path string, print fingerprint, rests func(fingerprint) bool, evenOpen bool) (found, *unread) {
	f := found{path: path}
	c, ok := s.cache[path]
	if ok {
		f.content = c.content
	}
	if ok && c.print == print && !c.racy {
		return f, nil
	}
	if !rests(print) {
		return f, &unread{path: path, print: print}
	}
	err := s.failing("read", path)
	var r reading
	if err == nil {
		r, err = readAt(fd, name, evenOpen || !s.settle)
	}
	switch {
	case errors.Is(err, errBusy):
		f.pending = true
		return f, &unread{path: path, print: r.print}
	case errors.Is(err, unix.ENOENT):
		return f, &unread{path: path}
	case err != nil:
		f.trouble = trouble(err)
		return f, nil
	}
	racy := r.print.age(s.now()) < racyTime
	switch {
	case ok && c.content != nil && c.content.hash == r.hash && !r.large:
		f.content = c.content
	case r.large:
		f.content = tooLarge(path, r.print.size)
		if ok && c.content != nil && c.content.hash == f.content.hash {
			f.content = c.content
		}
	default:
		f.content = decode(path, r.data, r.hash, s.decode)
		if s.keep && f.content.good() {
			f.content.bytes.Store(&r.data)
		}
	}
	s.cache[path] = cached{print: r.print, content: f.content, racy: racy}
	return f, nil
}
