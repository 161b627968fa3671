package keeper

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// What a peer may leave unread before it is dropped.
const (
	maxQueued      = 8192
	maxQueuedBytes = 16 << 20
	writePatience  = 10 * time.Second
)

// errNotReading says that a peer was dropped because it does not read.
var errNotReading = errors.New("the peer does not read")

// link is one end of a connection. Sending never blocks: what the socket does not take waits in a bounded queue for
// the writer.
type link struct {
	conn *net.UnixConn

	mu     sync.Mutex
	queue  []outgoing
	bytes  int
	busy   bool // the writer is writing what it took from the queue
	ending bool // nothing more is sent: close once the queue is written
	closed bool
	wake   chan struct{} // one slot: the queue is not empty, or the link is closed

	written chan struct{} // closed when the writer has ended
}

type outgoing struct{ packet, beside []byte }

// newLink begins to write what is sent. Close ends it.
func newLink(conn *net.UnixConn) *link {
	l := &link{conn: conn, wake: make(chan struct{}, 1), written: make(chan struct{})}
	go l.writeAll()
	return l
}

// send queues a message. An error says that it will never arrive.
func (l *link) send(m Message, body any) error {
	packet, beside, err := encodeMessage(m, body)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.ending {
		return net.ErrClosed
	}
	if len(l.queue) >= maxQueued || l.bytes > maxQueuedBytes {
		l.closeLocked()
		return errNotReading
	}
	if len(l.queue) == 0 && !l.busy && beside == nil && l.writeNow(packet) {
		return nil
	}
	l.queue = append(l.queue, outgoing{packet, beside})
	l.bytes += len(packet) + len(beside)
	l.signal()
	return nil
}

// writeNow writes a packet if the socket takes it at once: the writer need not be woken. The caller holds the link.
func (l *link) writeNow(packet []byte) bool {
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return false // the writer meets the error
	}
	n := 0
	ctlErr := raw.Control(func(fd uintptr) {
		n, err = unix.SendmsgN(int(fd), packet, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	return ctlErr == nil && err == nil && n == len(packet)
}

func (l *link) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *link) writeAll() {
	defer close(l.written)
	for range l.wake {
		for {
			next, ok := l.take()
			if !ok {
				break
			}
			err := l.write(next, writePatience)
			l.idle()
			if err != nil {
				l.close()
				return
			}
		}
		if l.closeIfEnding() {
			return
		}
	}
}

func (l *link) take() ([]outgoing, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.queue) == 0 {
		return nil, false
	}
	batch := l.queue
	l.queue, l.bytes, l.busy = nil, 0, true
	return batch, true
}

func (l *link) idle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = false
}

// closeIfEnding closes a link whose last words are written, and reports whether it is closed.
func (l *link) closeIfEnding() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending && len(l.queue) == 0 {
		l.closeLocked()
	}
	return l.closed
}

// end closes the link once what was sent is written.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
	l.signal()
}

func (l *link) write(batch []outgoing, patience time.Duration) error {
	if err := l.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	for _, o := range batch {
		if err := writePacket(l.conn, o); err != nil {
			return err
		}
	}
	return nil
}

// close ends the link at once. It may be called by anybody, any number of times.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeLocked()
}

func (l *link) closeLocked() {
	if l.closed {
		return
	}
	l.closed = true
	_ = l.conn.Close() // what is in it is given up
	l.signal()
}

// wait returns when the writer has ended, after close.
func (l *link) wait() { <-l.written }

func writePacket(conn *net.UnixConn, o outgoing) error {
	if o.beside == nil {
		_, _, err := conn.WriteMsgUnix(o.packet, nil, nil)
		return err
	}
	fd, err := sealedMemfd(o.beside)
	if err != nil {
		return err
	}
	_, _, err = conn.WriteMsgUnix(o.packet, unix.UnixRights(fd), nil)
	return errors.Join(err, unix.Close(fd))
}

// sealedMemfd holds a body that nobody can change any more.
func sealedMemfd(body []byte) (int, error) {
	fd, err := unix.MemfdCreate("reconciler-message", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, fmt.Errorf("cannot create a memfd: %w", err)
	}
	for off := 0; off < len(body); {
		n, err := unix.Pwrite(fd, body[off:], int64(off))
		if err != nil {
			return -1, errors.Join(fmt.Errorf("cannot write a memfd: %w", err), unix.Close(fd))
		}
		off += n
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, allSeals); err != nil {
		return -1, errors.Join(fmt.Errorf("cannot seal a memfd: %w", err), unix.Close(fd))
	}
	return fd, nil
}

const allSeals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

