package console

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func put(t *testing.T, m Mailbox, text string) {
	t.Helper()
	if o := m.Put(t.Context(), Line{Text: text}, nil); !o.OK() {
		t.Fatalf("put %q: %+v", text, o)
	}
}

func take(t *testing.T, m Mailbox) []string {
	t.Helper()
	lines, err := m.Take()
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestMailboxKeepsOrder(t *testing.T) {
	m := Mailbox{t.TempDir()}
	if got := take(t, m); len(got) != 0 {
		t.Errorf("a new mailbox has %q", got)
	}
	put(t, m, "one")
	put(t, m, "two")
	if got := take(t, m); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("took %q", got)
	}
	put(t, m, "three")
	if got := take(t, m); !slices.Equal(got, []string{"three"}) {
		t.Errorf("took %q", got)
	}
}

// EN-3: a full mailbox refuses, and takes again when there is room.
func TestMailboxIsBounded(t *testing.T) {
	m := Mailbox{t.TempDir()}
	for i := range MailboxLimit {
		put(t, m, fmt.Sprint(i))
	}
	o := m.Put(t.Context(), Line{Text: "one too many"}, nil)
	if o.Result != Undeliverable || o.Reason != Unread {
		t.Errorf("a full mailbox: %+v", o)
	}
	if got := take(t, m); len(got) != MailboxLimit || got[0] != "0" {
		t.Errorf("took %d lines, the first %q", len(got), got[:1])
	}
	put(t, m, "again")

	long := strings.Repeat("x", PipeLimit-1)
	for range 20 {
		put(t, m, long)
	}
	total := len(take(t, m))
	for lines := take(t, m); len(lines) > 0; lines = take(t, m) {
		total += len(lines)
	}
	if total != 21 {
		t.Errorf("took %d lines in parts, not 21", total)
	}
}

func TestMailboxRefusesNoLine(t *testing.T) {
	m := Mailbox{t.TempDir()}
	for _, text := range []string{"", "a\nb", "\xff", strings.Repeat("x", PipeLimit)} {
		if o := m.Put(t.Context(), Line{Text: text}, nil); o.Result != Undeliverable || o.Reason != BadLine {
			t.Errorf("%.10q: %+v", text, o)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if o := m.Put(over, Line{Text: "late"}, nil); o.Result != Undeliverable {
		t.Errorf("after its time: %+v", o)
	}
	if got := take(t, m); len(got) != 0 {
		t.Errorf("what was refused is there: %q", got)
	}
}

// What a death in the middle of a line has left is no line, and in nobody's way.
func TestMailboxAfterADeath(t *testing.T) {
	m := Mailbox{t.TempDir()}
	for _, name := range []string{".mail-new", "mail-1", "mail-00000000000x", "stdin"} {
		if err := os.WriteFile(filepath.Join(m.Directory, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(t, m, "whole")
	if got := take(t, m); !slices.Equal(got, []string{"whole"}) {
		t.Errorf("took %q", got)
	}
	put(t, m, "left")
	if err := m.Clear(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(m.Directory)
	if err != nil || len(left) != 3 { // what is not the mailbox's stays
		t.Errorf("left %v, %v", left, err)
	}
	if err := (Mailbox{filepath.Join(m.Directory, "nonesuch")}).Clear(); err != nil {
		t.Errorf("nothing to clear: %v", err)
	}
}

// EN-6: however many take at the same time, each line is given once.
func TestMailboxGivesOnce(t *testing.T) {
	m := Mailbox{t.TempDir()}
	const n = 100
	for i := range n {
		put(t, m, fmt.Sprint(i))
	}
	var mu sync.Mutex
	given := map[string]int{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			lines, err := m.Take()
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, l := range lines {
				given[l]++
			}
		})
	}
	wg.Wait()
	for l, times := range given {
		if times != 1 {
			t.Errorf("%q was given %d times", l, times)
		}
	}
	if len(given) != n {
		t.Errorf("%d lines of %d were given", len(given), n)
	}
}
