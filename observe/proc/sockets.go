package proc

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
)

// Receivers are the sockets, by their inodes, one of which gets what is sent from local to remote: the two ends of a
// socket of the calling thread that is connected, over "tcp" or "udp". All of them are of this host, in the thread's
// network namespace.
//
// Over TCP it is the one socket that has accepted the connection. As long as nobody has, the connection waits with
// those that listen on remote, and any of them may take it: a listener that closes resets what waits with it, so that
// nobody else gets it. Over UDP it is every socket that is bound to remote or to its port on every address, as programs may
// share a port and the kernel does not tell which of them it prefers.
//
// There is none when nobody listens, or remote is not of this host. It fails with [ErrEnded] when the other end of a connection over TCP
// has ended it. Source of the format: proc(5), and Linux
// net/ipv4/tcp_ipv4.c get_tcp4_sock.
func Receivers(network string, local, remote netip.AddrPort) ([]uint64, error) {
	local, remote = plain(local), plain(remote)
	there := func(port uint16) bool { return port == remote.Port() }
	v4, err := socketsAt("/proc/thread-self/net/"+network, there)
	if err != nil {
		return nil, err
	}
	v6, err := socketsAt("/proc/thread-self/net/"+network+"6", there)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // a host without IPv6
		return nil, err
	}
	if network != "tcp" {
		return bound(append(v4, v6...), local, remote), nil
	}
	for _, table := range [][]socket{v4, v6} {
		for _, s := range table {
			if s.local != remote || s.remote != local {
				continue
			}
			switch {
			case s.inode != 0:
				return []uint64{s.inode}, nil
			case s.state != tcpEstablished && s.state != tcpSynRecv:
				return nil, ErrEnded // its program has closed it
			}
			return listeners(table, remote.Addr()), nil // it waits with a listener of this table
		}
	}
	return listeners(append(v4, v6...), remote.Addr()), nil // with a SYN cookie it is in no table yet
}

// bound are the sockets that may get a datagram: connected to us or to nobody.
func bound(table []socket, local, remote netip.AddrPort) (inodes []uint64) {
	for _, s := range table {
		if s.receives(remote.Addr()) && (s.remote.Port() == 0 || s.remote == local) {
			inodes = append(inodes, s.inode)
		}
	}
	return inodes
}

// listeners are the sockets that listen on an address, or on all.
func listeners(table []socket, at netip.Addr) (inodes []uint64) {
	for _, s := range table {
		if s.state == tcpListen && s.receives(at) {
			inodes = append(inodes, s.inode)
		}
	}
	return inodes
}

// ErrEnded says that nobody has the other end of a connection any more.
var ErrEnded = errors.New("the other end has ended the connection")

// States of Linux include/net/tcp_states.h.
const (
	tcpEstablished = 0x01
	tcpSynRecv     = 0x03
	tcpListen      = 0x0A
)

// socket is a row of a socket table.
type socket struct {
	local, remote netip.AddrPort // an IPv4 address as such, in the table of IPv6 too
	state         uint8
	inode         uint64 // 0: no program has it, as it was not accepted yet or is closed
}

func (s socket) receives(at netip.Addr) bool {
	return s.local.Addr() == at || s.local.Addr().IsUnspecified()
}

func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// socketsAt reads the rows of a table whose local port is wanted. A busy host has a hundred thousand rows of other ports.
func socketsAt(path string, wanted func(port uint16) bool) ([]socket, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read a table of sockets: %w", err)
	}
	defer f.Close() // read only: nothing can be lost
	return parseSockets(f, wanted)
}

func parseSockets(r io.Reader, wanted func(port uint16) bool) (found []socket, err error) {
	lines := bufio.NewScanner(r)
	for first := true; lines.Scan(); first = false {
		if first {
			continue // the names of the columns
		}
		s, of, ok := parseSocket(lines.Bytes(), wanted)
		if !ok {
			return nil, errors.New("cannot read a table of sockets: a row has another form than proc(5) says")
		}
		if of {
			found = append(found, s)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cannot read a table of sockets: %w", err)
	}
	return found, nil
}

// The columns of a row.
const (
	socketLocal, socketRemote, socketState = 1, 2, 3
	socketInode                            = 9
	socketColumns                          = 10 // that are looked at
)

// parseSocket reads a row. Of one whose local port is not wanted only that is read.
func parseSocket(row []byte, wanted func(port uint16) bool) (s socket, of, ok bool) {
	var columns [socketColumns][]byte
	if !cutColumns(row, &columns) {
		return s, false, false
	}
	if s.local, ok = parseSocketAddress(columns[socketLocal]); !ok || !wanted(s.local.Port()) {
		return s, false, ok
	}
	if s.remote, ok = parseSocketAddress(columns[socketRemote]); !ok {
		return s, false, false
	}
	state, err := strconv.ParseUint(string(columns[socketState]), 16, 8)
	if err != nil {
		return s, false, false
	}
	s.state = uint8(state)
	s.inode, err = strconv.ParseUint(string(columns[socketInode]), 10, 64)
	return s, err == nil, err == nil
}

// cutColumns finds the first columns of a row, which spaces part; false = there are fewer.
func cutColumns(row []byte, columns *[socketColumns][]byte) bool {
	for i := range columns {
		row = bytes.TrimLeft(row, " ")
		if len(row) == 0 {
			return false
		}
		end := bytes.IndexByte(row, ' ')
		if end < 0 {
			end = len(row)
		}
		columns[i], row = row[:end], row[end:]
	}
	return true
}

// parseSocketAddress reads ADDRESS:PORT, in which an address is one or four numbers of 32 bits, each as this machine
// has the bytes of the wire.
func parseSocketAddress(text []byte) (a netip.AddrPort, ok bool) {
	words, port, ok := bytes.Cut(text, []byte{':'})
	if !ok || len(words) != 8 && len(words) != 32 || len(port) != 4 {
		return a, false
	}
	p, err := strconv.ParseUint(string(port), 16, 16)
	if err != nil {
		return a, false
	}
	var raw [16]byte
	b := raw[:0]
	for ; len(words) > 0; words = words[8:] {
		w, err := strconv.ParseUint(string(words[:8]), 16, 32)
		if err != nil {
			return a, false
		}
		b = binary.NativeEndian.AppendUint32(b, uint32(w))
	}
	address, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(address.Unmap(), uint16(p)), ok
}
