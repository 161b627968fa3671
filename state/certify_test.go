package state

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOneBadRecordBlocksItsScope: every way in which one record can break the contract (EN-4).
func TestOneBadRecordBlocksItsScope(t *testing.T) {
	rewrite := func(change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, change(b), 0o600))
		}
	}
	reencode := func(change func(*Record)) func(*testing.T, string) {
		return rewrite(func(b []byte) []byte {
			r, err := DecodeRecord(b)
			if err != nil {
				panic(err)
			}
			change(r)
			b, err = EncodeRecord(r)
			if err != nil {
				panic(err)
			}
			return b
		})
	}
	replaceWith := func(make func(path string) error) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, make(path))
		}
	}
	for _, c := range []struct {
		name   string
		spoil  func(*testing.T, string)
		reason BlockReason
		says   string
	}{
		{"empty", rewrite(func([]byte) []byte { return nil }), RecordUnreadable, "whole"},
		{"truncated", rewrite(func(b []byte) []byte { return b[:len(b)/2] }), RecordUnreadable, "whole"},
		{"one bit", rewrite(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), RecordUnreadable, "whole"},
		{"zeros", rewrite(func(b []byte) []byte { return make([]byte, len(b)) }), RecordUnreadable, "whole"},
		{"no sum", rewrite(func([]byte) []byte { return []byte(`{"version":1}`) }), RecordUnreadable, "whole"},
		{"something behind", rewrite(func(b []byte) []byte { return append(b, "{}\n"...) }), RecordUnreadable, "whole"},
		{"newer, as we write", rewrite(func(b []byte) []byte { return bytes.Replace(b, []byte(`"version":1`), []byte(`"version":2`), 1) }), RecordNewer, "format 2"},
		{"newer, otherwise", rewrite(func([]byte) []byte { return []byte(`{"shape":"new","version":7}`) }), RecordNewer, "format 7"},
		{"of another scope", reencode(func(r *Record) { r.Scope.Server = "other"; r.Run.Launch.Scope = r.Scope }), RecordUnreadable, "record of other/game"},
		{"readable by others", func(t *testing.T, p string) { must(t, os.Chmod(p, 0o644)) }, RecordUnreadable, "0644"},
		{"of another owner", func(t *testing.T, p string) { must(t, os.Chown(p, 4242, -1)) }, RecordUnreadable, "4242"},
		{"a link", replaceWith(func(p string) error { return os.Symlink("default.fine.game.json", p) }), RecordUnreadable, "link"},
		{"a directory", replaceWith(func(p string) error { return os.Mkdir(p, 0o700) }), RecordUnreadable, "regular"},
		{"a FIFO", replaceWith(func(p string) error { return unix.Mkfifo(p, 0o600) }), RecordUnreadable, "regular"},
		{"huge", func(t *testing.T, p string) { must(t, os.Truncate(p, MaxRecordSize+1)) }, RecordUnreadable, "limit"},
		{"of a process that is another's", reencode(func(r *Record) { r.Run.Identity = sample("twin").Run.Identity }), RecordUnreadable, "same process"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "of another owner" && os.Geteuid() != 0 {
				t.Skip("only root can give a file away")
			}
			dir := privateDir(t)
			s, _, closed := openStore(t, LinuxDisk{}, dir)
			for _, name := range []string{"bad", "fine", "twin"} {
				must(t, s.Put(sample(name)))
			}
			closed()
			path := filepath.Join(dir, "records", "default.bad.game.json")
			c.spoil(t, path)
			before := fingerprint(t, path)

			s, found, closed := openStore(t, LinuxDisk{}, dir)
			bad := found.Blocked[slices.IndexFunc(found.Blocked, func(b Blocked) bool { return b.Scope == scopeOf("bad") })]
			if bad.Reason != c.reason || !strings.Contains(bad.Err.Error(), c.says) || !strings.Contains(bad.Err.Error(), path) || !strings.Contains(bad.Err.Error(), "retire bad") {
				t.Errorf("blocked as %s: %v", bad.Reason, bad.Err)
			}
			if got := scopes(found.Records); !slices.Contains(got, "fine") || slices.Contains(got, "bad") {
				t.Errorf("records of %q", got)
			}
			if err := s.Put(sample("bad")); !errors.Is(err, ErrBlocked) {
				t.Errorf("Put: %v", err)
			}
			if err := s.Archive(scopeOf("bad")); !errors.Is(err, ErrBlocked) {
				t.Errorf("Archive: %v", err)
			}
			must(t, s.PutDurable(t.Context(), sample("fine")))
			closed()
			if after := fingerprint(t, path); after != before {
				t.Errorf("the file was touched: %v, before %v", after, before)
			}

			s, _, closed = openStore(t, LinuxDisk{}, dir)
			must(t, s.Retire(t.Context(), scopeOf("bad")))
			if after := fingerprint(t, filepath.Join(dir, "retired", filepath.Base(path))); after != before {
				t.Errorf("retired is %v, before %v", after, before)
			}
			must(t, s.Put(sample("bad")))
			closed()
			_, found, _ = openStore(t, LinuxDisk{}, dir)
			if !slices.Contains(scopes(found.Records), "bad") {
				t.Errorf("after retiring, records are of %q", scopes(found.Records))
			}
		})
	}
}

