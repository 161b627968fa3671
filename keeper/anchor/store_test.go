package anchor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"reconciler.dev/reconciler/observe/proc/wait"
)

// pipe is an os pipe that is closed at the end of the test.
func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// inode tells what a descriptor leads to.
func inode(t testing.TB, fd int) uint64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func TestHeldOutlivesItsGiver(t *testing.T) {
	store, _ := served(t, MaxHeld)
	ctx := t.Context()
	r, w := pipe(t)
	if err := store.Put(ctx, "run/tty", int(w.Fd())); err != nil {
		t.Fatal(err)
	}
	w.Close()
	fd, err := store.Get(ctx, "run/tty")
	if err != nil {
		t.Fatal(err)
	}
	back := os.NewFile(uintptr(fd), "back")
	defer back.Close()
	if flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0); errno != 0 || flags&syscall.FD_CLOEXEC == 0 {
		t.Errorf("it would be inherited: %#x, %v", flags, errno)
	}
	if _, err := back.WriteString("x"); err != nil {
		t.Error(err)
	}
	back.Close()
	if err := store.Drop(ctx, "run/tty"); err != nil {
		t.Error(err)
	}
	// No writer is left: the pipe ends behind what was written.
	if b, err := readAll(r); err != nil || b != "x" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := store.Get(ctx, "run/tty"); !errors.Is(err, ErrNone) {
		t.Errorf("get of what was dropped: %v", err)
	}
	if err := store.Drop(ctx, "run/tty"); !errors.Is(err, ErrNone) {
		t.Errorf("drop of what was dropped: %v", err)
	}
}

func readAll(f *os.File) (string, error) {
	var b strings.Builder
	_, err := f.WriteTo(&b)
	return b.String(), err
}

func TestLastPutCounts(t *testing.T) {
	store, _ := served(t, 1)
	a, b := pipe(t)
	for _, f := range []*os.File{a, b} {
		if err := store.Put(t.Context(), "x", int(f.Fd())); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := store.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if inode(t, fd) != inode(t, int(b.Fd())) {
		t.Error("not the last that was put")
	}
}

func TestShelfIsBounded(t *testing.T) {
	store, shelf := served(t, 2)
	ctx := t.Context()
	r, _ := pipe(t)
	for _, name := range []string{"a", "b"} {
		if err := store.Put(ctx, name, int(r.Fd())); err != nil {
			t.Fatal(err)
		}
	}
	before := openFDs(t)
	if err := store.Put(ctx, "c", int(r.Fd())); !errors.Is(err, ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	if err := store.Put(ctx, "a", int(r.Fd())); err != nil {
		t.Errorf("in place of another: %v", err)
	}
	for _, name := range []string{"", "a b", "a\x00", "ü", strings.Repeat("a", MaxName+1)} {
		if err := store.Put(ctx, name, int(r.Fd())); !errors.Is(err, ErrRefused) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d descriptors after %d: what was refused is still open", after, before)
	}
	if err := store.Drop(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	if err := store.Put(ctx, strings.Repeat("a", MaxName), int(r.Fd())); err != nil {
		t.Errorf("the longest name: %v", err)
	}
	shelf.Close()
	if names, err := store.Names(ctx); err != nil || len(names) != 0 {
		t.Errorf("names of a closed shelf: %v, %v", names, err)
	}
}

func openFDs(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestNamesComeInPages(t *testing.T) {
	store, _ := served(t, MaxHeld)
	r, _ := pipe(t)
	if names, err := store.Names(t.Context()); err != nil || len(names) != 0 {
		t.Fatalf("nothing is held: %v, %v", names, err)
	}
	var want []string
	for i := range 300 { // two and a half packets
		name := fmt.Sprintf("%03d%s", i, strings.Repeat("n", MaxName-3))
		want = append(want, name)
		if err := store.Put(t.Context(), name, int(r.Fd())); err != nil {
			t.Fatal(err)
		}
	}
	names, err := store.Names(t.Context())
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("%d names, %v", len(names), err)
	}
}

func TestSeveralAskers(t *testing.T) {
	store, _ := served(t, MaxHeld)
	r, _ := pipe(t)
	want := inode(t, int(r.Fd()))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprint(i)
			for range 50 {
				if err := store.Put(t.Context(), name, int(r.Fd())); err != nil {
					t.Error(err)
				}
				fd, err := store.Get(t.Context(), name)
				if err != nil {
					t.Error(err)
					continue
				}
				if inode(t, fd) != want {
					t.Error("another descriptor")
				}
				syscall.Close(fd)
			}
		})
	}
	wg.Wait()
}

