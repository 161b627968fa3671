package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
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
