package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// modelDisk is a disk in memory that forgets like a bad one: until a file is synced, a power cut keeps any mixture of its old
// and new blocks; until a directory is synced, it keeps any subset of the changes of names in it, halves of renames too.
type modelDisk struct {
	mu     sync.Mutex
	boot   int
	files  map[string]*inode // names as they are
	safe   map[string]*inode // names that survive a power cut
	ops    []nameOp          // changes from safe to files, oldest first
	locked map[string]bool

	calls    int
	crashAt  int // the call that the process dies in; 0 = none
	crashed  bool
	fail     func(op, path string) error // an error instead of the call
	syncTime time.Duration
	syncs    int // of files
	rand     *rand.Rand
}

type inode struct {
	dir     bool
	mode    fs.FileMode
	data    []byte
	safe    []byte // what a power cut leaves for certain
	unsaved bool
}

type nameOp struct {
	path string
	to   *inode // nil = removed
}

var errCrashed = errors.New("the process died here")

func newModelDisk(seed uint64) *modelDisk {
	root := &inode{dir: true, mode: 0o700}
	return &modelDisk{
		boot: 1, locked: map[string]bool{}, rand: rand.New(rand.NewPCG(seed, 1)),
		files: map[string]*inode{"/s": root}, safe: map[string]*inode{"/s": root},
	}
}

// call counts one operation. Its error is what the operation returns.
func (d *modelDisk) call(op, path string) error {
	d.calls++
	if d.crashAt > 0 && d.calls >= d.crashAt {
		d.crashed = true
	}
	if d.crashed {
		return errCrashed
	}
	if d.fail != nil {
		if err := d.fail(op, path); err != nil {
			return &fs.PathError{Op: op, Path: path, Err: err}
		}
	}
	return nil
}

// restart is a new process after a crash: locks are gone, all else is as it was.
func (d *modelDisk) restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.locked, d.crashed, d.crashAt, d.fail = map[string]bool{}, false, 0, nil
}

// cutPower is a new boot.
func (d *modelDisk) cutPower() {
	d.restart()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boot++
	for _, op := range d.ops {
		if d.rand.IntN(2) == 0 {
			apply(d.safe, op)
		}
	}
	d.ops = nil
	for path := range d.safe { // what lay in a directory that was lost
		if dir := d.safe[filepath.Dir(path)]; path != "/s" && dir == nil {
			delete(d.safe, path)
		}
	}
	d.files = maps.Clone(d.safe)
	for _, path := range slices.Sorted(maps.Keys(d.files)) { // in order: a seed repeats a run
		if f := d.files[path]; f.unsaved {
			f.data = d.tear(f.safe, f.data)
			f.safe, f.unsaved = bytes.Clone(f.data), false
		}
	}
}

// tear mixes the blocks of two versions of a file.
func (d *modelDisk) tear(before, after []byte) []byte {
	switch d.rand.IntN(4) {
	case 0:
		return bytes.Clone(before)
	case 1:
		return bytes.Clone(after)
	}
	const block = 512
	out := make([]byte, min(len(before), len(after))+d.rand.IntN(max(len(after)-len(before), len(before)-len(after))+1))
	for at := 0; at < len(out); at += block {
		from := before
		if d.rand.IntN(2) == 0 {
			from = after
		}
		if at < len(from) {
			copy(out[at:min(at+block, len(out))], from[at:])
		}
	}
	return out
}

func apply(names map[string]*inode, op nameOp) {
	if op.to == nil {
		delete(names, op.path)
	} else {
		names[op.path] = op.to
	}
}

func (d *modelDisk) name(path string, to *inode) {
	op := nameOp{path, to}
	apply(d.files, op)
	d.ops = append(d.ops, op)
}

func (d *modelDisk) find(op, path string) (*inode, error) {
	f := d.files[path]
	if f == nil {
		return nil, &fs.PathError{Op: op, Path: path, Err: unix.ENOENT}
	}
	return f, nil
}

func (d *modelDisk) ReadFile(path string, limit int64) ([]byte, Info, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("read", path); err != nil {
		return nil, Info{}, err
	}
	f, err := d.find("read", path)
	if err != nil {
		return nil, Info{}, err
	}
	if int64(len(f.data)) > limit {
		return nil, Info{}, fmt.Errorf("%s: too long", path)
	}
	return bytes.Clone(f.data), f.info(), nil
}

func (f *inode) info() Info {
	mode := f.mode
	if f.dir {
		mode |= fs.ModeDir
	}
	return Info{Mode: mode, UID: os.Geteuid(), Size: int64(len(f.data))}
}

