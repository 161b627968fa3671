package state

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
)

// expected is what a scope's record may be when the store is opened again. Version 0 is no record.
type expected struct {
	last     int          // after the last operation that came back
	flight   int          // after the operation that was under way, or last
	possible map[int]bool // what a power cut may leave
	record   *Record      // as last, nil for none
}

func (e *expected) began(v int) { e.flight, e.possible[v] = v, true }

// sequence drives a store with random operations and knows what it has to find afterwards.
type sequence struct {
	t       *testing.T
	disk    *modelDisk
	rand    *rand.Rand
	store   *Store
	version int
	scopes  []spec.Scope
	want    map[spec.Scope]*expected
	// Versions that were archived, and those of them that a power cut may not take.
	archived, archivedSafe map[int]bool
	log                    []string
}

func newSequence(t *testing.T, seed uint64) *sequence {
	q := &sequence{t: t, disk: newModelDisk(seed), rand: rand.New(rand.NewPCG(seed, 2)), want: map[spec.Scope]*expected{},
		archived: map[int]bool{}, archivedSafe: map[int]bool{}}
	for _, name := range []string{"a", "b", "c"} {
		s := spec.Scope{Namespace: "default", Server: name, Profile: "p"}
		q.scopes = append(q.scopes, s)
		q.want[s] = &expected{possible: map[int]bool{0: true}}
	}
	return q
}

func (q *sequence) note(format string, args ...any) {
	q.log = append(q.log, fmt.Sprintf(format, args...))
}

func (q *sequence) fatalf(format string, args ...any) {
	q.t.Helper()
	q.t.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(q.log, "\n"))
}

// record is a version of a scope's record; its size changes, so that torn ones are torn at different places.
func record(scope spec.Scope, version int) *Record {
	r := &Record{Version: RecordVersion, Scope: scope, UID: strings.Repeat("u", version*37%2000)}
	r.Counters.Starts = int64(version)
	return r
}

// starting is a record of a start under way; the next two versions are those of its progress.
func starting(scope spec.Scope, version int) *Record {
	r := record(scope, version)
	r.Run = &Run{Number: int64(version), ID: fmt.Sprint("r", version), Phase: Launching, Launch: spec.Launch{Scope: scope}}
	return r
}

// rebuilt is what was put as the version that r says it is.
func rebuilt(r *Record) *Record {
	version := int(r.Counters.Starts)
	want := record(r.Scope, version)
	if r.Run != nil {
		want = starting(r.Scope, version)
	}
	for versionOf(want) < versionOf(r) {
		want.Run = want.Run.Advanced(*next(want))
	}
	want.Seq = r.Seq
	return want
}

// versionOf is the reverse of record, starting and their progress.
func versionOf(r *Record) int {
	v := int(r.Counters.Starts)
	if r.Run != nil {
		v += slices.Index([]Phase{Launching, Released, Started}, r.Run.Phase)
	}
	return v
}

// next is the next progress of a record's start, nil when it is not under way.
func next(r *Record) *Progress {
	switch {
	case r == nil || r.Run == nil:
	case r.Run.Phase == Launching:
		return &Progress{Phase: Released, Identity: &Identity{BootID: "boot", PID: 100 + int(r.Run.Number), StartTicks: 1}}
	case r.Run.Phase == Released:
		return &Progress{Phase: Started, StartedAt: time.Unix(r.Run.Number, 0).UTC(), ReadyAt: time.Unix(r.Run.Number, 5).UTC()}
	}
	return nil
}

// step does one operation and reports whether the process died in it.
func (q *sequence) step() (died bool) {
	scope := q.scopes[q.rand.IntN(len(q.scopes))]
	h := q.want[scope]
	if p := next(h.record); p != nil && q.rand.IntN(3) > 0 {
		r := *h.record
		r.Run = r.Run.Advanced(*p)
		q.note("progress %s %d", scope, versionOf(&r))
		h.began(versionOf(&r))
		return q.result(q.store.PutProgress(&r, *p), func() { h.last, h.record = h.flight, &r })
	}
	switch q.rand.IntN(7) {
	case 0, 1:
		q.version++
		r := record(scope, q.version)
		q.note("put %s %d", scope, q.version)
		h.began(q.version)
		return q.result(q.store.Put(r), func() { h.last, h.record = h.flight, r })
	case 2, 3:
		r := starting(scope, q.version+1)
		q.version += 3
		q.note("start %s %d", scope, versionOf(r))
		h.began(versionOf(r))
		return q.result(q.store.Put(r), func() { h.last, h.record = h.flight, r })
	case 4:
		if h.last == 0 || h.record.Run != nil {
			return false
		}
		q.note("archive %s", scope)
		h.began(0)
		return q.result(q.store.Archive(scope), func() {
			q.archived[h.last] = true
			h.last, h.record = 0, nil
		})
	default:
		q.note("flush")
		return q.result(q.store.group.turn(q.store.flush), q.settle)
	}
}

