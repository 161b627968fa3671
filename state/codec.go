package state

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"strconv"
	"strings"

	"reconciler.dev/reconciler/spec"
)

// A record's file begins with a line of JSON whose first member is a checksum over everything behind it:
//
//	{"sum":"1f2e3d4c","version":1,"seq":7,"scope":{...},...}
//	                 ^ CRC-32C from here to the end of the line
//
// It finds torn files and bits that flipped, not forgery: against that stand owner and mode. Lines of [Progress] may follow.
const (
	sumOpen   = `{"sum":"`
	sumClose  = `"`
	sumPrefix = len(sumOpen) + 8 + len(sumClose)
)

// MaxRecordSize bounds a record's file, in bytes.
const MaxRecordSize = 4 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errTorn marks bytes that are no record of any version: what a power cut leaves of a file that was not synced.
var errTorn = errors.New("not a whole record")

// EncodeRecord returns r as its file holds it.
func EncodeRecord(r *Record) ([]byte, error) {
	var b bytes.Buffer
	if err := encodeRecord(&b, r); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func encodeRecord(b *bytes.Buffer, r *Record) error {
	if err := r.check(); err != nil {
		return fmt.Errorf("cannot write the record of %s: %w", r.Scope, err)
	}
	b.Reset()
	b.WriteString(sumOpen + "00000000" + sumClose)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("cannot encode the record of %s: %w", r.Scope, err)
	}
	if b.Len() > MaxRecordSize {
		return fmt.Errorf("the record of %s is %d bytes long, the limit is %d: shorten the arguments and environment of its profile", r.Scope, b.Len(), MaxRecordSize)
	}
	file := b.Bytes()
	file[sumPrefix] = ',' // in place of the brace that opened r
	copy(file[len(sumOpen):], sumOf(file))
	return nil
}

// sumOf is the checksum that a file should begin with.
func sumOf(file []byte) string {
	return hexSum(file[sumPrefix:])
}

