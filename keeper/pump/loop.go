package pump

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Loop is the keeper's one epoll loop: FIFOs, pidfds, cgroup event files. Its callbacks run one after the other on the
// goroutine of [Loop.Run]; none may touch a disk or wait for anything. Add, Remove and Post may be called from any
// goroutine, callbacks included, and before Run.
type Loop struct {
	epfd, wakefd int

	mu       sync.Mutex
	handlers map[int32]handler
	gen      int32
	posted   []func()
	waking   atomic.Bool // the wake descriptor is written and not read yet

	// after ends every turn and says how long the next may wait for events: milliseconds, -1 = for ever.
	after func() int
}

type handler struct {
	gen  int32
	call func(events uint32)
}

// NewLoop makes a loop without events.
func NewLoop() (*Loop, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot create an epoll instance: %w", err)
	}
	wakefd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot create an eventfd: %w", err), unix.Close(epfd))
	}
	l := &Loop{epfd: epfd, wakefd: wakefd, handlers: map[int32]handler{}}
	if err := l.Add(wakefd, unix.EPOLLIN, func(uint32) { l.awoken() }); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Add watches a descriptor for events (EPOLLIN, EPOLLPRI, EPOLLET...) and calls f with those that came. The descriptor
// stays the caller's, who calls Remove before closing it.
func (l *Loop) Add(fd int, events uint32, f func(events uint32)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gen++
	event := unix.EpollEvent{Events: events, Fd: int32(fd), Pad: l.gen}
	if err := unix.EpollCtl(l.epfd, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("cannot watch descriptor %d: %w", fd, err)
	}
	l.handlers[int32(fd)] = handler{gen: l.gen, call: f}
	return nil
}

// modify changes the events of a watched descriptor; 0 pauses all but EPOLLERR and EPOLLHUP. Those that are due already
// are reported again.
func (l *Loop) modify(fd int, events uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.handlers[int32(fd)]
	if !ok {
		return
	}
	event := unix.EpollEvent{Events: events, Fd: int32(fd), Pad: h.gen}
	// A watched descriptor can be modified: no memory is needed for it.
	_ = unix.EpollCtl(l.epfd, unix.EPOLL_CTL_MOD, fd, &event)
}

// Remove ends the watch of a descriptor. Called on the loop's goroutine no callback for it follows; called elsewhere one
// may be under way.
func (l *Loop) Remove(fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.handlers[int32(fd)]; !ok {
		return
	}
	delete(l.handlers, int32(fd))
	// It fails only for a descriptor that is closed already, which epoll has then forgotten by itself.
	_ = unix.EpollCtl(l.epfd, unix.EPOLL_CTL_DEL, fd, nil)
}

// Post runs f on the loop's goroutine, after what was posted before.
func (l *Loop) Post(f func()) {
	l.mu.Lock()
	l.posted = append(l.posted, f)
	l.mu.Unlock()
	l.wake()
}

func (l *Loop) wake() {
	if l.waking.Swap(true) {
		return
	}
	one := [8]byte{0: 1}
	// It cannot fail: the counter is far from its limit.
	_, _ = unix.Write(l.wakefd, one[:])
}

func (l *Loop) awoken() {
	var count [8]byte
	_, _ = unix.Read(l.wakefd, count[:]) // EAGAIN: read already
	l.waking.Store(false)
}

// Run calls back until ctx ends, then returns nil. An error is one of epoll itself.
func (l *Loop) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { l.Post(func() {}) })
	defer stop()
	events := make([]unix.EpollEvent, 128)
	timeout := 0
	for ctx.Err() == nil {
		n, err := unix.EpollWait(l.epfd, events, timeout)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot wait for events: %w", err)
		}
		for i := range n {
			if call := l.handlerOf(&events[i]); call != nil {
				call(events[i].Events)
			}
		}
		l.runPosted()
		timeout = -1
		if l.after != nil {
			timeout = l.after()
		}
	}
	return nil
}

// handlerOf is nil for an event of a descriptor that was removed since, even when its number is in use again.
func (l *Loop) handlerOf(e *unix.EpollEvent) func(uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.handlers[e.Fd]
	if h.gen != e.Pad {
		return nil
	}
	return h.call
}

func (l *Loop) runPosted() {
	l.mu.Lock()
	posted := l.posted
	l.posted = nil
	l.mu.Unlock()
	for _, f := range posted {
		f()
	}
}

// Close gives up the loop's own descriptors. Run must have returned.
func (l *Loop) Close() error {
	return errors.Join(unix.Close(l.wakefd), unix.Close(l.epfd))
}
