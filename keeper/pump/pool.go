package pump

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/observe/logs"
)

// The pool file, mapped shared, so that what is stored in it is there for the next process whatever happens to this one:
//
//	0       magic, slot count, slot size, boot id                 one page
//	4096    slot headers, 256 bytes each
//	...     slot data, slotSize bytes each, from a page's beginning
//	...     tallies, 256 bytes each
//
// A slot belongs to the loop in IDLE and READING and to the writer in HAVE and WRITING; its fields are stored before the
// state that makes them valid. Stores of a killed process are all there or end with the one that was reached: a kill is
// an interrupt, not a power cut. After a reboot nothing of it counts, the FIFOs are gone too.
const (
	poolName   = "pump.pool"
	poolMagic  = "RECPUMP2"
	pageSize   = 4096
	headerSize = 256
	slotSize   = 64 << 10
	maxSlots   = 64 // one word of free bits
)

// The states of a slot.
const (
	idle    = 0
	reading = 1 // a read of n bytes is about to be made, under way, or just done
	have    = 2 // n bytes of output
	writing = 3 // n bytes of output that go to file from offset on
)

// The flags of a slot.
const (
	flagGap = 1 // output before this was dropped
	flagMid = 2 // and the gap ends within a line
	// The output is a terminal's. It is in the slot because a successor may write it before it knows the run.
	flagTerminal = 4
)

type slotHeader struct {
	state  atomic.Uint32
	n      uint32
	stream logs.Stream
	flags  uint8
	length uint8 // of scope
	_      uint8
	file   uint32 // index of the log file
	seq    uint64 // order of reading, over all runs
	nanos  int64  // time of reading, Unix
	offset int64
	number int64
	scope  [192]byte
	_      [16]byte
}

type poolHeader struct {
	magic [8]byte
	slots uint32
	size  uint32
	boot  [36]byte
}

// pool is the mapped file. The free bits are memory of this process alone.
type pool struct {
	path  string
	mem   []byte
	count int
	free  atomic.Uint64 // bit i: slot i is idle and nobody's
	tallies
}

func (p *pool) header(i int) *slotHeader {
	return (*slotHeader)(unsafe.Pointer(&p.mem[pageSize+i*headerSize]))
}

func (p *pool) data(i int) []byte {
	at := dataStart(p.count) + i*slotSize
	return p.mem[at : at+slotSize : at+slotSize]
}

func (p *pool) run(i int) logs.Run {
	h := p.header(i)
	return logs.Run{Scope: string(h.scope[:h.length]), Number: h.number}
}

func dataStart(count int) int {
	return pageSize + (count*headerSize+pageSize-1)/pageSize*pageSize
}

// take returns a free slot, the lowest so that few are touched and stay in the processor's cache, or -1.
func (p *pool) take() int {
	for {
		free := p.free.Load()
		if free == 0 {
			return -1
		}
		bit := free & -free
		if p.free.CompareAndSwap(free, free&^bit) {
			return bits.TrailingZeros64(bit)
		}
	}
}

// release marks a slot idle and free.
func (p *pool) release(i int) {
	p.header(i).state.Store(idle)
	p.free.Or(1 << i)
}

// openPool maps the pool file of the first folder that will have one. A pool that a predecessor left in any of the
// folders is found before a new one is made, so that a changed order of folders loses nothing.
func openPool(dirs []string, count int) (*pool, error) {
	if count < 1 || count > maxSlots {
		return nil, fmt.Errorf("cannot make a pool of %d slots: 1 to %d are possible", count, maxSlots)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("cannot read the boot id: %w", err)
	}
	var faults []error
	for _, dir := range dirs {
		p, err := mapPool(filepath.Join(dir, poolName), count, boot, false)
		if err == nil {
			return p, nil
		}
		faults = append(faults, err)
	}
	for _, dir := range dirs {
		if err := privateDir(dir); err != nil {
			faults = append(faults, err)
			continue
		}
		p, err := mapPool(filepath.Join(dir, poolName), count, boot, true)
		if err == nil {
			return p, nil
		}
		faults = append(faults, err)
	}
	return nil, fmt.Errorf("cannot have a pool file in any of %q: %w", dirs, errors.Join(faults...))
}

