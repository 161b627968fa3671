package cli

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
)

// screenModes remembers what a server has switched on somebody's terminal (ECMA-48; xterm's control sequences, "Private Modes"), so that all
// of it can be switched back when he leaves in the middle. The zero value is a terminal that nothing was switched on.
type screenModes struct {
	at       sequencePlace
	params   []byte       // of the control sequence at hand
	private  map[int]bool // modes that are not as they begin, see switched
	keypad   bool         // the keypad sends sequences
	drawing  bool         // letters are lines
	margins  bool         // only a part of the screen scrolls
	charsets byte         // which set the next byte chooses; 0 = none
}

// sequencePlace is where in a sequence the output is.
type sequencePlace uint8

const (
	inText sequencePlace = iota
	afterESC
	inControl // CSI
	inString  // OSC, DCS, SOS, PM, APC
	inStringESC
	inCharset // ESC and an intermediate byte
)

// switched are the private modes that are switched back, with how a terminal has them at first.
var switched = map[int]bool{
	1: false, 5: false, 6: false, 7: true, 25: true, 47: false, 66: false, 1047: false, 1049: false,
	9: false, 1000: false, 1001: false, 1002: false, 1003: false, 1004: false, 1005: false, 1006: false, 1015: false, 1016: false,
	2004: false, 2026: false,
}

// maxParams is how much of a sequence is kept, in bytes: longer ones switch nothing.
const maxParams = 64

// take reads what is printed, in parts of any length.
func (m *screenModes) take(b []byte) {
	for len(b) > 0 {
		if m.at == inText {
			i := bytes.IndexByte(b, 0x1b)
			if i < 0 {
				return
			}
			b, m.at = b[i+1:], afterESC
			continue
		}
		m.next(b[0])
		b = b[1:]
	}
}

func (m *screenModes) next(c byte) {
	switch m.at {
	case afterESC:
		m.escaped(c)
	case inControl:
		switch {
		case c == 0x1b:
			m.at = afterESC
		case c >= 0x40 && c <= 0x7e:
			m.at = inText
			m.control(c)
		case c == 0x18 || c == 0x1a: // CAN, SUB: never mind
			m.at = inText
		case c >= 0x20 && len(m.params) <= maxParams:
			m.params = append(m.params, c)
		}
	case inString:
		switch c {
		case 0x07, 0x18, 0x1a:
			m.at = inText
		case 0x1b:
			m.at = inStringESC
		}
	case inStringESC:
		if c == '\\' {
			m.at = inText
			return
		}
		m.escaped(c)
	case inCharset:
		if m.charsets == '(' {
			m.drawing = c == '0'
		}
		m.at = inText
	}
}

// escaped takes the byte after an escape.
func (m *screenModes) escaped(c byte) {
	m.at = inText
	switch c {
	case 0x1b:
		m.at = afterESC
	case '[':
		m.at, m.params = inControl, m.params[:0]
	case ']', 'P', 'X', '^', '_':
		m.at = inString
	case '=':
		m.keypad = true
	case '>':
		m.keypad = false
	case 'c': // all is as at first
		*m = screenModes{params: m.params}
	default:
		if c >= 0x20 && c <= 0x2f {
			m.at, m.charsets = inCharset, c
		}
	}
}

// control takes a whole control sequence.
func (m *screenModes) control(final byte) {
	if len(m.params) > maxParams {
		return
	}
	switch numbers, private := bytes.CutPrefix(m.params, []byte("?")); {
	case private && (final == 'h' || final == 'l'):
		for number := range bytes.SplitSeq(numbers, []byte(";")) {
			m.mode(string(number), final == 'h')
		}
	case final == 'r' && !private:
		m.margins = len(m.params) > 0
	}
}

func (m *screenModes) mode(number string, on bool) {
	n, err := strconv.Atoi(number)
	first, known := switched[n]
	if err != nil || !known {
		return
	}
	if m.private == nil {
		m.private = map[int]bool{}
	}
	if on == first {
		delete(m.private, n)
	} else {
		m.private[n] = true
	}
}

// undo is what switches all back. Colours end in any case.
func (m *screenModes) undo() []byte {
	var b []byte
	if m.at != inText {
		b = append(b, 0x18) // the sequence at hand has no end
	}
	if m.margins {
		b = append(b, "\x1b7\x1b[r\x1b8"...) // it moves the cursor, which goes back
	}
	if m.drawing {
		b = append(b, "\x1b(B"...)
	}
	if m.keypad {
		b = append(b, "\x1b>"...)
	}
	for _, n := range slices.Sorted(maps.Keys(m.private)) {
		b = append(b, "\x1b[?"...)
		b = strconv.AppendInt(b, int64(n), 10)
		if switched[n] {
			b = append(b, 'h')
		} else {
			b = append(b, 'l')
		}
	}
	return append(b, noColour...)
}
