package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"reconciler.dev/reconciler/keeper/anchor"
	"reconciler.dev/reconciler/keeper/console"
	"reconciler.dev/reconciler/state"
)

// socketEvery is how often the socket is looked at, besides when the kernel says that something happened to it.
const socketEvery = 30 * time.Second

// listen serves the socket until ctx ends, and makes it anew when it vanishes: the runtime directory may.
func (k *keeper) listen(ctx context.Context) error {
	watch := newSocketWatch(k)
	defer watch.close()
	for first := true; ; first = false {
		s, err := k.makeSocket()
		if err != nil && first {
			return err
		}
		if err == nil && first {
			k.comeUp(ctx)
		}
		if err != nil {
			k.cfg.Log.Error("cannot make the socket anew", "error", err)
		}
		watch.look(k.cfg.Layout.Runtime)
		if vanished := k.serveWhileThere(ctx, s, watch.changed); !vanished {
			return nil
		}
	}
}

// comeUp tells whoever waits for it that we serve.
func (k *keeper) comeUp(ctx context.Context) {
	if k.cfg.Ready != nil {
		k.cfg.Ready()
	}
	if err := k.kernel.orphans.store.Up(ctx); err != nil && !errors.Is(err, anchor.ErrAway) { // one that is away starts nobody
		k.cfg.Log.Error("cannot tell the anchor that this keeper serves", "error", err)
	}
}

// socket is a listening socket and the file that leads to it, and the socket for notices beside it.
type socket struct {
	*net.UnixListener
	file    fs.FileInfo
	notices *noticeSocket
}

// close closes both, and removes their files where the paths are not another's by now.
func (s *socket) close(l state.Layout) {
	for path, file := range map[string]fs.FileInfo{l.KeeperSocket(): s.file, l.NotifySocket(): s.notices.file} {
		if isFile(path, file) {
			_ = os.Remove(path) // the next keeper removes it else
		}
	}
	_ = s.Close() // nothing is lost
	_ = s.notices.Close()
}

// makeSocket binds the socket. One that is there is a dead keeper's: the lock is ours.
func (k *keeper) makeSocket() (*socket, error) {
	if err := k.cfg.Layout.MakeRuntime(); err != nil {
		return nil, err
	}
	path := k.cfg.Layout.KeeperSocket()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot remove an old socket: %w", err)
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("cannot make the socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // by then the path may be another's
	// Whoever may not give orders is turned away by its credentials.
	err = os.Chmod(path, 0o666)
	file, statErr := os.Lstat(path)
	if err := errors.Join(err, statErr); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the socket to others: %w", err), l.Close())
	}
	notices, err := makeNoticeSocket(k.cfg.Layout.NotifySocket())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &socket{l, file, notices}, nil
}

// isThere reports whether the paths still lead to the sockets.
func (s *socket) isThere(l state.Layout) bool {
	return isFile(l.KeeperSocket(), s.file) && isFile(l.NotifySocket(), s.notices.file)
}

func isFile(path string, file fs.FileInfo) bool {
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(now, file)
}

// serveWhileThere accepts on s until it vanishes from its place (true), or ctx ends. A nil s is one that could not be made.
func (k *keeper) serveWhileThere(ctx context.Context, s *socket, changed <-chan struct{}) bool {
	var wg sync.WaitGroup
	defer wg.Wait()
	every := againEvery
	if s != nil {
		every = socketEvery
		defer s.close(k.cfg.Layout)
		wg.Go(func() { k.server.serve(s.UnixListener) })
		wg.Go(func() { k.hearNotices(s.notices) })
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		case <-ticker.C:
		}
		if s == nil || !s.isThere(k.cfg.Layout) {
			return true
		}
	}
}

// hearNotices takes what runs say of themselves until the socket is closed.
func (k *keeper) hearNotices(s *noticeSocket) {
	err := s.serve(func(who peer, n Notice) {
		place, ok := k.inside(who)
		if !ok {
			k.cfg.Log.Debug("a notice of no run was heard", "process", who.pid)
			return
		}
		k.note(place, n)
	})
	if !errors.Is(err, net.ErrClosed) {
		k.cfg.Log.Error("cannot hear notices any more", "error", err)
	}
}

// inside tells which live run a process is part of.
func (k *keeper) inside(who peer) (Place, bool) { return k.kernel.inside(who, k.core.livePlaces()) }

// note hears what a run says of itself.
func (k *keeper) note(p Place, n Notice) {
	if n.ready() {
		k.events.notified(p.Scope, p.Number)
	}
	if n.lives() {
		k.core.HandleWatchdog(p.Scope, p.Number)
	}
}

// inbox takes what was sent to a run.
func (k *keeper) inbox(p Place) (Mail, error) {
	lines, err := console.Mailbox{Directory: k.kernel.folder(p.RunID)}.Take()
	return Mail{lines}, err
}

// socketWatch tells when something happens in the runtime directory. Where the host has no watches left it tells nothing.
type socketWatch struct {
	keeper  *keeper
	fd      int // -1 = the host has none
	changed chan struct{}
}

func newSocketWatch(k *keeper) *socketWatch {
	w := &socketWatch{keeper: k, changed: make(chan struct{}, 1)}
	err := error(unix.EMFILE)
	if !k.cfg.noWatches {
		w.fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	}
	if err == nil {
		fd := w.fd // what the loop calls reads it from now on
		if err = k.loop.Add(fd, unix.EPOLLIN, func(uint32) { w.drain() }); err != nil {
			_ = unix.Close(fd) // nothing was watched by it
		}
	}
	if err != nil {
		w.fd = -1
		k.cfg.Log.Warn("the runtime directory is looked at from time to time only (fs.inotify.max_user_instances may be used up)", "error", err)
	}
	return w
}

// look watches the directory as it is now.
func (w *socketWatch) look(dir string) {
	if w.fd < 0 {
		return
	}
	const mask = unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
	if _, err := unix.InotifyAddWatch(w.fd, dir, mask); err != nil {
		w.keeper.cfg.Log.Debug("the runtime directory is looked at from time to time only", "error", err)
	}
}

func (w *socketWatch) drain() {
	var buf [4096]byte
	for {
		if n, err := unix.Read(w.fd, buf[:]); n <= 0 || err != nil {
			break
		}
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *socketWatch) close() {
	if w.fd < 0 {
		return
	}
	w.keeper.loop.Remove(w.fd)
	_ = unix.Close(w.fd)
}
