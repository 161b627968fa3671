package dir

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"reconciler.dev/reconciler/spec"
)

// git runs git in a directory, away from the machine's own configuration, and returns what it says.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		t.Fatalf("the tests need git: %v", err)
	}
	cmd := exec.Command(path, append([]string{"-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", "-c", "gc.auto=0"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files, removes those whose text is "-", and commits.
func commit(t testing.TB, repo string, files tree) string {
	t.Helper()
	for path, text := range files {
		if text == "-" {
			drop(t, repo, path)
		} else {
			put(t, repo, path, text)
		}
	}
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-q", "-m", "change")
	return git(t, repo, "rev-parse", "HEAD")
}

// upstream is a repository with three servers, and the commit.
func upstream(t testing.TB) (repo, head string) {
	t.Helper()
	repo = filepath.Join(t.TempDir(), "upstream")
	if err := os.Mkdir(repo, 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, repo, "init", "-q")
	head = commit(t, repo, tree{"hosts/one/a.yaml": "server a 1\n", "hosts/one/sub/b.yaml": "server b 1\n", "hosts/one/c.yaml": "server c 1\n", "README.md": "hello\n"})
	return repo, head
}

// cloned is a source over a directory within a clone.
func cloned(t *testing.T, repo, head string) (*rig, string) {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "clone")
	git(t, filepath.Dir(clone), "clone", "-q", repo, clone)
	r := begin(t, Config{Roots: []Root{{Path: filepath.Join(clone, "hosts/one")}}})
	r.until("the clone is read", func(s *spec.Set) bool {
		return brief(s) == "server/a=1 server/b=1 server/c=1" && sourceOf(s).Revision == head && !sourceOf(s).Dirty && s.Known
	})
	return r, clone
}

func atRevision(want, revision string) func(*spec.Set) bool {
	return func(s *spec.Set) bool { return brief(s) == want && sourceOf(s).Revision == revision }
}

func TestGitPull(t *testing.T) {
	repo, head := upstream(t)
	r, clone := cloned(t, repo, head)
	neverWithout(t, r, "a", "b")
	head = commit(t, repo, tree{"hosts/one/a.yaml": "server a 2\n", "hosts/one/new/d.yaml": "server d 1\n", "hosts/one/c.yaml": "-"})
	git(t, clone, "pull", "-q")
	set := r.until("the pull is seen", atRevision("server/a=2 server/b=1 server/d=1", head))
	if got := set.Servers[spec.Key{Namespace: "default", Name: "a"}].Source.Revision; got != head {
		t.Errorf("a is of revision %q", got)
	}
	// A commit that touches none of our files moves the revision alone.
	head = commit(t, repo, tree{"README.md": "other\n"})
	git(t, clone, "pull", "-q")
	r.until("the revision has moved", atRevision("server/a=2 server/b=1 server/d=1", head))
	// Packed references.
	git(t, clone, "pack-refs", "--all")
	put(t, r.dir, "e.yaml", "server e 1\n")
	r.until("the revision is read from the packed references", func(s *spec.Set) bool {
		return sourceOf(s).Revision == head && sourceOf(s).Dirty && len(s.Servers) == 4
	})
}

// A branch that lacks the directory, and back, at once: nothing may stop; and it is watched still.
func TestGitCheckoutDropsDirectory(t *testing.T) {
	repo, _ := upstream(t)
	git(t, repo, "checkout", "-q", "-b", "empty")
	git(t, repo, "rm", "-rq", "hosts")
	git(t, repo, "commit", "-q", "-m", "nothing")
	git(t, repo, "checkout", "-q", "main")
	head := git(t, repo, "rev-parse", "HEAD")
	r, clone := cloned(t, repo, head)
	neverWithout(t, r, "a", "b", "c")
	for range 5 {
		git(t, clone, "checkout", "-q", "empty")
		git(t, clone, "checkout", "-q", "main")
	}
	// Longer: the directory is gone, and everything stays.
	git(t, clone, "checkout", "-q", "empty")
	r.until("the directory is missed", func(s *spec.Set) bool { return !sourceOf(s).Complete })
	git(t, clone, "checkout", "-q", "main")
	r.until("it is back", func(s *spec.Set) bool {
		return brief(s) == "server/a=1 server/b=1 server/c=1" && sourceOf(s).Complete && sourceOf(s).Revision == head
	})
	put(t, r.dir, "sub/b.yaml", "server b 2\n")
	r.untilBrief("server/a=1 server/b=2 server/c=1")
}

// A branch with less than half of the objects, checked out in place: the difference is held.
func TestGitCheckoutOfWrongBranch(t *testing.T) {
	repo, head := upstream(t)
	commit(t, repo, tree{"hosts/one/d.yaml": "server d 1\n", "hosts/one/e.yaml": "server e 1\n"})
	git(t, repo, "checkout", "-q", "-b", "wrong")
	commit(t, repo, tree{"hosts/one/a.yaml": "-", "hosts/one/sub/b.yaml": "-", "hosts/one/c.yaml": "-", "hosts/one/d.yaml": "-", "hosts/one/e.yaml": "-",
		"hosts/one/x.yaml": "server x 1\n", "hosts/one/y.yaml": "server y 1\n", "hosts/one/z.yaml": "server z 1\n"})
	git(t, repo, "checkout", "-q", "main")
	_ = head
	clone := filepath.Join(t.TempDir(), "clone")
	git(t, filepath.Dir(clone), "clone", "-q", repo, clone)
	r := begin(t, Config{Roots: []Root{{Path: filepath.Join(clone, "hosts/one")}}})
	r.until("all is read", func(s *spec.Set) bool { return len(s.Servers) == 5 && s.Known })
	neverWithout(t, r, "a", "b", "c", "d", "e")
	git(t, clone, "checkout", "-q", "wrong")
	r.until("five are held", func(s *spec.Set) bool { return len(sourceOf(s).PrunePaused) == 5 && len(s.Servers) == 8 })
	git(t, clone, "checkout", "-q", "main")
	r.until("nothing is held", func(s *spec.Set) bool {
		return len(sourceOf(s).PrunePaused) == 0 && sourceOf(s).Complete && len(s.Servers) == 5
	})
}

// While git holds its lock nothing is removed.
func TestGitLock(t *testing.T) {
	repo, head := upstream(t)
	r, clone := cloned(t, repo, head)
	put(t, clone, ".git/index.lock", "")
	drop(t, r.dir, "c.yaml")
	put(t, r.dir, "d.yaml", "server d 1\n")
	set := r.until("git is seen at work", func(s *spec.Set) bool {
		return !sourceOf(s).Complete && strings.Contains(sourceOf(s).Reason, "git") && len(s.Servers) == 4
	})
	if got := brief(set); got != "server/a=1 server/b=1 server/c=1 server/d=1" {
		t.Errorf("while git is at work: %s", got)
	}
	drop(t, clone, ".git/index.lock")
	r.untilBrief("server/a=1 server/b=1 server/d=1")
}

// gitSync publishes a commit as git-sync does: a worktree named by the commit, and a link that is swapped; the old tree is
// removed at once.
func gitSync(t testing.TB, root, repo, commit string) {
	t.Helper()
	tree := filepath.Join(root, ".worktrees", commit)
	git(t, repo, "worktree", "add", "-q", "--detach", tree, commit)
	temp, link := filepath.Join(root, "tmp-link"), filepath.Join(root, "current")
	if err := os.Symlink(filepath.Join(".worktrees", commit), temp); err != nil {
		t.Fatal(err)
	}
	old, oldErr := filepath.EvalSymlinks(link)
	move(t, temp, link)
	if oldErr == nil && old != tree {
		if err := os.RemoveAll(old); err != nil {
			t.Fatal(err)
		}
		git(t, repo, "worktree", "prune")
	}
}

func TestGitSync(t *testing.T) {
	repo, first := upstream(t)
	for _, via := range []string{"current/hosts/one", "current"} {
		t.Run(via, func(t *testing.T) {
			root := t.TempDir()
			gitSync(t, root, repo, first)
			r := begin(t, Config{Roots: []Root{{Path: filepath.Join(root, via)}}})
			r.until("the first is read", func(s *spec.Set) bool { return len(s.Servers) == 3 && sourceOf(s).Revision == first && s.Known })
			neverWithout(t, r, "a", "b")
			git(t, repo, "checkout", "-q", "--detach", first)
			for n := 2; n < 8; n++ {
				head := commit(t, repo, tree{"hosts/one/a.yaml": fmt.Sprintf("server a %d\n", n)})
				gitSync(t, root, repo, head)
				r.until("the swap is seen", func(s *spec.Set) bool {
					return brief(s) == fmt.Sprintf("server/a=%d server/b=1 server/c=1", n) && sourceOf(s).Revision == head
				})
			}
			// Swaps faster than anybody reads.
			head := ""
			for n := 8; n < 14; n++ {
				head = commit(t, repo, tree{"hosts/one/a.yaml": fmt.Sprintf("server a %d\n", n)})
				gitSync(t, root, repo, head)
			}
			head = commit(t, repo, tree{"hosts/one/c.yaml": "-"})
			gitSync(t, root, repo, head)
			r.until("the last swap is seen", atRevision("server/a=13 server/b=1", head))
			if s := sourceOf(r.Latest()); s.Dirty {
				t.Error("a tree as committed is dirty")
			}
			git(t, repo, "checkout", "-q", "main")
		})
	}
}

// A mounted ConfigMap: the files are links through `..data`, which is swapped.
func TestConfigMap(t *testing.T) {
	dir := t.TempDir()
	publish := func(stamp string, files tree) {
		t.Helper()
		for path, text := range files {
			put(t, dir, "..2026_"+stamp+"/"+path, text)
		}
		temp, data := filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")
		old, oldErr := os.Readlink(data)
		if err := os.Symlink("..2026_"+stamp, temp); err != nil {
			t.Fatal(err)
		}
		move(t, temp, data)
		for path := range files {
			link := filepath.Join(dir, path)
			if _, err := os.Lstat(link); err != nil {
				if err := os.Symlink("..data/"+path, link); err != nil {
					t.Fatal(err)
				}
			}
		}
		if oldErr == nil {
			if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish("1", tree{"a.yaml": "server a 1\n", "b.yaml": "server b 1\n"})
	r := begin(t, Config{Roots: []Root{{Path: dir}}})
	r.until("the first is read", func(s *spec.Set) bool { return brief(s) == "server/a=1 server/b=1" && sourceOf(s).Revision == "2026_1" })
	neverWithout(t, r, "a", "b")
	for n := 2; n < 8; n++ {
		publish(fmt.Sprint(n), tree{"a.yaml": fmt.Sprintf("server a %d\n", n), "b.yaml": "server b 1\n"})
		r.until("the swap is seen", atRevision(fmt.Sprintf("server/a=%d server/b=1", n), fmt.Sprintf("2026_%d", n)))
	}
}

func TestSymlinks(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "m")
	put(t, base, "out/x.yaml", "server x 1\n")
	put(t, base, "shared/y.yaml", "server y 1\n")
	put(t, dir, "real/a.yaml", "server a 1\n")
	link := func(target, path string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, path)); err != nil {
			t.Fatal(err)
		}
	}
	link("../out", "dir")                 // a directory outside
	link("../shared/y.yaml", "y.yaml")    // a file outside
	link("real", "alias")                 // what is read already
	link("real/a.yaml", "again.yaml")     // a file that is read already
	link("..", "real/up")                 // a loop
	link("nowhere.md", "dangling.md")     // nobody's
	link("../shared/../out", "dir-twice") // the same directory another time
	r := begin(t, Config{Roots: []Root{{Path: dir}}})
	set := r.until("all is read", func(s *spec.Set) bool { return brief(s) == "server/a=1 server/x=1 server/y=1" && s.Known })
	if f := fileOf(set, "again.yaml"); f.State != spec.FileSkipped || !strings.Contains(f.Reason, "real/a.yaml") {
		t.Errorf("again.yaml: %+v", f)
	}
	// What lies behind is watched.
	put(t, base, "shared/y.yaml", "server y 2\n")
	r.untilBrief("server/a=1 server/x=1 server/y=2")
	put(t, base, "out/x.yaml", "server x 2\n")
	r.untilBrief("server/a=1 server/x=2 server/y=2")
	// A link that leads nowhere is a file that cannot be read, not one that is gone.
	neverWithout(t, r, "a", "x", "y")
	drop(t, base, "shared/y.yaml")
	r.until("the link leads nowhere", func(s *spec.Set) bool {
		return fileOf(s, "y.yaml").State == spec.FileInvalid && !sourceOf(s).Complete && strings.Contains(sourceOf(s).Reason, "y.yaml")
	})
	put(t, base, "shared/y.yaml", "server y 3\n")
	r.until("it leads somewhere again", func(s *spec.Set) bool { return brief(s) == "server/a=1 server/x=2 server/y=3" && sourceOf(s).Complete })
}

// A link that flips while a scan reads makes the scan worth nothing.
func TestFlipWhileReading(t *testing.T) {
	base := t.TempDir()
	for _, v := range []string{"1", "2"} {
		put(t, base, v+"/a.yaml", "server a "+v+"\n")
		put(t, base, v+"/b.yaml", "server b "+v+"\n")
	}
	if err := os.Symlink("1", filepath.Join(base, "cur")); err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Roots: []Root{{Path: filepath.Join(base, "cur")}}, Decode: toyDecode})
	if err != nil {
		t.Fatal(err)
	}
	sc := s.scanner(0)
	sc.settle = false
	flipped := false
	sc.fail = func(op, path string) error {
		if op == "read" && path == "b.yaml" && !flipped {
			flipped = true
			if err := os.Symlink("2", filepath.Join(base, "next")); err != nil {
				t.Error(err)
			}
			move(t, filepath.Join(base, "next"), filepath.Join(base, "cur"))
		}
		return nil
	}
	if v := sc.full().scan.verdict; v.cause != moved {
		t.Errorf("the scan under which the link flipped: %+v", v)
	}
	st := newState(s.roots, false).merge(look{0, sc.full().scan})
	if got := brief(st.set); got != "server/a=2 server/b=2" {
		t.Errorf("the next scan: %s", got)
	}
}

