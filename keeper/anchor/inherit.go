package anchor

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// variable tells a keeper what came before it: the number of its anchor's keepers, times 2^32, and the wait status of the last. The
// connection is descriptor 3.
const variable = "RECONCILER_ANCHOR"

// connection is the keeper's end of the socket pair.
const connection = 3

// sysPidfdSendSignal is pidfd_send_signal(2), of the same number on every architecture.
const sysPidfdSendSignal = 424

// Offer is what a process needs to take its parent for its anchor.
type Offer struct {
	Variable   string // of its environment
	Connection int    // to become its descriptor 3
	Served     int    // the other end, for [Shelf.Serve]
}

// NewOffer makes an offer, for a keeper before which so many were, and of whose the last ended with this wait status. Both descriptors are
// close-on-exec and the caller's.
func NewOffer(deaths int, last uint32) (Offer, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return Offer{}, errors.New("cannot make a socket pair: " + err.Error())
	}
	return Offer{variable + "=" + strconv.FormatUint(uint64(deaths)<<32|uint64(last), 10), pair[1], pair[0]}, nil
}

// environ is the environment without what our own starter may have put there.
func environ() []string {
	var env []string
	for _, e := range os.Environ() {
		if len(e) <= len(variable) || e[:len(variable)+1] != variable+"=" {
			env = append(env, e)
		}
	}
	return env
}

// Inheritance is what a keeper has from its anchor.
type Inheritance struct {
	Store  *Store
	PID    int                // the anchor's, as long as it is our parent
	Deaths int                // of keepers before us
	Last   syscall.WaitStatus // how the last of them ended, if there was one
}

// Inherited reports whether this process was started by an anchor: one that is its parent and has the other end of its connection. A
// variable alone, whoever has set it, makes no anchor.
func Inherited() bool {
	if _, ok := os.LookupEnv(variable); !ok {
		return false
	}
	pid, err := peer(connection)
	return err == nil && pid == os.Getppid()
}

// Inherit takes what the anchor has given us, once; nil when there is no anchor.
func Inherit() *Inheritance {
	if !Inherited() {
		return nil
	}
	i := &Inheritance{PID: os.Getppid()}
	// For messages alone: whatever it says is no reason to fail.
	both, _ := strconv.ParseUint(os.Getenv(variable), 10, 64)
	i.Deaths, i.Last = int(both>>32), syscall.WaitStatus(uint32(both))
	_ = os.Unsetenv(variable)
	syscall.CloseOnExec(connection)
	i.Store = NewStore(connection)
	return i
}

// peer is the process that made a socket pair.
func peer(fd int) (int, error) {
	cred, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}

// rename gives the process a name for the kernel, of which it takes 15 bytes. It is the calling thread's: the first thread's is shown.
func rename(name string) {
	var b [16]byte
	copy(b[:15], name)
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setName, uintptr(unsafe.Pointer(&b)), 0) // for people
}

// base is the last part of a path.
func base(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[i+1:]
		}
	}
	return path
}