// privateDir makes sure of a folder that nobody else can write in.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("cannot look at %s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("cannot use %s: it is not a directory of our own that only we can write in", dir)
	}
	return nil
}

// mapPool maps a pool file: the one that is there when it is of this boot and format (its slot count stays), or a new one.
func mapPool(path string, count int, boot []byte, create bool) (_ *pool, err error) {
	flags := unix.O_RDWR | unix.O_CLOEXEC | unix.O_NOFOLLOW
	if create {
		flags |= unix.O_CREAT
	}
	fd, err := unix.Open(path, flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", path, err)
	}
	defer unix.Close(fd) // the mapping holds the file
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("cannot look at %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return nil, fmt.Errorf("cannot use %s: it is not a regular file of our own with mode 0600", path)
	}
	old := poolHeader{}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&old)), unsafe.Sizeof(old))
	if n, err := unix.Pread(fd, bytes, 0); err == nil && n == len(bytes) && old.valid(boot, st.Size) {
		count = int(old.slots)
	} else if !create {
		return nil, fmt.Errorf("cannot use %s: it is of another boot or format", path)
	} else if err := errors.Join(unix.Ftruncate(fd, 0), reserve(fd, poolSize(count))); err != nil {
		return nil, fmt.Errorf("cannot make %s: %w", path, err)
	}
	mem, err := unix.Mmap(fd, 0, poolSize(count), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("cannot map %s: %w", path, err)
	}
	// A page that is out when a read copies into it would be a wait in the loop. Locking needs a limit that not
	// everybody has; tmpfs pages hardly ever leave without swap.
	_ = unix.Mlock(mem)
	h := (*poolHeader)(unsafe.Pointer(&mem[0]))
	if !h.valid(boot, int64(len(mem))) {
		h.slots, h.size = uint32(count), slotSize
		copy(h.boot[:], boot)
		copy(h.magic[:], poolMagic)
	}
	return &pool{path: path, mem: mem, count: count}, nil
}

func (h *poolHeader) valid(boot []byte, size int64) bool {
	return string(h.magic[:]) == poolMagic && len(boot) >= len(h.boot) && string(h.boot[:]) == string(boot[:len(h.boot)]) &&
		h.size == slotSize && h.slots >= 1 && h.slots <= maxSlots && size == int64(poolSize(int(h.slots)))
}

func poolSize(count int) int { return dataStart(count) + count*slotSize + maxTallies*tallySize }

// reserve gives a file its size with all its blocks, so that a store into the mapping can never meet a full disk (SIGBUS).
func reserve(fd, size int) error {
	err := unix.Fallocate(fd, 0, 0, int64(size))
	if err != unix.EOPNOTSUPP {
		return err
	}
	zero := make([]byte, pageSize)
	for at := 0; at < size; at += pageSize {
		if _, err := unix.Pwrite(fd, zero, int64(at)); err != nil {
			return err
		}
	}
	return nil
}

// leave closes the pool and, when no slot holds anything and nothing is counted in it, takes its file and folder away.
func (p *pool) leave(counted bool) error {
	idleAll := !counted
	for i := range p.count {
		idleAll = idleAll && p.header(i).state.Load() == idle
	}
	if !idleAll {
		return p.close()
	}
	err := os.Remove(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // a runtime folder may vanish
	}
	_ = os.Remove(filepath.Dir(p.path)) // not empty: it is not the pool's alone
	return errors.Join(err, p.close())
}

func (p *pool) close() error { return unix.Munmap(p.mem) }

