package pump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"reconciler.dev/reconciler/observe/logs"
)

// watch is a Watch of a run. The loop looks at what is read from its beginning on, the scanner at what was written before.
type watch struct {
	run      *run
	literals []string
	hit      func()
	live     [2]*logs.Matcher // by stream; the loop's
}

// Watch calls hit once, on the loop's goroutine, when the run has printed one of the literals: in what its log files hold
// already or in what comes, ANSI escape sequences taken out, within one stream. A second Watch replaces the first; no
// literals end it. It fails with [ErrUnknownRun] or an empty literal.
func (p *Pump) Watch(id logs.Run, literals []string, hit func()) error {
	r, err := p.lookup(id)
	if err != nil {
		return fmt.Errorf("cannot watch: %w", err)
	}
	for i, l := range literals {
		if l == "" {
			return fmt.Errorf("cannot watch %v: literal %d is empty", id, i)
		}
	}
	if len(literals) == 0 {
		p.loop.Post(func() { p.reader.unwatch(r) })
		return nil
	}
	w := &watch{run: r, literals: literals, hit: hit}
	p.loop.Post(func() { p.reader.beginWatch(w) })
	return nil
}

func (rd *reader) beginWatch(w *watch) {
	if slices.ContainsFunc(w.run.streams, func(s *source) bool { return s.closed }) {
		return
	}
	for i := range w.live {
		w.live[i] = logs.NewMatcher(w.literals)
	}
	w.run.watch = w
	rd.pump.queue.push(work{do: func(wr *writer) { wr.beginScan(w) }})
}

func (rd *reader) unwatch(r *run) { r.watch = nil }

// scan looks for the watched literals in what a source has given, and hands it to those who listen.
func (rd *reader) scan(s *source, b []byte) {
	for _, t := range s.run.taps {
		t.add(b)
	}
	if len(s.run.expected) > 0 {
		rd.meet(s, b)
	}
	w := s.run.watch
	if w == nil {
		return
	}
	var found bool
	if found, rd.matchBuf = w.live[s.stream-logs.Stdout].Scan(b, rd.matchBuf); found {
		rd.found(w)
	}
}

func (rd *reader) found(w *watch) {
	if w.run.watch != w {
		return // replaced, or found already
	}
	w.run.watch = nil
	w.hit()
}

// beginScan runs when all that was read before the Watch is in the file, and nothing that was read after it.
func (wr *writer) beginScan(w *watch) {
	end, err := wr.end(w.run)
	if err != nil {
		wr.pump.log.Warn("cannot search the log", "run", w.run.id, "error", err)
		return
	}
	if end.Index == 0 && end.Size == 0 {
		return
	}
	wr.pump.scans.push(scan{watch: w, end: end})
}

// scan is a search of what was written of a run up to a file and size.
type scan struct {
	watch *watch
	end   logs.File
}

// scanner searches log files, one after the other, on a goroutine of its own that reads files and nothing else.
type scanner struct {
	mu    sync.Mutex
	items []scan
	wake  chan struct{}
}

func (sc *scanner) push(s scan) {
	sc.mu.Lock()
	sc.items = append(sc.items, s)
	sc.mu.Unlock()
	select {
	case sc.wake <- struct{}{}:
	default:
	}
}

func (sc *scanner) take() []scan {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	items := sc.items
	sc.items = nil
	return items
}

func (p *Pump) scanLoop(ctx context.Context) {
	for {
		for _, s := range p.scans.take() {
			if ctx.Err() != nil {
				return
			}
			p.search(ctx, s)
		}
		select {
		case <-p.scans.wake:
		case <-ctx.Done():
			return
		}
	}
}

// search looks through the files and has the loop put both halves together.
func (p *Pump) search(ctx context.Context, s scan) {
	w := s.watch
	var past [2]*logs.Matcher
	for i := range past {
		past[i] = logs.NewMatcher(w.literals)
	}
	found, err := p.searchFiles(ctx, s, past)
	if err != nil {
		p.log.Warn("cannot search the log", "run", w.run.id, "error", err)
	}
	p.loop.Post(func() {
		for i := range past {
			found = w.live[i].Join(past[i]) || found
		}
		if found {
			p.reader.found(w)
		}
	})
}

func (p *Pump) searchFiles(ctx context.Context, s scan, past [2]*logs.Matcher) (bool, error) {
	folder := filepath.Join(p.dir, s.watch.run.id.Scope)
	files, err := logs.Files(folder)
	if err != nil {
		return false, err
	}
	for _, file := range files {
		if file.Run != s.end.Run || file.Index > s.end.Index {
			continue
		}
		if file.Index == s.end.Index {
			file.Size = s.end.Size
		}
		found, err := searchFile(ctx, filepath.Join(folder, logs.FileName(file.Run, file.Index)), file.Size, past)
		if errors.Is(err, fs.ErrNotExist) {
			continue // over the budget since
		}
		if err != nil || found {
			return found, err
		}
	}
	return false, nil
}

func searchFile(ctx context.Context, path string, size int64, past [2]*logs.Matcher) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var scratch []byte
	var found bool
	newline := []byte{'\n'}
	lines := logs.NewScanner(io.LimitReader(f, size))
	for lines.Scan() && ctx.Err() == nil {
		piece, err := logs.Parse(lines.Bytes())
		if err != nil {
			continue
		}
		m := past[piece.Stream-logs.Stdout]
		if found, scratch = m.Scan(piece.Text, scratch); found {
			return true, nil
		}
		if piece.Partial {
			continue
		}
		if found, scratch = m.Scan(newline, scratch); found {
			return true, nil
		}
	}
	return false, lines.Err()
}
