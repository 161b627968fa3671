package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// reader goes through a scope's files. It reads whole lines only, and what has no newline yet again: a writer may take back
// a line that did not fit on the disk.
type reader struct {
	ctx    context.Context
	q      Query
	emit   func(Entry) error
	folder string
	rung   <-chan struct{}

	at     File // the file at hand; Size is how far it is read
	f      *os.File
	chunk  []byte
	joined [Stderr + 1]joint
	begun  Place // of the line at hand
	ended  Place // of the last line that was taken
	skip   int   // entries to leave out
}

// joint is a line whose end has not come.
type joint struct {
	text  []byte
	begun time.Time
	place Place // of its first piece
	open  bool
}

// begin finds the run's files and stands before the first. When following it waits for one.
func (r *reader) begin() ([]File, error) {
	for {
		all, err := Files(r.folder)
		if err != nil {
			return nil, err
		}
		number := r.q.choose(all)
		var files []File
		for _, f := range all {
			if f.Run == number && r.q.cut(&f) {
				files = append(files, f)
			}
		}
		if len(files) > 0 {
			r.at = File{Run: number, Index: files[0].Index}
			return files, nil
		}
		if !r.q.Follow {
			return nil, nil
		}
		if r.q.Run != 0 && !r.q.Previous {
			// It may never write, and a later run may.
			if later := after(all, File{Run: r.q.Run}); later != nil {
				r.q.Run = later.Run
				continue
			}
		}
		if err := r.wait(); err != nil {
			return nil, err
		}
	}
}

// goOn reads on behind what was given before.
func (r *reader) goOn(after Cursor) error {
	all, err := Files(r.folder)
	if err != nil {
		return err
	}
	r.at = File{Run: after.Run, Index: after.From.Index, Size: after.From.Offset}
	end := r.at
	for _, f := range all {
		if f.Run == after.Run {
			end = f
		}
	}
	return r.run(end)
}

// cut leaves out what is behind Until, and reports whether anything of the file is left.
func (q *Query) cut(f *File) bool {
	switch u := q.Until; {
	case u == nil || f.Index < u.Index:
		return true
	case f.Index > u.Index:
		return false
	default:
		f.Size = min(f.Size, u.Offset)
		return true
	}
}

// choose picks the run; 0 = there is none.
func (q *Query) choose(all []File) int64 {
	run := q.Run
	if run == 0 && len(all) > 0 {
		run = all[len(all)-1].Run
	}
	if !q.Previous {
		return run
	}
	var previous int64
	for _, f := range all {
		if f.Run < run {
			previous = f.Run
		}
	}
	return previous
}

// after returns the next file in the order of writing.
func after(all []File, f File) *File {
	for i := range all {
		if all[i].Run > f.Run || all[i].Run == f.Run && all[i].Index > f.Index {
			return &all[i]
		}
	}
	return nil
}

// run reads up to end, or for ever.
func (r *reader) run(end File) error {
	for {
		limit := int64(-1)
		if !r.q.Follow && r.at.Run == end.Run && r.at.Index == end.Index {
			limit = end.Size
		}
		if err := r.readFile(limit); err != nil {
			return err
		}
		if limit >= 0 || !r.q.Follow && (r.at.Run != end.Run || r.at.Index > end.Index) {
			return r.endRun(true)
		}
		all, err := Files(r.folder)
		if err != nil {
			return err
		}
		next := after(all, r.at)
		if next == nil && !r.q.Follow {
			return r.endRun(true)
		}
		if next == nil {
			if err := r.wait(); err != nil {
				return err
			}
			continue
		}
		// The file at hand has got its last line before the next was made, but maybe after it was read.
		if err := r.readFile(-1); err != nil {
			return err
		}
		if next.Run != r.at.Run {
			if !r.q.Follow {
				return r.endRun(true)
			}
			if err := r.endRun(false); err != nil {
				return err
			}
		}
		r.close()
		r.at = File{Run: next.Run, Index: next.Index}
	}
}

