package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"reconciler.dev/reconciler/spec"
)

// Store keeps the records of all scopes, a file each, below one directory (STATE/keeper). See the package comment for what
// survives what. Calls about one scope take turns; those about different scopes do not wait for each other.
type Store struct {
	disk                      Disk
	records, archive, retired string

	lock    *Lock
	group   *group
	seq     atomic.Uint64 // of the newest record
	journal *journal      // after Open, the flusher's alone

	mu      sync.Mutex
	slots   map[string]*slot  // by scope id; never removed
	claims  map[claim]string  // processes, by the id of the scope whose record names them
	pending map[string][]byte // what the journal does not have yet; nil = no record any more
	moved   []string          // archived files that may not survive a power cut yet
	renamed bool              // names in archive or retired have changed
	closed  bool

	swapless atomic.Bool // the file system cannot exchange names
}

// slot is what the store knows of one scope.
type slot struct {
	busy sync.Mutex // held while the scope's files are changed, or read by others than it

	// Under busy.
	file, spare fileState // the record's, and the one that the next record is written into
	start       *start    // nil = none is under way

	// Under Store.mu.
	blocked bool
	kept    []byte // the journal's copy of a record whose file cannot be used
	claim   claim
}

// What a caller may branch on.
var (
	ErrBlocked  = errors.New("the record cannot be used")             // Put, Archive: of a blocked scope
	ErrNoRecord = errors.New("there is no record")                    // Archive, Retire
	ErrUsable   = errors.New("the record can be used")                // Retire: of a scope whose record is sound
	ErrRunning  = errors.New("the record's run is not over")          // Archive
	ErrTaken    = errors.New("the process is another record's")       // Put
	ErrClosed   = errors.New("closed")                                // after Run has returned, or Close
	ErrNewer    = errors.New("written by a newer version")            // Open, OpenTable, DecodeRecord
	ErrMoved    = errors.New("the directory is a copy")               // Open
	ErrDamaged  = errors.New("damaged")                               // OpenTable
	ErrUnsafe   = errors.New("not private to the user who runs this") // Open, OpenTable, Layout: owner, mode, type
)

// claim is a process that a record names, by what identifies it (BP-6).
type claim struct {
	boot  string
	inode uint64 // or else
	pid   int
	ticks uint64
}

func claimOf(r *Record) claim {
	if r.Run == nil || r.Run.Identity == nil {
		return claim{}
	}
	i := r.Run.Identity
	if i.PidfdInode != 0 {
		return claim{boot: i.BootID, inode: i.PidfdInode}
	}
	return claim{boot: i.BootID, pid: i.PID, ticks: i.StartTicks}
}

// Put replaces the record of r's scope. When it returns, the record survives the death of this process; it survives a power
// cut within a second, see [Store.Health]. It does not keep or change r; Version and Seq are the store's to set.
// It may be called by many goroutines at once.
func (s *Store) Put(r *Record) error {
	_, err := s.put(r)
	return err
}

// PutDurable is Put, and waits until the record survives a power cut. Those who wait at the same time share a flush.
// When ctx ends first or the flush fails, the record is put all the same, and would not or may not survive.
func (s *Store) PutDurable(ctx context.Context, r *Record) error {
	n, err := s.put(r)
	if err != nil {
		return err
	}
	return s.group.wait(ctx, n)
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (s *Store) put(r *Record) (change uint64, err error) {
	id := r.Scope.ID()
	slot := s.slot(id)
	slot.busy.Lock()
	defer slot.busy.Unlock()
	return s.putLocked(id, slot, r)
}

// putLocked is put by whoever has the slot.
func (s *Store) putLocked(id string, slot *slot, r *Record) (change uint64, err error) {
	if err := slot.endStart(); err != nil {
		return 0, fmt.Errorf("cannot write the record of %s: %w", r.Scope, err)
	}
	if err := s.admit(id, slot, claimOf(r)); err != nil {
		return 0, err
	}
	stamped := *r
	stamped.Version, stamped.Seq = RecordVersion, s.seq.Add(1)
	b := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(b)
	if err := encodeRecord(b, &stamped); err != nil {
		return 0, err
	}
	begun := r.Run != nil && r.Run.Phase == Launching
	f, err := s.replace(id, slot, b.Bytes(), begun)
	if err != nil {
		return 0, fmt.Errorf("cannot write the record of %s: %w%s", r.Scope, err, remedy(err))
	}
	if begun {
		slot.start = &start{f, append(make([]byte, 0, b.Len()+progressRoom), b.Bytes()...)}
		return s.stage(id, slot.start.bytes), nil
	}
	return s.stage(id, bytes.Clone(b.Bytes())), nil
}

func (s *Store) slot(id string) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots[id] == nil {
		s.slots[id] = &slot{}
	}
	return s.slots[id]
}

