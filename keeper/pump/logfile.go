package pump

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/logs"
)

// logFile is the file of a run that is written, and what the file says of the run's streams.
type logFile struct {
	known    bool // index, size and ends are those on disk
	fd       int  // 0 = not open
	index    int
	size     int64
	ends     [3]streamEnd // by stream
	began    [3]bool      // by stream: the file before ended within a line
	retry    time.Time    // no write is tried before
	failed   bool         // the last write was not taken
	lostFrom int64        // dropped lines when that began
}

// streamEnd is how a stream's output in the file ends.
type streamEnd struct {
	open  bool // with a P
	gap   bool // output after it was dropped: what is open is never gone on with
	inGap bool // and the gap has not come to a line's end yet
	held  bool // a terminal's carriage return came last and is not written: a newline may follow
}

// ready opens the run's file, and reports whether it can be written.
func (w *writer) ready(r *run) bool {
	f := &r.file
	if f.fd > 0 {
		return true
	}
	if time.Now().Before(f.retry) {
		return false
	}
	fresh := !f.known
	if err := w.openFile(r); err != nil {
		w.fail(r, err)
		return false
	}
	if fresh {
		w.enforce(r)
	}
	return true
}

func (w *writer) openFile(r *run) error {
	f := &r.file
	folder := filepath.Join(w.pump.dir, r.id.Scope)
	if !f.known {
		if err := w.findFile(r, folder); err != nil {
			return err
		}
	}
	path := filepath.Join(folder, logs.FileName(r.id.Number, f.index))
	fd, err := w.disk.open(path)
	if err == unix.ENOENT {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return fmt.Errorf("cannot make the log folder of %s: %w", r.id.Scope, err)
		}
		fd, err = w.disk.open(path)
	}
	if err != nil {
		return fmt.Errorf("cannot open the log of %v: %w", r.id, err)
	}
	if err := f.adopt(fd); err != nil {
		return errors.Join(fmt.Errorf("cannot go on with the log of %v: %w", r.id, err), unix.Close(fd))
	}
	f.fd = fd
	w.open = append(w.open, r)
	if len(w.open) > maxOpen {
		w.closeFile(w.open[0])
	}
	return nil
}

// findFile finds out which file of a run is the last. One before it that is as large as only one is that had to end
// within a line tells which streams began the last one open.
func (w *writer) findFile(r *run, folder string) error {
	files, err := logs.Files(folder)
	if err != nil {
		return err
	}
	f := &r.file
	f.index, f.began = 0, [3]bool{}
	var before *logs.File
	for i, file := range files {
		if file.Run != r.id.Number {
			continue
		}
		if i > 0 && files[i-1].Run == file.Run {
			before = &files[i-1]
		}
		f.index = file.Index
	}
	if before == nil || before.Size < 2*w.fileLimit() {
		return nil
	}
	old, err := os.Open(filepath.Join(folder, logs.FileName(before.Run, before.Index)))
	if err != nil {
		return fmt.Errorf("cannot look at the log of %v: %w", r.id, err)
	}
	defer old.Close()
	tail, err := logs.ReadTail(old, before.Size)
	if err != nil {
		return fmt.Errorf("cannot look at the log of %v: %w", r.id, err)
	}
	f.began = tail.Open
	return nil
}

// adopt takes over a file as it is on disk. A line that a crash of the host cut off is cut away.
func (f *logFile) adopt(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if f.known && st.Size == f.size {
		return nil
	}
	tail, err := logs.ReadTail(readerAt(fd), st.Size)
	if err != nil {
		return err
	}
	if tail.End < st.Size {
		if err := unix.Ftruncate(fd, tail.End); err != nil {
			return err
		}
	}
	f.known, f.size = true, tail.End
	for _, stream := range []logs.Stream{logs.Stdout, logs.Stderr} {
		f.ends[stream].open = tail.Open[stream] || !tail.Seen[stream] && f.began[stream]
	}
	return nil
}

// readerAt reads a descriptor that stays the owner's.
type readerAt int

func (fd readerAt) ReadAt(b []byte, offset int64) (int, error) {
	n, err := unix.Pread(int(fd), b, offset)
	if err == nil && n < len(b) {
		return n, fmt.Errorf("file ends at %d", offset+int64(n))
	}
	return n, err
}

func (w *writer) closeFile(r *run) {
	f := &r.file
	if f.fd <= 0 {
		return
	}
	for i, other := range w.open {
		if other == r {
			w.open = append(w.open[:i], w.open[i+1:]...)
			break
		}
	}
	// What close could report was reported by the write.
	_ = unix.Close(f.fd)
	f.fd = 0
}
