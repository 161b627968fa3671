package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/state"
)

// doors are the two places where the reconciler is asked: the Unix socket, and the TCP listener for those who only look.
type doors struct {
	layout  state.Layout
	log     *slog.Logger
	control *socket
	public  net.Listener // nil = none

	controlMux http.Handler
	publicMux  http.Handler
}

// socket is a listening Unix socket and the file that leads to it.
type socket struct {
	net.Listener
	file fs.FileInfo
}

// open binds both doors.
func (d *doors) open(cfg Config, log *slog.Logger) error {
	d.layout, d.log = cfg.Layout, log
	if cfg.Listen != "" {
		l, err := net.Listen("tcp", cfg.Listen)
		switch {
		case err != nil && cfg.MustListen:
			return fmt.Errorf("--listen %s: %w", cfg.Listen, err)
		case err != nil:
			log.Warn("nothing is served over TCP: the address cannot be had; choose another with --listen", "address", cfg.Listen, "error", err)
		default:
			d.public = l
		}
	}
	control, err := bind(cfg.Layout)
	if err != nil {
		return err
	}
	d.control = control
	return nil
}

// bind makes the Unix socket. The lock is ours, so one that is there is a dead reconciler's, unless the runtime directory
// is shared with another state directory: then somebody answers.
func bind(l state.Layout) (*socket, error) {
	path := l.APISocket()
	if conn, err := net.DialTimeout("unix", path, askPatience); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("the runtime directory %s is used by a reconciler with another state directory; name another with --runtime-dir", l.Runtime)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot remove an old socket: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("cannot make the socket: %w", err)
	}
	listener.SetUnlinkOnClose(false) // by then the path may be another's
	// Everybody may ask; what may be asked for is decided by the asker's credentials.
	err = os.Chmod(path, 0o666)
	file, statErr := os.Lstat(path)
	if err := errors.Join(err, statErr); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the socket to others: %w", err), listener.Close())
	}
	return &socket{listener, file}, nil
}

// service says who answers.
func (d *doors) service(s *api.Service, metrics http.Handler) {
	s.Metrics = metrics
	d.controlMux, d.publicMux = s.Control(), s.Public()
}

// The bounds of a request. There is none for an answer: a log or a watch goes on as long as its reader does.
const (
	headerPatience = 10 * time.Second
	maxHeader      = 64 << 10
	lastAnswers    = 5 * time.Second
	socketEvery    = time.Minute     // where its place is watched
	socketOften    = 5 * time.Second // where it cannot be, or there is none
)

// run serves until ctx ends, and then lets answers under way end.
func (d *doors) run(ctx context.Context) error {
	base, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	server := func(h http.Handler, user func(net.Conn) (int, bool)) *http.Server {
		c := &crowd{max: maxConnections, share: maxOfOneUser, user: user, log: d.log}
		return &http.Server{
			ConnState: c.state,
			Handler:   h, ReadHeaderTimeout: headerPatience, MaxHeaderBytes: maxHeader,
			BaseContext: func(net.Listener) context.Context { return base },
			ErrorLog:    slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
		}
	}
	control := server(d.controlMux, socketUser)
	control.ConnContext = api.ConnContext
	public := server(d.publicMux, func(net.Conn) (int, bool) { return 0, false })

	var wg sync.WaitGroup
	errs := make(chan error, 2)
	serve := func(s *http.Server, l net.Listener) {
		wg.Go(func() {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				errs <- fmt.Errorf("cannot serve: %w", err)
			}
		})
	}
	serve(control, d.control)
	if d.public != nil {
		d.log.Info("serving metrics", "address", d.public.Addr().String())
		serve(public, d.public)
	}
	err := d.stay(ctx, errs, func(l net.Listener) { serve(control, l) })
	hangUp() // watches and logs would go on for ever
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	defer cancel()
	err = errors.Join(err, control.Shutdown(last), public.Shutdown(last))
	wg.Wait()
	return err
}

// socketUser is who made a connection; only root and our own user may have more than a share.
func socketUser(c net.Conn) (uid int, shares bool) {
	uid, err := api.PeerUser(c)
	return uid, err != nil || uid != 0 && uid != os.Geteuid()
}

// stay waits until ctx ends or serving fails, and meanwhile makes the socket anew when it vanishes: the runtime directory
// may.
func (d *doors) stay(ctx context.Context, errs <-chan error, serve func(net.Listener)) error {
	watch := newPlaceWatch()
	defer watch.close()
	failed := false
	for {
		every := socketOften
		if watch.look(filepath.Dir(d.layout.APISocket())) && !failed {
			every = socketEvery
		}
		tick := time.NewTimer(every)
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case err := <-errs:
			tick.Stop()
			return err
		case <-watch.changed():
		case <-watch.missed():
		case <-tick.C:
		}
		tick.Stop()
		if file, err := os.Lstat(d.layout.APISocket()); err == nil && os.SameFile(file, d.control.file) {
			continue
		}
		next, err := d.again()
		if failed = err != nil; failed {
			d.log.Error("the socket has vanished and cannot be made anew", "error", err)
			continue
		}
		d.log.Warn("the socket had vanished; it was made anew")
		_ = d.control.Close() // nobody finds it any more
		d.control = next
		serve(next)
	}
}

func (d *doors) again() (*socket, error) {
	if err := d.layout.MakeRuntime(); err != nil {
		return nil, err
	}
	return bind(d.layout)
}

// close lets go of what was bound. What Serve had is closed already.
func (d *doors) close() error {
	if d.public != nil {
		_ = d.public.Close()
	}
	if d.control == nil {
		return nil
	}
	_ = d.control.Close()
	file, err := os.Lstat(d.layout.APISocket())
	if err != nil || !os.SameFile(file, d.control.file) {
		return nil
	}
	if err := os.Remove(d.layout.APISocket()); err != nil {
		return fmt.Errorf("cannot remove the socket: %w", err)
	}
	return nil
}