// receiver reads packets of one connection. The messages are the caller's. It has a buffer only while there is something to
// read: connections are idle nearly always, and a packet may be large.
type receiver struct {
	conn *net.UnixConn
	// gather is called when all that was there is read: true says that it has waited for more, false that the next is to be read as soon
	// as it comes. Nil never waits.
	gather func() bool

	// Of one attempt:
	packet        *packet
	n, oobn, flag int
	err           error
}

// packet is room for one packet. It has one byte more than a packet may have, and room for more descriptors than one may bring:
// what is too much is seen.
type packet struct {
	data [maxPacket + 1]byte
	oob  [RightsRoom]byte
}

var packets = sync.Pool{New: func() any { return new(packet) }}

func newReceiver(conn *net.UnixConn) *receiver { return &receiver{conn: conn} }

// receive returns the next message; io.EOF at the orderly end.
func (r *receiver) receive() (Message, error) {
	raw, err := r.conn.SyscallConn()
	if err != nil {
		return Message{}, err
	}
	if err := raw.Read(r.attempt); err != nil {
		return Message{}, err
	}
	defer r.done()
	if r.err != nil {
		return Message{}, r.err
	}
	fds, err := descriptors(r.packet.oob[:r.oobn])
	defer dismissAll(fds)
	switch {
	case err != nil:
		return Message{}, err
	case r.n == 0 && r.oobn == 0:
		return Message{}, io.EOF
	case r.flag&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || r.n > maxPacket:
		return Message{}, errors.New("a packet was cut off: it is longer than the protocol allows")
	}
	m, err := decodeMessage(r.packet.data[:r.n])
	if err != nil {
		return Message{}, err
	}
	if m.Memfd > 0 != (len(fds) == 1) || len(fds) > 1 {
		return Message{}, fmt.Errorf("%d descriptors came with a message", len(fds))
	}
	if m.Memfd > 0 {
		if m.Body, err = readSealed(fds[0], m.Memfd); err != nil {
			return Message{}, err
		}
	}
	return m, nil
}

// attempt reads a packet, and reports false when there is none yet.
func (r *receiver) attempt(fd uintptr) bool {
	return r.read(int(fd)) || r.gather != nil && r.gather() && r.read(int(fd))
}

// read reads a packet that is there.
func (r *receiver) read(fd int) bool {
	r.packet = packets.Get().(*packet)
	for {
		r.n, r.oobn, r.flag, _, r.err = unix.Recvmsg(fd, r.packet.data[:], r.packet.oob[:], unix.MSG_CMSG_CLOEXEC)
		if r.err != unix.EINTR {
			break
		}
	}
	if r.err != unix.EAGAIN {
		return true
	}
	r.done()
	return false
}

// done gives the buffer back.
func (r *receiver) done() {
	if r.packet != nil {
		packets.Put(r.packet)
		r.packet = nil
	}
}

// descriptors takes what was passed out of control messages.
func descriptors(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("cannot read control messages: %w", err)
	}
	var fds []int
	for _, m := range messages {
		if m.Header.Level != unix.SOL_SOCKET || m.Header.Type != unix.SCM_RIGHTS {
			continue
		}
		more, err := unix.ParseUnixRights(&m)
		if err != nil {
			return fds, fmt.Errorf("cannot read passed descriptors: %w", err)
		}
		fds = append(fds, more...)
	}
	return fds, nil
}

// RightsRoom holds all descriptors that one message can bring (SCM_MAX_FD, 253) and their header, in bytes. What found no room the
// kernel would close while the message is read, as its sender wants it closed.
const RightsRoom = 1032

// DismissPassed closes the descriptors that came in a control message, as nobody has asked for any. It takes no time whatever they are.
func DismissPassed(control []byte) {
	fds, _ := descriptors(control) // what the kernel has not written brings none
	dismissAll(fds)
}

// dismissAll closes descriptors that others have passed, at once: a socket whose sender has asked it to linger (socket(7)) would hold up
// whoever closes it for as long as the sender likes.
func dismissAll(fds []int) {
	for _, fd := range fds {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{}) // most are no sockets
		_ = unix.Close(fd)                                                             // read only: nothing can be lost
	}
}

// readSealed reads a body of exactly size bytes, which nobody can change meanwhile.
func readSealed(fd, size int) ([]byte, error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&allSeals != allSeals {
		return nil, errors.New("a body that is not in a sealed memfd")
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("cannot look at a body: %w", err)
	}
	if st.Size != int64(size) {
		return nil, fmt.Errorf("a body of %d bytes that is said to have %d", st.Size, size)
	}
	body := make([]byte, size)
	for off := 0; off < size; {
		n, err := unix.Pread(fd, body[off:], int64(off))
		if err != nil || n == 0 {
			return nil, fmt.Errorf("cannot read a body: %w", errors.Join(err, io.ErrUnexpectedEOF))
		}
		off += n
	}
	return body, nil
}
