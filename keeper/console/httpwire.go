package console

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// head is a response's status and header fields (RFC 9112).
type head struct {
	status int
	fields map[string][]string // by lower-case name
}

// readHead reads a status line and the header fields, of limit bytes together at most.
func readHead(r *bufio.Reader, limit int) (head, error) {
	line, err := readLine(r, &limit)
	if err != nil {
		return head{}, err
	}
	h := head{fields: map[string][]string{}}
	if h.status, err = parseStatus(line); err != nil {
		return head{}, err
	}
	for {
		line, err := readLine(r, &limit)
		if err != nil {
			return head{}, inFrame(err)
		}
		if len(line) == 0 {
			return h, nil
		}
		name, value, ok := bytes.Cut(line, []byte{':'})
		if !ok || len(name) == 0 || bytes.ContainsFunc(name, func(c rune) bool { return c > 0x7e || !isTokenByte(byte(c)) }) {
			return head{}, faulty(Protocol, "a header field without a proper name")
		}
		value = bytes.Trim(value, " \t")
		if !fieldValue(value) {
			return head{}, faulty(Protocol, "a header field with a control character")
		}
		key := strings.ToLower(string(name))
		h.fields[key] = append(h.fields[key], string(value))
	}
}

// readLine reads a line without its end, which is CR LF or LF (RFC 9112 2.2), and takes its length off limit.
func readLine(r *bufio.Reader, limit *int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if *limit -= len(part); *limit < 0 {
			return nil, faulty(Protocol, "the header is too long")
		}
		line = append(line, part...)
		switch {
		case err == nil:
			line = line[:len(line)-1]
			return bytes.TrimSuffix(line, []byte{'\r'}), nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		}
		return nil, err
	}
}

// parseStatus parses "HTTP/1.x SSS" and an optional reason.
func parseStatus(line []byte) (int, error) {
	bad := faulty(Protocol, "the answer is no HTTP/1 response")
	rest, ok := bytes.CutPrefix(line, []byte("HTTP/1."))
	if !ok || len(rest) < 5 || rest[0] != '0' && rest[0] != '1' || rest[1] != ' ' || len(rest) > 5 && rest[5] != ' ' {
		return 0, bad
	}
	status := 0
	for _, c := range rest[2:5] {
		if c < '0' || c > '9' {
			return 0, bad
		}
		status = 10*status + int(c-'0')
	}
	if status < 100 || status > 599 {
		return 0, faulty(Protocol, fmt.Sprintf("%d is no HTTP status", status))
	}
	return status, nil
}

// one is the value of a field that stands once; else "".
func (h head) one(name string) string {
	if v := h.fields[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}

func (h head) has(name string) bool { return len(h.fields[name]) > 0 }

// What framing says beside a length.
const (
	chunked  = -1
	toTheEnd = -2
)

// framing is how long the body is (RFC 9112 6.3). Two answers to that are a fault.
func (h head) framing() (int64, error) {
	switch codings, lengths := h.fields["transfer-encoding"], h.fields["content-length"]; {
	case len(codings) > 0 && len(lengths) > 0:
		return 0, faulty(Protocol, "a response with two lengths")
	case len(codings) > 0:
		if len(codings) > 1 || !strings.EqualFold(codings[0], "chunked") {
			return 0, faulty(Protocol, "a response in a transfer coding that was not asked for")
		}
		return chunked, nil
	case len(lengths) == 0:
		return toTheEnd, nil
	case len(lengths) > 1:
		return 0, faulty(Protocol, "a response with two lengths")
	default:
		n, err := parseDigits(lengths[0], 10)
		if err != nil {
			return 0, faulty(Protocol, "a response whose length is no number")
		}
		return n, nil
	}
}

// parseDigits parses a number without a sign.
func parseDigits(s string, base int) (int64, error) {
	if s == "" || strings.ContainsAny(s, "+-_") {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(s, base, 64)
}

// exactly reads a body of known length, and fails with io.ErrUnexpectedEOF if it ends early.
type exactly struct {
	in   io.Reader
	left int64
}

func (e *exactly) Read(b []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.in.Read(b[:min(int64(len(b)), e.left)])
	e.left -= int64(n)
	if e.left > 0 {
		err = inFrame(err)
	}
	return n, err
}

// chunks reads a chunked body (RFC 9112 7.1). Extensions and trailers are passed over.
type chunks struct {
	in   *bufio.Reader
	left int64
	open bool // within a chunk
	done bool
}

// chunkLine is how long a chunk's first line may be, and all trailers together.
const chunkLine = 4 << 10

func (c *chunks) Read(b []byte) (int, error) {
	if c.done {
		return 0, io.EOF
	}
	if c.left == 0 {
		if err := c.next(); err != nil {
			return 0, inFrame(err)
		}
		if c.done {
			return 0, io.EOF
		}
	}
	n, err := c.in.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	return n, inFrame(err)
}

// next goes to the next chunk.
func (c *chunks) next() error {
	limit := chunkLine
	if c.open {
		end, err := readLine(c.in, &limit)
		if err != nil {
			return err
		}
		if len(end) > 0 {
			return faulty(Protocol, "a chunk that is longer than it says")
		}
	}
	line, err := readLine(c.in, &limit)
	if err != nil {
		return err
	}
	size, _, _ := bytes.Cut(line, []byte{';'})
	if c.left, err = parseDigits(string(bytes.TrimRight(size, " \t")), 16); err != nil {
		return faulty(Protocol, "a chunk whose length is no number")
	}
	c.open = true
	if c.left > 0 {
		return nil
	}
	for {
		line, err := readLine(c.in, &limit)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			c.done = true
			return nil
		}
	}
}
