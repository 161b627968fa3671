package pump

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/logs"
)

func openFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// wantFDs waits until as many descriptors are open: behind a flush the writer still looks at its budgets, with files of its own.
func (r *rig) wantFDs(want int) {
	r.t.Helper()
	open := openFDs(r.t)
	for end := time.Now().Add(time.Minute); open != want && time.Now().Before(end); open = openFDs(r.t) {
		if err := r.pump.Flush(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
	}
	if open != want {
		r.t.Fatalf("%d descriptors, %d before", open, want)
	}
}

// One run owns its descriptors; what ends gives them back (EC-7).
func TestDetachLeavesNothing(t *testing.T) {
	r := newRig(t, nil)
	r.start()
	before := openFDs(t)
	for range 3 {
		r.attach()
		watch := r.watch("never")
		r.print(r.out, "a\n")
		r.print(r.err, "b")
		r.drain()
		r.print(r.out, "read by the next or dropped with the FIFO\n")
		r.pump.Detach(testRun)
		r.pump.Detach(testRun)
		r.noRun()
		select {
		case <-watch:
			t.Error("hit")
		default:
		}
		r.wantFDs(before)
	}
	for _, name := range []string{"stdout", "stderr"} {
		if got := len(r.pump.runs); got != 0 {
			t.Errorf("%d runs are known after the end of %s", got, name)
		}
	}
}

// noRun waits until a detached run is forgotten.
func (r *rig) noRun() {
	r.t.Helper()
	if err := r.pump.Flush(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	if _, ok := r.pump.Stats(testRun); ok {
		r.t.Error("a detached run has stats")
	}
}

// An Attach that fails on its second descriptor leaves both to the caller, unread.
func TestAttachUndoes(t *testing.T) {
	r := newRig(t, nil)
	r.start()
	r.print(r.out, "kept\n")
	out, errs := r.openReaders()
	// A descriptor that is watched already is refused by epoll.
	if err := r.loop.Add(errs, unix.EPOLLPRI, func(uint32) {}); err != nil {
		t.Fatal(err)
	}
	if err := r.pump.Attach(testRun, out, errs); err == nil {
		t.Fatal("Attach succeeded")
	}
	if err := r.pump.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := available(out); got != len("kept\n") {
		t.Errorf("the FIFO holds %d bytes after a failed Attach", got)
	}
	r.loop.Remove(errs)
	if err := r.pump.Attach(testRun, out, errs); err != nil {
		t.Fatal(err)
	}
	r.drain()
	if got := text(r.pieces(), logs.Stdout); got != "kept\n" {
		t.Errorf("log holds %q", got)
	}
}

// A program that goes on after the main process (EC-10) keeps the FIFO open: a drain does not wait for it.
func TestDrainDoesNotWaitForWriters(t *testing.T) {
	r := newRig(t, nil)
	r.attach()
	r.start()
	r.print(r.out, "main process ended\n")
	r.drain() // the rig's ends are open
	r.print(r.out, "descendant goes on\n")
	r.drain()
	if got := text(r.pieces(), logs.Stdout); got != "main process ended\ndescendant goes on\n" {
		t.Errorf("log holds %q", got)
	}
}

// When all writers are gone and others come, reading goes on, and neither costs turns of the loop.
func TestWritersComeAndGo(t *testing.T) {
	r := newRig(t, nil)
	r.attach()
	r.start()
	want := ""
	for n := range 3 {
		want += fmt.Sprintln("writer", n)
		r.print(r.out, fmt.Sprintln("writer", n))
		r.out.Close()
		r.drain()
		turns := 0
		after := r.loop.after
		asked := make(chan struct{})
		r.loop.Post(func() {
			r.loop.after = func() int { turns++; return after() }
			close(asked)
		})
		<-asked
		r.drain()
		done := make(chan struct{})
		r.loop.Post(func() { r.loop.after = after; close(done) })
		<-done
		if turns > 20 {
			t.Errorf("%d turns of the loop while nobody writes", turns)
		}
		r.out = openWriter(t, r.dir, "stdout")
	}
	r.drain()
	if got := text(r.pieces(), logs.Stdout); got != want {
		t.Errorf("log holds %q, want %q", got, want)
	}
}

func TestOpenReader(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(fifo, link); err != nil {
		t.Fatal(err)
	}
	fd, err := OpenReader(fifo) // nobody has it open for writing
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	for _, path := range []string{link, dir, os.DevNull, filepath.Join(dir, "none")} {
		if fd, err := OpenReader(path); err == nil {
			unix.Close(fd)
			t.Errorf("OpenReader(%q) succeeded", path)
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("OpenReader(%q): %v does not name it", path, err)
		}
	}
}

// A run that floods does not take every slot that comes free (I12).
func TestSlotsGoRound(t *testing.T) {
	s := newStepped(t, map[string]bool{})
	s.cfg.Slots = 1
	s.life(-1, func() {
		r := s.pump.runs[testRun]
		for range 2 {
			s.print(s.out, strings.Repeat("flood\n", 2000))
			s.print(s.err, "one line\n")
			s.pump.reader.list(r.streams[0])
			s.pump.reader.list(r.streams[1])
			for range 2 {
				s.print(s.out, strings.Repeat("flood\n", 2000))
				s.pump.reader.turn()
				s.pump.writer.turn()
			}
			if n := available(r.streams[1].fd); n != 0 {
				t.Errorf("%d bytes wait while another was read twice", n)
			}
		}
	})
}

// A run that prints nothing costs little memory and two descriptors.
func TestIdleRunsAreSmall(t *testing.T) {
	r := newRig(t, nil)
	r.start()
	const runs = 300
	dir := t.TempDir()
	fds := make([][2]int, runs)
	for i := range fds {
		for j, name := range []string{"o", "e"} {
			path := filepath.Join(dir, fmt.Sprint(name, i))
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			fd, err := OpenReader(path)
			if err != nil {
				t.Fatal(err)
			}
			fds[i][j] = fd
		}
	}
	before, descriptors := heap(), openFDs(t)
	for i := range fds {
		if err := r.pump.Attach(logs.Run{Scope: fmt.Sprintf("default.server%d.profile", i), Number: 1}, fds[i][0], fds[i][1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.pump.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if each := (heap() - before) / runs; each > 2048 {
		t.Errorf("a run takes %d bytes", each)
	} else {
		t.Logf("a run takes %d bytes", each)
	}
	r.wantFDs(descriptors)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
