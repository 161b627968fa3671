package cli

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// harmless is a server's output as a terminal may have it: colours stay, until the end of their line, and every other control
// is shown instead of obeyed, so that nothing which a server, or a player in its chat, has written can move the cursor, change the
// title or have the terminal answer. Controls are shown as ^X, bytes that are no UTF-8 (some are controls, where 8 bits are) as \xNN.
func harmless(text []byte) []byte {
	if !bytes.ContainsFunc(text, isControl) {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	coloured := false
	for len(text) > 0 {
		if n := colour(text); n > 0 {
			out, text, coloured = append(out, text[:n]...), text[n:], true
			continue
		}
		r, n := utf8.DecodeRune(text)
		switch {
		case r == '\n':
			if coloured {
				out, coloured = append(out, noColour...), false
			}
			out = append(out, '\n')
		case r == '\r' && n < len(text) && text[n] == '\n': // the end of a line, where programs are used to terminals
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, `\x%02x`, text[0])
		case !isControl(r), r == utf8.RuneError: // that which stands for what was no UTF-8 elsewhere
			out = append(out, text[:n]...)
		case r < ' ':
			out = append(out, '^', byte(r)+'@')
		case r == 0x7f:
			out = append(out, "^?"...)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[n:]
	}
	if coloured {
		out = append(out, noColour...)
	}
	return out
}

// isControl reports whether a terminal may do something at r but show it: also where text is no UTF-8, and at what turns the direction
// of writing, which can make a line look like another.
func isControl(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || r == utf8.RuneError || unicode.Is(unicode.Bidi_Control, r))
}

const noColour = "\x1b[0m"

// colour is the length of the sequence at the beginning of text that sets colours and the look of letters (SGR: ECMA-48, 8.3.117),
// 0 when there is none.
func colour(text []byte) int {
	if !bytes.HasPrefix(text, []byte("\x1b[")) {
		return 0
	}
	for i, b := range text[2:min(len(text), maxColour)] {
		switch {
		case b == 'm':
			return i + 3
		case (b < '0' || b > '9') && b != ';' && b != ':':
			return 0
		}
	}
	return 0
}

// maxColour is the longest such sequence that passes, in bytes.
const maxColour = 64
