package dir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/spec"
)

// The last good content, below Config.LastGood, which has one writer:
//
//	ID.json     what was known of a source: its objects, their files, and the hashes of the files' contents
//	ID/HASH     the content of a file, byte for byte; HASH is its SHA-256
//
// ID is of the source's absolute path. An inventory is written under another name, flushed and renamed. A content is written under
// its own and flushed before an inventory names it; until then it may be a half, and is written again. It is written behind the decisions, which never wait for it.

// inventoryVersion is the version of the inventories that are written. A newer one is refused.
const inventoryVersion = 1

// inventory is what was known of one source.
type inventory struct {
	Version int           `json:"version"`
	Name    string        `json:"name"`
	Path    string        `json:"path"` // absolute
	Files   []knownFile   `json:"files"`
	Objects []knownObject `json:"objects"`

	id string
}

// knownFile is a file and its last good content.
type knownFile struct {
	Path    string `json:"path"`
	Content string `json:"content"` // hash
}

// knownObject is an object that counted, and the content that it was in: the last good one of its file, or an older one when
// it had left the file and was not removed yet.
type knownObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	File      string `json:"file"`
	Content   string `json:"content"` // hash; "" = it was lost
}

func (o knownObject) key() spec.ObjectKey {
	return spec.ObjectKey{Kind: o.Kind, Key: spec.Key{Namespace: o.Namespace, Name: o.Name}}
}

// vault is the directory of last good content.
type vault struct{ dir string }

// sourceID names a source's files in the vault.
func sourceID(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16])
}

// open makes the directory if need be and reads the inventories, by ID. One that cannot be read as JSON is renamed to
// ID.json.unreadable and named in broken. An error means that the directory cannot be used, or holds a newer version.
func (v vault) open() (found map[string]*inventory, broken map[string]bool, err error) {
	if err := os.MkdirAll(v.dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("cannot make the directory of last good manifests: %w", err)
	}
	entries, err := os.ReadDir(v.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the directory of last good manifests: %w", err)
	}
	found, broken = map[string]*inventory{}, map[string]bool{}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || strings.HasPrefix(id, ".") {
			continue
		}
		path := filepath.Join(v.dir, e.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot read what was known of a source: %w", err)
		}
		inv, err := parseInventory(data)
		var newer newerError
		switch {
		case errors.As(err, &newer):
			return nil, nil, fmt.Errorf("%s has version %d, this program knows up to %d: use the newer program, or move the file away", path, int(newer), inventoryVersion)
		case err != nil:
			if err := os.Rename(path, path+".unreadable"); err != nil {
				return nil, nil, fmt.Errorf("cannot set aside an unreadable inventory: %w", err)
			}
			broken[id] = true
		default:
			inv.id = id
			found[id] = inv
		}
	}
	return found, broken, nil
}

// newerError is the version of an inventory that is newer than ours.
type newerError int

func (e newerError) Error() string { return fmt.Sprintf("has version %d", int(e)) }

// parseInventory reads an inventory. The error is a newerError, or says what is wrong.
func parseInventory(data []byte) (*inventory, error) {
	var inv inventory
	if err := json.Unmarshal(data, &inv); err != nil {
		return nil, err
	}
	switch {
	case inv.Version > inventoryVersion:
		return nil, newerError(inv.Version)
	case inv.Version < 1:
		return nil, errors.New("has no version")
	}
	for _, o := range inv.Objects {
		switch o.Kind {
		case spec.KindProfile, spec.KindServer, spec.KindJob:
		default:
			return nil, fmt.Errorf("names an object of kind %q", o.Kind)
		}
		if !spec.IsLabel(o.Namespace) || !spec.IsLabel(o.Name) {
			return nil, fmt.Errorf("names an object %q in %q", o.Name, o.Namespace)
		}
		if o.Content != "" && !isHash(o.Content) {
			return nil, fmt.Errorf("names a content %q", o.Content)
		}
	}
	for _, f := range inv.Files {
		if !isHash(f.Content) {
			return nil, fmt.Errorf("names a content %q", f.Content)
		}
	}
	return &inv, nil
}

// isHash reports whether s is a SHA-256 in hexadecimal digits.
func isHash(s string) bool { return len(s) == 2*sha256.Size && isCommit(s) }

