package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// process is a handle of the process that listens on a socket, whichever that is.
type process struct{ fd int }

// listener asks the kernel who listens on a packet socket (SO_PEERPIDFD, Linux 6.5).
func listener(ctx context.Context, path string) (*process, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unixpacket", path)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &process{fd: -1}
	var optErr error
	err = raw.Control(func(fd uintptr) {
		if p.fd, optErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); optErr == nil {
			unix.CloseOnExec(p.fd)
		}
	})
	if err := errors.Join(err, optErr); err != nil {
		return nil, err
	}
	return p, nil
}

// await waits until the process has ended: its pidfd is readable then (pidfd_open(2)).
func (p *process) await(patience time.Duration) error {
	for end := time.Now().Add(patience); ; {
		left := time.Until(end)
		if left <= 0 {
			return fmt.Errorf("it has not ended after %s", patience)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		switch {
		case n > 0:
			return nil
		case err != nil && err != unix.EINTR:
			return err
		}
	}
}

// close lets go of the handle.
func (p *process) close() { _ = unix.Close(p.fd) }
