package anchor

import (
	"errors"
	"syscall"
	"time"

	"reconciler.dev/reconciler/observe/proc/wait"
)

// The bounds of the protocol, for both sides.
const (
	MaxName   = 128  // bytes of a name: of letters, digits and ._/@:- the rest is refused
	MaxHeld   = 4096 // descriptors; fewer where the anchor may not open so many
	maxPacket = 16 << 10
)

// A request is a packet of the SOCK_SEQPACKET pair, and so is its answer; both begin alike, numbers are little-endian:
//
//	0      op, or status
//	1..4   number of the request, which its answer repeats
//	5..    of put, get and drop the name; of names the name after which to go on; of exit, reap and up nothing.
//	       Of an answer to names names, each behind a byte with its length; of one to exit the end, see endSize.
//
// With put, exit and reap comes one descriptor, and so it does with the answer to a get that found something.
const headSize = 5

type op byte

const (
	opPut   op = 1 + iota // hold the descriptor by this name, in place of any other of this name
	opGet                 // give me another of the same
	opDrop                // close it
	opNames               // list the names
	opExit                // how did the child of this pidfd end?
	opReap                // its end is on record: let it go
	opUp                  // the keeper serves: from now on its death is a reason to start another
)

type status byte

const (
	statusOK       status = 1 + iota
	statusNone            // of get and drop: there is no such name; of exit and reap: it has not ended
	statusFull            // of put: no more are held
	statusStranger        // of exit and reap: it is no child of the anchor, or was reaped
	statusBad             // the request is against the rules, or could not be carried out
)

// request is what a keeper asks.
type request struct {
	op   op
	seq  uint32
	name string
}

// reply is what the anchor answers.
type reply struct {
	status status
	seq    uint32
	body   []byte
}

var errMalformed = errors.New("a packet that is not of the anchor's protocol")

func appendHead(b []byte, first byte, seq uint32) []byte {
	return append32(append(b, first), seq)
}

func (r request) encode() []byte {
	return append(appendHead(make([]byte, 0, headSize+len(r.name)), byte(r.op), r.seq), r.name...)
}

// decodeRequest reads a request. The number is read even of a request that is against the rules, so that it can be answered.
func decodeRequest(b []byte) (request, error) {
	if len(b) < headSize {
		return request{}, errMalformed
	}
	r := request{op: op(b[0]), seq: get32(b[1:]), name: string(b[headSize:])}
	switch r.op {
	case opPut, opGet, opDrop:
		if !validName(r.name) {
			return r, errMalformed
		}
	case opNames:
		if r.name != "" && !validName(r.name) {
			return r, errMalformed
		}
	case opExit, opReap, opUp:
		if r.name != "" {
			return r, errMalformed
		}
	default:
		return r, errMalformed
	}
	return r, nil
}

// brings reports whether a descriptor comes with the request.
func (o op) brings() bool { return o == opPut || o == opExit || o == opReap }

func (r reply) encode() []byte {
	return append(appendHead(make([]byte, 0, headSize+len(r.body)), byte(r.status), r.seq), r.body...)
}

func decodeReply(b []byte) (reply, error) {
	if len(b) < headSize {
		return reply{}, errMalformed
	}
	r := reply{status: status(b[0]), seq: get32(b[1:]), body: b[headSize:]}
	if r.status < statusOK || r.status > statusBad {
		return reply{}, errMalformed
	}
	return r, nil
}

func validName(name string) bool {
	if name == "" || len(name) > MaxName {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == '/', c == '@', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}

// appendNames packs as many of the sorted names as a packet takes.
func appendNames(b []byte, names []string) []byte {
	for _, n := range names {
		if headSize+len(b)+1+len(n) > maxPacket {
			break
		}
		b = append(append(b, byte(len(n))), n...)
	}
	return b
}

// decodeNames reads what appendNames has packed. Names that do not go up are refused: a list that is asked for page by page then ends.
func decodeNames(b []byte, after string) ([]string, error) {
	var names []string
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n {
			return nil, errMalformed
		}
		name := string(b[1 : 1+n])
		if !validName(name) || name <= after {
			return nil, errMalformed
		}
		names, after, b = append(names, name), name, b[1+n:]
	}
	return names, nil
}

// endSize is the length of an end: wait status word, then CPU time in nanoseconds and largest resident set in bytes.
const endSize = 4 + 8 + 8

func appendEnd(b []byte, e wait.End) []byte {
	b = append32(b, e.Status)
	b = append64(b, uint64(e.CPU))
	return append64(b, uint64(e.MaxRSS))
}

func decodeEnd(b []byte) (wait.End, error) {
	if len(b) != endSize {
		return wait.End{}, errMalformed
	}
	e := wait.End{
		Status: get32(b),
		CPU:    time.Duration(get64(b[4:])),
		MaxRSS: int64(get64(b[12:])),
	}
	if e.CPU < 0 || e.MaxRSS < 0 {
		return wait.End{}, errMalformed
	}
	return e, nil
}

// What encoding/binary does; that brings reflect with it, which is initialised late.
func append32(b []byte, v uint32) []byte {
	return append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
}

func append64(b []byte, v uint64) []byte { return append32(append32(b, uint32(v)), uint32(v>>32)) }

func get32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func get64(b []byte) uint64 { return uint64(get32(b)) | uint64(get32(b[4:]))<<32 }

// sendPacket sends without waiting: EAGAIN when the other side does not read.
func sendPacket(conn int, packet []byte, fds ...int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = syscall.UnixRights(fds...)
	}
	for {
		err := syscall.Sendmsg(conn, packet, oob, nil, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
		if err != syscall.EINTR {
			return err
		}
	}
}

// packetReader reads packets. What it returns is good until the next one; the descriptors are the caller's.
type packetReader struct {
	buf [maxPacket + 1]byte // one byte more than may come: what is too long is seen
	oob [64]byte            // room for more descriptors than may come
}

var errClosed = errors.New("the other side is closed")

// read waits for a packet unless flags say otherwise. A packet that was cut off, or brings more than one descriptor, is errMalformed.
func (p *packetReader) read(conn, flags int) (packet []byte, fd int, err error) {
	n, oobn, got, err := p.receive(conn, flags)
	if err != nil {
		return nil, -1, err
	}
	fds, err := rights(p.oob[:oobn])
	cut := got&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0
	switch {
	case err == nil && !cut && len(fds) == 1:
		return p.buf[:n], fds[0], nil
	case err != nil || cut || len(fds) > 1:
		for _, fd := range fds {
			_ = syscall.Close(fd) // not asked for
		}
		return p.buf[:min(n, headSize)], -1, errMalformed
	case n == 0:
		return nil, -1, errClosed // nobody sends an empty packet
	}
	return p.buf[:n], -1, nil
}

func (p *packetReader) receive(conn, flags int) (n, oobn, got int, err error) {
	for {
		n, oobn, got, _, err = syscall.Recvmsg(conn, p.buf[:], p.oob[:], flags|syscall.MSG_CMSG_CLOEXEC)
		if err != syscall.EINTR {
			return n, oobn, got, err
		}
	}
}

// rights takes the descriptors out of control messages.
func rights(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var fds []int
	for _, m := range messages {
		more, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return fds, err
		}
		fds = append(fds, more...)
	}
	return fds, nil
}