// content reads and decodes a content; nil when it is not there, is not what its name says, or is not good any more.
func (v vault) content(id, hash, path string, decoder func(string, []byte) spec.File) *content {
	data, err := os.ReadFile(filepath.Join(v.dir, id, hash))
	if err != nil {
		return nil
	}
	sum := sha256.Sum256(data)
	if hex.EncodeToString(sum[:]) != hash {
		return nil
	}
	c := decode(path, data, sum, decoder)
	if !c.good() {
		return nil
	}
	return c
}

// prior is what was known of a source before our restart.
type prior struct {
	files   map[string]*content // path -> last good content
	objects map[spec.ObjectKey]*wanted
	lost    map[spec.ObjectKey]string
}

// restore makes a prior of an inventory. Contents that a scan has read just now are taken from it.
func (v vault) restore(inv *inventory, files []found, decoder func(string, []byte) spec.File) *prior {
	p := &prior{files: map[string]*content{}, objects: map[spec.ObjectKey]*wanted{}, lost: map[spec.ObjectKey]string{}}
	type version struct{ path, hash string }
	have := map[version]*content{}
	for _, f := range files {
		if f.content.good() {
			have[version{f.path, hex.EncodeToString(f.content.hash[:])}] = f.content
		}
	}
	get := func(path, hash string) *content {
		c, ok := have[version{path, hash}]
		if !ok {
			c = v.content(inv.id, hash, path, decoder)
			have[version{path, hash}] = c
		}
		return c
	}
	for _, f := range inv.Files {
		if c := get(f.Path, f.Content); c != nil {
			p.files[f.Path] = c
		}
	}
	for _, o := range inv.Objects {
		key := o.key()
		if o.Content != "" {
			if c := get(o.File, o.Content); c != nil {
				if obj := c.find(key); obj != nil {
					p.objects[key] = &wanted{path: o.File, object: obj, content: c}
					continue
				}
			}
		}
		p.lost[key] = o.File
	}
	return p
}

// restore is the next state, in which root i knows what it knew before our restart. Nothing is published by it.
func (s *state) restore(i int, p *prior) *state {
	next := &state{roots: slices.Clone(s.roots), objects: maps.Clone(s.objects), rivals: s.rivals, touched: slices.Clone(s.touched), set: s.set, serial: s.serial}
	root := s.roots[i].clone()
	next.roots[i] = root
	root.remembered = true
	root.files, root.states = maps.Clone(root.files), nil
	for path, c := range p.files {
		root.files[path] = file{good: c, present: !root.former, trouble: "has not been found since the reconciler was started"}
	}
	for key, w := range p.objects {
		if next.objects[key] != nil {
			continue // another source has it: it was written down twice by a crash between the two
		}
		n := *w
		n.root = i
		next.objects[key] = &n
		next.touched = append(next.touched, key)
	}
	for key, path := range p.lost {
		root.lost[key] = path
	}
	root.base = next.keysOf(i)
	return next
}

// contents are contents by hash: more than one when files are equal.
type contents map[string][]*content

// bytes is the bytes of the contents of that hash, nil when they were let go.
func (c contents) bytes(hash string) []byte {
	for _, one := range c[hash] {
		if data := one.bytes.Load(); data != nil {
			return *data
		}
	}
	return nil
}

