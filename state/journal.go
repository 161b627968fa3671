package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// journal is an append-only file of commits; each is a list of edits that count together or not at all:
//
//	reconciler-journal 1 KIND VERSION\n
//	commit: "CMT\n"  length u32  synced u64  sum u32  payload        little endian
//	payload: { op byte, key length uvarint, key [, value length uvarint, value] }
//
// length is the payload's, sum is the CRC-32C of what follows "CMT\n" without sum itself, and synced is the offset up to which
// the file was known to survive a power cut when the commit was written: a commit that is broken lies in the torn
// tail unless a whole one behind it says that it had been synced. That is damage, which nothing but a disk or a hand does.
//
// It is rewritten from what is live, into a new file that replaces it, when it has grown, and after a failed sync:
// the kernel may then drop what it could not write and report the next sync as good.
type journal struct {
	disk   Disk
	path   string
	format Format

	file   File
	size   int64 // end of the last whole commit
	synced int64 // up to here it survives a power cut
	base   int64 // size after the last rewrite
	named  bool  // its name survives a power cut
	broken bool  // a sync failed: only a rewrite helps
	buf    []byte
}

// Format names what a journal holds and the version of its values that this program writes.
type Format struct {
	Kind    string // a DNS label
	Version int    // from 1; a file with a newer one is refused
}

const (
	journalVersion = 1
	journalMagic   = "reconciler-journal"
	commitMagic    = "CMT\n"
	commitHeader   = len(commitMagic) + 4 + 8 + 4
	maxJournal     = 1 << 30 // a file that is longer is not ours
	maxCommit      = 64 << 20
	rewriteAt      = 4 << 20 // bytes below which a journal is not worth a rewrite, as after the start of a thousand runs
)

// edit sets or deletes one key.
type edit struct {
	key   string
	value []byte // nil deletes
	end   int64  // of its commit, when it was read
}

func (f Format) header() string {
	return fmt.Sprintf("%s %d %s %d\n", journalMagic, journalVersion, f.Kind, f.Version)
}

// openJournal reads the journal at path and hands every edit to apply, in order; values alias memory that stays. A journal
// that does not exist is made.
func openJournal(disk Disk, path string, format Format, apply func(edit) error) (*journal, error) {
	j := &journal{disk: disk, path: path, format: format}
	switch ours, err := removeTemp(disk, path+tempSuffix); {
	case err != nil:
		return nil, err
	case !ours:
		return nil, fmt.Errorf("%s%s is in the way and not ours: %w; move it away", path, tempSuffix, ErrUnsafe)
	}
	b, info, err := disk.ReadFile(path, maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return j, j.rewrite(func(func(edit) error) error { return nil })
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the journal: %w", err)
	}
	if err := checkPrivate(path, info, 0o600); err != nil {
		return nil, err
	}
	end, synced, err := readJournal(b, format, apply)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if j.file, err = disk.Open(path); err != nil {
		return nil, fmt.Errorf("cannot open the journal: %w", err)
	}
	// What lies behind synced may have been written in the last moments of another process.
	j.size, j.base, j.synced, j.named = end, end, synced, synced > 0
	if end < int64(len(b)) {
		if err := j.file.Truncate(end); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot cut the unfinished end off: %w", err), j.file.Close())
		}
	}
	return j, nil
}

// readJournal returns the end of the last whole commit, and up to where the commits say that they survive a power cut.
func readJournal(b []byte, format Format, apply func(edit) error) (end, synced int64, err error) {
	at, err := readHeader(b, format)
	if err != nil {
		return 0, 0, err
	}
	for {
		payload, s, next, ok := readCommit(b, at)
		if !ok {
			break
		}
		if s > uint64(at) {
			return 0, 0, fmt.Errorf("commit at byte %d: %w", at, errEdit)
		}
		if err := readEdits(payload, next, apply); err != nil {
			return 0, 0, fmt.Errorf("commit at byte %d: %w", at, err)
		}
		at, synced = next, max(synced, int64(s))
	}
	if later, ok := syncedBehind(b, at); ok {
		return 0, 0, fmt.Errorf("%w at byte %d, before the commit at byte %d: restore the file from a backup, or move it away and lose what it held", ErrDamaged, at, later)
	}
	return int64(at), synced, nil
}

