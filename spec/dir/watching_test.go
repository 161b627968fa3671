package dir

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// A watcher's error holds nobody up who needs the watcher: one that waited until its error was taken, while the one who would take it
// waited for its lock, ended the reading of manifests for good.
func TestErrorOfAWatcherHoldsNobodyUp(t *testing.T) {
	root := t.TempDir()
	busy, moved := filepath.Join(root, "busy"), filepath.Join(root, "moved")
	for _, dir := range []string{busy, moved} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := &run{Source: &Source{cfg: Config{Log: slog.New(slog.DiscardHandler)}}}
	r.startWatching(time.Now())
	defer r.stopWatching()
	w := r.watcher.Load()
	if w == nil {
		t.Fatal(r.blind)
	}
	for _, dir := range []string{busy, moved} {
		if err := w.Add(dir); err != nil {
			t.Fatal(err)
		}
	}
	// With more events than it may keep, the watcher hears of the move when the directory is gone, and cannot end its watch.
	for i := range 2 * cap(r.events) {
		put(t, busy, strconv.Itoa(i), "")
	}
	if err := os.Rename(moved, moved+"-away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(moved + "-away"); err != nil {
		t.Fatal(err)
	}
	put(t, busy, "last", "")
	late := time.After(patience)
	for last := false; !last; {
		select {
		case ev := <-r.events:
			last = filepath.Base(ev.Name) == "last"
		case <-late:
			t.Fatal("the watcher waits for somebody who takes its error")
		}
	}
	if got := w.WatchList(); len(got) != 1 {
		t.Errorf("%q are watched", got)
	}
	select {
	case <-r.errors:
	case <-late:
		t.Error("the owner does not hear of it")
	}
}
