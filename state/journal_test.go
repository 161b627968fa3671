package state

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

var testFormat = Format{Kind: "test", Version: 3}

// journalOf returns the bytes of a journal with these commits, each of which was synced before the next when synced is set.
func journalOf(synced bool, commits ...[]edit) (b []byte, ends []int) {
	b = []byte(testFormat.header())
	ends = []int{len(b)}
	for _, c := range commits {
		safe := 0
		if synced {
			safe = len(b)
		}
		b, _ = appendCommit(b, int64(safe), c)
		ends = append(ends, len(b))
	}
	return b, ends
}

func collect(b []byte) (values map[string]string, end int64, err error) {
	values = map[string]string{}
	end, _, err = readJournal(b, testFormat, func(e edit) error {
		if e.value == nil {
			delete(values, e.key)
		} else {
			values[e.key] = string(e.value)
		}
		return nil
	})
	return values, end, err
}

var threeCommits = [][]edit{
	{{key: "a", value: []byte("1")}, {key: "b", value: []byte("")}},
	{{key: "a"}, {key: "c", value: bytes.Repeat([]byte(commitMagic), 50)}},
	{{key: "b", value: []byte("3")}},
}

func TestJournalReadsWhatWasWritten(t *testing.T) {
	b, _ := journalOf(true, threeCommits...)
	values, end, err := collect(b)
	want := map[string]string{"b": "3", "c": strings.Repeat(commitMagic, 50)}
	if err != nil || int(end) != len(b) || !maps.Equal(values, want) {
		t.Errorf("read %q up to %d of %d, %v", values, end, len(b), err)
	}
}

// TestTornTail: whatever is missing from the end, what is whole counts.
func TestTornTail(t *testing.T) {
	b, ends := journalOf(true, threeCommits...)
	for n := ends[0]; n < len(b); n++ {
		_, end, err := collect(b[:n])
		whole := ends[slices.IndexFunc(ends, func(e int) bool { return e > n })-1]
		if err != nil || int(end) != whole {
			t.Fatalf("cut at %d: up to %d, %v; want %d", n, end, err, whole)
		}
	}
}

func TestDamageBeforeTheTailIsRefused(t *testing.T) {
	b, ends := journalOf(true, threeCommits...)
	for n := ends[0]; n < ends[2]; n++ {
		broken := bytes.Clone(b)
		broken[n] ^= 0x10
		if _, _, err := collect(broken); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d of %d: %v", n, len(b), err)
		}
	}
	for n := ends[2]; n < len(b); n++ { // the last commit may have been torn
		broken := bytes.Clone(b)
		broken[n] ^= 0x10
		if _, end, err := collect(broken); err != nil || int(end) != ends[2] {
			t.Fatalf("byte %d of %d: up to %d, %v", n, len(b), end, err)
		}
	}
}

// TestUnsyncedCommitsMayBeTornInAnyOrder: pages of the tail reach the disk in any order.
func TestUnsyncedCommitsMayBeTornInAnyOrder(t *testing.T) {
	b, ends := journalOf(false, threeCommits...)
	broken := bytes.Clone(b)
	clear(broken[ends[0]:ends[1]])
	if _, end, err := collect(broken); err != nil || int(end) != ends[0] {
		t.Errorf("up to %d, %v; want %d", end, err, ends[0])
	}
}

func TestJournalHeader(t *testing.T) {
	for header, want := range map[string]error{
		"reconciler-journal 1 test 3\n":  nil,
		"reconciler-journal 1 test 1\n":  nil,
		"reconciler-journal 2 test 3\n":  ErrNewer,
		"reconciler-journal 1 test 4\n":  ErrNewer,
		"reconciler-journal 1 other 3\n": ErrDamaged,
		"reconciler-journal 1 test x\n":  ErrDamaged,
		"reconciler-journal 1 test 0\n":  ErrDamaged,
		"reconciler-journal 1 test 3":    ErrDamaged,
		"reconciler-journal 1 test\n":    ErrDamaged,
		"":                               ErrDamaged,
		"\x00\x00\x00\x00":               ErrDamaged,
	} {
		if _, _, err := collect([]byte(header)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", header, err, want)
		}
	}
}

func TestLargeCommitsAreSplit(t *testing.T) {
	var edits []edit
	for i := range 10 {
		edits = append(edits, edit{key: fmt.Sprint(i), value: make([]byte, MaxRecordSize)})
	}
	b := []byte(testFormat.header())
	for len(edits) > 0 {
		b, edits = appendCommit(b, 0, edits)
	}
	values, end, err := collect(b)
	if err != nil || int(end) != len(b) || len(values) != 10 {
		t.Errorf("read %d values up to %d of %d, %v", len(values), end, len(b), err)
	}
}

func FuzzReadJournal(f *testing.F) {
	b, ends := journalOf(true, threeCommits...)
	f.Add(b)
	f.Add(b[:ends[2]+5])
	f.Add([]byte(testFormat.header()))
	b, _ = journalOf(false, threeCommits...)
	f.Add(append(b, 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		values, end, err := collect(b)
		if err != nil {
			return
		}
		if end < 0 || int(end) > len(b) {
			t.Fatalf("ends at %d of %d", end, len(b))
		}
		again, second, err := collect(b[:end])
		if err != nil || second != end || !maps.Equal(values, again) {
			t.Fatalf("what was kept reads otherwise: %v", err)
		}
		more, _ := appendCommit(bytes.Clone(b[:end]), end, []edit{{key: "new", value: []byte("v")}})
		again, second, err = collect(more)
		if err != nil || int(second) != len(more) || again["new"] != "v" {
			t.Fatalf("a commit behind it is lost: %v", err)
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	for _, r := range []*Record{sample("town"), record(scopeOf("x"), 1)} {
		b, err := EncodeRecord(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"version":7}`))
	f.Add([]byte(`{"sum":"00000000",}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		// The sum would keep a fuzzer out: it is put right.
		if _, ok := splitSum(b); ok {
			b = bytes.Clone(b)
			copy(b[len(sumOpen):], sumOf(b))
		}
		r, err := DecodeRecord(b)
		if err != nil {
			return
		}
		again, err := EncodeRecord(r)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		r2, err := DecodeRecord(again)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		third, err := EncodeRecord(r2)
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("it changes on the way: %v\n%s\n%s", err, again, third)
		}
	})
}