func TestDirty(t *testing.T) {
	for _, version := range []string{"2", "3", "4"} {
		t.Run("index version "+version, func(t *testing.T) {
			repo, _ := upstream(t)
			git(t, repo, "config", "index.version", version)
			git(t, repo, "update-index", "--index-version", version)
			dirty := func() bool {
				t.Helper()
				set, err := Load(Config{Roots: []Root{{Path: filepath.Join(repo, "hosts/one")}}, Decode: toyDecode})
				if err != nil {
					t.Fatal(err)
				}
				return sourceOf(set).Dirty
			}
			if dirty() {
				t.Error("a tree as committed is dirty")
			}
			put(t, repo, "hosts/one/a.yaml", "server a 9\n") // of the same size
			if !dirty() {
				t.Error("an edited file is not dirty")
			}
			put(t, repo, "hosts/one/a.yaml", "server a 1\n")
			if dirty() {
				t.Error("a file that was written as it is committed is dirty")
			}
			put(t, repo, "hosts/one/n.yaml", "server n 1\n")
			if !dirty() {
				t.Error("a file that git does not know is not dirty")
			}
			drop(t, repo, "hosts/one/n.yaml")
			put(t, repo, "README.md", "not ours\n")
			if dirty() {
				t.Error("a file that is not read is dirty")
			}
			drop(t, repo, "hosts/one/c.yaml")
			if !dirty() {
				t.Error("a removed file is not dirty")
			}
		})
	}
}