func readHeader(b []byte, format Format) (end int, err error) {
	line, _, ok := bytes.Cut(b[:min(len(b), 256)], []byte("\n"))
	words := strings.Split(string(line), " ")
	if !ok || len(words) != 4 || words[0] != journalMagic {
		return 0, fmt.Errorf("%w: it does not begin like a journal; restore it from a backup, or move it away and lose what it held", ErrDamaged)
	}
	for _, v := range []struct {
		name, word string
		known      int
	}{{"journal format", words[1], journalVersion}, {format.Kind + " format", words[3], format.Version}} {
		n, err := strconv.Atoi(v.word)
		if err != nil || n < 1 {
			return 0, fmt.Errorf("%w: %s %q is not a version", ErrDamaged, v.name, v.word)
		}
		if n > v.known {
			return 0, fmt.Errorf("%w of this program (%s %d, this one knows %d): run that version again, or use another state directory", ErrNewer, v.name, n, v.known)
		}
	}
	if words[2] != format.Kind {
		return 0, fmt.Errorf("%w: it holds %q, not %q; put the right file back", ErrDamaged, words[2], format.Kind)
	}
	return len(line) + 1, nil
}

// readCommit returns the whole commit at a byte, or false.
func readCommit(b []byte, at int) (payload []byte, synced uint64, next int, ok bool) {
	if len(b)-at < commitHeader || string(b[at:at+len(commitMagic)]) != commitMagic {
		return nil, 0, 0, false
	}
	head := b[at+len(commitMagic):]
	n := int(binary.LittleEndian.Uint32(head))
	if n > maxCommit || n > len(b)-at-commitHeader {
		return nil, 0, 0, false
	}
	synced = binary.LittleEndian.Uint64(head[4:])
	payload = b[at+commitHeader : at+commitHeader+n]
	if commitSum(head[:12], payload) != binary.LittleEndian.Uint32(head[12:]) {
		return nil, 0, 0, false
	}
	return payload, synced, at + commitHeader + n, true
}

func commitSum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}

// syncedBehind looks for a whole commit behind a broken one that was written when the broken one had been synced.
func syncedBehind(b []byte, broken int) (at int, found bool) {
	for at = broken + 1; at < len(b); at++ {
		i := bytes.Index(b[at:], []byte(commitMagic))
		if i < 0 {
			return 0, false
		}
		at += i
		if _, synced, _, ok := readCommit(b, at); ok && synced > uint64(broken) && synced <= uint64(at) {
			return at, true
		}
	}
	return 0, false
}

const (
	opSet    = 1
	opDelete = 2
)

var errEdit = fmt.Errorf("%w: the commit is whole and makes no sense", ErrDamaged)

func readEdits(p []byte, end int, apply func(edit) error) error {
	for len(p) > 0 {
		op := p[0]
		key, rest, ok := readBytes(p[1:])
		if !ok || op != opSet && op != opDelete {
			return errEdit
		}
		e := edit{key: string(key), end: int64(end)}
		if op == opSet {
			if e.value, rest, ok = readBytes(rest); !ok {
				return errEdit
			}
		}
		if err := apply(e); err != nil {
			return err
		}
		p = rest
	}
	return nil
}

// readBytes never returns nil for bytes that are there.
func readBytes(p []byte) (b, rest []byte, ok bool) {
	n, w := binary.Uvarint(p)
	if w <= 0 || n > uint64(len(p)-w) {
		return nil, nil, false
	}
	end := w + int(n)
	return p[w:end:end], p[end:], true
}

func appendEdit(p []byte, e edit) []byte {
	if e.value == nil {
		p = append(p, opDelete)
		p = binary.AppendUvarint(p, uint64(len(e.key)))
		return append(p, e.key...)
	}
	p = append(p, opSet)
	p = binary.AppendUvarint(p, uint64(len(e.key)))
	p = append(p, e.key...)
	p = binary.AppendUvarint(p, uint64(len(e.value)))
	return append(p, e.value...)
}

