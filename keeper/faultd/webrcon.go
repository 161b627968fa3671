package faultd

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// webRCONText is a message of Rust's web console. (https://github.com/Facepunch/webrcon, js/rcon.js)
type webRCONText struct {
	Identifier int32
	Message    string
	Type       string `json:",omitempty"`
}

func serveWebRCON(r *remote) error { return r.listen(r.webRCON) }

// webRCON speaks as Rust does: the password is the path of the websocket's address, and a wrong one ends the connection.
func (r *remote) webRCON(c net.Conn) error {
	in := bufio.NewReader(c)
	request, err := http.ReadRequest(in)
	if err != nil {
		return err
	}
	if !r.loggedIn(request.URL.Path == "/"+r.password) {
		return errHangUp
	}
	// RFC 6455 4.2.2
	sum := sha1.Sum([]byte(request.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	_, err = fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	for err == nil {
		err = r.webRCONMessage(in, c)
	}
	return err
}

func (r *remote) webRCONMessage(in io.Reader, out io.Writer) error {
	opcode, payload, err := readWSFrame(in)
	if err != nil {
		return err
	}
	switch opcode {
	case wsPing:
		return writeWSFrame(out, wsPong, payload)
	case wsClose:
		return io.EOF
	case wsText:
	default:
		return nil
	}
	var asked webRCONText
	if err := json.Unmarshal(payload, &asked); err != nil {
		return err
	}
	return r.answer(asked.Message, func(text string) error {
		b, err := json.Marshal(webRCONText{asked.Identifier, text, "Generic"})
		if err != nil {
			return err
		}
		return writeWSFrame(out, wsText, b)
	})
}

// Opcodes of RFC 6455 5.2.
const (
	wsText  = 1
	wsClose = 8
	wsPing  = 9
	wsPong  = 10
)

// wsLimit is how long a client's message may be.
const wsLimit = 64 << 10

// readWSFrame reads a client's frame: whole, and masked (RFC 6455 5.2).
func readWSFrame(r io.Reader) (opcode byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	if head[0]&0xF0 != 0x80 || head[1]&0x80 == 0 {
		return 0, nil, errors.New("a frame that is a part, or not masked")
	}
	n := uint64(head[1] & 0x7F)
	if n >= 126 {
		long := make([]byte, 2+6*(n-126)) // 2 or 8
		if _, err := io.ReadFull(r, long); err != nil {
			return 0, nil, err
		}
		n = binary.BigEndian.Uint64(append(make([]byte, 8-len(long)), long...))
	}
	if n > wsLimit {
		return 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	b := make([]byte, 4+n)
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, nil, err
	}
	mask, payload := b[:4], b[4:]
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	return head[0] & 0x0F, payload, nil
}

// writeWSFrame writes a frame of less than 64 KiB.
func writeWSFrame(w io.Writer, opcode byte, payload []byte) error {
	b := []byte{0x80 | opcode}
	if len(payload) < 126 {
		b = append(b, byte(len(payload)))
	} else {
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(len(payload)))
	}
	_, err := w.Write(append(b, payload...))
	return err
}
