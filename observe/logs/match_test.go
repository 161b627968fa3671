package logs

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func scanAll(m *Matcher, parts ...string) bool {
	var buf []byte
	var found bool
	for _, p := range parts {
		if found, buf = m.Scan([]byte(p), buf); found {
			return true
		}
	}
	return false
}

func TestMatcher(t *testing.T) {
	const ready = "Map generated, starting game"
	for _, c := range []struct {
		name  string
		parts []string
		want  bool
	}{
		{"plain", []string{"x\n" + ready + "\n"}, true},
		{"not there", []string{"Map generated, starting\n", "game"}, false},
		{"across parts", []string{"Map gen", "", "erated, st", "arting game"}, true},
		{"byte by byte", strings.Split(ready, ""), true},
		{"colours", []string{"\x1b[1;32mMap\x1b[0m generated, \x1b[38;5;12mstarting game"}, true},
		{"colour across parts", []string{"Map gen\x1b", "[3", "1merated, starting game"}, true},
		{"title", []string{"Map \x1b]0;a title\x07generated, \x1b]2;x\x1b\\starting \x1b(Bgame"}, true},
		{"title without an end", []string{"\x1b]0;a title\n" + ready}, true},
		{"second literal", []string{"all done"}, true},
		{"within a title", []string{"\x1b]0;" + ready + "\x07\n"}, false},
		{"far apart", []string{"Map generated," + strings.Repeat(" ", 3*matchBlock) + "starting game"}, false},
		{"over a block", []string{strings.Repeat("x", matchBlock-5) + ready}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := scanAll(NewMatcher([]string{ready, "done"}), c.parts...); got != c.want {
				t.Errorf("found = %v, want %v", got, c.want)
			}
		})
	}
}

// However a text is cut in two, and the second part into more, both halves together find what one matcher finds.
func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a\tb\r\nc\n": "a\tb\nc\n", "\x1b[31mred\x1b[0m": "red", "\x1b]0;title\x07rest": "rest", "a\x00\x07\x7fb": "ab",
		"größe\u009b2J": "größe2J", "a\xffb": "a\uFFFDb", "\x1b[2": "", "\x1b[\nnext": "\nnext",
	} {
		if got := Plain([]byte(text)); got != want {
			t.Errorf("%q is shown as %q, not %q", text, got, want)
		}
	}
}

func TestMatcherJoin(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	literals := []string{"abab", "bb", "aaaaaa"}
	for range 2000 {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteByte("ab\n"[random.IntN(3)])
		}
		text := b.String()
		cut := random.IntN(len(text) + 1)
		second := cut + random.IntN(len(text)-cut+1)
		third := second + random.IntN(len(text)-second+1)
		past, live := NewMatcher(literals), NewMatcher(literals)
		found := scanAll(past, text[:cut])
		found = scanAll(live, text[cut:second], text[second:third]) || found
		found = live.Join(past) || found
		found = scanAll(live, text[third:]) || found
		if want := scanAll(NewMatcher(literals), text); found != want {
			t.Fatalf("%q cut at %d, %d, %d: found = %v, want %v", text, cut, second, third, found, want)
		}
	}
}

func BenchmarkMatcher(b *testing.B) {
	part := []byte(strings.Repeat(strings.Repeat("x", 99)+"\n", 640))
	m := NewMatcher([]string{"Map generated, starting game", "ready"})
	var buf []byte
	b.SetBytes(int64(len(part)))
	b.ReportAllocs()
	for b.Loop() {
		_, buf = m.Scan(part, buf)
	}
}