// admit refuses a record of a blocked scope, and one that names a process which another record names.
func (s *Store) admit(id string, slot *slot, c claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("record of %s: the store is %w", id, ErrClosed)
	}
	if slot.blocked {
		return fmt.Errorf("%s: %w: nothing is written there until it is retired", id, ErrBlocked)
	}
	if slot.claim == c {
		return nil
	}
	if other, taken := s.claims[c]; taken && c != (claim{}) {
		return fmt.Errorf("record of %s: %w, that of %s", id, ErrTaken, other)
	}
	s.claimLocked(id, slot, c)
	return nil
}

func (s *Store) claimLocked(id string, slot *slot, c claim) {
	delete(s.claims, slot.claim)
	if slot.claim = c; c != (claim{}) {
		s.claims[c] = id
	}
}

// stage notes what the journal does not have yet. file is nil when the scope has no record any more.
func (s *Store) stage(id string, file []byte) (change uint64) {
	s.mu.Lock()
	s.pending[id] = file
	s.mu.Unlock()
	return s.group.changed()
}

// Flush waits until everything that was put before it survives a power cut.
func (s *Store) Flush(ctx context.Context) error { return s.group.wait(ctx, s.group.newest()) }

// Health is nil, or why what was put last does not survive a power cut yet. It is tried again by itself.
func (s *Store) Health() error { return s.group.health() }

// Close gives the lock back. Run must have returned, and every other call. What Run did not flush survives this process
// all the same.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	return errors.Join(s.journal.close(), s.lock.Release())
}

// Archive moves the record of a scope whose run is over to the archive, which keeps all that ever came there.
func (s *Store) Archive(scope spec.Scope) error {
	id := scope.ID()
	slot := s.slot(id)
	slot.busy.Lock()
	defer slot.busy.Unlock()
	if err := s.admit(id, slot, s.claimed(slot)); err != nil {
		return err
	}
	r, err := s.load(id)
	if err != nil {
		return err
	}
	if r.Run != nil && r.Run.Phase != Exited {
		return fmt.Errorf("record of %s: %w: stop it first", scope, ErrRunning)
	}
	to, err := s.freeName(s.archive, archiveName(id, r.Seq))
	if err != nil {
		return err
	}
	if err := s.dropSpare(id, slot); err != nil {
		return fmt.Errorf("cannot archive the record of %s: %w", scope, err)
	}
	if err := s.disk.Rename(filepath.Join(s.records, recordName(id)), to); err != nil {
		return fmt.Errorf("cannot archive the record of %s: %w%s", scope, err, remedy(err))
	}
	slot.file = fileState{}
	s.noteMoved(to)
	s.mu.Lock()
	s.claimLocked(id, slot, claim{})
	s.mu.Unlock()
	s.stage(id, nil)
	return nil
}

func (s *Store) claimed(slot *slot) claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slot.claim
}

// Retire moves aside, on an operator's word, the scope's record that cannot be used and everything of the scope in the
// archive. Nothing is deleted. It returns when that survives a power cut; the scope is then free.
func (s *Store) Retire(ctx context.Context, scope spec.Scope) error {
	change, err := s.retire(scope.ID())
	if err != nil {
		return err
	}
	return s.group.wait(ctx, change)
}

func (s *Store) retire(id string) (change uint64, err error) {
	slot := s.slot(id)
	slot.busy.Lock()
	defer slot.busy.Unlock()
	archived, err := s.archived(id)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	blocked, kept, closed := slot.blocked, slot.kept, s.closed
	s.mu.Unlock()
	if closed {
		return 0, fmt.Errorf("record of %s: the store is %w", id, ErrClosed)
	}
	if !blocked && len(archived) == 0 {
		if _, err := s.load(id); err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("record of %s: %w, and nothing of it is in the archive: remove its manifest to archive it", id, ErrUsable)
	}
	for _, name := range archived {
		to, err := s.setAside(filepath.Join(s.archive, name))
		if err != nil {
			return 0, err
		}
		s.noteMoved(to)
	}
	if !blocked {
		return s.group.changed(), nil
	}
	if kept != nil {
		if err := s.keepAside(id, kept); err != nil {
			return 0, err
		}
	}
	if _, err := s.setAside(filepath.Join(s.records, recordName(id))); err != nil {
		return 0, err
	}
	slot.file = fileState{}
	s.mu.Lock()
	slot.blocked, slot.kept, s.renamed = false, nil, true
	s.mu.Unlock()
	return s.stage(id, nil), nil
}

// noteMoved has the flusher make a file survive a power cut under its new name.
func (s *Store) noteMoved(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved = append(s.moved, path)
}
