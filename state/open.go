package state

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"reconciler.dev/reconciler/spec"
)

// Contents is what [Open] found. The store keeps no copy of it.
type Contents struct {
	Records []*Record // every usable record, by scope id
	Blocked []Blocked // scopes whose record cannot be used, by scope id; their files are untouched
	// Rebooted is set when the last keeper of this directory ran in another boot: no process of any record lives.
	Rebooted bool
	// Notes are what an operator should hear: names in the store that are not ours, records restored after a power cut.
	Notes []string
}

// Blocked is a scope whose record cannot be used: nothing may be started or signalled there.
type Blocked struct {
	Scope  spec.Scope
	Reason BlockReason
	Err    error // names the file, what is wrong with it and what to do; not for public output
}

// BlockReason is why a record cannot be used.
type BlockReason string

// The reasons.
const (
	RecordUnreadable BlockReason = "RecordUnreadable"
	RecordNewer      BlockReason = "RecordNewer"
)

var recordFormat = Format{Kind: "records", Version: RecordVersion}

// bootKey is the journal's key of the boot that the last writer ran in. No scope has an empty id.
const bootKey = ""

// Open takes the lock of the store below dir, which must exist, and certifies it: owner, mode, no links, version, and every
// record. A fault of the store as a whole is an error; one bad record blocks its scope only. A holder of the lock
// that does not answer is never replaced: the error is then a [*HeldError].
func Open(disk Disk, dir string) (*Store, *Contents, error) {
	if err := checkDir(disk, dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("record store: %w", err)
	}
	lock, err := TakeLock(disk, filepath.Join(dir, "lock"), "keeper")
	if err != nil {
		return nil, nil, fmt.Errorf("record store: %w", err)
	}
	if err := notCopied(disk, lock, filepath.Join(dir, "lock")); err != nil {
		return nil, nil, fmt.Errorf("record store: %w", errors.Join(err, lock.Release()))
	}
	s := &Store{
		disk: disk, lock: lock, group: newGroup(),
		records: filepath.Join(dir, "records"), archive: filepath.Join(dir, "archive"), retired: filepath.Join(dir, "retired"),
		slots: map[string]*slot{}, claims: map[claim]string{}, pending: map[string][]byte{},
	}
	o := opening{Store: s, shadow: map[string][]byte{}, archived: map[string][]archived{}}
	if err := o.open(filepath.Join(dir, "journal")); err != nil {
		if s.journal != nil {
			err = errors.Join(err, s.journal.close())
		}
		return nil, nil, fmt.Errorf("record store: %w", errors.Join(err, lock.Release()))
	}
	return s, &o.found, nil
}

// notCopied refuses a store whose last keeper lives and has another one: the records here are copies, of runs that it looks after, and
// nothing of them may be taken over. The lock's file goes on to name it, so that the next try sees the same.
func notCopied(disk Disk, lock *Lock, path string) error {
	last := lock.Previous()
	boot, err := disk.BootID()
	if err != nil {
		return fmt.Errorf("cannot tell which boot this is: %w", err)
	}
	if !last.lives(boot) {
		return nil
	}
	return errors.Join(&CopiedError{Path: path, Holder: last}, lock.write(last))
}

// notMoved refuses a store whose last keeper, in this boot, wrote it in another directory, if it has a record of a run that may live; that
// run is the other directory's. A backup that is restored after a reboot, or in which nothing lives, is as good as its original.
func (o *opening) notMoved(records map[string]*Record) error {
	dir := filepath.Dir(o.records)
	here, err := o.disk.Stat(dir)
	if err != nil {
		return fmt.Errorf("cannot look at the directory: %w", err)
	}
	last := o.lock.Previous()
	if last.BootID == o.boot && last.Inode != 0 && (last.Device != here.Device || last.Inode != here.Inode) {
		for _, id := range slices.Sorted(maps.Keys(records)) {
			if r := records[id]; mayLive(r.Run, o.boot) {
				return errors.Join(&MovedError{Path: filepath.Join(dir, "lock"), Scope: r.Scope.String()}, o.lock.write(last))
			}
		}
	}
	return o.lock.settle(here)
}

