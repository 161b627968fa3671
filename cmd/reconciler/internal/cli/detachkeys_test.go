package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestDetachKeys(t *testing.T) {
	for _, c := range []struct {
		pieces   []string
		keys     string
		detached bool
	}{
		{[]string{"abc"}, "abc", false},
		{[]string{"\x10\x11"}, "", true},
		{[]string{"a\x10", "\x11b"}, "a", true},
		{[]string{"\x10"}, "", false},
		{[]string{"\x10", "x"}, "\x10x", false},
		{[]string{"\x10\x10\x11"}, "\x10", true},
		{[]string{"\x10\x10x"}, "\x10\x10x", false},
		{[]string{"\x11\x10a\x11"}, "\x11\x10a\x11", false},
		{[]string{"\x00\xff\x03\x1b[A"}, "\x00\xff\x03\x1b[A", false},
	} {
		var d detachKeys
		var keys []byte
		detached := false
		for _, p := range c.pieces {
			if !detached {
				var more []byte
				more, detached = d.take([]byte(p))
				keys = append(keys, more...)
			}
		}
		if string(keys) != c.keys || detached != c.detached {
			t.Errorf("%q: %q, %v", c.pieces, keys, detached)
		}
	}
}

// However keys are cut, what is for the server is all before those that detach, in its order.
func FuzzDetachKeys(f *testing.F) {
	f.Add([]byte("a\x10\x10\x11b"), 2)
	f.Add([]byte("\x10"), 1)
	f.Add([]byte("\x11\x10\x11"), 0)
	f.Fuzz(func(t *testing.T, typed []byte, cut int) {
		cut = max(0, min(cut, len(typed)))
		var d detachKeys
		keys, detached := d.take(typed[:cut])
		if !detached {
			var more []byte
			more, detached = d.take(typed[cut:])
			keys = append(keys, more...)
		}
		before, _, found := bytes.Cut(typed, []byte{ctrlP, ctrlQ})
		if found != detached {
			t.Fatalf("%q: detached %v", typed, detached)
		}
		if !detached && d.held {
			keys = append(keys, ctrlP)
		}
		if !bytes.Equal(keys, before) {
			t.Errorf("%q: %q", typed, keys)
		}
	})
}

// What was switched on is switched back, and nothing else is touched.
func TestScreenModes(t *testing.T) {
	for printed, want := range map[string]string{
		"":                                          "",
		"plain \x1b[31mred\x1b[0m\r\n":              "",
		"\x1b[?25l":                                 "\x1b[?25h",
		"\x1b[?25l\x1b[?25h":                        "",
		"\x1b[?1049h\x1b[?1;2004h":                  "\x1b[?1l\x1b[?1049l\x1b[?2004l",
		"\x1b[?1049h\x1b[?1049l":                    "",
		"\x1b[?7l\x1b[?9999h\x1b[?;1h":              "\x1b[?1l\x1b[?7h",
		"\x1b[2;10r\x1b(0\x1b=":                     "\x1b7\x1b[r\x1b8\x1b(B\x1b>",
		"\x1b[2;10r\x1b[r\x1b(0\x1b(B":              "",
		"\x1b]0;\x1b[?25l\x07text":                  "\x1b[?25h", // an escape ends a title
		"\x1b]0;title\x1b\\":                        "",
		"\x1b[?25l\x1bc":                            "",
		"\x1b[?2":                                   "\x18",
		"\x1b[?25\x18l":                             "",
		"\x1b[>4;2m\x1b[c\x1b[6n":                   "",
		"\x1b[?" + strings.Repeat("1;", 40) + "25l": "",
	} {
		for _, cut := range []int{0, len(printed) / 2, len(printed)} {
			var m screenModes
			m.take([]byte(printed[:cut]))
			m.take([]byte(printed[cut:]))
			if got := string(m.undo()); got != want+noColour {
				t.Errorf("%q cut at %d: %q, want %q", printed, cut, got, want)
			}
		}
	}
}

// However output is cut it is understood in the same way, and what undoes it leaves nothing to be undone.
func FuzzScreenModes(f *testing.F) {
	f.Add([]byte("\x1b[?1049h\x1b[2;3r\x1b(0\x1b]0;x\x07\x1b[?25l"), 5)
	f.Add([]byte("\x1b[?1;7;25h\x1b\x1b[\x18\x1bP\x1b\\"), 9)
	f.Fuzz(func(t *testing.T, printed []byte, cut int) {
		cut = max(0, min(cut, len(printed)))
		var whole, parts screenModes
		whole.take(printed)
		parts.take(printed[:cut])
		parts.take(printed[cut:])
		undo := whole.undo()
		if got := parts.undo(); !bytes.Equal(got, undo) {
			t.Fatalf("%q cut at %d: %q, whole %q", printed, cut, got, undo)
		}
		whole.take(undo)
		if got := whole.undo(); string(got) != noColour {
			t.Errorf("%q: after %q there is %q to undo", printed, undo, got)
		}
		if len(parts.params) > maxParams+1 {
			t.Errorf("%d bytes of a sequence are kept", len(parts.params))
		}
	})
}

// A queue gives keys in their order, keeps them until they are done, and is bounded.
func TestKeyQueue(t *testing.T) {
	q := newKeyQueue()
	if lost := q.add([]byte("abc")); lost != 0 {
		t.Errorf("%d bytes are lost", lost)
	}
	q.resize()
	for _, want := range []bool{true, false} {
		if keys, resized, ok := q.next(t.Context()); string(keys) != "abc" || resized != want || !ok {
			t.Errorf("%q, %v, %v", keys, resized, ok)
		}
	}
	q.done(2)
	if lost := q.add(bytes.Repeat([]byte{'x'}, maxQueued)); lost != 1 {
		t.Errorf("%d bytes are lost", lost)
	}
	q.close()
	got := 0
	for {
		keys, _, ok := q.next(t.Context())
		if !ok {
			break
		}
		got += q.done(len(keys))
	}
	if got != maxQueued {
		t.Errorf("there were %d bytes", got)
	}
}
