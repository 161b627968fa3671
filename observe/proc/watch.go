package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"sync"

	"golang.org/x/sys/unix"
)

// Watch tells when cgroups of runs get populated or empty: one descriptor for all of them, for an epoll. It may be
// used by several goroutines; Changed by one at a time.
type Watch struct {
	fd int // inotify

	mu   sync.Mutex
	keys map[int32]string // by watch descriptor
	wds  map[string]int32
	buf  [16 << 10]byte
}

// NewWatch opens a watch.
func NewWatch() (*Watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("cannot watch cgroups (fs.inotify.max_user_instances may be used up): %w", err)
	}
	return &Watch{fd: fd, keys: make(map[int32]string), wds: make(map[string]int32)}, nil
}

// Fd is readable when there is something for Changed to read.
func (w *Watch) Fd() int { return w.fd }

// Add watches g; key is what Changed calls it. What happened before Add is not told: look at it once after Add. A
// cgroup that is not there is an error (fs.ErrNotExist).
func (w *Watch) Add(g Cgroup, key string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := fmt.Sprintf("/proc/self/fd/%d/%s", g.all.mount.Fd(), path.Join(g.path, "cgroup.events"))
	wd, err := unix.InotifyAddWatch(w.fd, name, unix.IN_MODIFY)
	if err != nil {
		return fmt.Errorf("cannot watch the run's cgroup: %w", err)
	}
	if old, ok := w.wds[key]; ok && old != int32(wd) {
		w.remove(key)
	}
	w.keys[int32(wd)], w.wds[key] = key, int32(wd)
	return nil
}

// Drop ends watching key. A change that was seen before may still be told.
func (w *Watch) Drop(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(key)
}

func (w *Watch) remove(key string) {
	wd, ok := w.wds[key]
	if !ok {
		return
	}
	// It fails where the cgroup is removed, which ended the watch.
	_, _ = unix.InotifyRmWatch(w.fd, uint32(wd))
	delete(w.wds, key)
	delete(w.keys, wd)
}

// Changed returns the keys whose cgroup may have changed since the last call, each once, without blocking. After an
// overflow that is all of them.
func (w *Watch) Changed() ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := make(map[string]struct{})
	for {
		n, err := unix.Read(w.fd, w.buf[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read what changed in cgroups: %w", err)
		}
		w.take(w.buf[:n], changed)
	}
	keys := make([]string, 0, len(changed))
	for k := range changed {
		keys = append(keys, k)
	}
	return keys, nil
}

// take reads a buffer of struct inotify_event (inotify(7)): descriptor, mask, cookie, length of the name that follows.
func (w *Watch) take(b []byte, changed map[string]struct{}) {
	const header = 16
	for len(b) >= header {
		wd := int32(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint32(b[4:])
		name := uint64(binary.NativeEndian.Uint32(b[12:])) // none, as files are watched
		b = b[min(uint64(len(b)), header+name):]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			for k := range w.wds {
				changed[k] = struct{}{}
			}
			continue
		}
		key, ok := w.keys[wd]
		if !ok {
			continue
		}
		changed[key] = struct{}{}
		if mask&unix.IN_IGNORED != 0 { // the cgroup was removed
			delete(w.keys, wd)
			delete(w.wds, key)
		}
	}
}

// Close closes the watch.
func (w *Watch) Close() error { return unix.Close(w.fd) }