func mayLive(run *Run, boot string) bool {
	return run != nil && run.Phase != Exited && (run.Identity == nil || run.Identity.BootID == boot)
}

// archived is a record in the archive.
type archived struct {
	seq  uint64
	path string
}

// opening is a store that is being certified.
type opening struct {
	*Store
	found     Contents
	bootEnd   int64                 // of the commit that names the boot of the last writer
	boot      string                // this one
	shadow    map[string][]byte     // what the journal holds
	journaled uint64                // at least this number has been in it
	archived  map[string][]archived // by scope id
	edits     []edit                // what the journal lacks
	sameBoot  bool                  // the last writer ran in this boot: no name is a half of an exchange
}

func (o *opening) open(journal string) error {
	for _, dir := range []string{o.records, o.archive, o.retired} {
		if err := makeDir(o.disk, dir, 0o700); err != nil {
			return err
		}
	}
	var err error
	if o.boot, err = o.disk.BootID(); err != nil {
		return fmt.Errorf("cannot tell which boot this is: %w", err)
	}
	if err := o.readArchive(); err != nil {
		return err
	}
	if err := o.readJournal(journal); err != nil {
		return err
	}
	names, err := o.disk.List(o.records)
	if err != nil {
		return fmt.Errorf("cannot list the records: %w", err)
	}
	records := map[string]*Record{}
	for _, name := range names {
		if err := o.certify(name, records); err != nil {
			return err
		}
	}
	if err := o.notMoved(records); err != nil {
		return err
	}
	for _, name := range names {
		if err := o.spare(name, records); err != nil {
			return err
		}
	}
	if err := o.restore(records); err != nil {
		return err
	}
	o.claimAll(records)
	return o.begin()
}

// readArchive finds the highest numbers: no record gets one again.
func (o *opening) readArchive() error {
	names, err := o.disk.List(o.archive)
	if err != nil {
		return fmt.Errorf("cannot list the archive: %w", err)
	}
	for _, name := range names {
		id, seq, ok := parseArchiveName(name)
		if !ok {
			o.note("%s is not ours; it is left alone", filepath.Join(o.archive, name))
			continue
		}
		o.archived[id] = append(o.archived[id], archived{seq, filepath.Join(o.archive, name)})
		o.saw(seq)
	}
	return nil
}

// newestArchived is the highest number of a scope in the archive, 0 for none.
func (o *opening) newestArchived(id string) (seq uint64) {
	for _, a := range o.archived[id] {
		seq = max(seq, a.seq)
	}
	return seq
}

func (o *opening) saw(seq uint64) { o.seq.Store(max(o.seq.Load(), seq)) }

func (o *opening) note(format string, args ...any) {
	o.found.Notes = append(o.found.Notes, fmt.Sprintf(format, args...))
}

// readJournal fills shadow. A damaged journal is set aside: the files are what counts.
func (o *opening) readJournal(path string) (err error) {
	apply := func(e edit) error {
		if e.key == bootKey {
			o.bootEnd = e.end
		}
		if e.value == nil {
			delete(o.shadow, e.key)
		} else {
			o.shadow[e.key] = e.value
		}
		return nil
	}
	o.journal, err = openJournal(o.disk, path, recordFormat, apply)
	if errors.Is(err, ErrDamaged) {
		clear(o.shadow)
		to, moveErr := o.setAside(path)
		if moveErr != nil {
			return errors.Join(err, moveErr)
		}
		o.note("%v; it was moved to %s and begun anew", err, to)
		o.journal, err = openJournal(o.disk, path, recordFormat, apply)
	}
	if err != nil {
		return err
	}
	if boot, ok := o.shadow[bootKey]; ok {
		o.found.Rebooted = string(boot) != o.boot
	}
	if o.sameBoot = string(o.shadow[bootKey]) == o.boot; !o.sameBoot {
		o.edits = append(o.edits, edit{key: bootKey, value: []byte(o.boot)})
	}
	delete(o.shadow, bootKey)
	return nil
}

