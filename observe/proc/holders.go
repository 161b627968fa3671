package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"reconciler.dev/reconciler/observe"
)

// ErrUnseen says that the kernel does not show us what some process has open, or which network it is in: it is another user's, or
// one that was made with more rights than ours.
var ErrUnseen = errors.New("the kernel does not show us enough of a process")

// HoldsSockets reports whether every one of the sockets, named by its inode, is held open by a process of the cgroup. A
// process that does not show its descriptors makes it an error (ErrUnseen), unless the others have them all.
func (g Cgroup) HoldsSockets(ctx context.Context, sockets []uint64) (bool, error) {
	held, err := g.HeldSockets(ctx, sockets)
	return heldAll(held, sockets, err)
}

// HoldsSockets is [Cgroup.HoldsSockets] for a family that has no cgroup.
func (k *Kernel) HoldsSockets(ctx context.Context, f Family, sockets []uint64) (bool, error) {
	held, err := k.HeldSockets(ctx, f, sockets)
	return heldAll(held, sockets, err)
}

func heldAll(held, sockets []uint64, err error) (bool, error) {
	for _, inode := range sockets {
		if !slices.Contains(held, inode) {
			return false, err
		}
	}
	return true, nil
}

// HeldSockets are those of the sockets, named by their inodes, that a process of the cgroup holds open. Without all of them
// it is ErrUnseen beside what is seen when a process does not show its descriptors.
func (g Cgroup) HeldSockets(ctx context.Context, sockets []uint64) ([]uint64, error) {
	members, err := g.Members()
	if err != nil {
		return nil, err
	}
	search := newSearch(sockets)
	for _, pid := range members {
		search.look(ctx, pid, func() bool {
			// The number may have become another's between the list and the look.
			now, err := g.Members()
			return err == nil && slices.Contains(now, pid)
		})
	}
	return search.result(ctx)
}

// HeldSockets is [Cgroup.HeldSockets] for a family that has no cgroup.
func (k *Kernel) HeldSockets(ctx context.Context, f Family, sockets []uint64) ([]uint64, error) {
	search := newSearch(sockets)
	for _, m := range f.Members {
		p, err := k.Open(m.ID)
		if err != nil {
			continue // it has ended, or cannot be proven to be a member
		}
		search.look(ctx, m.ID.PID, func() bool { return p.Alive() == observe.Alive })
		if err := p.Close(); err != nil {
			return search.held, err
		}
	}
	return search.result(ctx)
}

// search looks for the holders of sockets.
type search struct {
	wanted map[uint64]bool
	held   []uint64
	unseen error
}

func newSearch(sockets []uint64) *search {
	s := &search{wanted: make(map[uint64]bool, len(sockets))}
	for _, inode := range sockets {
		s.wanted[inode] = true
	}
	return s
}

// look takes what a process has. member is asked afterwards whether the number was a member's all the time.
func (s *search) look(ctx context.Context, pid int, member func() bool) {
	if len(s.wanted) == 0 || ctx.Err() != nil {
		return
	}
	held, err := socketsOf(ctx, pid, s.wanted)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		s.unseen = err
	}
	if len(held) == 0 || !member() {
		return
	}
	for _, inode := range held {
		if s.wanted[inode] { // it may have it open twice
			delete(s.wanted, inode)
			s.held = append(s.held, inode)
		}
	}
}

func (s *search) result(ctx context.Context) ([]uint64, error) {
	switch {
	case len(s.wanted) == 0:
		return s.held, nil
	case ctx.Err() != nil:
		return s.held, ctx.Err()
	case s.unseen != nil:
		return s.held, fmt.Errorf("%w: %w", ErrUnseen, s.unseen)
	}
	return s.held, nil
}

// socketsOf are those of the sockets that a process has open.
func socketsOf(ctx context.Context, pid int, wanted map[uint64]bool) (held []uint64, err error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	names, err := readNames(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return held, nil
		}
		target, err := os.Readlink(dir + "/" + name)
		if err != nil {
			continue // closed meanwhile
		}
		if inode, ok := socketInodeOf(target); ok && wanted[inode] {
			held = append(held, inode)
		}
	}
	return held, nil
}

// socketInodeOf is the inode in "socket:[INODE]", as /proc names a socket.
func socketInodeOf(target string) (uint64, bool) {
	rest, ok := strings.CutPrefix(target, "socket:[")
	if !ok {
		return 0, false
	}
	digits, ok := strings.CutSuffix(rest, "]")
	if !ok {
		return 0, false
	}
	inode, err := strconv.ParseUint(digits, 10, 64)
	return inode, err == nil
}