func (d *modelDisk) Stat(path string) (Info, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("stat", path); err != nil {
		return Info{}, err
	}
	f, err := d.find("stat", path)
	if err != nil {
		return Info{}, err
	}
	return f.info(), nil
}

func (d *modelDisk) List(dir string) (names []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("list", dir); err != nil {
		return nil, err
	}
	if _, err := d.find("list", dir); err != nil {
		return nil, err
	}
	for path := range d.files {
		if filepath.Dir(path) == dir {
			names = append(names, filepath.Base(path))
		}
	}
	slices.Sort(names)
	return names, nil
}

func (d *modelDisk) Create(path string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("create", path); err != nil {
		return nil, err
	}
	if d.files[path] != nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: unix.EEXIST}
	}
	f := &inode{mode: 0o600}
	d.name(path, f)
	return &modelFile{d, f, path}, nil
}

func (d *modelDisk) Open(path string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("open", path); err != nil {
		return nil, err
	}
	f, err := d.find("open", path)
	return &modelFile{d, f, path}, err
}

func (d *modelDisk) Lock(path string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("lock", path); err != nil {
		return nil, err
	}
	if d.locked[path] {
		return nil, fmt.Errorf("%s: %w", path, ErrLocked)
	}
	if d.files[path] == nil {
		d.name(path, &inode{mode: 0o600})
	}
	d.locked[path] = true
	return &modelFile{d, d.files[path], path}, nil
}

func (d *modelDisk) Mkdir(path string, mode fs.FileMode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("mkdir", path); err != nil {
		return err
	}
	if d.files[path] != nil {
		return &fs.PathError{Op: "mkdir", Path: path, Err: unix.EEXIST}
	}
	d.name(path, &inode{dir: true, mode: mode})
	return nil
}

func (d *modelDisk) Rename(oldPath, newPath string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("rename", newPath); err != nil {
		return err
	}
	f, err := d.find("rename", oldPath)
	if err != nil {
		return err
	}
	d.name(newPath, f)
	d.name(oldPath, nil)
	return nil
}

func (d *modelDisk) Exchange(a, b string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("exchange", b); err != nil {
		return err
	}
	f, err := d.find("exchange", a)
	if err != nil {
		return err
	}
	g, err := d.find("exchange", b)
	if err != nil {
		return err
	}
	d.name(b, f)
	d.name(a, g)
	return nil
}

func (d *modelDisk) Remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("remove", path); err != nil {
		return err
	}
	if _, err := d.find("remove", path); err != nil {
		return err
	}
	d.name(path, nil)
	return nil
}

func (d *modelDisk) SyncDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call("syncdir", dir); err != nil {
		return err
	}
	d.ops = slices.DeleteFunc(d.ops, func(op nameOp) bool {
		here := filepath.Dir(op.path) == dir
		if here {
			apply(d.safe, op)
		}
		return here
	})
	return nil
}

func (d *modelDisk) BootID() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprintf("boot-%d", d.boot), nil
}

// temps are the names of half-written files.
func (d *modelDisk) temps() (names []string) {
	for path := range d.files {
		if strings.HasSuffix(path, tempSuffix) {
			names = append(names, path)
		}
	}
	return names
}

type modelFile struct {
	disk *modelDisk
	node *inode
	path string
}

func (f *modelFile) WriteAt(p []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	dying := !f.disk.crashed
	err := f.disk.call("write", f.path)
	if errors.Is(err, errCrashed) && dying {
		p = p[:f.disk.rand.IntN(len(p)+1)] // the kernel had taken a part of it
	} else if err != nil {
		return 0, err
	}
	if grown := off + int64(len(p)); grown > int64(len(f.node.data)) {
		f.node.data = append(f.node.data, make([]byte, grown-int64(len(f.node.data)))...)
	}
	copy(f.node.data[off:], p)
	f.node.unsaved = true
	return len(p), err
}

func (f *modelFile) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.call("truncate", f.path); err != nil {
		return err
	}
	f.node.data = bytes.Clone(f.node.data[:size])
	f.node.unsaved = true
	return nil
}

func (f *modelFile) Sync() error {
	time.Sleep(f.disk.syncTime)
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.syncs++
	if err := f.disk.call("sync", f.path); err != nil {
		return err
	}
	f.node.safe, f.node.unsaved = bytes.Clone(f.node.data), false
	return nil
}

func (f *modelFile) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.call("close", f.path); err != nil {
		return err
	}
	delete(f.disk.locked, f.path)
	return nil
}