// wait sleeps until the scope's log has grown.
func (r *reader) wait() error {
	select {
	case <-r.rung:
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

func (r *reader) close() {
	if r.f != nil {
		r.f.Close() // it was only read
		r.f = nil
	}
}

// readFile reads the file at hand up to limit, or to its end when limit is negative.
func (r *reader) readFile(limit int64) error {
	if r.f == nil {
		f, err := os.Open(filepath.Join(r.folder, FileName(r.at.Run, r.at.Index)))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // over the budget since it was listed
		}
		if err != nil {
			return fmt.Errorf("cannot read log: %w", err)
		}
		r.f = f
	}
	if r.chunk == nil {
		r.chunk = make([]byte, chunkSize)
	}
	for {
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		want := int64(len(r.chunk))
		if limit >= 0 {
			want = min(want, limit-r.at.Size)
		}
		n, err := r.f.ReadAt(r.chunk[:want], r.at.Size)
		if err != nil && err != io.EOF {
			return fmt.Errorf("cannot read log: %w", err)
		}
		whole := bytes.LastIndexByte(r.chunk[:n], '\n') + 1
		if whole == 0 && n == len(r.chunk) {
			whole = n // no line of ours is that long: what it holds is skipped
		}
		if whole == 0 {
			return r.stepBack()
		}
		r.ended = Place{r.at.Index, r.at.Size}
		for line := range bytes.Lines(r.chunk[:whole]) {
			r.begun = r.ended
			r.ended.Offset += int64(len(line))
			if err := r.line(line); err != nil {
				return err
			}
		}
		r.at.Size += int64(whole)
	}
}

// stepBack follows a writer that has taken lines back, which a full disk did not let it finish.
func (r *reader) stepBack() error {
	st, err := r.f.Stat()
	if err != nil {
		return fmt.Errorf("cannot read log: %w", err)
	}
	r.at.Size = min(r.at.Size, st.Size())
	return nil
}

// line takes one line of a file. One that cannot be read (a host that lost its power leaves such) is left out.
func (r *reader) line(line []byte) error {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	stream, _, _, ok := cutHeader(line)
	if !ok || r.q.Stream != 0 && stream != r.q.Stream {
		return nil
	}
	p, err := Parse(line)
	if err != nil {
		return nil
	}
	j := &r.joined[p.Stream]
	if !j.open && !p.Partial {
		return r.give(Entry{Time: p.Time, Stream: p.Stream, Text: p.Text}, r.ended)
	}
	if !j.open {
		j.open, j.begun, j.place, j.text = true, p.Time, r.begun, j.text[:0]
	}
	if len(j.text)+len(p.Text) > MaxLine {
		j.place = r.begun
		if err := r.give(Entry{Time: j.begun, Stream: p.Stream, Text: j.text, Partial: true}, r.begun); err != nil {
			return err
		}
		j.text = j.text[:0]
	}
	j.text = append(j.text, p.Text...)
	if p.Partial {
		return nil
	}
	return r.endJoint(p.Stream, false, r.ended)
}

func (r *reader) endJoint(stream Stream, partial bool, end Place) error {
	j := &r.joined[stream]
	if !j.open {
		return nil
	}
	j.open = false
	err := r.give(Entry{Time: j.begun, Stream: stream, Text: j.text, Partial: partial}, end)
	if cap(j.text) > chunkSize {
		j.text = nil // one long line is no reason to hold so much
	}
	return err
}

// endRun gives out the lines that have no end.
func (r *reader) endRun(partial bool) error {
	// No two entries end at one place: these end behind the last line.
	end := r.ended
	for _, stream := range []Stream{Stdout, Stderr} {
		end.Offset++
		if err := r.endJoint(stream, partial, end); err != nil {
			return err
		}
	}
	return nil
}

// give gives out an entry that ends at a place.
func (r *reader) give(e Entry, end Place) error {
	// A part of a long line is no line of its own for the count.
	if r.skip > 0 {
		if !e.Partial || !r.joined[e.Stream].open {
			r.skip--
		}
		return nil
	}
	if e.Time.Before(r.q.Since) {
		return nil
	}
	if q := r.q.After; q != nil && q.Run == r.at.Run && !end.after(q.End) {
		return nil
	}
	e.Run = r.at.Run
	e.Cursor = Cursor{Run: e.Run, End: end, From: end}
	if end.after(r.ended) {
		e.Cursor.From = r.ended
	}
	for _, j := range r.joined {
		if j.open && e.Cursor.From.after(j.place) {
			e.Cursor.From = j.place
		}
	}
	return r.emit(e)
}
