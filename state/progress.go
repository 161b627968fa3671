package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// How far a start has come is written twice in each start, and is a hundredth of the record. So it is appended to the record's
// file, a line each, with a checksum of its own over itself and the first line's:
//
//	{"sum":"1f2e3d4c","version":1,"seq":7,...,"run":{...,"phase":"Launching",...}}
//	{"sum":"5a6b7c8d","seq":8,"phase":"Released","identity":{...}}
//	{"sum":"9e0f1a2b","seq":9,"phase":"Started","startedAt":"..."}
//
// A last line without its end is one that we died in, or that a reader sees on its way: it says nothing, as nothing was done
// yet that it would be needed for. Of a power cut see [Open].

// Progress is how far a start has come. What is zero says nothing new.
type Progress struct {
	Phase     Phase     `json:"phase"`
	Identity  *Identity `json:"identity,omitempty"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	ReadyAt   time.Time `json:"readyAt,omitzero"`
}

// Advanced is a copy of a run that has come to p.
func (r *Run) Advanced(p Progress) *Run {
	next := *r
	next.Phase = p.Phase
	if p.Identity != nil {
		next.Identity = p.Identity
	}
	if !p.StartedAt.IsZero() {
		next.StartedAt = p.StartedAt
	}
	if !p.ReadyAt.IsZero() {
		next.ReadyAt = p.ReadyAt
	}
	return &next
}

// step is a line of progress.
type step struct {
	Sum string `json:"sum"`
	Seq uint64 `json:"seq"`
	Progress
}

// start is a start under way, as the record's file has it.
type start struct {
	file  File   // open since the run was recorded: it is written twice more in a moment
	bytes []byte // what it holds; whoever was given them keeps them, and what is appended lies behind
}

// progressRoom is how many bytes both lines of progress may take without the bytes being copied for them.
const progressRoom = 512

// PutProgress is [Store.Put] of r, whose run has come to p and which is otherwise what was put last of its scope.
func (s *Store) PutProgress(r *Record, p Progress) error {
	id := r.Scope.ID()
	slot := s.slot(id)
	slot.busy.Lock()
	defer slot.busy.Unlock()
	if slot.start == nil {
		_, err := s.putLocked(id, slot, r)
		return err
	}
	if err := r.check(); err != nil {
		return fmt.Errorf("cannot write the record of %s: %w", r.Scope, err)
	}
	if err := s.admit(id, slot, claimOf(r)); err != nil {
		return err
	}
	file, err := appendProgress(slot.start.bytes, s.seq.Add(1), p)
	if err != nil {
		return fmt.Errorf("cannot encode the record of %s: %w", r.Scope, err)
	}
	if slot.extend(file) != nil {
		_, err := s.putLocked(id, slot, r) // which also mends what a failed extension has left
		return err
	}
	s.stage(id, file)
	if slot.start.bytes = file; p.Phase != Started {
		return nil
	}
	return slot.endStart()
}

// extend appends to the record's file what file has more than it.
func (s *slot) extend(file []byte) error {
	at := len(s.start.bytes)
	s.file.size = -1
	if _, err := s.start.file.WriteAt(file[at:], int64(at)); err != nil {
		return errors.Join(err, s.start.file.Truncate(int64(at)))
	}
	s.file.size = len(file)
	return nil
}

// endStart closes the file of a start; without one it does nothing.
func (s *slot) endStart() error {
	if s.start == nil {
		return nil
	}
	f := s.start.file
	s.start = nil
	return f.Close()
}

// appendProgress returns a record's file with one more line.
func appendProgress(file []byte, seq uint64, p Progress) ([]byte, error) {
	line, err := json.Marshal(step{Sum: "00000000", Seq: seq, Progress: p})
	if err != nil {
		return nil, err
	}
	line = append(line, '\n')
	copy(line[len(sumOpen):], stepSum(file, line))
	return append(file, line...), nil
}

// stepSum is the checksum that a line of progress should begin with.
func stepSum(file, line []byte) string {
	return hexSum(file[:sumPrefix], line[sumPrefix:])
}

// takeProgress changes a record by the lines that follow the first of its file.
func takeProgress(r *Record, file, lines []byte) error {
	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n') + 1
		if end == 0 {
			return nil
		}
		line := lines[:end]
		if sum, ok := splitSum(line); !ok || stepSum(file, line) != sum {
			return errTorn
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		var s step
		if err := d.Decode(&s); err != nil {
			return err
		}
		if _, err := d.Token(); err != io.EOF {
			return errors.New("something follows the progress of the run")
		}
		if r.Run == nil || s.Seq <= r.Seq {
			return errors.New("a line of progress is not of this record's run")
		}
		r.Seq, r.Run = s.Seq, r.Run.Advanced(s.Progress)
		lines = lines[end:]
	}
	return nil
}