func TestRevisionOfWorktreeAndSHA256(t *testing.T) {
	repo, head := upstream(t)
	other := filepath.Join(t.TempDir(), "other")
	git(t, repo, "worktree", "add", "-q", "-b", "side", other)
	side := commit(t, other, tree{"hosts/one/a.yaml": "server a 5\n"})
	new := filepath.Join(t.TempDir(), "sha256")
	if err := os.Mkdir(new, 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, new, "init", "-q", "--object-format=sha256")
	long := commit(t, new, tree{"a.yaml": "server a 1\n"})
	for path, want := range map[string]string{repo: head, other: side, new: long, t.TempDir(): ""} {
		set, err := Load(Config{Roots: []Root{{Path: path}}, Decode: toyDecode})
		if err != nil {
			t.Fatal(err)
		}
		if s := sourceOf(set); s.Revision != want || s.Dirty {
			t.Errorf("revision %q, want %q; dirty %v", s.Revision, want, s.Dirty)
		}
	}
}

func FuzzParseIndex(f *testing.F) {
	repo, _ := upstream(f)
	for _, version := range []string{"2", "4"} {
		git(f, repo, "update-index", "--index-version", version)
		data, err := os.ReadFile(filepath.Join(repo, ".git/index"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:len(data)-20])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		// With index.skipHash the sum is zero, so that the fuzzer gets past it.
		entries, err := parseIndex(append(body[:len(body):len(body)], make([]byte, 20)...))
		if err != nil {
			return
		}
		for path := range entries {
			if classify(filepath.Base(path)) != nameManifest {
				t.Errorf("%q is no manifest", path)
			}
		}
	})
}

func FuzzPackedRef(f *testing.F) {
	f.Add("# pack-refs with: peeled fully-peeled sorted\n"+strings.Repeat("a", 40)+" refs/heads/main\n", "refs/heads/main")
	f.Add("\n \n", "refs/heads/x")
	f.Fuzz(func(t *testing.T, packed, ref string) {
		if got := packedRef(strings.NewReader(packed), ref); got != "" && !isCommit(got) {
			t.Errorf("%q", got)
		}
	})
}
