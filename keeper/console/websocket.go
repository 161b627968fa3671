package console

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The client's half of RFC 6455, without extensions and subprotocols.

// webSocketLimit is how large a message may be, and a frame. Rust's largest replies are lists of a few hundred players.
const webSocketLimit = 1 << 20

// webSocketHeader is how long the answer to the handshake may be.
const webSocketHeader = 16 << 10

// Opcodes (RFC 6455 11.8).
const (
	wsContinuation = 0
	wsText         = 1
	wsBinary       = 2
	wsClose        = 8
	wsPing         = 9
	wsPong         = 10
)

// webSocket is a connection after the handshake. It belongs to one goroutine.
type webSocket struct {
	in  *bufio.Reader
	out io.Writer
}

// handshakeKey is a nonce of 16 bytes (RFC 6455 4.1).
func handshakeKey() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return base64.StdEncoding.EncodeToString(b)
}

// acceptOf is what proves that the server understood the key (RFC 6455 4.2.2).
func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// readHandshake reads the server's answer to a handshake with key.
func readHandshake(r *bufio.Reader, key string) error {
	h, err := readHead(r, webSocketHeader)
	if err != nil {
		return err
	}
	switch {
	case h.status == 401 || h.status == 403:
		return faulty(Rejected, "the server rejected the password: correct the secret of `console.password`")
	case h.status != 101:
		return faulty(Protocol, fmt.Sprintf("the server answers the handshake with status %d, not 101: see whether the endpoint is the WebRCON one", h.status))
	case !strings.EqualFold(h.one("upgrade"), "websocket"), !hasToken(h.one("connection"), "upgrade"):
		return faulty(Protocol, "the server's handshake does not upgrade to a websocket")
	case h.one("sec-websocket-accept") != acceptOf(key):
		return faulty(Protocol, "the server's handshake does not prove that it understood ours")
	case h.has("sec-websocket-extensions"), h.has("sec-websocket-protocol"):
		return faulty(Protocol, "the server's handshake picks an extension or protocol that was not offered")
	}
	return nil
}

func hasToken(list, token string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.TrimSpace(item), token) {
			return true
		}
	}
	return false
}

// appendFrame appends a whole message as one frame, masked as a client's must be (RFC 6455 5.3).
func appendFrame(dst []byte, opcode byte, payload []byte) []byte {
	dst = append(dst, 0x80|opcode)
	switch n := len(payload); {
	case n < 126:
		dst = append(dst, 0x80|byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0x80|126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, 0x80|127), uint64(n))
	}
	var mask [4]byte
	_, _ = rand.Read(mask[:]) // never fails
	dst = append(dst, mask[:]...)
	for i, c := range payload {
		dst = append(dst, c^mask[i%4])
	}
	return dst
}

type frame struct {
	final   bool
	opcode  byte
	payload []byte
}

// readFrame reads a server's frame, and refuses what RFC 6455 5.2 and 5.5 do not allow.
func readFrame(r io.Reader) (frame, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	f := frame{final: head[0]&0x80 != 0, opcode: head[0] & 0x0f}
	control := f.opcode >= wsClose
	switch {
	case head[0]&0x70 != 0:
		return frame{}, faulty(Protocol, "a frame with a reserved bit")
	case f.opcode > wsBinary && f.opcode < wsClose, f.opcode > wsPong:
		return frame{}, faulty(Protocol, fmt.Sprintf("a frame of the unknown kind %d", f.opcode))
	case head[1]&0x80 != 0:
		return frame{}, faulty(Protocol, "a masked frame from a server")
	case control && (!f.final || head[1] > 125):
		return frame{}, faulty(Protocol, "a control frame that is too long or in parts")
	}
	n, err := readFrameLength(r, uint64(head[1]))
	if err != nil {
		return frame{}, inFrame(err)
	}
	if n > webSocketLimit {
		return frame{}, faulty(Protocol, fmt.Sprintf("a frame of more than %d bytes", webSocketLimit))
	}
	// Not all at once: a length is easily claimed.
	var b bytes.Buffer
	if m, err := io.CopyN(&b, r, int64(n)); err != nil || uint64(m) != n {
		return frame{}, inFrame(err)
	}
	f.payload = b.Bytes()
	return f, nil
}

func readFrameLength(r io.Reader, short uint64) (uint64, error) {
	var b [8]byte
	switch short {
	case 126:
		if _, err := io.ReadFull(r, b[:2]); err != nil {
			return 0, err
		}
		n := uint64(binary.BigEndian.Uint16(b[:2]))
		if n < 126 {
			return 0, faulty(Protocol, "a frame's length is longer than it needs to be")
		}
		return n, nil
	case 127:
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return 0, err
		}
		n := binary.BigEndian.Uint64(b[:])
		if n < 1<<16 {
			return 0, faulty(Protocol, "a frame's length is longer than it needs to be")
		}
		return n, nil
	}
	return short, nil
}

// inFrame makes an end within a frame another thing than one between two.
func inFrame(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// message is a text or binary message, or a pong.
type message struct {
	opcode  byte
	payload []byte
}

// read returns the next message. Pings are answered, a close is answered and is io.EOF. What comes back together with the
// limit of what may follow unanswered is the caller's to bound.
func (w *webSocket) read() (message, error) {
	var m message
	started := false
	for {
		f, err := readFrame(w.in)
		if err != nil {
			if started {
				err = inFrame(err)
			}
			return message{}, err
		}
		switch f.opcode {
		case wsPing:
			if _, err := w.out.Write(appendFrame(nil, wsPong, f.payload)); err != nil {
				return message{}, err
			}
			continue
		case wsPong:
			if started {
				continue
			}
			return message{wsPong, f.payload}, nil
		case wsClose:
			return message{}, w.closed(f.payload)
		case wsContinuation:
			if !started {
				return message{}, faulty(Protocol, "a message that begins in its middle")
			}
		default:
			if started {
				return message{}, faulty(Protocol, "a message within another")
			}
			m.opcode, started = f.opcode, true
		}
		if len(m.payload)+len(f.payload) > webSocketLimit {
			return message{}, faulty(Protocol, fmt.Sprintf("a message of more than %d bytes", webSocketLimit))
		}
		m.payload = append(m.payload, f.payload...)
		if f.final {
			return m, nil
		}
	}
}

// closed answers a close with its own code (RFC 6455 5.5.1).
func (w *webSocket) closed(payload []byte) error {
	if len(payload) == 1 {
		return faulty(Protocol, "a close with half a code")
	}
	_, _ = w.out.Write(appendFrame(nil, wsClose, payload[:min(2, len(payload))])) // the peer leaves anyway
	return io.EOF
}
