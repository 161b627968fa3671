package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// peer is who asks, by the kernel's word (unix(7), SO_PEERCRED): the credentials of the process that called connect, kept
// by the kernel from that moment on. Nothing in a request can change them.
type peer struct {
	uid int
	err error // the kernel did not tell
}

type peerKey struct{}

// ConnContext gives every request of a connection its peer. It is the http.Server's hook.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, peerOf(c))
}

// PeerUser is the user at the other end of a connection of a Unix socket, -1 with an error when the kernel does not tell.
func PeerUser(c net.Conn) (uid int, err error) {
	p := peerOf(c)
	if p.err != nil {
		return -1, p.err
	}
	return p.uid, nil
}

func peerOf(c net.Conn) peer {
	uc, ok := c.(interface { // *net.UnixConn, or around one
		SyscallConn() (syscall.RawConn, error)
		ReadMsgUnix(b, oob []byte) (n, oobn, flags int, addr *net.UnixAddr, err error)
	})
	if !ok {
		return peer{err: fmt.Errorf("not a Unix socket: %T", c)}
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return peer{err: err}
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil {
		return peer{err: err}
	}
	if credErr != nil {
		return peer{err: credErr}
	}
	return peer{uid: int(cred.Uid)}
}

// peerOfRequest is the peer of the connection that r came on.
func peerOfRequest(r *http.Request) peer {
	p, ok := r.Context().Value(peerKey{}).(peer)
	if !ok {
		return peer{err: fmt.Errorf("the connection has no peer")}
	}
	return p
}

// administers reports whether the peer may do everything: root, and the user that runs the reconciler.
func (s *Service) administers(p peer) bool { return p.err == nil && (p.uid == 0 || p.uid == s.UID) }

// name is the actor as it is recorded: the user's name, or uid:N for one without.
func (p peer) name() string {
	u, err := user.LookupId(strconv.Itoa(p.uid))
	if err != nil {
		return "uid:" + strconv.Itoa(p.uid)
	}
	return u.Username
}