// certify looks at one name in the records' directory.
func (o *opening) certify(name string, records map[string]*Record) error {
	path := filepath.Join(o.records, name)
	if _, ok := parseTempName(name); ok {
		return nil // spare sees to it when all records are known
	}
	scope, ok := parseRecordName(name)
	if !ok {
		o.note("%s is not ours; it is left alone", path)
		return nil
	}
	r, file, err := o.read(path, scope)
	switch {
	case err == nil && o.found.Rebooted && r.Seq <= o.newestArchived(scope.ID()):
		return o.stale(path, fmt.Errorf("%s: older than what the archive has of it", path))
	case err == nil:
		o.saw(r.Seq)
		records[scope.ID()] = r
		o.slot(scope.ID()).file = fileState{exists: true, size: len(file)}
		return o.compare(scope.ID(), r, file)
	case o.found.Rebooted && errors.Is(err, errTorn):
		return o.stale(path, err) // restore finds the journal's copy
	}
	o.block(scope, path, err)
	return nil
}

// stale sets aside what only a power cut or a reset of the host can have left.
func (o *opening) stale(path string, why error) error {
	to, err := o.setAside(path)
	if err != nil {
		return errors.Join(why, err)
	}
	o.note("%v: left by a power cut or reset of the host, no process of it lives; it was moved to %s", why, to)
	return nil
}

// spare looks at one name in the records' directory that may be a spare file. Beside a sound record it is kept, whatever it holds: it has the
// room that the next record needs, without which nothing could be stopped any more where the disk is full. After a reset it may be another name
// of the record itself, which is not to be written over; then, and without a record, it is removed.
func (o *opening) spare(name string, records map[string]*Record) error {
	id, ok := parseTempName(name)
	if !ok {
		return nil
	}
	path := filepath.Join(o.records, name)
	ours, kept, err := removeTempUnless(o.disk, path, o.sameBoot && records[id] != nil)
	if !ours {
		o.note("%s is not ours, whatever its name says; it is left alone, and its scope cannot be recorded until it is moved away", path)
	}
	if kept {
		o.slot(id).spare = fileState{exists: true, size: -1}
	}
	return err
}