func hexSum(parts ...[]byte) string {
	var sum uint32
	for _, p := range parts {
		sum = crc32.Update(sum, castagnoli, p)
	}
	return hex.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// DecodeRecord is the reverse of [EncodeRecord]. It is [ErrNewer] when the format is newer than [RecordVersion].
func DecodeRecord(file []byte) (*Record, error) {
	first, steps := file, []byte(nil)
	if end := bytes.IndexByte(file, '\n'); end >= 0 {
		first, steps = file[:end+1], file[end+1:]
	}
	sum, ok := splitSum(first)
	if !ok || sumOf(first) != sum {
		return nil, misfit(first, errTorn)
	}
	var r struct {
		Sum string `json:"sum"`
		Record
	}
	d := json.NewDecoder(bytes.NewReader(first))
	d.DisallowUnknownFields() // dropping one would be a rewrite of a newer format
	if err := d.Decode(&r); err != nil {
		return nil, misfit(first, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the record")
	}
	if r.Version > RecordVersion {
		return nil, misfit(first, ErrNewer)
	}
	if err := takeProgress(&r.Record, first, steps); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return &r.Record, nil
}

// splitSum returns the checksum that a file begins with.
func splitSum(file []byte) (sum string, ok bool) {
	if len(file) <= sumPrefix || !bytes.HasPrefix(file, []byte(sumOpen)) || file[sumPrefix-1] != '"' || file[sumPrefix] != ',' {
		return "", false
	}
	return string(file[len(sumOpen) : sumPrefix-1]), true
}

// misfit is why a file is not a record of this version: it is of a newer one if it says so, whatever else is in it.
func misfit(file []byte, err error) error {
	var v struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(file, &v) == nil && v.Version > RecordVersion {
		return fmt.Errorf("%w of this program: format %d, this one knows %d", ErrNewer, v.Version, RecordVersion)
	}
	return err
}

// check holds a record to its contract, when it is read and before it is written.
func (r *Record) check() error {
	if r.Version != RecordVersion {
		return fmt.Errorf("version: %d is not a format that this program knows", r.Version)
	}
	if _, ok := spec.ParseScopeID(r.Scope.ID()); !ok {
		return fmt.Errorf("scope: %q does not consist of three DNS labels", r.Scope.ID())
	}
	if len(r.History) > HistoryLimit {
		return fmt.Errorf("history: %d ends, at most %d are kept", len(r.History), HistoryLimit)
	}
	if len(r.Deliveries) > DeliveryLimit {
		return fmt.Errorf("deliveries: %d, at most %d are kept", len(r.Deliveries), DeliveryLimit)
	}
	for i := range r.Deliveries {
		if err := r.Deliveries[i].Program.check("deliveries[" + strconv.Itoa(i) + "].program"); err != nil {
			return err
		}
	}
	if len(r.Written) > DeliveryLimit*WrittenLimit/WrittenCost {
		return fmt.Errorf("written: %d lines, at most %d are kept", len(r.Written), DeliveryLimit*WrittenLimit/WrittenCost)
	}
	if r.Run == nil {
		return nil
	}
	return r.Run.check(r.Scope)
}

func (p *Program) check(at string) error {
	switch {
	case p == nil:
		return nil
	case !isFileName(p.ID):
		return fmt.Errorf("%s.id: %q cannot name a directory", at, p.ID)
	case p.Cgroup != "" && (strings.Trim(path.Clean(p.Cgroup), "/") == "" || escapes(p.Cgroup)):
		return fmt.Errorf("%s.cgroup: %q does not lie below the cgroup mount", at, p.Cgroup)
	}
	if err := p.Identity.check(); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

func (r *Run) check(scope spec.Scope) error {
	if r.Number < 1 {
		return fmt.Errorf("run.number: %d is not positive", r.Number)
	}
	if !isFileName(r.ID) {
		return fmt.Errorf("run.id: %q cannot name a directory", r.ID)
	}
	if r.Cgroup != "" && (strings.Trim(path.Clean(r.Cgroup), "/") == "" || escapes(r.Cgroup)) {
		return fmt.Errorf("run.cgroup: %q does not lie below the cgroup mount", r.Cgroup)
	}
	if r.Launch.Scope != scope {
		return fmt.Errorf("run.launch.scope: %s is not the record's scope %s", r.Launch.Scope, scope)
	}
	if r.Stop != nil && len(r.Stop.Steps) > len(r.Stop.Ladder) {
		return fmt.Errorf("run.stop.steps: %d are journaled of a ladder of %d", len(r.Stop.Steps), len(r.Stop.Ladder))
	}
	if r.Stop != nil {
		for _, e := range r.Stop.Steps {
			if e.Index < 0 || e.Index >= len(r.Stop.Ladder) {
				return fmt.Errorf("run.stop.steps: there is no step %d in a ladder of %d", e.Index, len(r.Stop.Ladder))
			}
			if (e.Program != nil) != (r.Stop.Ladder[e.Index].Exec != nil) {
				return fmt.Errorf("run.stop.steps: step %d of the ladder and its entry do not agree whether a program is run", e.Index)
			}
			if err := e.Program.check("run.stop.steps: step " + strconv.Itoa(e.Index)); err != nil {
				return err
			}
		}
	}
	switch r.Phase {
	case Launching, Exited:
	case Released, Started:
		if r.Identity == nil {
			return fmt.Errorf("run.identity: missing in phase %s", r.Phase)
		}
	default:
		return fmt.Errorf("run.phase: %q is none of %s, %s, %s, %s", r.Phase, Launching, Released, Started, Exited)
	}
	return r.Identity.check()
}

func (i *Identity) check() error {
	if i == nil {
		return nil
	}
	if i.PID < 2 || i.BootID == "" {
		return fmt.Errorf("run.identity: process %d of boot %q cannot be a workload", i.PID, i.BootID)
	}
	return nil
}

// IsDeliveryID reports whether s can be the id of a delivery: 1-128 bytes of a-z, A-Z, 0-9, '-', '_' and '.', which is not first.
func IsDeliveryID(s string) bool { return isFileName(s) }

// isFileName reports whether s can name a file wherever the store or the keeper puts it.
func isFileName(s string) bool {
	return s != "" && len(s) <= 128 && s[0] != '.' && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
	})
}

func escapes(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}
