package query

import (
	"bytes"
	"encoding/binary"
)

// fields reads what an answer is made of, one after the other. Once something is missing, all that follows is zero and ok is
// false: it is asked once, at the end.
type fields struct {
	rest  []byte
	short bool
}

func (f *fields) ok() bool { return !f.short }

// take is the next n bytes.
func (f *fields) take(n int) []byte {
	if f.short || n < 0 || n > len(f.rest) {
		f.short = true
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) byte() byte {
	if b := f.take(1); b != nil {
		return b[0]
	}
	return 0
}

// uint16 is little-endian.
func (f *fields) uint16() uint16 {
	if b := f.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

// text is up to the next zero byte, which goes too.
func (f *fields) text() []byte {
	if f.short {
		return nil
	}
	text, rest, found := bytes.Cut(f.rest, []byte{0})
	if !found {
		f.short = true
		return nil
	}
	f.rest = rest
	return text
}
