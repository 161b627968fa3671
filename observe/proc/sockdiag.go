package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel's tables in /proc cost the walk over a table of all possible connections, tens of milliseconds on a large
// host, also when there are none. sock_diag(7) is asked for listeners alone, and walks over those.

// errNoDiag says that this kernel cannot be asked so.
var errNoDiag = errors.New("the kernel does not answer sock_diag")

// Layout of Linux include/uapi/linux/inet_diag.h: struct inet_diag_req_v2 and struct inet_diag_msg, each with a struct
// inet_diag_sockid in it, which begins with the ports and addresses as they are on the wire.
const (
	sockDiagByFamily = 20
	diagRequestSize  = unix.NLMSG_HDRLEN + 56
	diagAnswerSize   = 72
	diagSourcePort   = 4
	diagRemotePort   = 6
	diagSource       = 8
	diagInode        = 68

	udpUnconnected = 7 // TCP_CLOSE of include/net/tcp_states.h: what a bound UDP socket is in
)

// diagPatience bounds the wait for an answer of the kernel, which comes at once.
const diagPatience = 5 * time.Second

// diagListeners asks the kernel for the listeners on ports in the network of the calling thread.
func diagListeners(ports map[Port]bool) (found []ListeningSocket, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, errNoDiag
	}
	defer unix.Close(fd) // nothing is lost
	patience := unix.NsecToTimeval(int64(diagPatience))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		return nil, fmt.Errorf("cannot ask for listeners: %w", err)
	}
	buffer := make([]byte, 32<<10)
	for _, udp := range []bool{false, true} {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			more, err := askListeners(fd, udp, family, ports, buffer, found)
			if errors.Is(err, errNoDiag) && family == unix.AF_INET6 {
				continue // a host without IPv6
			}
			if err != nil {
				return nil, err
			}
			found = more
		}
	}
	return found, nil
}

// askListeners adds those of one transport and family.
func askListeners(fd int, udp bool, family uint8, ports map[Port]bool, buffer []byte, found []ListeningSocket) ([]ListeningSocket, error) {
	if err := unix.Sendto(fd, diagRequest(udp, family), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, fmt.Errorf("cannot ask for listeners: %w", os.NewSyscallError("sendto", err))
	}
	for {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot ask for listeners: %w", os.NewSyscallError("recvfrom", err))
		}
		done := false
		if found, done, err = parseDiag(buffer[:n], udp, ports, found); done || err != nil {
			return found, err
		}
	}
}

func diagRequest(udp bool, family uint8) []byte {
	protocol, states := uint8(unix.IPPROTO_TCP), uint32(1<<tcpListen)
	if udp {
		protocol, states = unix.IPPROTO_UDP, 1<<udpUnconnected
	}
	b := make([]byte, diagRequestSize)
	binary.NativeEndian.PutUint32(b[0:], diagRequestSize)
	binary.NativeEndian.PutUint16(b[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	body := b[unix.NLMSG_HDRLEN:]
	body[0], body[1] = family, protocol
	binary.NativeEndian.PutUint32(body[4:], states)
	return b
}

var errDiagForm = errors.New("cannot ask for listeners: the kernel's answer has another form than sock_diag(7) says")

// parseDiag adds the listeners that one datagram of the kernel's answer tells; done = it was the last.
func parseDiag(b []byte, udp bool, ports map[Port]bool, found []ListeningSocket) (_ []ListeningSocket, done bool, err error) {
	for len(b) >= unix.NLMSG_HDRLEN {
		size, kind := int(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint16(b[4:])
		if size < unix.NLMSG_HDRLEN || size > len(b) {
			return nil, false, errDiagForm
		}
		body := b[unix.NLMSG_HDRLEN:size]
		switch {
		case kind == unix.NLMSG_DONE:
			return found, true, nil
		case kind == unix.NLMSG_ERROR:
			return nil, false, errNoDiag
		case kind != sockDiagByFamily:
		case len(body) < diagAnswerSize:
			return nil, false, errDiagForm
		default:
			if s, ok := listenerOf(body, udp); ok && ports[s.Port] {
				found = append(found, s)
			}
		}
		b = b[min((size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1), len(b)):]
	}
	return found, false, nil
}

// listenerOf reads one; false = it is connected.
func listenerOf(body []byte, udp bool) (s ListeningSocket, ok bool) {
	if binary.BigEndian.Uint16(body[diagRemotePort:]) != 0 {
		return s, false
	}
	size := 4
	if body[0] == unix.AF_INET6 {
		size = 16
	}
	address, ok := netip.AddrFromSlice(body[diagSource : diagSource+size])
	return ListeningSocket{
		Port:    Port{udp, binary.BigEndian.Uint16(body[diagSourcePort:])},
		Address: address.Unmap(),
		Inode:   uint64(binary.NativeEndian.Uint32(body[diagInode:])),
	}, ok
}
