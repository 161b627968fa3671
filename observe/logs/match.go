package logs

import (
	"bytes"
	"strings"
	"unicode"
)

// Matcher finds the first of some literals in a stream that comes in parts, with terminal escape sequences (ECMA-48:
// CSI, OSC and the like) taken out. Between two parts it holds less text than its longest literal. It belongs to one
// goroutine at a time.
type Matcher struct {
	literals [][]byte
	keep     int // bytes of a part that the next one can go on with: longest literal - 1
	escape   escape
	tail     []byte // the last keep bytes
	head     []byte // the first keep bytes
	headFull bool   // more than keep bytes have come
}

// NewMatcher makes a matcher of literals, none of which may be empty.
func NewMatcher(literals []string) *Matcher {
	m := &Matcher{}
	for _, l := range literals {
		m.literals = append(m.literals, []byte(l))
		m.keep = max(m.keep, len(l)-1)
	}
	return m
}

// matchBlock is how many bytes are looked at at once, which bounds the scratch memory.
const matchBlock = 4 << 10

// Scan reads the next part and reports whether a literal ends in it. buf is scratch memory, which is returned for the
// next call.
func (m *Matcher) Scan(part, buf []byte) (bool, []byte) {
	for len(part) > 0 {
		n := min(len(part), matchBlock)
		buf = append(buf[:0], m.tail...)
		buf = m.escape.strip(buf, part[:n])
		part = part[n:]
		m.remember(buf[len(m.tail):])
		if m.contains(buf) {
			return true, buf
		}
		m.tail = append(m.tail[:0], buf[max(0, len(buf)-m.keep):]...)
	}
	return false, buf
}

// remember keeps the first bytes for Join.
func (m *Matcher) remember(text []byte) {
	if m.headFull {
		return
	}
	n := min(len(text), m.keep-len(m.head))
	m.head = append(m.head, text[:n]...)
	m.headFull = n < len(text)
}

func (m *Matcher) contains(b []byte) bool {
	for _, l := range m.literals {
		if bytes.Contains(b, l) {
			return true
		}
	}
	return false
}

// Join says that what another matcher of the same literals has read came right before what this one has, and reports
// whether a literal lies across the two.
func (m *Matcher) Join(before *Matcher) bool {
	seam := append(append([]byte(nil), before.tail...), m.head...)
	if !m.headFull {
		m.tail = append(m.tail[:0], seam[max(0, len(seam)-m.keep):]...)
	}
	return m.contains(seam)
}

// Plain is a text as a terminal may show it: UTF-8 without escape sequences, and without control characters but tabs and line
// ends.
func Plain(b []byte) string {
	var e escape
	text := strings.ToValidUTF8(string(e.strip(nil, b)), "\uFFFD")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' && r != '\n' {
			return -1
		}
		return r
	}, text)
}

// escape is where in an escape sequence a stream is.
type escape uint8

const (
	plain        escape = iota
	afterEscape         // ESC
	intermediate        // ESC and bytes of 0x20-0x2f: one more byte follows
	control             // CSI: up to a byte of 0x40-0x7e
	text                // OSC, DCS, SOS, PM, APC: up to BEL or ST
	textEscape          // ESC within such a text: the beginning of ST
)

// strip appends what of b is no part of an escape sequence. A sequence that meets a line's end ends there: a program that
// prints half of one must not hide what follows.
func (e *escape) strip(dst, b []byte) []byte {
	for len(b) > 0 {
		if *e == plain {
			i := bytes.IndexByte(b, 0x1b)
			if i < 0 {
				return append(dst, b...)
			}
			dst = append(dst, b[:i]...)
			b = b[i+1:]
			*e = afterEscape
			continue
		}
		c := b[0]
		if c == '\n' {
			*e = plain
			continue
		}
		*e = e.next(c)
		b = b[1:]
	}
	return dst
}

func (e escape) next(c byte) escape {
	if c == 0x1b {
		if e == text {
			return textEscape
		}
		return afterEscape
	}
	switch e {
	case afterEscape:
		switch {
		case c == '[':
			return control
		case c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_':
			return text
		case c >= 0x20 && c <= 0x2f:
			return intermediate
		}
		return plain
	case intermediate:
		if c >= 0x20 && c <= 0x2f {
			return intermediate
		}
		return plain
	case control:
		if c >= 0x40 && c <= 0x7e {
			return plain
		}
		return control
	case text:
		if c == 0x07 {
			return plain
		}
		return text
	}
	return plain // textEscape and the byte after it
}
