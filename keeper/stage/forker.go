package stage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// forker forks from a thread with a descriptor table of its own, in which there is next to nothing. A fork copies the
// caller's table and the exec closes all of it that is not for the child: with the three descriptors that each of a
// thousand runs has, that would be as dear as the rest of the start, and what every start costs would grow with
// how many run. What a child is given comes over a socket pair.
type forker struct {
	socket int // our end, in everybody's table

	mu     sync.Mutex // descriptors are handed over in the order of the orders
	number uint64     // of the last order
	orders chan forkOrder
}

// maxForkOrders is how many may wait for the thread: it goes on to the next without being woken for it.
const maxForkOrders = 8

type forkOrder struct {
	number uint64 // its descriptors come with it: no child is given another's
	path   string
	argv   []string
	attr   *syscall.ProcAttr // its descriptors become numbers of the forker's table
	answer chan forkAnswer   // one slot
}

type forkAnswer struct {
	pid int
	err error
}

// newForker starts the thread. An error says that this host does not let a thread have its own table.
func newForker(program int) (*forker, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make the forker's socket pair: %w", err)
	}
	f := &forker{socket: pair[0], orders: make(chan forkOrder, maxForkOrders)}
	ready := make(chan error)
	go f.serve(pair[1], program, ready)
	err = <-ready
	err = errors.Join(err, unix.Close(pair[1])) // the thread has its own
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// close ends the thread.
func (f *forker) close() error {
	close(f.orders)
	return unix.Close(f.socket)
}

// serve is the thread. It stays locked, so that it ends with the goroutine, and the table with it.
func (f *forker) serve(socket, program int, ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() { // the process's first thread never ends, and its table is what /proc/self/fd shows
		f.serveElsewhere(socket, program, ready)
		runtime.UnlockOSThread()
		return
	}
	if err := ownTable(socket, program); err != nil {
		ready <- err
		return
	}
	ready <- nil
	for o := range f.orders {
		o.answer <- carryOut(o, socket)
	}
}

// serveElsewhere starts serve while this thread is taken.
func (f *forker) serveElsewhere(socket, program int, ready chan<- error) {
	moved := make(chan error)
	go f.serve(socket, program, moved)
	ready <- <-moved
}

// ownTable gives the calling thread a table of its own with nothing but these in it, and what Go's runtime wakes its poller by: it may
// do so from any thread, and panics where it cannot.
func ownTable(keep ...int) error {
	// Not unshare(2), which many containers may not call. Nothing is closed yet: no descriptor has this number.
	if err := unix.CloseRange(math.MaxUint32, math.MaxUint32, unix.CLOSE_RANGE_UNSHARE); err != nil {
		return fmt.Errorf("cannot have a descriptor table of its own: close_range: %w", err)
	}
	const table = "/proc/thread-self/fd"
	dir, err := os.ReadDir(table)
	if err != nil {
		return fmt.Errorf("cannot list the thread's descriptors: %w", err)
	}
	poller := false
	for _, e := range dir {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return fmt.Errorf("cannot list the thread's descriptors: %w", err)
		}
		what, err := os.Readlink(filepath.Join(table, e.Name()))
		switch {
		case err != nil: // the list's own, closed since
		case what == "anon_inode:[eventpoll]":
			poller = true
		case fd < 3, what == "anon_inode:[eventfd]":
		case fd != keep[0] && fd != keep[1]:
			_ = unix.Close(fd) // another table still has it
		}
	}
	if !poller {
		return errors.New("the runtime's poller does not run yet")
	}
	return nil
}

// fork is syscall.ForkExec on the forker's thread. attr.Sys.PidFD is needed, and set to -1 when the child's pidfd could not be had.
func (f *forker) fork(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
	fds := make([]int, 0, len(attr.Files)+1)
	for _, fd := range attr.Files {
		fds = append(fds, int(fd))
	}
	if attr.Sys.UseCgroupFD {
		fds = append(fds, attr.Sys.CgroupFD)
	}
	sys := *attr.Sys
	sys.PidFD = nil // it would be one of the forker's table
	o := forkOrder{path: path, argv: argv, answer: make(chan forkAnswer, 1), attr: &syscall.ProcAttr{Env: attr.Env, Files: make([]uintptr, len(attr.Files)), Sys: &sys}}
	if err := f.order(o, fds); err != nil {
		return 0, err
	}
	a := <-o.answer
	*attr.Sys.PidFD = -1
	if a.err != nil {
		return a.pid, a.err
	}
	if pidfd, err := unix.PidfdOpen(a.pid, 0); err == nil { // our unreaped child: the number is its own
		*attr.Sys.PidFD = pidfd
	}
	return a.pid, nil
}

// order hands an order to the thread, with the descriptors that belong to it.
func (f *forker) order(o forkOrder, fds []int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.number++
	o.number = f.number
	if err := unix.Sendmsg(f.socket, binary.NativeEndian.AppendUint64(nil, o.number), unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("cannot hand the child's descriptors over: %w", err)
	}
	f.orders <- o
	return nil
}

// carryOut forks, on the forker's thread.
func carryOut(o forkOrder, socket int) forkAnswer {
	n := len(o.attr.Files)
	if o.attr.Sys.UseCgroupFD {
		n++
	}
	fds, err := receive(socket, o.number, n)
	if err != nil {
		return forkAnswer{err: err}
	}
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd) // a copy
		}
	}()
	for i := range o.attr.Files {
		o.attr.Files[i] = uintptr(fds[i])
	}
	if o.attr.Sys.UseCgroupFD {
		o.attr.Sys.CgroupFD = fds[n-1]
	}
	pid, err := syscall.ForkExec(o.path, o.argv, o.attr)
	return forkAnswer{pid: pid, err: err}
}

// receive takes the n descriptors of an order off a socket. What is left there of orders that could not take theirs is dropped.
func receive(socket int, number uint64, n int) ([]int, error) {
	var letter [8]byte
	for {
		fds, err := take(socket, letter[:], n)
		of := binary.NativeEndian.Uint64(letter[:])
		if of == number || of == 0 { // nothing came
			return fds, err
		}
		for _, fd := range fds {
			_ = unix.Close(fd) // never used
		}
		if of > number {
			return nil, errors.New("cannot take over descriptors: they are another order's")
		}
	}
}

// take takes a message and the n descriptors that come with it off a socket.
func take(socket int, letter []byte, n int) ([]int, error) {
	room := make([]byte, unix.CmsgSpace(4*n))
	for {
		clear(letter)
		_, m, flags, _, err := unix.Recvmsg(socket, letter, room, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot take over descriptors: %w", err)
		}
		return rights(room[:m], flags, n)
	}
}

// rights are the n descriptors in a control message. What there is of fewer is closed.
func rights(control []byte, flags, n int) ([]int, error) {
	var fds []int
	messages, err := unix.ParseSocketControlMessage(control)
	if err == nil && len(messages) == 1 {
		fds, err = unix.ParseUnixRights(&messages[0])
	}
	if err != nil {
		return nil, fmt.Errorf("cannot take over descriptors: %w", err)
	}
	if len(fds) == n && flags&unix.MSG_CTRUNC == 0 {
		return fds, nil
	}
	for _, fd := range fds {
		_ = unix.Close(fd) // never used
	}
	return nil, fmt.Errorf("cannot take over descriptors: %w", unix.EMFILE) // unix(7): what finds no free number is discarded
}
