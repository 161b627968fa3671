package dir

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"reconciler.dev/reconciler/spec"
)

// ledger knows which servers were in no file, and when.
type ledger struct {
	mu   sync.Mutex
	from map[string]time.Time      // since when a server is in no file
	gaps map[string][][2]time.Time // earlier times
}

// away notes that the server is about to be in no file; back that it is in one again.
func (l *ledger) away(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.from[name].IsZero() {
		l.from[name] = time.Now()
	}
}

func (l *ledger) back(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from := l.from[name]; !from.IsZero() {
		l.gaps[name] = append(l.gaps[name], [2]time.Time{from, time.Now()})
		delete(l.from, name)
	}
}

// mayLack reports whether two scans can have missed the server.
func (l *ledger) mayLack(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from := l.from[name]; !from.IsZero() && time.Since(from) >= confirmGap {
		return true
	}
	for _, g := range l.gaps[name] {
		if g[1].Sub(g[0]) >= confirmGap {
			return true
		}
	}
	return false
}

// I7: whatever writers do, an object leaves the Set only after its file was really gone for as long as two scans are
// apart. I8: what is written again as it was is no change.
func TestRandomWriters(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			randomWriters(t, rand.New(rand.NewPCG(seed, 7)))
		})
	}
}

func randomWriters(t *testing.T, random *rand.Rand) {
	const count = 12
	dir := filepath.Join(t.TempDir(), "m")
	name := func(i int) string { return fmt.Sprintf("s%d", i) }
	path := func(i int) string { return fmt.Sprintf("d%d/%s.yaml", i%3, name(i)) }
	text := func(i, v int) string { return fmt.Sprintf("server %s v%d\n", name(i), v) }
	values := make([]int, count)
	for i := range count {
		put(t, dir, path(i), text(i, 0))
	}
	s, err := New(Config{Roots: []Root{{Path: dir}}, Decode: toyDecode, LastGood: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	counts := scanCounter(s)
	r := start(t, s)
	r.until("all are read", func(s *spec.Set) bool { return len(s.Servers) == count && s.Known })
	books := &ledger{from: map[string]time.Time{}, gaps: map[string][][2]time.Time{}}
	r.listen(func(set *spec.Set) {
		for i := range count {
			if set.Servers[spec.Key{Namespace: "default", Name: name(i)}] == nil && !books.mayLack(name(i)) {
				t.Errorf("a Set lacks %s, which was never gone for long: %s", name(i), brief(set))
			}
		}
	})
	for step := range 250 {
		i := random.IntN(count)
		full, v := filepath.Join(dir, path(i)), step+1
		switch random.IntN(9) {
		case 0: // in place; the file is empty for a moment, which takes nothing away
			put(t, dir, path(i), text(i, v))
		case 1:
			rename(t, dir, path(i), text(i, v))
		case 2: // as git
			books.away(name(i))
			drop(t, dir, path(i))
			put(t, dir, path(i), text(i, v))
			books.back(name(i))
		case 3: // as vim
			books.away(name(i))
			move(t, full, full+"~")
			put(t, dir, path(i), text(i, v))
			drop(t, dir, path(i)+"~")
			books.back(name(i))
		case 4: // a fault, mended
			put(t, dir, path(i), "bad\n"+text(i, v))
			put(t, dir, path(i), text(i, v))
		case 5: // emptied, filled
			put(t, dir, path(i), "")
			put(t, dir, path(i), text(i, v))
		case 6: // a directory goes and comes back
			sub := filepath.Dir(full)
			for j := i % 3; j < count; j += 3 {
				books.away(name(j))
			}
			move(t, sub, filepath.Join(dir, "..", "away"))
			move(t, filepath.Join(dir, "..", "away"), sub)
			for j := i % 3; j < count; j += 3 {
				books.back(name(j))
			}
			v = values[i]
		case 7: // to another file and back, never in none
			put(t, dir, "moved.yaml", text(i, v))
			drop(t, dir, path(i))
			put(t, dir, path(i), text(i, v))
			drop(t, dir, "moved.yaml")
		case 8: // the whole root is swapped for a copy
			for j := range count {
				books.away(name(j))
			}
			next := dir + ".next"
			for j := range count {
				put(t, next, path(j), text(j, values[j]))
			}
			move(t, dir, dir+".old")
			move(t, next, dir)
			for j := range count {
				books.back(name(j))
			}
			if err := os.RemoveAll(dir + ".old"); err != nil {
				t.Fatal(err)
			}
			v = values[i]
		}
		values[i] = v
	}
	settled := func(s *spec.Set) bool {
		if len(s.Servers) != count || !sourceOf(s).Complete {
			return false
		}
		for i := range count {
			a := s.Servers[spec.Key{Namespace: "default", Name: name(i)}]
			if a == nil || a.Stale || a.Absent || a.Object.Spec.Profile != fmt.Sprintf("v%d", values[i]) || a.Source.File != path(i) {
				return false
			}
		}
		return true
	}
	before := r.until("the Set is what the files say", settled)
	for i := range count {
		if i%2 == 0 {
			put(t, dir, path(i), text(i, values[i]))
		} else {
			rename(t, dir, path(i), text(i, values[i]))
		}
	}
	for len(counts) > 0 {
		<-counts
	}
	for range 2 {
		if _, err := r.ConfirmPrune(t.Context()); err != nil { // has everything scanned
			t.Fatal(err)
		}
		for c := <-counts; c != complete; {
			c = <-counts
		}
	}
	after := r.until("the Set is what the files say", settled)
	for key, a := range before.Servers {
		if after.Servers[key] != a {
			t.Errorf("%v is another object, although it was written as it was", key)
		}
	}
}
