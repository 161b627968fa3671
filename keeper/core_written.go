package keeper

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// Written is what was delivered to a server, of all its profiles, with its text.
func (c *Core) Written(server spec.Key) (all []observe.Written) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers[server] {
		if s.record != nil {
			all = append(all, observe.WrittenOf(s.record)...)
		}
	}
	return all
}

// onTerminal reports whether a run has a terminal for its console.
func onTerminal(run *state.Run) bool {
	return run.Launch.Console != nil && run.Launch.Console.TTY != nil
}

// lineBefore is the text of a delivery that goes on record before it is handed over; none for a terminal: whether that shows the
// line is seen when it is typed.
func (c *Core) lineBefore(s *scope, d state.Delivery, line string) []state.Written {
	if onTerminal(s.rec.Run) {
		return nil
	}
	return []state.Written{c.written(s, DeliveryRef{RunID: d.RunID, ID: d.ID}, line, d.At)}
}

// lineAfter is the text of a delivery that goes on record with its end. A password is none of it.
func (c *Core) lineAfter(s *scope, d *state.Delivery, o Outcome) []state.Written {
	ref := DeliveryRef{RunID: d.RunID, ID: d.ID}
	line, kept := s.unsaid[ref]
	switch {
	case !kept:
		return nil
	case o.Mute:
		return []state.Written{{Delivery: d.ID, At: d.At, Withheld: int64(len(line))}}
	}
	return []state.Written{c.written(s, ref, line, d.At)}
}

// written is a line as it goes on record. Of one in which there may be a secret that is not known nothing is told.
func (c *Core) written(s *scope, ref DeliveryRef, line string, at time.Time) state.Written {
	w := state.Written{Delivery: ref.ID, At: at}
	text, err := "", error(nil)
	if run := s.rec.Run; run != nil && run.ID == ref.RunID {
		text, err = c.kernel.Redact(run, c.Host(), line)
	} else {
		err = errOtherRun
	}
	if err != nil {
		w.Withheld = int64(len(line))
		return w
	}
	w.Text = printable(text)
	if over := len(w.Text) - (state.WrittenLimit - state.WrittenCost); over > 0 {
		w.Text, w.Withheld = strings.ToValidUTF8(w.Text[:len(w.Text)-over], ""), int64(over)
	}
	return w
}

// errOtherRun says that the secrets of a run that was are not looked for.
var errOtherRun = errors.New("the line was for an earlier run")

// printable shows control characters, and what turns the direction of writing, instead of having them obeyed: ^C, \x80, \u202e.
func printable(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r < ' ' && r != '\t', r == 0x7f:
			b.WriteString("^" + string(r^0x40))
		case r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// maxTyped is how long a line that is typed may get, in bytes, before it is not told any more: of a secret in its middle a part could be.
// No terminal takes a longer one (N_TTY_BUF_SIZE).
const maxTyped = 4 << 10

// typedLine is a line that is being typed, with what is on record of it: where a part was not shown, the whole is not.
type typedLine struct {
	keys   []byte
	hidden bool
	length int64 // of all keys, those that were taken back included
	at     time.Time
}

func (l *typedLine) empty() bool { return l.length == 0 }

// The keys that a terminal does not pass on (termios(3)).
const (
	keyErase, keyBackspace, keyKill, keyWord  = 0x7f, 0x08, 0x15, 0x17 // VERASE, its other one, VKILL, VWERASE
	keyInterrupt, keyEnd, keySuspend, keyQuit = 0x03, 0x04, 0x1a, 0x1c
)

// press adds a key, and reports whether it ends the line. What is taken back is not told: a secret is found however it was typed.
func (l *typedLine) press(key byte, shown bool) bool {
	if key == '\r' || key == '\n' {
		return true
	}
	l.length++
	switch {
	case l.hidden || !shown || len(l.keys) == maxTyped:
		l.keys, l.hidden = nil, true
		return false
	case key == keyErase, key == keyBackspace:
		_, n := utf8.DecodeLastRune(l.keys)
		l.keys = l.keys[:len(l.keys)-n]
	case key == keyKill:
		l.keys = l.keys[:0]
	case key == keyWord:
		text := strings.TrimRight(string(l.keys), " \t")
		l.keys = l.keys[:strings.LastIndexAny(text, " \t")+1]
	default:
		l.keys = append(l.keys, key)
	}
	return key == keyInterrupt || key == keyEnd || key == keySuspend || key == keyQuit
}

// end ends the line that is being typed.
func (t *typing) end(at time.Time) {
	t.line.at = at
	t.lines = append(t.lines, t.line)
	if over := len(t.lines) - state.WrittenLimit/state.WrittenCost; over > 0 {
		t.lines, t.earlier = t.lines[over:], t.earlier+int64(over) // no more are kept
	}
	t.line = typedLine{}
}

// noteKeys notes keys that were typed, and puts the lines that have ended with them on record. One that cannot be written goes there with the
// next.
func (c *Core) noteKeys(s *scope, keys []byte, shown bool) {
	t := s.typing
	now := c.kernel.Now().Wall
	for _, key := range keys {
		if t.line.press(key, shown) {
			t.end(now)
		}
	}
	if len(t.lines) == 0 {
		return
	}
	lines := c.typedOf(s, t)
	if err := c.edit(s, func(r *state.Record) { r.Wrote(lines...) }); err != nil {
		return
	}
	t.lines, t.earlier = nil, 0
	c.publish(s)
}

// typedOf are the lines that have been typed, as they go on record.
func (c *Core) typedOf(s *scope, t *typing) []state.Written {
	lines := make([]state.Written, 0, len(t.lines))
	for _, l := range t.lines {
		if l.hidden {
			lines = append(lines, state.Written{Delivery: t.ref.ID, At: l.at, Withheld: l.length})
			continue
		}
		lines = append(lines, c.written(s, t.ref, string(l.keys), l.at))
	}
	if len(lines) > 0 {
		lines[0].Earlier = t.earlier
	}
	return lines
}
