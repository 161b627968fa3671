package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestSpoolWritesEverythingInOrder(t *testing.T) {
	var out bytes.Buffer
	s := newSpool(&out)
	var want strings.Builder
	for i := range 1000 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		if n, err := io.WriteString(s, line); n != len(line) || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	s.close()
	if out.String() != want.String() {
		t.Errorf("%d bytes arrived, %d were written", out.Len(), want.Len())
	}
	if _, err := io.WriteString(s, "too late\n"); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

// A log that nobody reads holds up nobody (I12), and tells of what it lost as soon as it is read.
func TestSpoolNeverWaits(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := newSpool(w)
	line := strings.Repeat("x", 1023) + "\n"
	const lines = 4 * spoolSize / 1024
	for range lines {
		if _, err := io.WriteString(s, line); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		s.close()
		<-s.done // on a busy host it takes longer than close waits
		_ = w.Close()
	}()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.Count(string(text), line)
	dropped := 0 // told as often as there was room again
	for said := range strings.Lines(string(text)) {
		var n int
		if _, err := fmt.Sscanf(said, "%d lines of this log were dropped", &n); err == nil {
			dropped += n
		}
	}
	if dropped == 0 || whole+dropped != lines {
		t.Errorf("%d lines arrived and %d were dropped, of %d", whole, dropped, lines)
	}
}

// writes notes what was written at a time.
type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(p))
	return len(p), nil
}

func (w *writes) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

func (w *writes) last() string {
	all := w.list()
	return all[len(all)-1]
}

// A line that comes alone is written at once, many soon after it together, and what is too much to gather without delay.
func TestSpoolGathersWhileMuchIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &writes{}
		s := newSpool(out)
		began := time.Now()
		say := func(text string) {
			t.Helper()
			if _, err := io.WriteString(s, text); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		say("alone\n")
		say("one\n")
		say("two\n")
		if want := []string{"alone\n"}; !slices.Equal(out.list(), want) {
			t.Errorf("written at once: %q, want %q", out.list(), want)
		}
		time.Sleep(spoolEvery)
		synctest.Wait()
		if want := []string{"alone\n", "one\ntwo\n"}; !slices.Equal(out.list(), want) {
			t.Errorf("written a while later: %q, want %q", out.list(), want)
		}
		much := strings.Repeat("x", spoolFull-1) + "\n"
		say(much)
		if took := time.Since(began); took != spoolEvery || out.last() != much {
			t.Errorf("after %v %d bytes were written last, want %d after %v", took, len(out.last()), len(much), spoolEvery)
		}
		say("last\n")
		s.close()
		<-s.done
		if out.last() != "last\n" || time.Since(began) != spoolEvery {
			t.Errorf("the end waited, or lost the last line: %q after %v", out.last(), time.Since(began))
		}
	})
}
