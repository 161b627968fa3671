package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// noticeSocket is where runs say in datagrams what they are about, as they would to a service manager (sd_notify(3)). Everybody
// may send; what counts comes from a process that the kernel shows to be part of a run.
type noticeSocket struct {
	*net.UnixConn
	file fs.FileInfo
}

// makeNoticeSocket binds the socket. One that is there is a dead keeper's.
func makeNoticeSocket(path string) (*noticeSocket, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot remove an old socket: %w", err)
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("cannot make the socket for notices: %w", err)
	}
	err = passCredentials(conn)
	chmodErr := os.Chmod(path, 0o666)
	file, statErr := os.Lstat(path)
	if err := errors.Join(err, chmodErr, statErr); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the socket for notices: %w", err), conn.Close())
	}
	return &noticeSocket{conn, file}, nil
}

// passCredentials has the kernel say with each datagram who sent it.
func passCredentials(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var setErr error
	err = raw.Control(func(fd uintptr) {
		setErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
		if setErr == nil {
			// Before Linux 6.5 there is none: main processes alone are heard then.
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSPIDFD, 1)
		}
	})
	return errors.Join(err, setErr)
}

// serve hands every notice to hear, until the socket is closed. The sender's pidfd is closed afterwards, and so is all that it
// passed along: who waits for that (sd_notify_barrier(3)) knows that it was heard.
func (s *noticeSocket) serve(hear func(peer, Notice)) error {
	text, control := make([]byte, maxNotice), make([]byte, RightsRoom+unix.CmsgSpace(unix.SizeofUcred)+unix.CmsgSpace(4))
	for {
		n, m, flags, _, err := s.ReadMsgUnix(text, control)
		if err != nil {
			return err
		}
		who, passed := senderOf(control[:m])
		if who.pid > 0 && flags&unix.MSG_TRUNC == 0 {
			hear(who, Notice{string(text[:n])})
		}
		who.close()
		dismissAll(passed)
	}
}

// senderOf reads who has sent a datagram, and the descriptors that came with it.
func senderOf(control []byte) (who peer, passed []int) {
	who.pidfd = -1
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return who, nil
	}
	for i := range messages {
		m := &messages[i]
		switch {
		case m.Header.Level != unix.SOL_SOCKET:
		case m.Header.Type == unix.SCM_CREDENTIALS:
			if cred, err := unix.ParseUnixCredentials(m); err == nil {
				who.pid, who.uid = int(cred.Pid), int(cred.Uid)
			}
		case m.Header.Type == unix.SCM_PIDFD:
			m.Header.Type = unix.SCM_RIGHTS // read in the same way
			if fds, err := unix.ParseUnixRights(m); err == nil && len(fds) == 1 && fds[0] >= 0 {
				who.pidfd = fds[0]
			}
		case m.Header.Type == unix.SCM_RIGHTS:
			if fds, err := unix.ParseUnixRights(m); err == nil {
				passed = append(passed, fds...)
			}
		}
	}
	return who, passed
}