func TestNoAnchor(t *testing.T) {
	store, conn, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	syscall.Close(conn)
	for name, s := range map[string]*Store{"none": nil, "ended": store} {
		for range 2 {
			if err := s.Put(t.Context(), "a", 0); !errors.Is(err, ErrAway) {
				t.Errorf("%s: put: %v", name, err)
			}
			if _, err := s.Get(t.Context(), "a"); !errors.Is(err, ErrAway) {
				t.Errorf("%s: get: %v", name, err)
			}
			if _, err := s.Names(t.Context()); !errors.Is(err, ErrAway) {
				t.Errorf("%s: names: %v", name, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.Drop(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}

// An anchor that does not answer costs one wait; then nobody waits, until it answers again. What it does late is undone.
func TestStoppedAnchor(t *testing.T) {
	store, conn, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	r, _ := pipe(t)
	store.patience = 20 * time.Millisecond
	if err := store.Put(t.Context(), "late", int(r.Fd())); !errors.Is(err, ErrAway) {
		t.Fatalf("nobody answers: %v", err)
	}
	store.patience = time.Hour // whoever waits now is seen
	if _, err := store.Get(t.Context(), "late"); !errors.Is(err, ErrAway) {
		t.Fatalf("nobody has answered yet: %v", err)
	}
	shelf := NewShelf(MaxHeld)
	done := make(chan struct{})
	go func() { defer close(done); shelf.Serve(conn) }()
	for {
		names, err := store.Names(t.Context())
		if err == nil {
			if len(names) != 0 {
				t.Errorf("a put that had failed is held: %v", names)
			}
			break
		}
		if !errors.Is(err, ErrAway) {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	if err := store.Put(t.Context(), "now", int(r.Fd())); err != nil {
		t.Error(err)
	}
	store.Close()
	<-done
	shelf.Close()
}

// The anchor does not wait for a keeper that asks and does not read.
func TestAskerThatDoesNotRead(t *testing.T) {
	store, conn, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	shelf := NewShelf(MaxHeld)
	defer shelf.Close()
	done := make(chan struct{})
	go func() { defer close(done); shelf.Serve(conn) }()
	ask := request{op: opNames}
	for err == nil || err == syscall.EAGAIN {
		err = sendPacket(store.conn, ask.encode())
	}
	if err != syscall.EPIPE && err != syscall.ECONNRESET {
		t.Error(err)
	}
	<-done
}

func TestEndsOfChildren(t *testing.T) {
	store, _ := served(t, 0)
	ctx := t.Context()
	pid, pidfd := child7(t)
	defer syscall.Close(pidfd)
	for range 2 { // asked again, it is told again
		end, ended, err := awaitEnd(t, store, pidfd)
		if err != nil || !ended || syscall.WaitStatus(end.Status).ExitStatus() != 7 {
			t.Errorf("the end is %+v, %v, %v", end, ended, err)
		}
	}
	if reaped, err := store.Reap(ctx, pidfd); err != nil || !reaped {
		t.Errorf("reap: %v, %v", reaped, err)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the zombie is still there: %v", err)
	}
	if _, _, err := store.Exit(ctx, pidfd); !errors.Is(err, ErrStranger) {
		t.Errorf("exit of what was reaped: %v", err)
	}
	if _, err := store.Reap(ctx, pidfd); !errors.Is(err, ErrStranger) {
		t.Errorf("reap of what was reaped: %v", err)
	}
	if _, _, err := store.Exit(ctx, 0); !errors.Is(err, ErrRefused) {
		t.Errorf("exit of what is no process: %v", err)
	}
}

// child7 starts a child that exits with 7.
func child7(t *testing.T) (pid, pidfd int) {
	t.Helper()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{os.Args[0], "exit 7"}, &syscall.ProcAttr{
		Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{PidFD: &pidfd},
	})
	if err != nil {
		t.Fatal(err)
	}
	return pid, pidfd
}

func awaitEnd(t *testing.T, store *Store, pidfd int) (wait.End, bool, error) {
	t.Helper()
	if err := readable(pidfd, time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return store.Exit(t.Context(), pidfd)
}
