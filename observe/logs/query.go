package logs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// Query says which lines of a scope's logs are wanted.
type Query struct {
	Dir   string // the folder of all logs
	Scope string // spec.Scope.ID
	// Run is the run's number; 0 is the newest that has written. Previous asks for the newest that has written before it.
	Run      int64
	Previous bool
	Tail     int       // last lines to begin with; negative = all
	Since    time.Time // lines that began before are left out; zero = none
	Stream   Stream    // 0 = both
	// Follow goes on with lines as they come, into later runs of the scope too, until the context ends. It needs Bell.
	Follow bool
	Bell   *Bell
	// After goes on behind an entry that was given before, by another keeper perhaps: no line is lost or comes twice. Run, Previous and
	// Tail are then without meaning.
	After *Cursor
	// Until ends the reading at a place of a run's log, which Run names, although more was written. Follow and Previous are not asked for then.
	Until *Place
}

// Place is a place in a run's log: a file and the bytes before it.
type Place struct {
	Index  int   `json:"index"`
	Offset int64 `json:"offset"`
}

func (p Place) after(q Place) bool {
	return p.Index > q.Index || p.Index == q.Index && p.Offset > q.Offset
}

// Cursor is where an entry ends.
type Cursor struct {
	Run  int64 `json:"run"`
	End  Place `json:"end"`
	From Place `json:"from"` // where to read from: the other stream's line, which has no end yet, began there
}

// Entry is one line of a workload, joined from its pieces. Text is valid until the callback returns.
type Entry struct {
	Run     int64
	Time    time.Time // of its first piece
	Stream  Stream
	Partial bool // the line goes on: it is longer than MaxLine, or has no end where the reading ends
	Text    []byte
	Cursor  Cursor // for [Query.After]
}

// MaxLine is the most text that an Entry holds, in bytes. A longer line comes in several, all but the last Partial.
const MaxLine = 1 << 20

// ErrNoLog is returned when the scope or the run has written nothing that is still there.
var ErrNoLog = errors.New("no log")

// Read calls emit with every entry that the query asks for, in the order in which they ended, on the calling goroutine.
// What is removed by a budget while it reads is left out. It returns nil at the end of what was written when it was
// called, [ErrNoLog] when that is nothing (both never when following), the cause of the context's end, or emit's first
// error. A slow emit holds up nobody else.
func Read(ctx context.Context, q Query, emit func(Entry) error) error {
	if q.Follow && q.Bell == nil {
		return errors.New("cannot follow a log without a bell")
	}
	r := &reader{ctx: ctx, q: q, emit: emit, folder: filepath.Join(q.Dir, q.Scope)}
	defer r.close()
	if q.Follow {
		rung, end := q.Bell.Listen(q.Scope) // before the first look, so that nothing is missed
		defer end()
		r.rung = rung
	}
	if q.After != nil {
		return r.goOn(*q.After)
	}
	files, err := r.begin()
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s: %w", q.Scope, ErrNoLog)
	}
	if q.Tail >= 0 {
		if err := r.seekTail(files); err != nil {
			return err
		}
	}
	return r.run(files[len(files)-1])
}