// fingerprint is what must not change of a file that is left alone.
func fingerprint(t *testing.T, path string) [4]int64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	return [4]int64{int64(st.Ino), st.Size, st.Mtim.Nano(), int64(st.Mode)}
}

func TestRetireKeepsTheLastGoodCopy(t *testing.T) {
	dir := privateDir(t)
	s, _, closed := openStore(t, LinuxDisk{}, dir)
	must(t, s.PutDurable(t.Context(), sample("bad")))
	closed()
	path := filepath.Join(dir, "records", "default.bad.game.json")
	good, err := os.ReadFile(path)
	must(t, err)
	must(t, os.Truncate(path, 10))
	s, _, _ = openStore(t, LinuxDisk{}, dir)
	must(t, s.Retire(t.Context(), scopeOf("bad")))
	kept, err := os.ReadFile(filepath.Join(dir, "retired", "default.bad.game.last.json"))
	if err != nil || !bytes.Equal(kept, good) {
		t.Errorf("kept %q, %v", kept, err)
	}
}

// TestFaultsOfTheStoreAsAWhole end the command (EN-11).
func TestFaultsOfTheStoreAsAWhole(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		is    error
		says  string
	}{
		{"missing", func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) }, os.ErrNotExist, "keeper"},
		{"open to others", func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o750)) }, ErrUnsafe, "chmod 0700"},
		{"records open to others", func(t *testing.T, dir string) { must(t, os.Chmod(dir+"/records", 0o711)) }, ErrUnsafe, "records"},
		{"of another owner", func(t *testing.T, dir string) { must(t, os.Chown(dir, 4242, -1)) }, ErrUnsafe, "4242"},
		{"a link", func(t *testing.T, dir string) {
			must(t, os.Rename(dir, dir+"2"))
			must(t, os.Symlink(dir+"2", dir))
		}, ErrUnsafe, "not a directory"},
		{"records are a file", func(t *testing.T, dir string) {
			must(t, os.RemoveAll(dir+"/records"))
			must(t, os.WriteFile(dir+"/records", nil, 0o600))
		}, ErrUnsafe, "records is not a directory"},
		{"newer", func(t *testing.T, dir string) {
			must(t, os.WriteFile(dir+"/journal", []byte("reconciler-journal 1 records 9\n"), 0o600))
		}, ErrNewer, "records format 9"},
		{"journal open to others", func(t *testing.T, dir string) { must(t, os.Chmod(dir+"/journal", 0o640)) }, ErrUnsafe, "journal"},
		{"lock open to others", func(t *testing.T, dir string) { must(t, os.Chmod(dir+"/lock", 0o666)) }, ErrUnsafe, "lock"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "of another owner" && os.Geteuid() != 0 {
				t.Skip("only root can give a directory away")
			}
			dir := privateDir(t)
			_, _, closed := openStore(t, LinuxDisk{}, dir)
			closed()
			c.spoil(t, dir)
			_, _, err := Open(LinuxDisk{}, dir)
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Open: %v; want %v that says %q", err, c.is, c.says)
			}
		})
	}
}

func TestStrangersInTheStoreAreLeftAlone(t *testing.T) {
	dir := privateDir(t)
	s, _, closed := openStore(t, LinuxDisk{}, dir)
	must(t, s.Put(sample("town")))
	closed()
	records := filepath.Join(dir, "records")
	strangers := []string{"README", "default.town.game.json~", "Default.Town.Game.json", ".default.x.game.json.tmp"}
	for _, name := range strangers {
		must(t, os.WriteFile(filepath.Join(records, name), []byte("x"), 0o644))
	}
	ours := []string{"default.town.game.json", tempName("default.town.game")}
	must(t, os.WriteFile(filepath.Join(records, ours[1]), []byte("half"), 0o600))
	s, found, _ := openStore(t, LinuxDisk{}, dir)
	if len(found.Notes) != len(strangers) || len(found.Blocked) != 0 {
		t.Errorf("notes %q, blocked %v", found.Notes, found.Blocked)
	}
	names, err := LinuxDisk{}.List(records)
	must(t, err)
	must(t, s.Put(sample("town")))
	if want := append(ours, strangers...); len(names) != len(want) {
		t.Errorf("records holds %q, want %q", names, want)
	}
}

func TestDamagedJournalIsSetAside(t *testing.T) {
	dir := privateDir(t)
	s, _, closed := openStore(t, LinuxDisk{}, dir)
	must(t, s.Put(sample("town")))
	closed()
	must(t, os.WriteFile(filepath.Join(dir, "journal"), []byte("nonsense"), 0o600))
	_, found, _ := openStore(t, LinuxDisk{}, dir)
	if len(found.Records) != 1 || len(found.Notes) != 1 || !strings.Contains(found.Notes[0], "retired/journal") {
		t.Errorf("found %+v", found)
	}
}
