package sim

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"syscall"

	"reconciler.dev/reconciler/state"
)

// disk is a file system in memory that remembers what a power cut would leave of it.
type disk struct {
	w     *world
	files map[string]*inode      // what programs see
	dirs  map[string]fs.FileMode // directories, with their modes
	// names is what the directories on the platter say: a name goes there with SyncDir, or by chance at a power cut.
	names map[string]*inode
	locks map[string]*openFile // held kernel locks; they end with their process
	// fail makes the next calls that write fail, as a full disk does.
	fail int
}

// inode is a file's content as seen, and as it lies on the platter.
type inode struct {
	data   []byte
	synced []byte
	clean  bool // data is on the platter whole
}

func newDisk(w *world, dirs ...string) *disk {
	d := &disk{w: w, files: map[string]*inode{}, names: map[string]*inode{}, dirs: map[string]fs.FileMode{"/": 0o755}, locks: map[string]*openFile{}}
	for _, dir := range dirs {
		d.dirs[dir] = 0o700
	}
	return d
}

func failed(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// change is called by every call that writes: it is where the process may die and where the disk may be full.
func (d *disk) change(op, name string) error {
	d.w.point("disk " + op)
	if d.fail > 0 {
		d.fail--
		return failed(op, name, syscall.ENOSPC)
	}
	return nil
}

func (d *disk) ReadFile(name string, limit int64) ([]byte, state.Info, error) {
	f, ok := d.files[name]
	if !ok {
		if mode, dir := d.dirs[name]; dir {
			return nil, state.Info{Mode: mode | fs.ModeDir}, failed("read", name, errors.New("not a regular file"))
		}
		return nil, state.Info{}, failed("open", name, syscall.ENOENT)
	}
	info := state.Info{Mode: 0o600, Size: int64(len(f.data))}
	if info.Size > limit {
		return nil, info, failed("read", name, fmt.Errorf("%d bytes long, the limit is %d", info.Size, limit))
	}
	return slices.Clone(f.data), info, nil
}

func (d *disk) Stat(name string) (state.Info, error) {
	if f, ok := d.files[name]; ok {
		return state.Info{Mode: 0o600, Size: int64(len(f.data))}, nil
	}
	if mode, ok := d.dirs[name]; ok {
		return state.Info{Mode: mode | fs.ModeDir}, nil
	}
	return state.Info{}, failed("stat", name, syscall.ENOENT)
}

func (d *disk) List(dir string) ([]string, error) {
	if _, ok := d.dirs[dir]; !ok {
		return nil, failed("open", dir, syscall.ENOENT)
	}
	var names []string
	for name := range d.files {
		if path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	for name := range d.dirs {
		if path.Dir(name) == dir && name != "/" {
			names = append(names, path.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

func (d *disk) exists(name string) bool {
	_, file := d.files[name]
	_, dir := d.dirs[name]
	return file || dir
}

func (d *disk) Create(name string) (state.File, error) {
	if err := d.change("create", name); err != nil {
		return nil, err
	}
	if d.exists(name) {
		return nil, failed("create", name, syscall.EEXIST)
	}
	f := &inode{}
	d.files[name] = f
	return &openFile{d: d, name: name, inode: f}, nil
}

func (d *disk) Open(name string) (state.File, error) {
	f, ok := d.files[name]
	if !ok {
		return nil, failed("open", name, syscall.ENOENT)
	}
	return &openFile{d: d, name: name, inode: f}, nil
}

func (d *disk) Lock(name string) (state.File, error) {
	if d.locks[name] != nil {
		return nil, failed("lock", name, state.ErrLocked)
	}
	f, ok := d.files[name]
	if !ok {
		f = &inode{}
		d.files[name] = f
	}
	o := &openFile{d: d, name: name, inode: f, owner: d.w.running}
	d.locks[name] = o
	return o, nil
}

func (d *disk) Mkdir(name string, mode fs.FileMode) error {
	if err := d.change("mkdir", name); err != nil {
		return err
	}
	if d.exists(name) {
		return failed("mkdir", name, syscall.EEXIST)
	}
	d.dirs[name] = mode // directories are taken to survive: a store makes them once
	return nil
}

func (d *disk) Rename(from, to string) error {
	if err := d.change("rename", to); err != nil {
		return err
	}
	f, ok := d.files[from]
	if !ok {
		return failed("rename", from, syscall.ENOENT)
	}
	delete(d.files, from)
	d.files[to] = f
	d.w.point("disk renamed")
	return nil
}

func (d *disk) Exchange(a, b string) error {
	if d.w.plainDisk {
		return errors.ErrUnsupported
	}
	if err := d.change("exchange", b); err != nil {
		return err
	}
	f, g := d.files[a], d.files[b]
	if f == nil || g == nil {
		return failed("exchange", a, syscall.ENOENT)
	}
	d.files[a], d.files[b] = g, f
	d.w.point("disk exchanged")
	return nil
}

func (d *disk) Remove(name string) error {
	if err := d.change("remove", name); err != nil {
		return err
	}
	if _, ok := d.files[name]; !ok {
		return failed("remove", name, syscall.ENOENT)
	}
	delete(d.files, name)
	return nil
}

func (d *disk) SyncDir(dir string) error {
	if err := d.change("syncdir", dir); err != nil {
		return err
	}
	for name := range d.names {
		if path.Dir(name) == dir && d.files[name] == nil {
			delete(d.names, name)
		}
	}
	for name, f := range d.files {
		if path.Dir(name) == dir {
			d.names[name] = f
		}
	}
	return nil
}

func (d *disk) BootID() (string, error) { return d.w.kernel.boot, nil }

// dropLocks gives back what a dead process had locked.
func (d *disk) dropLocks(owner string) {
	maps.DeleteFunc(d.locks, func(_ string, o *openFile) bool { return o.owner == owner })
}

// powerCut leaves what a disk leaves: of each name and each content that was not synced, the old, the new, or a part.
func (d *disk) powerCut() {
	after := map[string]*inode{}
	all := map[string]bool{}
	for name := range d.names {
		all[name] = true
	}
	for name := range d.files {
		all[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		old, now := d.names[name], d.files[name]
		keep := now
		if old != now && d.w.choose(2) == 0 {
			keep = old
		}
		if keep != nil {
			after[name] = d.torn(keep)
		}
	}
	d.files, d.names = after, maps.Clone(after)
	clear(d.locks)
}

func (d *disk) torn(f *inode) *inode {
	data := f.data
	if !f.clean {
		switch d.w.choose(3) {
		case 0:
			data = f.synced
		case 1:
			// What was synced and not written over since is there.
			kept := 0
			for kept < len(f.synced) && kept < len(f.data) && f.synced[kept] == f.data[kept] {
				kept++
			}
			data = f.data[:kept+d.w.choose(min(256, len(f.data)-kept+1))]
		}
	}
	return &inode{data: slices.Clone(data), synced: slices.Clone(data), clean: true}
}

// text is a file's content as programs see it now, for the checks.
func (d *disk) text(name string) (string, bool) {
	f, ok := d.files[name]
	if !ok {
		return "", false
	}
	return string(f.data), true
}

// openFile is an open file; those of a dead process are never used again.
type openFile struct {
	d     *disk
	name  string
	inode *inode
	owner string // of a lock
}

func (o *openFile) WriteAt(p []byte, off int64) (int, error) {
	if err := o.d.change("write", o.name); err != nil {
		return 0, err
	}
	end := int(off) + len(p)
	if len(o.inode.data) < end {
		o.inode.data = append(o.inode.data, make([]byte, end-len(o.inode.data))...)
	}
	copy(o.inode.data[off:], p)
	o.inode.clean = false
	return len(p), nil
}

func (o *openFile) Truncate(size int64) error {
	if err := o.d.change("truncate", o.name); err != nil {
		return err
	}
	if int(size) <= len(o.inode.data) {
		o.inode.data = o.inode.data[:size]
	} else {
		o.inode.data = append(o.inode.data, make([]byte, int(size)-len(o.inode.data))...)
	}
	o.inode.clean = false
	return nil
}

func (o *openFile) Sync() error {
	if err := o.d.change("sync", o.name); err != nil {
		return err
	}
	o.inode.synced, o.inode.clean = slices.Clone(o.inode.data), true
	return nil
}

func (o *openFile) Close() error {
	if o.d.locks[o.name] == o {
		delete(o.d.locks, o.name)
	}
	return nil
}
