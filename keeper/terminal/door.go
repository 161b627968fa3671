package terminal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// DoorName is that of the custodian's socket in a run's folder.
const DoorName = "terminal"

// patience is how long a custodian may take to answer, in seconds. It waits for nothing else: one that does not answer was stopped.
const patience = 10

// doorAddress names the socket in an opened folder: the path of a socket has 107 bytes at most, that of a folder may be longer.
func doorAddress(folder *os.File) *unix.SockaddrUnix {
	return &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(int(folder.Fd())) + "/" + DoorName}
}

// makeDoor listens in a run's folder.
func makeDoor(folder string) (int, error) {
	dir, err := os.Open(folder)
	if err != nil {
		return -1, err
	}
	defer dir.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("cannot make a socket: %w", err)
	}
	if err := unix.Bind(fd, doorAddress(dir)); err != nil {
		return -1, errors.Join(fmt.Errorf("cannot bind a socket: %w", err), unix.Close(fd))
	}
	if err := unix.Listen(fd, 1); err != nil {
		return -1, errors.Join(fmt.Errorf("cannot listen: %w", err), unix.Close(fd), removeDoor(folder))
	}
	return fd, nil
}

func removeDoor(folder string) error {
	err := unix.Unlink(filepath.Join(folder, DoorName))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// HasDoor reports whether a run's folder has a door, with a custodian behind it or without.
func HasDoor(folder string) bool {
	return unix.Access(filepath.Join(folder, DoorName), unix.F_OK) == nil
}

// call connects to the custodian behind a folder's door and fetches the master side from it. As long as the connection is open, the
// custodian is the caller's.
func call(folder string) (conn, master int, err error) {
	dir, err := os.Open(folder)
	if err != nil {
		return -1, -1, err
	}
	defer dir.Close()
	conn, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("cannot make a socket: %w", err)
	}
	master, err = fetch(conn, doorAddress(dir))
	if err != nil {
		return -1, -1, errors.Join(err, unix.Close(conn))
	}
	return conn, master, nil
}

func fetch(conn int, door *unix.SockaddrUnix) (int, error) {
	for _, option := range []int{unix.SO_SNDTIMEO, unix.SO_RCVTIMEO} { // of the connect, and of the answer
		if err := unix.SetsockoptTimeval(conn, unix.SOL_SOCKET, option, &unix.Timeval{Sec: patience}); err != nil {
			return -1, fmt.Errorf("cannot set a time limit: %w", err)
		}
	}
	if err := again(func() error { return unix.Connect(conn, door) }); err != nil {
		return -1, fmt.Errorf("cannot reach the custodian of a terminal: %w", err)
	}
	var letter [1]byte
	var n, m, flags int
	room := make([]byte, unix.CmsgSpace(4))
	err := again(func() (err error) {
		n, m, flags, _, err = unix.Recvmsg(conn, letter[:], room, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("the custodian of a terminal does not answer: %w", err)
	}
	if n == 0 {
		return -1, errors.New("the custodian of a terminal has ended")
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return -1, fmt.Errorf("cannot take a terminal over: %w", unix.EMFILE) // unix(7): what finds no free number is discarded
	}
	return masterIn(room[:m])
}

// masterIn takes the one descriptor out of a control message, which must be a terminal's master side.
func masterIn(control []byte) (int, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(messages) != 1 {
		return -1, errors.Join(errors.New("the custodian of a terminal sent no descriptor"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.Join(errors.New("the custodian of a terminal sent no descriptor"), err)
	}
	if _, err := unix.IoctlGetInt(fds[0], unix.TIOCGPTN); err != nil { // the master's alone
		return -1, errors.Join(fmt.Errorf("what the custodian sent is no terminal: %w", err), unix.Close(fds[0]))
	}
	return fds[0], nil
}

func again(try func() error) error {
	for {
		if err := try(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
