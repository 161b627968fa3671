package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// A terminal gets text and colours, nothing that it would obey.
func TestHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "",
		"plain\n":                                "plain\n",
		"tab\tand ünïcode 町\n":                   "tab\tand ünïcode 町\n",
		"dos\r\n":                                "dos\n",
		"10%\r20%\n":                             "10%^M20%\n",
		"\x1b[31mred\x1b[0m plain\n":             "\x1b[31mred\x1b[0m plain\x1b[0m\n",
		"\x1b[1;38;5;12mblue\nnext\n":            "\x1b[1;38;5;12mblue\x1b[0m\nnext\n",
		"\x1b[4:3mcurly":                         "\x1b[4:3mcurly\x1b[0m",
		"\x1b[2J\x1b[Hgone\n":                    "^[[2J^[[Hgone\n",
		"\x1b]0;title\a\n":                       "^[]0;title^G\n",
		"\x1b[6n\x1bc\x1b[?25l\n":                "^[[6n^[c^[[?25l\n",
		"\x1b[31":                                "^[[31",
		"\x1b[" + strings.Repeat("1;", 40) + "m": "^[[" + strings.Repeat("1;", 40) + "m",
		"a\bb\x00\x7f\n":                         "a^Hb^@^?\n",
		"\u009b2J\n":                             `\u009b2J` + "\n",
		"\x9b2J\xff\n":                           `\x9b2J\xff` + "\n",
		"\ufffd\x01\n":                           "\ufffd^A\n",
		"abc\u202ecba\n":                         `abc\u202ecba` + "\n",
	} {
		if got := string(harmless([]byte(text))); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

var anyColour = regexp.MustCompile("\x1b\\[[0-9;:]*m")

func FuzzHarmless(f *testing.F) {
	for _, seed := range []string{"plain\n", "\x1b[31mred\x1b[0m\n", "\x1b[\x1b[1m2J", "\x1b\x1b[31mm", "\x9b2J", "\u009b", "\xc2", "\xc2\r\n", "\r\r\n", "\x1b[1\xc2m"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got := harmless(bytes.Clone(text))
		left := anyColour.ReplaceAll(got, nil)
		if !utf8.Valid(got) || bytes.ContainsFunc(left, func(r rune) bool { return isControl(r) && r != utf8.RuneError }) {
			t.Errorf("%q becomes %q", text, got)
		}
		if bytes.Count(got, []byte("\n")) != bytes.Count(text, []byte("\n")) {
			t.Errorf("%q becomes other lines: %q", text, got)
		}
	})
}
