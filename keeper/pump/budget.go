package pump

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"reconciler.dev/reconciler/observe/logs"
)

const (
	filesPerBudget = 8 // a file is at most this part of a scope's budget
	minFileSize    = 4 << 10
	maxFileSize    = 16 << 20
)

func (w *writer) fileLimit() int64 {
	if w.pump.fileSize > 0 {
		return w.pump.fileSize
	}
	budget := min(w.pump.scopeBudget.Load(), w.pump.hostBudget.Load())
	return min(max(budget/filesPerBudget, minFileSize), maxFileSize)
}

// mayRotate reports whether the file is full and may end after the piece that was formatted last: both streams at a
// line's end. A stream that comes to none (a prompt, a program that never prints a newline) cannot keep the file from
// ending at twice its size; readers join pieces over files.
func (w *writer) mayRotate(r *run, ended bool) bool {
	size := r.file.size + int64(len(w.buf))
	if size < w.limit {
		return false
	}
	return ended && !w.isOpen(r, logs.Stdout) && !w.isOpen(r, logs.Stderr) || size >= 2*w.limit
}

// isOpen reports whether a stream's output ends within a line, what is in the buffer included.
func (w *writer) isOpen(r *run, stream logs.Stream) bool {
	if w.run == r && w.pending[stream].some {
		return w.pending[stream].partial
	}
	return r.file.ends[stream].open
}

// rotate goes on with the next file. The one before keeps its name. When the next cannot be had, output is dropped until
// it can.
func (w *writer) rotate(r *run) {
	f := &r.file
	if f.fd <= 0 {
		return // the flush before failed
	}
	w.closeFile(r)
	f.index++
	f.size = 0
	w.pump.at("rotated")
	w.enforce(r)
	if err := w.openFile(r); err != nil {
		w.fail(r, err)
	}
}

// enforce removes the oldest files while a scope, or the host, has more than its budget. The run's current file stays.
func (w *writer) enforce(r *run) {
	if err := w.enforceScope(r); err != nil {
		w.pump.log.Warn("cannot keep the log budget", "scope", r.id.Scope, "error", err)
	}
	if w.used < 0 {
		files, err := w.allFiles()
		if err != nil {
			w.pump.log.Warn("cannot count the logs", "error", err)
			return
		}
		w.used = 0
		for _, f := range files {
			w.used += f.Size
		}
	}
	w.checkHost()
}

// checkHost removes files when all logs together are over the host's budget.
func (w *writer) checkHost() {
	if w.used <= max(w.pump.hostBudget.Load(), w.checkAt) {
		return
	}
	if err := w.enforceHost(); err != nil {
		w.pump.log.Warn("cannot keep the host's log budget", "error", err)
	}
}

func (w *writer) enforceScope(r *run) error {
	files, err := logs.Files(filepath.Join(w.pump.dir, r.id.Scope))
	if err != nil {
		return err
	}
	var sum int64
	for _, f := range files {
		sum += f.Size
	}
	for _, f := range files {
		if sum+w.fileLimit() <= w.pump.scopeBudget.Load() {
			return nil
		}
		if f.Run == r.id.Number && f.Index >= r.file.index {
			continue
		}
		if err := w.remove(scopeFile{Scope: r.id.Scope, File: f}); err != nil {
			return err
		}
		sum -= f.Size
	}
	return nil
}

// scopeFile is a log file and whose it is.
type scopeFile struct {
	Scope string
	logs.File
	live *run // that writes it
}

// enforceHost removes the files that were written longest ago, those that nobody writes any more first, and never one
// that ends within a line.
func (w *writer) enforceHost() error {
	files, err := w.allFiles()
	if err != nil {
		return err
	}
	w.used = 0
	for i := range files {
		w.used += files[i].Size
		last := i+1 == len(files) || files[i+1].Scope != files[i].Scope || files[i+1].Run != files[i].Run
		if last {
			files[i].live = w.writes(files[i])
		}
	}
	slices.SortStableFunc(files, func(a, b scopeFile) int {
		return cmp.Or(compareBool(a.live != nil, b.live != nil), a.ModTime.Compare(b.ModTime))
	})
	limit := w.pump.hostBudget.Load()
	for _, f := range files {
		if w.used <= limit {
			break
		}
		if f.live != nil && !w.retire(f.live, f.Index) {
			continue
		}
		if err := w.remove(f); err != nil {
			return err
		}
	}
	// When live files alone are over the budget, do not look again at every turn.
	w.checkAt = 0
	if w.used > limit {
		w.checkAt = w.used + limit/64
	}
	return nil
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// writes returns the run that goes on writing the last file of its run, if there is one.
func (w *writer) writes(f scopeFile) *run {
	w.pump.mu.Lock()
	defer w.pump.mu.Unlock()
	return w.pump.runs[logs.Run{Scope: f.Scope, Number: f.Run}]
}

// retire ends a live run's file if it ends with whole lines, so that it can be removed. The run at hand goes on
// with its file: slots name it.
func (w *writer) retire(r *run, index int) bool {
	f := &r.file
	if r == w.run {
		return false
	}
	if f.fd <= 0 && w.openFile(r) != nil {
		return false
	}
	w.closeFile(r)
	if f.index != index || f.ends[logs.Stdout].open || f.ends[logs.Stderr].open {
		return false
	}
	f.index++
	f.size = 0
	return true
}

func (w *writer) remove(f scopeFile) error {
	err := os.Remove(filepath.Join(w.pump.dir, f.Scope, logs.FileName(f.Run, f.Index)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove an old log: %w", err)
	}
	if w.used >= 0 {
		w.used -= f.Size
	}
	return nil
}

func (w *writer) allFiles() ([]scopeFile, error) {
	scopes, err := os.ReadDir(w.pump.dir)
	if err != nil {
		return nil, fmt.Errorf("cannot list logs: %w", err)
	}
	var all []scopeFile
	for _, scope := range scopes {
		files, err := logs.Files(filepath.Join(w.pump.dir, scope.Name()))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			all = append(all, scopeFile{Scope: scope.Name(), File: f})
		}
	}
	return all, nil
}

// removeScope removes the files of a scope's runs that are not attached, and the folder with the last.
func (w *writer) removeScope(scope string) {
	folder := filepath.Join(w.pump.dir, scope)
	files, err := logs.Files(folder)
	if err != nil {
		w.pump.log.Warn("cannot remove logs", "scope", scope, "error", err)
		return
	}
	for _, f := range files {
		if _, err := w.pump.lookup(logs.Run{Scope: scope, Number: f.Run}); err == nil {
			continue
		}
		w.let(logs.Run{Scope: scope, Number: f.Run})
		if err := w.remove(scopeFile{Scope: scope, File: f}); err != nil {
			w.pump.log.Warn("cannot remove logs", "scope", scope, "error", err)
		}
	}
	_ = os.Remove(folder) // not empty: there are attached runs
}

// let forgets the file of a run that a predecessor read and nobody attached.
func (w *writer) let(id logs.Run) {
	w.pump.mu.Lock()
	r := w.pump.runs[id]
	w.pump.mu.Unlock()
	if r != nil {
		w.closeFile(r)
		r.file = logFile{}
	}
}
