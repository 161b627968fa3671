package dir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/spec"
)

// watched is a source over a new directory that holds the files, which it has read, and a record of every Set that was
// announced.
func watched(t *testing.T, files tree) *rig {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "m")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range files {
		put(t, dir, path, text)
	}
	r := begin(t, Config{Roots: []Root{{Path: dir}}})
	r.until("everything is read", func(s *spec.Set) bool { return len(s.Servers) == len(files) && s.Known })
	return r
}

// neverWithout fails the test if, from now on, a Set lacks one of the servers.
func neverWithout(t *testing.T, r *rig, names ...string) {
	t.Helper()
	lacking := r.lacking(names...)
	t.Cleanup(func() {
		for _, text := range lacking() {
			t.Error(text)
		}
	})
}

// lacking tells of every Set from now on that lacks one of the servers.
func (r *rig) lacking(names ...string) (told func() []string) {
	var mu sync.Mutex
	var lacks []string
	r.listen(func(set *spec.Set) {
		mu.Lock()
		defer mu.Unlock()
		for _, n := range names {
			if set.Servers[spec.Key{Namespace: "default", Name: n}] == nil {
				lacks = append(lacks, fmt.Sprintf("a Set lacks %s: %s", n, brief(set)))
			}
		}
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return lacks
	}
}

// write1 opens, writes and closes as one step of a writer.
func write1(t testing.TB, path string, flags int, text string) {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func move(t testing.TB, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// The ways of editors and copying tools to save a file, by their system calls. None of them loses the object on the way, and none
// leaves anything else.
func TestWriters(t *testing.T) {
	const trunc = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	writers := map[string]func(t *testing.T, dir, text string){
		"in place": func(t *testing.T, dir, text string) { write1(t, filepath.Join(dir, "a.yaml"), trunc, text) },
		"vim": func(t *testing.T, dir, text string) {
			a := filepath.Join(dir, "a.yaml")
			write1(t, filepath.Join(dir, ".a.yaml.swp"), trunc, "b0VIM")
			write1(t, filepath.Join(dir, "4913"), trunc, "")
			drop(t, dir, "4913")
			move(t, a, a+"~")
			write1(t, a, trunc, text)
			drop(t, dir, "a.yaml~")
			drop(t, dir, ".a.yaml.swp")
		},
		"vim with backupcopy": func(t *testing.T, dir, text string) {
			a := filepath.Join(dir, "a.yaml")
			write1(t, a+"~", trunc, "server a 1\n")
			write1(t, a, trunc, text)
			drop(t, dir, "a.yaml~")
		},
		"emacs": func(t *testing.T, dir, text string) {
			a := filepath.Join(dir, "a.yaml")
			if err := os.Symlink("user@host.1:2", filepath.Join(dir, ".#a.yaml")); err != nil {
				t.Fatal(err)
			}
			write1(t, filepath.Join(dir, "#a.yaml#"), trunc, text)
			move(t, a, a+"~")
			write1(t, a, trunc, text)
			drop(t, dir, ".#a.yaml")
			drop(t, dir, "#a.yaml#")
		},
		"sed -i": func(t *testing.T, dir, text string) {
			temp := filepath.Join(dir, "sedAbC123")
			write1(t, temp, trunc, text)
			move(t, temp, filepath.Join(dir, "a.yaml"))
		},
		"rsync": func(t *testing.T, dir, text string) {
			temp := filepath.Join(dir, ".a.yaml.XyZ12a")
			write1(t, temp, trunc, text)
			if err := os.Chmod(temp, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := unix.Utimes(temp, []unix.Timeval{{Sec: 1}, {Sec: 1}}); err != nil {
				t.Fatal(err)
			}
			move(t, temp, filepath.Join(dir, "a.yaml"))
		},
		"rsync --inplace": func(t *testing.T, dir, text string) {
			write1(t, filepath.Join(dir, "a.yaml"), os.O_WRONLY|os.O_CREATE, text)
		},
		"rsync --delay-updates": func(t *testing.T, dir, text string) {
			temp := filepath.Join(dir, ".~tmp~")
			if err := os.Mkdir(temp, 0o700); err != nil {
				t.Fatal(err)
			}
			write1(t, filepath.Join(temp, "a.yaml"), trunc, text)
			move(t, filepath.Join(temp, "a.yaml"), filepath.Join(dir, "a.yaml"))
			if err := os.Remove(temp); err != nil {
				t.Fatal(err)
			}
		},
		"unlink and create": func(t *testing.T, dir, text string) { // as git does
			drop(t, dir, "a.yaml")
			write1(t, filepath.Join(dir, "a.yaml"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, text)
		},
		"moved in": func(t *testing.T, dir, text string) {
			write1(t, filepath.Join(dir, "..", "new"), trunc, text)
			move(t, filepath.Join(dir, "..", "new"), filepath.Join(dir, "a.yaml"))
		},
	}
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for !save(t, write) {
			}
		})
	}
}

// save checks one save, and reports whether it says anything: on a busy host it may take as long as a file must be away to
// count as removed.
func save(t *testing.T, write func(t *testing.T, dir, text string)) bool {
	t.Helper()
	r := watched(t, tree{"a.yaml": "server a 1\n", "b.yaml": "server b 1\n"})
	defer r.stop()
	lacking := r.lacking("a", "b")
	began := time.Now()
	write(t, r.dir, "server a 2\n")
	took := time.Since(began)
	set := r.untilBrief("server/a=2 server/b=1")
	if took >= confirmGap {
		return false
	}
	for _, text := range lacking() {
		t.Error(text)
	}
	for _, f := range sourceOf(set).Files {
		if f.State != spec.FileAccepted {
			t.Errorf("%s is left %s", f.Path, f.State)
		}
	}
	return true
}

// A save in two writes whose first half is valid: the half never counts, however long the pause, while the writer has the
// file open.
func TestTwoPhaseWrite(t *testing.T) {
	r := watched(t, tree{"a.yaml": "server a 1\n"})
	neverWithout(t, r, "a")
	f, err := os.OpenFile(filepath.Join(r.dir, "a.yaml"), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("server a 2\n"); err != nil {
		t.Fatal(err)
	}
	// The pending state is shown once a look has found it open; from then on it rests for much longer than restTime.
	r.until("a.yaml is being written", func(s *spec.Set) bool {
		return fileOf(s, "a.yaml").State == spec.FilePending
	})
	for _, n := range []string{"x", "y", "z"} {
		rename(t, r.dir, n+".yaml", "server "+n+" 1\n")
		set := r.until(n+" is there", func(s *spec.Set) bool { return s.Servers[spec.Key{Namespace: "default", Name: n}] != nil })
		if got := set.Servers[spec.Key{Namespace: "default", Name: "a"}].Object.Spec.Profile; got != "1" {
			t.Fatalf("half a file counts: a=%s", got)
		}
	}
	if _, err := f.WriteString("---\nserver c 2\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	set := r.until("a and c are there", func(s *spec.Set) bool {
		return s.Servers[spec.Key{Namespace: "default", Name: "c"}] != nil
	})
	if got := set.Servers[spec.Key{Namespace: "default", Name: "a"}].Object.Spec.Profile; got != "2" {
		t.Errorf("a=%s", got)
	}
}

func TestRootIsDeleted(t *testing.T) {
	r := watched(t, tree{"a.yaml": "server a 1\n", "sub/b.yaml": "server b 1\n", "c.yaml": "server c 1\n"})
	neverWithout(t, r, "a", "b", "c")
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	r.until("the root is missed", func(s *spec.Set) bool {
		return !sourceOf(s).Complete && strings.Contains(sourceOf(s).Reason, "is not there")
	})
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.until("everything is held", func(s *spec.Set) bool { return len(sourceOf(s).PrunePaused) == 3 })
	put(t, r.dir, "a.yaml", "server a 2\n")
	put(t, r.dir, "sub/b.yaml", "server b 2\n")
	put(t, r.dir, "c.yaml", "server c 2\n")
	r.untilBrief("server/a=2 server/b=2 server/c=2")
	r.until("nothing is held", func(s *spec.Set) bool { return len(sourceOf(s).PrunePaused) == 0 && sourceOf(s).Complete })
}

// A root that was replaced is watched again.
func TestRootIsReplaced(t *testing.T) {
	r := watched(t, tree{"a.yaml": "server a 1\n"})
	neverWithout(t, r, "a")
	next := r.dir + ".next"
	put(t, next, "a.yaml", "server a 2\n")
	move(t, r.dir, r.dir+".old")
	move(t, next, r.dir)
	r.untilBrief("server/a=2")
	put(t, r.dir, "b.yaml", "server b 1\n")
	r.untilBrief("server/a=2 server/b=1")
}

func TestNewDirectories(t *testing.T) {
	r := watched(t, tree{"a.yaml": "server a 1\n"})
	put(t, r.dir, "x/y/z/b.yaml", "server b 1\n")
	r.untilBrief("server/a=1 server/b=1")
	put(t, r.dir, "x/y/c.yml", "server c 1\n")
	r.untilBrief("server/a=1 server/b=1 server/c=1")
	// A directory that is filled before it is moved in.
	put(t, r.dir, "../t/d.json", "server d 1\n")
	move(t, filepath.Join(r.dir, "..", "t"), filepath.Join(r.dir, "t"))
	r.untilBrief("server/a=1 server/b=1 server/c=1 server/d=1")
	// A renamed directory goes on being watched.
	move(t, filepath.Join(r.dir, "t"), filepath.Join(r.dir, "u"))
	r.until("d has moved", func(s *spec.Set) bool {
		d := s.Servers[spec.Key{Namespace: "default", Name: "d"}]
		return d != nil && d.Source.File == "u/d.json"
	})
	put(t, r.dir, "u/d.json", "server d 2\n")
	r.untilBrief("server/a=1 server/b=1 server/c=1 server/d=2")
}

// Errors while reading: what cannot be read stays as it was, and nothing is removed meanwhile.
func TestUnreadable(t *testing.T) {
	for op, path := range map[string]string{"read": "a.yaml", "stat": "a.yaml", "list": "sub", "open": ""} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, p := range []string{"a.yaml", "sub/b.yaml", "c.yaml", "d.yaml"} {
				put(t, dir, p, "server "+strings.TrimSuffix(filepath.Base(p), ".yaml")+" 1\n")
			}
			s, err := New(Config{Roots: []Root{{Path: dir}}, Decode: toyDecode})
			if err != nil {
				t.Fatal(err)
			}
			bad := make(chan bool, 1)
			bad <- false
			s.hooks.fail = func(o, p string) error {
				on := <-bad
				bad <- on
				if on && o == op && p == path {
					return unix.EIO
				}
				return nil
			}
			counts := scanCounter(s)
			r := start(t, s)
			r.untilBrief("server/a=1 server/b=1 server/c=1 server/d=1")
			neverWithout(t, r, "a", "b", "c")
			<-bad
			bad <- true
			put(t, dir, "a.yaml", "server a 2\n")
			drop(t, dir, "d.yaml")
			r.until("the scan is incomplete", func(s *spec.Set) bool { return !sourceOf(s).Complete })
			for seen := 0; seen < 2; { // two more scans, both worth nothing
				if c := <-counts; !c.counts() {
					seen++
				}
			}
			if n := len(r.Latest().Servers); n != 4 {
				t.Errorf("%d of 4 servers are left", n)
			}
			<-bad
			bad <- false
			r.untilBrief("server/a=2 server/b=1 server/c=1")
		})
	}
}