// inventoryOf is what is to be known of root i after our next restart, and the contents that it names.
func (s *state) inventoryOf(i int, path string) (*inventory, contents) {
	root := s.roots[i]
	inv := &inventory{Version: inventoryVersion, Name: root.name, Path: path, Files: []knownFile{}, Objects: []knownObject{}}
	named := contents{}
	note := func(c *content) string {
		hash := hex.EncodeToString(c.hash[:])
		named[hash] = append(named[hash], c)
		return hash
	}
	for path, f := range root.files {
		if c, _ := f.effective(); c != nil {
			inv.Files = append(inv.Files, knownFile{Path: path, Content: note(c)})
		}
	}
	for key, w := range s.objects {
		if w.root == i {
			inv.Objects = append(inv.Objects, knownObject{Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, File: w.path, Content: note(w.content)})
		}
	}
	for key, path := range root.lost {
		inv.Objects = append(inv.Objects, knownObject{Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, File: path})
	}
	slices.SortFunc(inv.Files, func(a, b knownFile) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(inv.Objects, func(a, b knownObject) int { return compareKeys(a.key(), b.key()) })
	return inv, named
}

// same reports whether both say the same.
func (inv *inventory) same(o *inventory) bool {
	return o != nil && inv.Name == o.Name && slices.Equal(inv.Files, o.Files) && slices.Equal(inv.Objects, o.Objects)
}

// syncSingly is up to how many contents are flushed one by one; more are flushed with their whole file system.
const syncSingly = 32

// contents are the hashes of the contents that an inventory names.
func (inv *inventory) contents() map[string]bool {
	named := map[string]bool{}
	if inv == nil {
		return named
	}
	for _, f := range inv.Files {
		named[f.Content] = true
	}
	for _, o := range inv.Objects {
		named[o.Content] = true
	}
	return named
}

// save writes an inventory and those of its contents that are not on disk, whole for certain, and removes the contents that it
// does not name. whole are those that the inventory on disk names, before and after.
func (v vault) save(id string, inv *inventory, contents contents, whole *map[string]bool) error {
	dir := filepath.Join(v.dir, id)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot keep last good manifests: %w", err)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot keep last good manifests: %w", err)
	}
	there := make(map[string]bool, len(names))
	for _, n := range names {
		there[n.Name()] = true
	}
	var fresh []string
	for hash := range contents {
		if !there[hash] || !(*whole)[hash] {
			fresh = append(fresh, hash)
		}
	}
	for _, hash := range fresh {
		data := contents.bytes(hash)
		if data == nil {
			return fmt.Errorf("cannot keep last good manifests: a content that was kept in %s is gone; restart the reconciler to read it again", dir)
		}
		if err := writeFile(filepath.Join(dir, hash), data, len(fresh) <= syncSingly); err != nil {
			return fmt.Errorf("cannot keep last good manifests: %w", err)
		}
	}
	if err := syncDir(dir, len(fresh) > syncSingly); err != nil {
		return fmt.Errorf("cannot keep last good manifests: %w", err)
	}
	data, err := json.Marshal(inv)
	if err != nil {
		return fmt.Errorf("cannot write down what is known of a source: %w", err)
	}
	if err := replaceFile(filepath.Join(v.dir, id+".json"), data, true); err != nil {
		return fmt.Errorf("cannot write down what is known of a source: %w", err)
	}
	if err := syncDir(v.dir, false); err != nil {
		return fmt.Errorf("cannot write down what is known of a source: %w", err)
	}
	*whole = inv.contents()
	for _, same := range contents {
		for _, c := range same {
			c.bytes.Store(nil)
		}
	}
	for name := range there {
		if contents[name] == nil {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("cannot remove an old last good manifest: %w", err)
			}
		}
	}
	return nil
}

// drop forgets a source.
func (v vault) drop(id string) error {
	if err := os.Remove(filepath.Join(v.dir, id+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot forget a former source: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(v.dir, id)); err != nil {
		return fmt.Errorf("cannot forget a former source: %w", err)
	}
	return nil
}

// replaceFile puts a file in place whole, or not at all.
func replaceFile(path string, data []byte, flush bool) error {
	temp := filepath.Join(filepath.Dir(path), ".new-"+filepath.Base(path))
	err := writeFile(temp, data, flush)
	if err == nil {
		err = unix.Rename(temp, path)
	}
	if err != nil {
		if rmErr := os.Remove(temp); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
		return err
	}
	return nil
}

// writeFile makes a file. It calls the kernel directly: a cold start writes thousands, and package os offers each to the poller.
func writeFile(path string, data []byte, flush bool) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &fs.PathError{Op: "create", Path: path, Err: err}
	}
	for len(data) > 0 && err == nil {
		var n int
		n, err = unix.Write(fd, data)
		if errors.Is(err, unix.EINTR) {
			n, err = 0, nil
		}
		data = data[max(n, 0):]
	}
	if err == nil && flush {
		err = unix.Fsync(fd)
	}
	return errors.Join(err, unix.Close(fd))
}

// syncDir flushes a directory, or its whole file system.
func syncDir(dir string, whole bool) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if whole {
		return unix.Syncfs(int(d.Fd()))
	}
	return d.Sync()
}
