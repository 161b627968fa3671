package pump

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/logs"
)

// I11: what is dropped is counted, also when the keeper that dropped it dies before the count is on record.
func TestDroppedCountOutlivesTheKeeper(t *testing.T) {
	s := newStepped(t, map[string]bool{})
	defer s.closeAll()
	quiet(&s.cfg)
	full := func(n int) (after int64) {
		s.life(-1, func() {
			s.pump.writer.disk.pwrite = func(int, []byte, int64) (int, error) { return 0, unix.ENOSPC }
			for range n {
				if err := print(s, "lost\n", ""); err != nil {
					t.Fatal(err)
				}
				s.read()
				s.pump.runs[testRun].file.retry = time.Time{}
				s.pump.writer.turn()
			}
			after = s.pump.runs[testRun].dropped.Load()
		})
		return after
	}
	for life, want := range []int64{3, 6, 9} {
		if got := full(3); got != want {
			t.Errorf("life %d: %d lines are counted, not %d", life, got, want)
		}
	}
	s.life(-1, func() { s.pump.Recorded(testRun) })
	if got := full(1); got != 1 {
		t.Errorf("after it went on record, %d are counted, not 1", got)
	}
}

// More runs than there is room for are counted in memory; and what nobody knows any more gives its room back.
func TestTalliesAreBounded(t *testing.T) {
	r := newRig(t, nil)
	for i := range maxTallies + 3 {
		r.pump.newRun(logs.Run{Scope: "default.a.b", Number: int64(i + 1)}).countDropped(2)
	}
	over := r.pump.newRun(logs.Run{Scope: "default.a.b", Number: maxTallies + 9})
	over.countDropped(1)
	over.countDropped(4)
	if got := over.dropped.Load(); got != 5 {
		t.Errorf("%d are counted, not 5", got)
	}
	if got := r.pump.newRun(logs.Run{Scope: "default.a.b", Number: 7}).dropped.Load(); got != 2 {
		t.Errorf("a run that has room: %d are counted, not 2", got)
	}
	if any := r.pump.pool.keepTallies(func(id logs.Run) bool { return id.Number == 7 }); !any {
		t.Error("none is left")
	}
	for i := range maxTallies + 1 {
		id := logs.Run{Scope: "default.a.b", Number: int64(i + 1)}
		if found := r.pump.pool.findTally(id) != nil; found != (id.Number == 7) {
			t.Error(fmt.Sprint("run ", id.Number, " is found: ", found))
		}
	}
}
