package keeper

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// peer is who is at the other end of a connection, as the kernel says.
type peer struct {
	uid   int
	pid   int
	pidfd int // -1 where the kernel has no SO_PEERPIDFD (before 6.5)
}

// peerOf asks the kernel about a connection's other end. Close lets its pidfd go.
func peerOf(conn *net.UnixConn) (peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer{}, fmt.Errorf("cannot look at a peer: %w", err)
	}
	p := peer{pidfd: -1}
	var credErr error
	err = raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); credErr != nil {
			return
		}
		p.uid, p.pid = int(cred.Uid), int(cred.Pid)
		pidfd, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		switch {
		case err == nil:
			p.pidfd = pidfd
			unix.CloseOnExec(pidfd)
		case errors.Is(err, unix.ENOPROTOOPT):
			// An older kernel: the credentials alone have to do.
		default:
			credErr = err // the peer is gone
		}
	})
	if err := errors.Join(err, credErr); err != nil {
		p.close()
		return peer{}, fmt.Errorf("cannot look at a peer: %w", err)
	}
	if p.pidfd >= 0 && unix.PidfdSendSignal(p.pidfd, 0, nil, 0) == unix.ESRCH {
		p.close()
		return peer{}, errors.New("the peer is gone")
	}
	return p, nil
}

func (p peer) close() {
	if p.pidfd >= 0 {
		_ = unix.Close(p.pidfd)
	}
}

// mayConnect reports whether a user may give orders: root, who runs the keeper, and, where this keeper has a
// host configuration of its own, who owns the reconciler's folder.
func mayConnect(uid int, ownHost bool, reconcilerFolder string) bool {
	if uid == 0 || uid == os.Geteuid() {
		return true
	}
	if !ownHost {
		return false
	}
	info, err := os.Lstat(reconcilerFolder)
	if err != nil || !info.IsDir() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == uid
}
