package keeper

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reconciler.dev/reconciler/state"
)

// openOwnLog is the log as a [Spawner] opens it.
func openOwnLog(t *testing.T, l state.Layout) *os.File {
	t.Helper()
	f, err := openKeeperLog(keeperLog(l))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Whatever a keeper says, its log and the old one stay within the limit and one message more, and what was said last is there, in whole lines.
func TestOwnLogIsBounded(t *testing.T) {
	l := state.Layout{State: t.TempDir()}
	out := OwnLog(l, openOwnLog(t, l)).(*ownLog)
	out.limit = 1000
	for i := range 500 {
		if n, err := fmt.Fprintf(out, "message %03d\n", i); err != nil || n != 12 {
			t.Fatal(n, err)
		}
		now, err := os.ReadFile(keeperLog(l))
		old, _ := os.ReadFile(keeperLog(l) + ".old") // in the beginning there is none
		if err != nil || len(now) > 1000 || len(old) > 1012 {
			t.Fatalf("after message %d: %d and %d bytes, %v", i, len(now), len(old), err)
		}
		if all := string(old) + string(now); !strings.HasSuffix(all, fmt.Sprintf("message %03d\n", i)) || len(all)%12 != 0 {
			t.Fatalf("after message %d:\n%s", i, all)
		}
	}
	info, err := os.Lstat(keeperLog(l) + ".old")
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the old one: %v, %v", info, err)
	}
}

// What keepers have said that crashed is past the one that comes next, whose hand-me-down descriptor leads to the same file.
func TestOwnLogOfACrashLoop(t *testing.T) {
	l := state.Layout{State: t.TempDir()}
	inherited := openOwnLog(t, l)
	words := bytes.Repeat([]byte("goroutine 1 [running]:\n"), 40_000)
	for range 20 {
		fmt.Fprintln(OwnLog(l, inherited), "a keeper begins")
		if _, err := inherited.Write(words); err != nil { // and crashes
			t.Fatal(err)
		}
		now, err := inherited.Stat()
		if err != nil || now.Size() > int64(maxKeeperLog+len(words)+100) || !isFile(keeperLog(l), now) {
			t.Fatalf("it has %d bytes, %v", now.Size(), err)
		}
		if old, err := os.Stat(keeperLog(l) + ".old"); err == nil && old.Size() > int64(maxKeeperLog+len(words)+100) {
			t.Fatalf("the old one has %d bytes", old.Size())
		}
	}
}

// A log that cannot be kept does not grow either, and says so.
func TestOwnLogThatCannotBeKept(t *testing.T) {
	l := state.Layout{State: t.TempDir()}
	if err := os.Mkdir(keeperLog(l)+".old", 0o700); err != nil {
		t.Fatal(err)
	}
	out := OwnLog(l, openOwnLog(t, l)).(*ownLog)
	out.limit = 100
	fmt.Fprintln(out, strings.Repeat("x", 200))
	fmt.Fprintln(out, "next")
	now, err := os.ReadFile(keeperLog(l))
	if err != nil || !strings.HasPrefix(string(now), "error: cannot keep what this log has said before: ") || !strings.HasSuffix(string(now), "\nnext\n") {
		t.Errorf("%q, %v", now, err)
	}
}

// A file that somebody else has named is theirs.
func TestOtherLogsAreLeftAlone(t *testing.T) {
	l := state.Layout{State: t.TempDir()}
	openOwnLog(t, l)
	f, err := os.Create(filepath.Join(t.TempDir(), "keeper.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var buf bytes.Buffer
	if OwnLog(l, f) != f || OwnLog(l, &buf) != &buf {
		t.Error("it is taken for ours")
	}
}
