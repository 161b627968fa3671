package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
)

// plainLog is a log without times.
func plainLog(b *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func TestStoryTellsEvents(t *testing.T) {
	var out bytes.Buffer
	var first []string
	now := time.Unix(1000, 0)
	s := story{log: plainLog(&out), now: func() time.Time { return now }, first: func(k spec.Key) { first = append(first, k.String()) }}
	town, village := spec.Key{Namespace: "default", Name: "town"}, spec.Key{Namespace: "games", Name: "village"}
	s.event(town, reconcile.Event{Type: reconcile.EventNormal, Reason: "Started", Message: "a run was started: Wanted"})
	s.event(town, reconcile.Event{Type: reconcile.EventNormal, Reason: "Ready", Message: "it is ready"})
	s.event(village, reconcile.Event{Type: reconcile.EventNormal, Reason: "Ready", Message: "it is ready"})
	s.event(village, reconcile.Event{Type: reconcile.EventWarning, Reason: "Exited", Message: "Unexpected, Signaled, SIGKILL"})
	want := `level=INFO msg=Started server=town message="a run was started: Wanted"
level=INFO msg=Ready server=town message="it is ready"
level=INFO msg=Ready server=games/village message="it is ready"
level=WARN msg=Exited server=games/village message="Unexpected, Signaled, SIGKILL"
`
	if out.String() != want {
		t.Errorf("got:\n%swant:\n%s", out.String(), want)
	}
	if strings.Join(first, " ") != "town" {
		t.Errorf("the first server is %q", first)
	}
}

// A crash loop does not fill the log, and delays no other server's story.
func TestStoryIsShortOfOneThatNeverEnds(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	s := story{log: plainLog(&out), now: func() time.Time { return now }}
	town, village := spec.Key{Namespace: "default", Name: "town"}, spec.Key{Namespace: "default", Name: "village"}
	crash := reconcile.Event{Type: reconcile.EventWarning, Reason: "Exited", Message: "Unexpected"}
	for range 100 {
		s.event(town, crash)
	}
	if n := strings.Count(out.String(), "\n"); n != budgetBurst {
		t.Fatalf("%d lines at once, want %d", n, budgetBurst)
	}
	out.Reset()
	s.event(village, crash)
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("another server's event: %d lines", n)
	}
	out.Reset()
	now = now.Add(budgetEvery)
	s.event(town, crash)
	s.event(town, crash)
	if want := fmt.Sprintf("level=WARN msg=Exited server=town message=Unexpected untold=%d\n", 100-budgetBurst); out.String() != want {
		t.Errorf("later: got %q, want %q", out.String(), want)
	}
	out.Reset()
	now = now.Add(time.Hour)
	for range 100 {
		s.event(town, crash)
	}
	if n := strings.Count(out.String(), "\n"); n != budgetBurst {
		t.Errorf("an hour later %d lines, want %d", n, budgetBurst)
	}
}

func TestStoryTellsFaultsWhenTheyChange(t *testing.T) {
	var out bytes.Buffer
	s := story{log: plainLog(&out)}
	file := func(faults ...spec.Fault) []spec.SourceState {
		return []spec.SourceState{{Name: "m", Files: []spec.FileState{{Path: "town.yaml", Faults: faults}}}}
	}
	fault := spec.Fault{File: "town.yaml", Line: 3, Column: 8, Field: "spec.profil", Kind: "Forbidden", Detail: "there is no such field"}
	told := s.tellFaults(nil, file(fault))
	if want := "level=WARN msg=\"a manifest is faulty: town.yaml:3:8: spec.profil: Forbidden: there is no such field\" source=m\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	out.Reset()
	told = s.tellFaults(told, file(fault))
	if out.Len() > 0 {
		t.Errorf("what is known was told again: %s", out.String())
	}
	many := make([]spec.Fault, 9)
	for i := range many {
		many[i] = fault
	}
	told = s.tellFaults(told, file(many...))
	if got := out.String(); strings.Count(got, "\n") != faultsTold+1 || !strings.Contains(got, "4 more faults; see 'reconciler get sources'") {
		t.Errorf("of nine faults: %s", got)
	}
	out.Reset()
	told = s.tellFaults(told, file())
	if want := "level=INFO msg=\"a manifest is in order again\" source=m file=town.yaml\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if len(told) != 0 {
		t.Errorf("%d files are still remembered", len(told))
	}
}