// appendCommit appends a commit to p, at least one edit and at most about maxCommit/2 bytes of them, and returns the edits
// that did not fit.
func appendCommit(p []byte, synced int64, edits []edit) (_ []byte, rest []edit) {
	at := len(p)
	p = append(p, make([]byte, commitHeader)...)
	body := len(p)
	for len(edits) > 0 && (len(p) == body || len(p)-body < maxCommit/2) {
		p = appendEdit(p, edits[0])
		edits = edits[1:]
	}
	copy(p[at:], commitMagic)
	head := p[at+len(commitMagic) : body]
	binary.LittleEndian.PutUint32(head, uint32(len(p)-body))
	binary.LittleEndian.PutUint64(head[4:], uint64(synced))
	binary.LittleEndian.PutUint32(head[12:], commitSum(head[:12], p[body:]))
	return p, edits
}

// append writes edits in one call. They survive this process; sync makes them survive a power cut. After an error
// the journal ends where it did: the next append overwrites what was half written.
func (j *journal) append(edits []edit) error {
	if j.file == nil {
		return fmt.Errorf("cannot write %s: %w", j.path, ErrClosed)
	}
	j.buf = j.buf[:0]
	for len(edits) > 0 {
		j.buf, edits = appendCommit(j.buf, j.synced, edits)
	}
	if _, err := j.file.WriteAt(j.buf, j.size); err != nil {
		return fmt.Errorf("%w%s", err, remedy(err))
	}
	j.size += int64(len(j.buf))
	if cap(j.buf) > 1<<20 {
		j.buf = nil // a burst is no reason to keep its memory
	}
	return nil
}

// sync makes everything appended before it survive a power cut. Appends may go on meanwhile, rewrites may not.
func (j *journal) sync(mu sync.Locker) error {
	mu.Lock()
	f, end, named := j.file, j.size, j.named
	mu.Unlock()
	if f == nil {
		return fmt.Errorf("cannot sync %s: %w", j.path, ErrClosed)
	}
	err := f.Sync()
	if err == nil && !named {
		err = j.disk.SyncDir(filepath.Dir(j.path)) // whoever made it may have died before this
	}
	mu.Lock()
	defer mu.Unlock()
	if err != nil {
		j.broken = true
		return fmt.Errorf("%w%s", err, remedy(err))
	}
	j.synced, j.named = max(j.synced, end), true
	return nil
}

// grown reports whether a rewrite is due.
func (j *journal) grown() bool { return j.broken || j.size > rewriteAt && j.size > 4*j.base }

// rewrite replaces the journal by one that holds exactly the edits that live emits and survives a power cut. After an
// error of live the old one is still there.
func (j *journal) rewrite(live func(emit func(edit) error) error) (err error) {
	dir, temp := filepath.Dir(j.path), j.path+tempSuffix
	if err := removeIfThere(j.disk, temp); err != nil {
		return err
	}
	f, err := j.disk.Create(temp)
	if err != nil {
		return fmt.Errorf("%w%s", err, remedy(err))
	}
	size, err := writeJournal(f, j.format, live)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = j.disk.Rename(temp, j.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%w%s", err, remedy(err)), f.Close(), removeIfThere(j.disk, temp))
	}
	old := j.file
	j.file, j.size, j.base = f, size, size
	j.synced, j.named, j.broken = 0, false, true // until its name is safe
	if old != nil {
		err = old.Close()
	}
	if err := j.disk.SyncDir(dir); err != nil {
		return fmt.Errorf("%w%s", err, remedy(err))
	}
	j.synced, j.named, j.broken = size, true, false
	return err
}

func writeJournal(f File, format Format, live func(emit func(edit) error) error) (size int64, err error) {
	header := []byte(format.header())
	if _, err := f.WriteAt(header, 0); err != nil {
		return 0, err
	}
	size = int64(len(header))
	var edits []edit
	var waiting int
	var buf []byte
	flush := func() error {
		rest := edits
		for len(rest) > 0 {
			buf, rest = appendCommit(buf[:0], 0, rest)
			if _, err := f.WriteAt(buf, size); err != nil {
				return err
			}
			size += int64(len(buf))
		}
		edits, waiting = edits[:0], 0
		return nil
	}
	err = live(func(e edit) error {
		edits = append(edits, e)
		if waiting += len(e.key) + len(e.value); waiting < 256<<10 {
			return nil
		}
		return flush()
	})
	if err != nil {
		return 0, err
	}
	err = flush()
	return size, err
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	f := j.file
	j.file = nil
	return f.Close()
}