func TestTroubleWithoutPaths(t *testing.T) {
	for _, err := range []error{unix.ENOENT, unix.EACCES, unix.ELOOP, unix.EIO, errNotRegular, errors.New("/secret/path"), &os.PathError{Op: "open", Path: "/secret/path", Err: unix.EIO}} {
		if got := trouble(err); got == "" || strings.Contains(got, "/secret") {
			t.Errorf("%v: %q", err, got)
		}
	}
}

func TestSkipped(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{"a.yaml": "server a 1\n", "b.yml": "server b 1\n", "c.json": "server c 1\n", "d.yaml.bak": "server d 1\n",
		"README.md": "server e 1\n", ".f.yaml": "server f 1\n", "g.yaml~": "server g 1\n", "#h.yaml#": "server h 1\n", "4913": "server i 1\n",
		".git-like/j.yaml": "server j 1\n", "k.YAML": "server k 1\n", "values.yaml": "nothing of ours\n", "l.yaml.swp": "server l 1\n"} {
		put(t, dir, path, text)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "m.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "n.yaml"), make([]byte, sizeLimit+1), 0o644); err != nil {
		t.Fatal(err)
	}
	set, err := Load(Config{Roots: []Root{{Path: dir}}, Decode: toyDecode})
	if err != nil {
		t.Fatal(err)
	}
	if got := brief(set); got != "server/a=1 server/b=1 server/c=1" {
		t.Errorf("read: %s", got)
	}
	var have []string
	for _, f := range sourceOf(set).Files {
		have = append(have, f.Path+" "+f.State)
	}
	want := []string{"README.md Skipped", "a.yaml Accepted", "b.yml Accepted", "c.json Accepted", "d.yaml.bak Skipped", "k.YAML Skipped", "m.yaml Skipped", "n.yaml Invalid", "values.yaml Skipped"}
	if strings.Join(have, "\n") != strings.Join(want, "\n") {
		t.Errorf("listed:\n%s\nwant:\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}

func TestLoadOneFile(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.yaml", "server a 1\n")
	put(t, dir, "b.yaml", "server b 1\n")
	set, err := Load(Config{Roots: []Root{{Path: filepath.Join(dir, "a.yaml")}}, Decode: toyDecode})
	if err != nil {
		t.Fatal(err)
	}
	if got := brief(set); got != "server/a=1" || !set.Known {
		t.Errorf("read: %s, known %v", got, set.Known)
	}
}

func TestTenThousandFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 10000 {
		put(t, dir, fmt.Sprintf("%02d/s%d.yaml", i%50, i), fmt.Sprintf("server s%d 1\n", i))
	}
	r := begin(t, Config{Roots: []Root{{Path: dir}}})
	r.until("all are read", func(s *spec.Set) bool { return len(s.Servers) == 10000 })
	put(t, dir, "07/new.yaml", "server new 1\n")
	r.until("one more is read", func(s *spec.Set) bool { return len(s.Servers) == 10001 })
	drop(t, dir, "07/new.yaml")
	r.until("it is gone", func(s *spec.Set) bool { return len(s.Servers) == 10000 })
}

// Lost events: everything is read again.
func TestOverflow(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.yaml", "server a 1\n")
	s, err := New(Config{Roots: []Root{{Path: dir}}, Decode: toyDecode})
	if err != nil {
		t.Fatal(err)
	}
	lost := make(chan struct{}, 100)
	s.hooks.lost = func() { lost <- struct{}{} }
	r := start(t, s)
	r.untilBrief("server/a=1")
	// The owner is held up while more events come than the kernel's queue takes (fs.inotify.max_queued_events).
	limit, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	queue, err := strconv.Atoi(strings.TrimSpace(string(limit)))
	if err != nil {
		t.Fatal(err)
	}
	held, free := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.listen(func(*spec.Set) { once.Do(func() { close(held); <-free }) })
	put(t, dir, "b.yaml", "server b 1\n")
	<-held
	for i := range queue + 10000 { // one event on another, so that the kernel does not take two for one
		if err := os.Chmod(filepath.Join(dir, []string{"a.yaml", "b.yaml"}[i%2]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rename(t, dir, "c.yaml", "server c 1\n")
	close(free)
	r.untilBrief("server/a=1 server/b=1 server/c=1")
	select {
	case <-lost:
	case <-time.After(patience):
		t.Error("no event was lost: the test shows nothing")
	}
}

// A directory that cannot be watched is looked at, and the reason is told.
func TestWatchLimit(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "sub/a.yaml", "server a 1\n")
	s, err := New(Config{Roots: []Root{{Path: dir}}, Decode: toyDecode})
	if err != nil {
		t.Fatal(err)
	}
	s.hooks.watch = func(d string) error {
		if filepath.Base(d) == "sub" {
			return unix.ENOSPC
		}
		return nil
	}
	r := start(t, s)
	set := r.untilBrief("server/a=1")
	if n := sourceOf(set).Notice; !strings.Contains(n, "max_user_watches") {
		t.Errorf("notice: %q", n)
	}
	put(t, dir, "sub/a.yaml", "server a 2\n")
	r.untilBrief("server/a=2")
}

// A file system that hangs holds up its own directory alone, and the first Set has what was known of it.
func TestHungFileSystem(t *testing.T) {
	one, two, vault := t.TempDir(), t.TempDir(), t.TempDir()
	put(t, one, "a.yaml", "server a 1\n")
	put(t, two, "b.yaml", "server b 1\n")
	put(t, two, "two.marker", "")
	cfg := Config{Roots: []Root{{Path: one}, {Path: two}}, Decode: toyDecode, LastGood: vault}
	r := begin(t, cfg)
	r.untilBrief("server/a=1 server/b=1")
	r.stop()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	s.hooks.fail = func(op, path string) error {
		if path == "two.marker" {
			<-release
		}
		return nil
	}
	r = start(t, s)
	set := r.until("there is a Set", func(s *spec.Set) bool { return true })
	if got := brief(set); got != "server/a=1 server/b=1~" || set.Known {
		t.Errorf("the first Set: %s, known %v", got, set.Known)
	}
	if st := set.Sources[1]; st.Complete || !strings.Contains(st.Reason, "does not answer") {
		t.Errorf("the source that hangs: %+v", st)
	}
	put(t, one, "a.yaml", "server a 2\n")
	r.untilBrief("server/a=2 server/b=1~")
	close(release)
	r.until("it answers again", func(s *spec.Set) bool { return s.Known && brief(s) == "server/a=2 server/b=1" })
}

// A lock of git that was left behind holds up nothing for ever.
func TestStaleGitLock(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, ".git/index.lock", "")
	var r repository
	r.open(dir, nil)
	now := time.Unix(1000, 0)
	if !r.busy(now) || !r.busy(now.Add(staleLock-1)) {
		t.Error("a lock is not seen")
	}
	if r.busy(now.Add(staleLock)) {
		t.Error("a lock that was left behind holds up removals for ever")
	}
	rename(t, dir, ".git/index.lock", "")
	if !r.busy(now.Add(staleLock)) {
		t.Error("a new lock is taken for the old one")
	}
	drop(t, dir, ".git/index.lock")
	if r.busy(now.Add(staleLock)) {
		t.Error("there is no lock")
	}
}

// Without a watcher changes are found by looking, and the reason is told.
func TestPolling(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.yaml", "server a 1\n")
	s, err := New(Config{Roots: []Root{{Path: dir}}, Decode: toyDecode})
	if err != nil {
		t.Fatal(err)
	}
	s.hooks.polling = unix.EMFILE
	r := start(t, s)
	set := r.untilBrief("server/a=1")
	if n := sourceOf(set).Notice; !strings.Contains(n, "looking every") || !strings.Contains(n, "max_user_instances") {
		t.Errorf("notice: %q", n)
	}
	put(t, dir, "a.yaml", "server a 2\n")
	put(t, dir, "b.yaml", "server b 1\n")
	r.untilBrief("server/a=2 server/b=1")
	drop(t, dir, "b.yaml")
	r.untilBrief("server/a=2")
}

func TestTwoSources(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	put(t, one, "a.yaml", "server a 1\n")
	put(t, two, "b.yaml", "server b 1\n")
	r := begin(t, Config{Roots: []Root{{Name: "one", Path: one}, {Path: two}}})
	r.until("both are read", func(s *spec.Set) bool { return brief(s) == "server/a=1 server/b=1" && s.Known })
	put(t, two, "a.yaml", "server a 2\n")
	r.until("the conflict is told", func(s *spec.Set) bool {
		return len(s.Sources[1].Files) == 2 && s.Sources[1].Files[0].State == spec.FileConflict && brief(s) == "server/a=1 server/b=1"
	})
	// One that cannot be read holds up nothing of the other.
	if err := os.RemoveAll(one); err != nil {
		t.Fatal(err)
	}
	put(t, two, "c.yaml", "server c 1\n")
	drop(t, two, "b.yaml")
	r.until("b is gone, and a stays what it was in the directory that is gone", func(s *spec.Set) bool {
		a := s.Servers[spec.Key{Namespace: "default", Name: "a"}]
		return len(s.Servers) == 2 && s.Servers[spec.Key{Namespace: "default", Name: "c"}] != nil && a != nil && a.Object.Spec.Profile == "1"
	})
}

func TestConfig(t *testing.T) {
	for name, roots := range map[string][]Root{"none": nil, "no path": {{}}, "twice": {{Path: "/a"}, {Path: "/a/"}}, "one name": {{Name: "n", Path: "/a"}, {Name: "n", Path: "/b"}}} {
		if _, err := New(Config{Roots: roots}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s, err := New(Config{Roots: []Root{{Path: "/a/m"}, {Path: "/b/m"}, {Name: "m", Path: "/c"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.roots); got != "[{m-2 /a/m} {m-3 /b/m} {m /c}]" {
		t.Errorf("roots: %s", got)
	}
}
