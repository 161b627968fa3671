package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The thread that forks has nearly nothing open, whatever the process has, so that a start costs the same with many runs.
func TestForkerHasATableOfItsOwn(t *testing.T) {
	b := newBench(t, Options{}, self, "inspect")
	if b.forker == nil {
		t.Skip("this host lets no thread have a descriptor table of its own") // Linux 5.9, close_range
	}
	for range 100 {
		open(t, os.DevNull, unix.O_RDONLY)
	}
	b.inspected(t)
	if few := fewestOpen(t); few > 12 {
		t.Errorf("every thread has %d descriptors or more", few)
	}
	if fds, err := os.ReadDir("/proc/self/fd"); err != nil || len(fds) < 100 {
		t.Errorf("the process itself shows %d descriptors, %v", len(fds), err)
	}
}

// fewestOpen is how many descriptors the thread has that has the fewest.
func fewestOpen(t *testing.T) int {
	t.Helper()
	tables, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/fd", os.Getpid()))
	if err != nil || len(tables) == 0 {
		t.Fatalf("%d threads, %v", len(tables), err)
	}
	few := 1 << 20
	for _, dir := range tables {
		if fds, err := os.ReadDir(dir); err == nil { // else the thread has ended
			few = min(few, len(fds))
		}
	}
	return few
}

// What was open when it was made is not kept open by it: a lock would outlive its owner's end.
func TestForkerHoldsNothingOfOthers(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	newBench(t, Options{}, self, "inspect")
	w.Close()
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d, %v", n, err) // without end it would wait for ever
	}
}

func TestSharedTable(t *testing.T) {
	b := newBench(t, Options{SharedTable: true}, self, "inspect")
	if b.forker != nil {
		t.Fatal("there is a forker")
	}
	if got := b.inspected(t); got.SID != got.PID {
		t.Errorf("%+v", got)
	}
}

// Without a free number for its pidfd a child is not ours to keep.
func TestNoNumberForThePidfd(t *testing.T) {
	b := newBench(t, Options{}, self, "inspect")
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	last := 0
	for last < 64 { // all lower numbers are taken
		last = open(t, os.DevNull, unix.O_RDONLY)
	}
	others := children(t)
	two := unix.Rlimit{Cur: uint64(last) + 3, Max: old.Max} // the gate's, while the stage is forked
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &two); err != nil {
		t.Fatal(err)
	}
	_, err := b.Hold(b.spec)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err == nil || !strings.Contains(err.Error(), "no pidfd") {
		t.Errorf("hold: %v", err)
	}
	if left := newChildren(t, others); len(left) > 0 {
		t.Errorf("children left: %v", left)
	}
}

// What an order could not take over, for want of memory say, stays on the socket: the next order drops it and gets its own.
func TestForkerGivesNoChildAnothersDescriptors(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	f := &forker{socket: pair[0], orders: make(chan forkOrder, 3)}
	var inodes []uint64
	for range 3 {
		r, _ := pipe(t)
		var st unix.Stat_t
		if err := unix.Fstat(int(r.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		inodes = append(inodes, st.Ino)
		if err := f.order(forkOrder{}, []int{int(r.Fd())}); err != nil {
			t.Fatal(err)
		}
	}
	<-f.orders // lost
	for i := 1; i < 3; i++ {
		o := <-f.orders
		fds, err := receive(pair[1], o.number, 1)
		if err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(fds[0], &st); err != nil || st.Ino != inodes[i] {
			t.Errorf("order %d got another's descriptor (%v)", i+1, err)
		}
		unix.Close(fds[0])
	}
}