func (o *opening) read(path string, scope spec.Scope) (*Record, []byte, error) {
	file, info, err := o.disk.ReadFile(path, MaxRecordSize)
	if err != nil {
		return nil, nil, err
	}
	if err := checkPrivate(path, info, 0o600); err != nil {
		return nil, nil, err
	}
	r, err := DecodeRecord(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Scope != scope {
		return nil, nil, fmt.Errorf("%s: it is the record of %s; a record is not to be copied or renamed", path, r.Scope)
	}
	return r, file, nil
}

// compare keeps the newer of file and journal. Without a reboot that is always the file.
func (o *opening) compare(id string, r *Record, file []byte) error {
	copied, ok := o.shadow[id]
	if !ok {
		o.edits = append(o.edits, edit{key: id, value: file})
		return nil
	}
	if bytes.Equal(copied, file) {
		delete(o.shadow, id)
		o.journaled = max(o.journaled, r.Seq)
		return nil
	}
	old, err := DecodeRecord(copied)
	if err != nil || old.Seq < r.Seq || !o.found.Rebooted {
		delete(o.shadow, id)
		o.edits = append(o.edits, edit{key: id, value: file})
		if err == nil {
			o.settleArchived(id, old.Seq)
		}
	}
	return nil // a newer copy stays in shadow for restore
}

func (o *opening) block(scope spec.Scope, path string, err error) {
	b := Blocked{Scope: scope, Reason: RecordUnreadable}
	if errors.Is(err, ErrNewer) {
		b.Reason = RecordNewer
		b.Err = fmt.Errorf("%w (run that version again; or, when nothing of %s runs any more, `reconciler retire %s` sets %s aside)", err, scope, scope.Server, path)
	} else {
		b.Err = fmt.Errorf("%w (mend the file; or, when nothing of %s runs any more, `reconciler retire %s` sets %s aside)", err, scope, scope.Server, path)
	}
	o.found.Blocked = append(o.found.Blocked, b)
	slot := o.slot(scope.ID())
	slot.blocked = true
	if kept, ok := o.shadow[scope.ID()]; ok {
		slot.kept = kept
		delete(o.shadow, scope.ID())
	}
}

// restore deals with what only the journal has, or has newer.
func (o *opening) restore(records map[string]*Record) error {
	for _, id := range slices.Sorted(maps.Keys(o.shadow)) {
		file := o.shadow[id]
		r, err := DecodeRecord(file)
		if err != nil || r.Scope.ID() != id {
			return fmt.Errorf("the journal's record of %q: %w; move the journal away if every record's file is sound", id, errors.Join(ErrDamaged, err))
		}
		o.saw(r.Seq)
		if !o.found.Rebooted || o.newestArchived(id) >= r.Seq {
			o.edits = append(o.edits, edit{key: id}) // it was archived or retired
			o.settleArchived(id, r.Seq)
			continue
		}
		if _, err := o.replace(id, o.slot(id), file, false); err != nil {
			return fmt.Errorf("cannot restore the record of %s after the host's reset: %w%s", r.Scope, err, remedy(err))
		}
		records[id] = r
		o.note("the record of %s was restored from the journal after the host's reset", r.Scope)
	}
	return nil
}

// claimAll finds records that name the same process: neither can be trusted (EN-4).
func (o *opening) claimAll(records map[string]*Record) {
	owners := map[claim][]string{}
	for id, r := range records {
		if c := claimOf(r); c != (claim{}) {
			owners[c] = append(owners[c], id)
		}
	}
	for _, ids := range owners {
		if len(ids) < 2 {
			continue
		}
		slices.Sort(ids)
		for _, id := range ids {
			path := filepath.Join(o.records, recordName(id))
			o.block(records[id].Scope, path, fmt.Errorf("%s: it names the same process as %v", path, slices.DeleteFunc(slices.Clone(ids), func(other string) bool { return other == id })))
			delete(records, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(records)) {
		o.found.Records = append(o.found.Records, records[id])
		o.claimLocked(id, o.slot(id), claimOf(records[id]))
	}
	slices.SortFunc(o.found.Blocked, func(a, b Blocked) int { return strings.Compare(a.Scope.ID(), b.Scope.ID()) })
}

// settleArchived has the flusher sync what the last keeper may have archived without living to see it synced.
func (o *opening) settleArchived(id string, from uint64) {
	for _, a := range o.archived[id] {
		if a.seq >= from {
			o.noteMoved(a.path)
		}
	}
}

// begin brings the journal up to date. In the same boot, what the last keeper did may not survive a power cut yet; the
// flusher's first turn sees to it, in its order. But the name of the boot is safe before anything is put: from then on it is
// known what a reset can have torn.
func (o *opening) begin() error {
	if len(o.edits) > 0 && o.edits[0].key == bootKey { // all that was found is safe
		if err := o.journal.append(o.edits); err != nil {
			return err
		}
		return o.journal.sync(&sync.Mutex{})
	}
	if o.bootEnd > o.journal.synced {
		if err := o.journal.sync(&sync.Mutex{}); err != nil {
			return err
		}
	}
	for _, e := range o.edits {
		o.pending[e.key] = e.value
	}
	for id := range o.archived {
		o.settleArchived(id, o.journaled+1)
	}
	o.renamed = true
	o.group.changed()
	return nil
}