// settle notes that everything survives a power cut.
func (q *sequence) settle() {
	for _, h := range q.want {
		h.possible = map[int]bool{h.last: true}
	}
	q.archivedSafe = maps.Clone(q.archived)
}

func (q *sequence) result(err error, done func()) (died bool) {
	q.t.Helper()
	if errors.Is(err, errCrashed) {
		q.note("  died: %v", err)
		return true
	}
	if err != nil {
		q.fatalf("an operation failed: %v", err)
	}
	done()
	return false
}

// open opens the store, although the process may die and the power be cut while it does.
func (q *sequence) open(powerCut bool) {
	for {
		store, found, err := Open(q.disk, "/s")
		if q.disk.crashed {
			err = errCrashed // whatever it made of that
		}
		if err == nil {
			q.store = store
			q.check(found, powerCut)
			return
		}
		if !errors.Is(err, errCrashed) {
			q.fatalf("cannot open: %v", err)
		}
		q.note("died while opening: %v", err)
		powerCut = q.revive() || powerCut
	}
}

// revive begins a new process, in a new boot or not.
func (q *sequence) revive() (powerCut bool) {
	powerCut = q.rand.IntN(2) == 0
	if powerCut {
		q.note("power cut")
		q.disk.cutPower()
	} else {
		q.disk.restart()
	}
	q.dieSoon()
	return powerCut
}

func (q *sequence) dieSoon() { q.disk.calls, q.disk.crashAt = 0, 1+q.rand.IntN(120) }

// check compares what was found with what may be there, and takes it as the truth from now on.
func (q *sequence) check(found *Contents, powerCut bool) {
	if len(found.Blocked) > 0 {
		q.fatalf("blocked: %v", found.Blocked[0].Err)
	}
	got, records := map[spec.Scope]int{}, map[spec.Scope]*Record{}
	for _, r := range found.Records {
		got[r.Scope], records[r.Scope] = versionOf(r), r
		if want := rebuilt(r); !reflect.DeepEqual(r, want) {
			q.fatalf("%s: version %d is not what was put:\n%+v\n%+v", r.Scope, got[r.Scope], r, want)
		}
	}
	for scope, h := range q.want {
		v := got[scope]
		h.record = records[scope]
		ok := v == h.last || v == h.flight
		if powerCut {
			ok = h.possible[v]
		}
		if !ok {
			q.fatalf("%s is version %d after opening; %+v", scope, v, *h)
		}
		h.last, h.flight = v, v
	}
	must := q.archived
	if powerCut {
		must = q.archivedSafe
	}
	for v := range must {
		if !q.keeps(v) {
			q.fatalf("archived version %d is nowhere", v)
		}
	}
	if powerCut {
		q.archived = q.archivedSafe
		q.settle() // Open syncs in a new boot
	}
	if temps := leftOver(q.disk, q.store); len(temps) > 0 {
		q.fatalf("left over: %q", temps)
	}
	q.note("opened: %v, notes %q", got, found.Notes)
}

// keeps reports whether a version is in a file of the store.
func (q *sequence) keeps(version int) bool {
	for path, f := range q.disk.files {
		if r, err := DecodeRecord(f.data); err == nil && strings.HasSuffix(path, recordSuffix) && versionOf(r) == version {
			return true
		}
	}
	return false
}

// leftOver is the half-written files that nothing will write over or remove.
func leftOver(d *modelDisk, s *Store) []string {
	return slices.DeleteFunc(d.temps(), func(path string) bool {
		for id, slot := range s.slots {
			if slot.spare.exists && path == "/s/records/"+tempName(id) {
				return true
			}
		}
		return false
	})
}

// TestRecordsSurviveCrashesAndPowerCuts is the promise of the store: a crash at any call of the disk leaves what was put last or
// what was just being put; a power cut leaves something that was put since the last flush; and no scope is ever blocked.
func TestRecordsSurviveCrashesAndPowerCuts(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		q := newSequence(t, seed)
		q.note("seed %d", seed)
		q.dieSoon()
		q.open(false)
		for range 120 {
			if q.step() {
				q.open(q.revive())
			}
		}
	}
}
