package dir

import (
	"fmt"
	"os"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
)

// manifest is a Server of the real language.
func manifest(name string, value int) string {
	return fmt.Sprintf("apiVersion: reconciler.dev/v1alpha1\nkind: Server\nmetadata:\n  name: %s\nspec:\n  profile: p%d\n", name, value)
}

// thousand makes a directory of a thousand manifests.
func thousand(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	for i := range 1000 {
		put(b, dir, fmt.Sprintf("s%d.yaml", i), manifest(fmt.Sprintf("s%d", i), 1))
	}
	return dir
}

// aged waits until the files of a directory are old enough to be remembered for good.
func aged(b *testing.B, dir string) {
	b.Helper()
	for stat := (os.FileInfo)(nil); ; {
		entries, err := os.ReadDir(dir)
		if err != nil {
			b.Fatal(err)
		}
		if stat, err = entries[len(entries)-1].Info(); err != nil {
			b.Fatal(err)
		}
		if time.Since(stat.ModTime()) > 2*racyTime {
			return
		}
	}
}

// A file renamed into a directory of a thousand, to the Set that has it; in place of restTime nothing is waited for.
func BenchmarkDropIntoThousand(b *testing.B) {
	dir := thousand(b)
	r := begin(b, Config{Roots: []Root{{Path: dir}}, LastGood: b.TempDir(), Decode: spec.Decode})
	r.until("all are read", func(s *spec.Set) bool { return len(s.Servers) == 1000 })
	key := spec.Key{Namespace: spec.DefaultNamespace, Name: "drop"}
	seen := make(chan string, 1)
	r.listen(func(s *spec.Set) {
		if a := s.Servers[key]; a != nil {
			select {
			case <-seen:
			default:
			}
			seen <- a.Object.Spec.Profile
		}
	})
	n := 0
	for b.Loop() {
		n++
		rename(b, dir, "drop.yaml", manifest("drop", n))
		for want := fmt.Sprintf("p%d", n); <-seen != want; {
		}
	}
}

// A file written in place in a directory of a thousand, to the Set that has it: restTime included.
func BenchmarkWriteIntoThousand(b *testing.B) {
	dir := thousand(b)
	r := begin(b, Config{Roots: []Root{{Path: dir}}, LastGood: b.TempDir(), Decode: spec.Decode})
	r.until("all are read", func(s *spec.Set) bool { return len(s.Servers) == 1000 })
	key := spec.Key{Namespace: spec.DefaultNamespace, Name: "drop"}
	seen := make(chan string, 1)
	r.listen(func(s *spec.Set) {
		if a := s.Servers[key]; a != nil {
			select {
			case <-seen:
			default:
			}
			seen <- a.Object.Spec.Profile
		}
	})
	n := 0
	for b.Loop() {
		n++
		put(b, dir, "drop.yaml", manifest("drop", n))
		for want := fmt.Sprintf("p%d", n); <-seen != want; {
		}
	}
}

// A full scan of a thousand unchanged files, to the state that has not changed.
func BenchmarkRescanThousand(b *testing.B) {
	dir := thousand(b)
	aged(b, dir)
	s, err := New(Config{Roots: []Root{{Path: dir}}})
	if err != nil {
		b.Fatal(err)
	}
	sc := s.scanner(0)
	st := newState(s.roots, false).merge(look{0, sc.full().scan})
	b.ReportAllocs()
	for b.Loop() {
		next := st.merge(look{0, sc.full().scan})
		if next.serial != st.serial || len(next.set.Servers) != 1000 {
			b.Fatal("something changed")
		}
		st = next
	}
}

// A thousand files read for the first time.
func BenchmarkColdThousand(b *testing.B) {
	dir := thousand(b)
	b.ReportAllocs()
	for b.Loop() {
		set, err := Load(Config{Roots: []Root{{Path: dir}}})
		if err != nil || len(set.Servers) != 1000 {
			b.Fatal(err, len(set.Servers))
		}
	}
}

// A look at one changed path, merged into a state of a thousand.
func BenchmarkMergeOneIntoThousand(b *testing.B) {
	dir := thousand(b)
	s, err := New(Config{Roots: []Root{{Path: dir}}})
	if err != nil {
		b.Fatal(err)
	}
	sc := s.scanner(0)
	sc.settle = false
	full := sc.full().scan
	st := newState(s.roots, false).merge(look{0, full})
	versions := [2]*content{}
	for i := range versions {
		data := []byte(manifest("s7", i+2))
		versions[i] = decode("s7.yaml", data, [32]byte{byte(i + 1)}, spec.Decode)
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		st = st.merge(look{0, &scanResult{start: full.end, end: full.end, files: []found{{path: "s7.yaml", content: versions[n%2]}}}})
	}
}

// What is known of a thousand objects, to be written behind.
func BenchmarkInventoryOfThousand(b *testing.B) {
	dir := thousand(b)
	s, err := New(Config{Roots: []Root{{Path: dir}}})
	if err != nil {
		b.Fatal(err)
	}
	sc := s.scanner(0)
	sc.settle = false
	st := newState(s.roots, false).merge(look{0, sc.full().scan})
	b.ReportAllocs()
	for b.Loop() {
		inv, contents := st.inventoryOf(0, dir)
		if len(inv.Objects) != 1000 || len(contents) != 1000 {
			b.Fatal(len(inv.Objects), len(contents))
		}
	}
}