// settle brings every slot to IDLE or HAVE and returns those with output, in the order of reading. What a run's log does
// not let it take back is handed to lost, and its slots are free: one run's trouble is no other's. A killed settle is
// settled the same way by the next.
func (p *pool) settle(dir string, at func(string), lost func(slot int, err error)) []int {
	var full []int
	for i := range p.count {
		h := p.header(i)
		if int(h.n) > slotSize || int(h.length) > len(h.scope) {
			h.state.Store(idle) // nothing of ours stores that
		}
		if h.state.Load() == reading && !readTookPlace(p.data(i)[:h.n]) {
			h.state.Store(idle)
		}
		switch h.state.Load() {
		case reading:
			h.state.Store(have)
			at("settled reading")
			full = append(full, i)
		case have, writing:
			full = append(full, i)
		default:
			h.state.Store(idle)
			p.free.Or(1 << i)
		}
	}
	slices.SortFunc(full, func(a, b int) int {
		if p.header(a).seq < p.header(b).seq {
			return -1
		}
		return 1
	})
	// The slots of one write carry offsets that grow with their order. The first of a run takes away what came after it,
	// and only then may the later ones become HAVE.
	cut, faults := map[logs.Run]bool{}, map[logs.Run]error{}
	for _, i := range full {
		h := p.header(i)
		if h.state.Load() != writing || cut[p.run(i)] {
			continue
		}
		cut[p.run(i)] = true
		at("cut")
		if err := cutLog(dir, p.run(i), int(h.file), h.offset); err != nil {
			faults[p.run(i)] = err
		}
	}
	// From the last to the first: a settle that is killed here leaves the lowest offset in a WRITING slot.
	for _, i := range slices.Backward(full) {
		at("settle writing")
		if err := faults[p.run(i)]; err != nil {
			lost(i, err)
			p.release(i)
			continue
		}
		p.header(i).state.Store(have)
	}
	return slices.DeleteFunc(full, func(i int) bool { return p.header(i).state.Load() == idle })
}

// lastSeq is the highest sequence number ever stored.
func (p *pool) lastSeq() uint64 {
	var last uint64
	for i := range p.count {
		last = max(last, p.header(i).seq)
	}
	return last
}

// cutLog takes back what was written to a run's log from an offset on, later files included.
func cutLog(dir string, run logs.Run, index int, offset int64) error {
	folder := filepath.Join(dir, run.Scope)
	files, err := logs.Files(folder)
	if err != nil {
		return err
	}
	for _, f := range slices.Backward(files) {
		if f.Run != run.Number || f.Index < index {
			continue
		}
		path := filepath.Join(folder, logs.FileName(f.Run, f.Index))
		if f.Index > index {
			err = os.Remove(path)
		} else if f.Size > offset {
			err = os.Truncate(path, offset)
		}
		if err != nil {
			return fmt.Errorf("cannot take back a write that was cut off: %w", err)
		}
	}
	return nil
}

// The canary holds bytes that no UTF-8 text and hardly any other output has. Reading replaces them. Output of less than
// 17 bytes that are just these would be taken for not read, if the kill hits the few microseconds of its read.
var canary = [8]byte{0xff, 0xfd, 0xfb, 0xf9, 0xf8, 0xfa, 0xfc, 0xfe}

// setCanaries marks both ends of the n bytes that a read is going to fill. A read that fits what FIONREAD promised fills
// them all or, killed before, none.
func setCanaries(b []byte) {
	copy(b, canary[:])
	if len(b) > len(canary) {
		copy(b[max(len(canary), len(b)-len(canary)):], canary[:])
	}
}

// readTookPlace reports whether the bytes between setCanaries' marks were replaced.
func readTookPlace(b []byte) bool {
	var unread [2 * len(canary)]byte
	n := min(len(b), len(unread))
	setCanaries(unread[:n])
	head := min(n, len(canary))
	tail := n - head
	return string(b[:head]) != string(unread[:head]) || string(b[len(b)-tail:]) != string(unread[head:n])
}
