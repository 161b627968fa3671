package pump

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCanaries(t *testing.T) {
	for n := 1; n <= 40; n++ {
		b := make([]byte, n)
		setCanaries(b)
		if readTookPlace(b) {
			t.Errorf("%d bytes: read without a read", n)
		}
		for _, fill := range []string{"x", "\x00", "\xf0"} {
			copy(b, strings.Repeat(fill, n))
			if !readTookPlace(b) {
				t.Errorf("%d bytes of %q: not read", n, fill)
			}
		}
	}
}

func TestOpenPool(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	p, err := openPool([]string{first, second}, 3)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(p.path) != first || p.count != 3 {
		t.Errorf("pool %s of %d slots, want one of 3 in %s", p.path, p.count, first)
	}
	p.header(2).seq = 42
	if err := p.close(); err != nil {
		t.Fatal(err)
	}

	// It is found again, with the slots that it has, when others are asked for and another folder is first.
	p, err = openPool([]string{second, first}, 9)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(p.path) != first || p.count != 3 || p.lastSeq() != 42 {
		t.Errorf("pool %s of %d slots up to %d, want the one that was there", p.path, p.count, p.lastSeq())
	}
	copy(p.mem[16:], "ffffffff-another-boot-ffff-ffffffffffff")
	if err := p.close(); err != nil {
		t.Fatal(err)
	}

	p, err = openPool([]string{first}, 9)
	if err != nil {
		t.Fatal(err)
	}
	if p.count != 9 || p.lastSeq() != 0 {
		t.Errorf("a pool of another boot was kept: %d slots up to %d", p.count, p.lastSeq())
	}
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
	for _, count := range []int{0, -1, maxSlots + 1} {
		if _, err := openPool([]string{first}, count); err == nil {
			t.Errorf("a pool of %d slots was made", count)
		}
	}
}

func TestOpenPoolRefusesFolders(t *testing.T) {
	dir := t.TempDir()
	open, link, file := filepath.Join(dir, "open"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{open, link, file} {
		if p, err := openPool([]string{bad}, 1); err == nil {
			p.close()
			t.Errorf("a pool was made in %s", bad)
		}
	}
	good := filepath.Join(dir, "good")
	p, err := openPool([]string{open, good}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(p.path) != good {
		t.Errorf("pool is %s", p.path)
	}
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
}

func TestSettleMistrustsNumbers(t *testing.T) {
	dir := t.TempDir()
	p, err := openPool([]string{dir}, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	p.header(0).n = slotSize + 1
	p.header(0).state.Store(have)
	p.header(1).n = 1
	p.header(1).state.Store(77)
	full := p.settle(dir, func(string) {}, func(slot int, err error) { t.Errorf("slot %d: %v", slot, err) })
	if len(full) != 0 || p.free.Load() != 3 {
		t.Errorf("settle = %v, free %b", full, p.free.Load())
	}
}

func TestPoolDirs(t *testing.T) {
	state := t.TempDir()
	dirs := PoolDirs(state, state)
	if last := dirs[len(dirs)-1]; last != filepath.Join(state, "keeper") {
		t.Errorf("the last resort is %s", last)
	}
	other := PoolDirs(t.TempDir(), t.TempDir())
	for _, d := range dirs {
		for _, o := range other {
			if d == o {
				t.Errorf("two state folders share %s", d)
			}
		}
	}
	var st unix.Statfs_t
	if unix.Statfs("/dev/shm", &st) == nil && st.Type == unix.TMPFS_MAGIC && len(dirs) < 2 {
		t.Error("/dev/shm is on tmpfs and not used")
	}
}
