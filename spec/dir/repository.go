package dir

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// staleLock is how long one and the same lock of git holds up removals; an older one was left behind by a crash.
	staleLock = 2 * time.Minute
	// gitFileLimit bounds the small files of git that are read.
	gitFileLimit = 4096
	// packedRefsLimit bounds the file of packed references that is read.
	packedRefsLimit = 64 << 20
)

// repository is the git repository, or the publishing tool's tree, that a directory belongs to. git is not run; the files
// read are those of gitrepository-layout(5).
type repository struct {
	tree   string // top of the working tree, "" when there is none
	gitDir string // of this working tree
	common string // where the references are
	leaf   string // name of the published tree, as git-sync and mounted ConfigMaps have it

	lock      fingerprint // of the lock seen
	lockSince time.Time

	index index
}

// open finds the repository of a real directory that was reached through links.
func (r *repository) open(real string, links []link) {
	r.leaf = publishedLeaf(real, links)
	r.tree, r.gitDir, r.common = "", "", ""
	for at := real; ; at = filepath.Dir(at) {
		git, ok := gitDirOf(filepath.Join(at, ".git"))
		if ok {
			r.tree, r.gitDir, r.common = at, git, git
			if c, err := readSmall(filepath.Join(git, "commondir")); err == nil {
				r.common = against(git, c)
			}
			return
		}
		if at == "/" {
			return
		}
	}
}

// gitDirOf is the git directory that a `.git` stands for: itself, or the one that it names.
func gitDirOf(path string) (string, bool) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return "", false
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return path, true
	}
	text, err := readSmall(path)
	if err != nil {
		return "", false
	}
	dir, ok := strings.CutPrefix(text, "gitdir: ")
	if !ok {
		return "", false
	}
	return against(filepath.Dir(path), dir), true
}

// watch is the directories in which git shows that it starts, ends, or moved on.
func (r *repository) watch() []string {
	if r.gitDir == "" {
		return nil
	}
	return []string{r.gitDir, filepath.Join(r.gitDir, "logs")}
}

// busy reports whether git is changing the working tree: it holds index.lock while it does.
func (r *repository) busy(now time.Time) bool {
	if r.gitDir == "" {
		return false
	}
	var st unix.Stat_t
	if unix.Stat(filepath.Join(r.gitDir, "index.lock"), &st) != nil {
		r.lock = fingerprint{}
		return false
	}
	if p := fingerprintOf(&st); p != r.lock {
		r.lock, r.lockSince = p, now
	}
	return now.Sub(r.lockSince) < staleLock
}

// revision is the commit that HEAD names, else the name of the published tree, else "".
func (r *repository) revision() string {
	if r.gitDir == "" {
		return r.leaf
	}
	head, err := readSmall(filepath.Join(r.gitDir, "HEAD"))
	if err != nil {
		return r.leaf
	}
	for range 5 { // symbolic references, as git limits them
		ref, symbolic := strings.CutPrefix(head, "ref: ")
		if !symbolic {
			break
		}
		if head = r.resolveRef(ref); head == "" {
			return r.leaf
		}
	}
	if isCommit(head) {
		return head
	}
	return r.leaf
}

// resolveRef is what a reference says: loose in the working tree's own directory, loose in the common one, or packed.
func (r *repository) resolveRef(ref string) string {
	if !strings.HasPrefix(ref, "refs/") || strings.Contains(ref, "..") {
		return ""
	}
	for _, dir := range []string{r.gitDir, r.common} {
		if text, err := readSmall(filepath.Join(dir, ref)); err == nil {
			return text
		}
	}
	f, err := os.Open(filepath.Join(r.common, "packed-refs"))
	if err != nil {
		return ""
	}
	defer f.Close()
	return packedRef(io.LimitReader(f, packedRefsLimit), ref)
}

// packedRef is the commit that a file of packed references has for the reference, "" when it has none.
func packedRef(packed io.Reader, ref string) string {
	lines := bufio.NewScanner(packed)
	for lines.Scan() {
		if hash, name, ok := strings.Cut(lines.Text(), " "); ok && name == ref && isCommit(hash) {
			return hash
		}
	}
	return ""
}

// publishedLeaf is the revision in the name of a tree that a tool publishes through a link: git-sync names it by its commit,
// a mounted ConfigMap has `..data` lead to `..TIME`.
func publishedLeaf(real string, links []link) string {
	if len(links) > 0 {
		if leaf := filepath.Base(real); isCommit(leaf) {
			return leaf
		}
		if leaf := filepath.Base(links[len(links)-1].target); isCommit(leaf) {
			return leaf
		}
	}
	if target, err := os.Readlink(filepath.Join(real, "..data")); err == nil {
		return strings.TrimPrefix(filepath.Base(target), "..")
	}
	return ""
}

// isCommit reports whether s is an object name of git, SHA-1 or SHA-256.
func isCommit(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	for _, c := range []byte(s) {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}

// readSmall is the content of a small text file without the white space at its end.
func readSmall(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, gitFileLimit))
	if err != nil {
		return "", err
	}
	return string(bytes.TrimRight(data, " \t\r\n")), nil
}

// against is the path, taken from dir when it is relative.
func against(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
