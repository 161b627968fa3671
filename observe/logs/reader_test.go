package logs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// show is an entry as the tests write it.
func show(e Entry) string {
	s := fmt.Sprintf("%d %s %s", e.Run, strings.TrimPrefix(e.Stream.String(), "std"), e.Text)
	if e.Partial {
		s += "..."
	}
	return s
}

func readAll(t testing.TB, q Query) []string {
	t.Helper()
	var got []string
	if err := Read(t.Context(), q, func(e Entry) error {
		got = append(got, show(e))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, 1, 0, "out F first run")
	writeFile(t, dir, 3, 0, "out F a", "out P b", "err F e1")
	since := testClock.Add(time.Nanosecond)
	writeFile(t, dir, 3, 1, "out F c", "err P e")
	writeFile(t, dir, 3, 2, "err F 2", "out F ", "out P open")
	q := Query{Dir: dir, Scope: testScope, Tail: -1}

	expect(t, "newest run", readAll(t, q), "3 out a", "3 err e1", "3 out bc", "3 err e2", "3 out ", "3 out open...")
	q.Previous = true
	expect(t, "previous", readAll(t, q), "1 out first run")
	q.Run = 3
	expect(t, "previous of 3", readAll(t, q), "1 out first run")
	q.Previous, q.Run = false, 1
	expect(t, "run 1", readAll(t, q), "1 out first run")
	q.Run = 0
	q.Stream = Stderr
	expect(t, "stderr", readAll(t, q), "3 err e1", "3 err e2")
	q.Stream = 0
	q.Since = since
	expect(t, "since", readAll(t, q), "3 err e2", "3 out ", "3 out open...")
	q.Since = time.Time{}
	for n, want := range [][]string{{}, {"3 out open..."}, {"3 out ", "3 out open..."}, {"3 err e2", "3 out ", "3 out open..."},
		{"3 out bc", "3 err e2", "3 out ", "3 out open..."}} {
		q.Tail = n
		expect(t, fmt.Sprint("tail ", n), readAll(t, q), want...)
	}
	q.Tail = 1
	q.Stream = Stderr
	expect(t, "tail 1 of stderr", readAll(t, q), "3 err e2")
}

func TestReadNothing(t *testing.T) {
	dir := t.TempDir()
	q := Query{Dir: dir, Scope: testScope, Tail: -1}
	emit := func(Entry) error { return nil }
	if err := Read(t.Context(), q, emit); !errors.Is(err, ErrNoLog) {
		t.Errorf("no folder: %v, want ErrNoLog", err)
	}
	writeFile(t, dir, 4, 0, "out F x")
	for _, q := range []Query{{Run: 3, Tail: -1}, {Previous: true, Tail: -1}, {Run: 4, Previous: true, Tail: 3}} {
		q.Dir, q.Scope = dir, testScope
		if err := Read(t.Context(), q, emit); !errors.Is(err, ErrNoLog) {
			t.Errorf("%+v: %v, want ErrNoLog", q, err)
		}
	}
	q.Follow = true
	if err := Read(t.Context(), q, emit); err == nil {
		t.Error("following without a bell succeeded")
	}
	stop := errors.New("enough")
	q.Follow = false
	if err := Read(t.Context(), q, func(Entry) error { return stop }); err != stop {
		t.Errorf("Read = %v, want the callback's error", err)
	}
}

func TestReadLongLineAndDamage(t *testing.T) {
	dir := t.TempDir()
	piece := "out P " + strings.Repeat("x", MaxPiece)
	lines := slices.Repeat([]string{piece}, MaxLine/MaxPiece+2)
	writeFile(t, dir, 1, 0, append(lines, "out F end", "out F next")...)
	f, err := os.OpenFile(filepath.Join(dir, testScope, "1.log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("\x00\x00 rubbish\n" + strings.Repeat("\x00", 3*chunkSize) + "\n" + format("out F after") + "2026-01-02T03"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	var got []string
	if err := Read(t.Context(), Query{Dir: dir, Scope: testScope, Tail: -1}, func(e Entry) error {
		got = append(got, fmt.Sprint(len(e.Text), e.Partial))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	expect(t, "lengths", got, fmt.Sprint(MaxLine, true), fmt.Sprint(2*MaxPiece+3, false), "4 false", "5 false")
}

// someLog writes up to three files of lines of both streams that lie in each other.
func someLog(t *testing.T, random *rand.Rand) Query {
	t.Helper()
	dir := t.TempDir()
	for index := range 1 + random.IntN(3) {
		var lines []string
		for range random.IntN(30) {
			lines = append(lines, fmt.Sprintf("%s %s %d", []string{"out", "err"}[random.IntN(2)], []string{"P", "F"}[random.IntN(2)], random.IntN(1000)))
		}
		writeFile(t, dir, 1, index, lines...)
	}
	return Query{Dir: dir, Scope: testScope, Tail: -1}
}

// A tail is the end of the whole, however lines of the two streams lie in each other.
func TestTailIsTheEnd(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		q := someLog(t, random)
		for _, q.Stream = range []Stream{0, Stdout, Stderr} {
			q.Tail = -1
			whole := readAll(t, q)
			// A line without an end that lies before the wanted ones need not be found; it is not the last to be printed.
			for n := range len(whole) + 2 {
				q.Tail = n
				got := readAll(t, q)
				want := whole[max(0, len(whole)-n):]
				if !slices.Equal(got, want) {
					t.Fatalf("round %d, stream %d, tail %d: got %q, want %q", round, q.Stream, n, got, want)
				}
			}
		}
	}
}

// Whoever goes on behind any entry gets what comes after it, each once.
func TestAfterIsTheRest(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 60 {
		q := someLog(t, random)
		if round == 0 {
			piece := "out P " + strings.Repeat("x", MaxPiece)
			writeFile(t, q.Dir, 1, 0, append(slices.Repeat([]string{piece}, 2*MaxLine/MaxPiece+2), "err F between", piece, "err P x", "out F end")...)
		}
		writeFile(t, q.Dir, 2, 0, "out F of the next run") // not read without following
		q.Run = 1
		for _, q.Stream = range []Stream{0, Stdout, Stderr} {
			q.After = nil
			whole := readAll(t, q)
			var cursors []Cursor
			if err := Read(t.Context(), q, func(e Entry) error {
				cursors = append(cursors, e.Cursor)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for i, c := range cursors {
				q.After = &c
				if got := readAll(t, q); !slices.Equal(got, whole[i+1:]) {
					t.Fatalf("round %d, stream %d, after entry %d %+v: got %d, want %d", round, q.Stream, i, c, len(got), len(whole)-i-1)
				}
			}
		}
	}
}

// follower reads in the background.
type follower struct {
	got  chan string
	done chan error
	stop context.CancelFunc
}

func follow(t *testing.T, q Query) *follower {
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{got: make(chan string), done: make(chan error, 1), stop: cancel}
	go func() {
		f.done <- Read(ctx, q, func(e Entry) error {
			select {
			case f.got <- show(e):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	t.Cleanup(cancel)
	return f
}

func (f *follower) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := <-f.got; got != w {
			t.Fatalf("follower got %q, want %q", got, w)
		}
	}
}

func TestFollow(t *testing.T) {
	dir := t.TempDir()
	var bell Bell
	q := Query{Dir: dir, Scope: testScope, Tail: -1, Follow: true, Bell: &bell}
	write := func(number int64, index int, lines ...string) {
		writeFile(t, dir, number, index, lines...)
		bell.Ring(testScope)
	}
	f := follow(t, q)
	write(1, 0, "out F a", "out P b")
	f.expect(t, "1 out a")
	write(1, 0, "out F c")
	f.expect(t, "1 out bc")
	// Rotation, also twice before the follower looks, and with the last lines of a file at the same time.
	write(1, 0, "out F d", "out P e")
	write(1, 1, "out F f", "err P prompt")
	write(1, 2, "out F g")
	f.expect(t, "1 out d", "1 out ef", "1 out g")
	// The next run ends what has no end.
	write(3, 0, "out F new")
	f.expect(t, "1 err prompt", "3 out new")
	// Old files go while it stands in the newest.
	for _, name := range []string{"1.log", "1.log.1", "1.log.2"} {
		if err := os.Remove(filepath.Join(dir, testScope, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(3, 1, "out F more")
	f.expect(t, "3 out more")

	q.Tail = 1
	later := follow(t, q)
	later.expect(t, "3 out more")
	f.stop()
	if err := <-f.done; !errors.Is(err, context.Canceled) {
		t.Errorf("Read = %v, want Canceled", err)
	}
	later.stop()
	<-later.done
	if n := bell.listeners.Load(); n != 0 {
		t.Errorf("%d listeners are left", n)
	}
}

func TestFollowWaitsForRun(t *testing.T) {
	dir := t.TempDir()
	var bell Bell
	f := follow(t, Query{Dir: dir, Scope: testScope, Run: 2, Tail: 5, Follow: true, Bell: &bell})
	writeFile(t, dir, 1, 0, "out F old")
	bell.Ring(testScope)
	// Run 2 never prints.
	writeFile(t, dir, 3, 0, "out F a")
	bell.Ring(testScope)
	// The ring may have come before it listened; it looks after it has begun to.
	f.expect(t, "3 out a")
	f.stop()
	<-f.done
}

func TestFollowTakesLinesBack(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, 1, 0, "out F a", "out F taken")
	path := filepath.Join(dir, testScope, "1.log")
	// As after a write that a full disk cut off, and one that it took.
	if err := os.Truncate(path, int64(len(format("out F a")))); err != nil {
		t.Fatal(err)
	}
	r := reader{ctx: t.Context(), folder: filepath.Join(dir, testScope), at: File{Run: 1, Size: int64(len(format("out F a", "out F taken")))}}
	defer r.close()
	var got []string
	r.emit = func(e Entry) error {
		got = append(got, show(e))
		return nil
	}
	for range 2 {
		if err := r.readFile(-1); err != nil {
			t.Fatal(err)
		}
		writeFile(t, dir, 1, 0, "out F b")
	}
	expect(t, "after lines were taken back", got, "1 out b")
}

func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	lines := slices.Repeat([]string{"out F " + strings.Repeat("x", 99)}, 50_000)
	writeFile(b, dir, 1, 0, lines...)
	b.SetBytes(int64(len(lines) * 140))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		if err := Read(b.Context(), Query{Dir: dir, Scope: testScope, Tail: -1}, func(Entry) error { n++; return nil }); err != nil || n != len(lines) {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkTail(b *testing.B) {
	dir := b.TempDir()
	writeFile(b, dir, 1, 0, slices.Repeat([]string{"out F " + strings.Repeat("x", 99)}, 50_000)...)
	for b.Loop() {
		n := 0
		if err := Read(b.Context(), Query{Dir: dir, Scope: testScope, Tail: 100}, func(Entry) error { n++; return nil }); err != nil || n != 100 {
			b.Fatal(n, err)
		}
	}
}

// What is behind Until is not read, and what is before it is as if nothing else was there.
func TestUntil(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 8))
	for range 30 {
		q := someLog(t, random)
		q.Run, q.Tail = 1, -1
		files, err := Files(filepath.Join(q.Dir, q.Scope))
		if err != nil {
			t.Fatal(err)
		}
		var ends []Place
		q.Run = files[len(files)-1].Run
		if err := Read(t.Context(), q, func(e Entry) error { ends = append(ends, e.Cursor.From); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, end := range ends {
			short := q
			short.Until = &end
			short.Dir = t.TempDir()
			folder := filepath.Join(short.Dir, short.Scope)
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if f.Run != q.Run || f.Index > end.Index {
					continue
				}
				b, err := os.ReadFile(filepath.Join(q.Dir, q.Scope, FileName(f.Run, f.Index)))
				if err != nil {
					t.Fatal(err)
				}
				if f.Index == end.Index {
					b = b[:end.Offset]
				}
				if err := os.WriteFile(filepath.Join(folder, FileName(f.Run, f.Index)), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want := short
			want.Until = nil
			short.Dir = q.Dir
			for _, tail := range []int{-1, 1, 3} {
				short.Tail, want.Tail = tail, tail
				expect(t, fmt.Sprint("until ", end, " tail ", tail), readAll(t, short), readAll(t, want)...)
			}
		}
	}
}
