package keeper_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// newTold is a world whose server was executed with a secret, on a terminal or without.
func newTold(t *testing.T, tty bool) *world {
	w := newWorld(t, workTalks)
	w.edit = func(l spec.Launch) spec.Launch {
		l.Env = []spec.LaunchEnv{{Name: "A", Value: "x" + spec.MarkSecret("town/a")}}
		l.Console = &spec.LaunchConsole{Input: spec.ConsoleStdin}
		if tty {
			l.Console.TTY = &spec.LaunchTTY{Rows: 24, Columns: 80}
		}
		l.Commands = []spec.LaunchCommand{{Name: "tell", Requires: spec.RequiresRunning, TimeoutSeconds: 60, LaunchAction: spec.LaunchAction{Console: &spec.ConsoleAction{Line: "tell it"}}}}
		return l
	}
	w.kernel.secrets["town/a"] = "canary"
	w.drive(true)
	return w
}

// texts is what is on record of a delivery, as text.
func (w *world) texts(id string) (lines []string) {
	for _, l := range w.store.record(w.scope).WrittenOf(id) {
		text := l.Text
		if l.Withheld > 0 {
			text += fmt.Sprintf("<%d>", l.Withheld)
		}
		if l.Earlier > 0 {
			text = fmt.Sprintf("<+%d>", l.Earlier) + text
		}
		if l.At.IsZero() {
			w.t.Errorf("%q was written at no time", text)
		}
		lines = append(lines, text)
	}
	return lines
}

func (w *world) wantTexts(id string, want ...string) {
	w.t.Helper()
	if got := w.texts(id); !slices.Equal(got, want) {
		w.t.Errorf("on record of %s are %q, want %q", id, got, want)
	}
}

func (w *world) sendLine(id, line string) {
	w.t.Helper()
	var got receipts
	if err := w.core.Send(w.sendOrder(id, line), nil, got.told); err != nil {
		w.t.Fatal(err)
	}
	w.kernel.tell(w.core)
	w.settle()
	if len(got) != 1 {
		w.t.Fatalf("receipts %+v", got)
	}
}

// EC-6: what is handed over is on record before it is, without the secrets of the run's spec; of a line that may hold one which nobody
// knows nothing is told.
func TestLinesAreOnRecord(t *testing.T) {
	w := newTold(t, false)
	w.kernel.onDeliver = func(_ keeper.Place, d keeper.Delivery) {
		if d.Ref.ID == "a" {
			w.wantTexts("a", "say hello")
		}
	}
	w.sendLine("a", "say hello")
	w.sendLine("z", "")
	w.wantTexts("z", "")
	w.sendLine("b", "login canary!")
	w.wantTexts("b", "login [secret]!")
	o := w.doOrder("c", "tell")
	var got receipts
	if err := w.core.Do(o, nil, got.told); err != nil {
		t.Fatal(err)
	}
	w.kernel.tell(w.core)
	w.settle()
	w.wantTexts("c", "tell it")
	w.kernel.secrets["town/a"] = "another"
	w.sendLine("d", "login canary")
	w.wantTexts("d", "<12>")
	delete(w.kernel.secrets, "town/a")
	w.sendLine("e", "canary login")
	w.wantTexts("e", "<12>")
	all := w.core.Written(w.scope.ServerKey())
	if len(all) != 6 || all[0].Delivery.By != "me" || all[0].Lines[0].Text != "say hello" || all[3].Delivery.Command != "tell" || all[0].Scope != w.scope {
		t.Errorf("told is %+v", all)
	}
}

// What a terminal is asked for, and does not show, is a password.
func TestLineForAPassword(t *testing.T) {
	w := newTold(t, true)
	w.sendLine("a", "say canary")
	w.wantTexts("a", "say [secret]")
	w.main().mute = true
	w.sendLine("b", "hunter2")
	w.wantTexts("b", "<7>")
}

// What is typed is on record line by line, as it was when its line ended; what the terminal did not show is not.
func TestTypedLines(t *testing.T) {
	for name, c := range map[string]struct {
		keys []string // "mute", "shows": what the terminal does from there on
		want []string
	}{
		"a line":                        {keys: []string{"say hi\r"}, want: []string{"say hi"}},
		"key by key":                    {keys: []string{"s", "a", "y\r"}, want: []string{"say"}},
		"two lines at once":             {keys: []string{"one\rtwo\r"}, want: []string{"one", "two"}},
		"an empty line":                 {keys: []string{"\r"}, want: []string{""}},
		"no end":                        {keys: []string{"one\rtw"}, want: []string{"one", "tw"}},
		"a secret":                      {keys: []string{"ca", "nary\r"}, want: []string{"[secret]"}},
		"a secret, corrected":           {keys: []string{"canb\x7fary\r"}, want: []string{"[secret]"}},
		"a secret after a killed line":  {keys: []string{"caxx\x15canary\r"}, want: []string{"[secret]"}},
		"a secret after a killed word":  {keys: []string{"a caxx\x17canary\r"}, want: []string{"a [secret]"}},
		"a letter of two bytes":         {keys: []string{"\u00e4\u00f6\x7f\r"}, want: []string{"\u00e4"}},
		"nothing to take back":          {keys: []string{"\x7f\x7f\x17\x15x\r"}, want: []string{"x"}},
		"control keys":                  {keys: []string{"a\x1b[Db\x03", "c\x04"}, want: []string{"a^[[Db^C", "c^D"}},
		"no UTF-8":                      {keys: []string{"\xff\u202ex\r"}, want: []string{`\xff\u202ex`}},
		"a password":                    {keys: []string{"ann\r", "mute", "hunter2\r", "shows", "quit\r"}, want: []string{"ann", "<7>", "quit"}},
		"a password, begun too early":   {keys: []string{"hun", "mute", "ter2\r"}, want: []string{"<7>"}},
		"a password without an end":     {keys: []string{"mute", "hunter2"}, want: []string{"<7>"}},
		"a line longer than any can be": {keys: []string{strings.Repeat("x", 4100) + "\ry\r"}, want: []string{"<4100>", "y"}},
		"a line that is hardly kept":    {keys: []string{strings.Repeat("x", 4096) + "\r"}, want: []string{strings.Repeat("x", 4032) + "<64>"}},
		"many lines":                    {keys: []string{strings.Repeat("\r", 100), "x\r"}, want: append([]string{"<+38>"}, append(slices.Repeat([]string{""}, 61), "x")...)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTold(t, true)
			for _, keys := range c.keys {
				switch keys {
				case "mute":
					w.main().mute = true
				case "shows":
					w.main().mute = false
				default:
					w.typeKeys(w.keys("a", keys))
				}
			}
			end := w.keys("a", "")
			end.End = true
			w.typeKeys(end)
			w.wantTexts("a", c.want...)
		})
	}
}

// The line that has a password asked for is none.
func TestLineThatAsksForAPassword(t *testing.T) {
	w := newTold(t, true)
	w.kernel.onType = func(keeper.Place) { w.main().mute = true }
	w.typeKeys(w.keys("a", "login\r"))
	w.typeKeys(w.keys("a", "hunter2\r"))
	w.wantTexts("a", "login", "<7>")
}

// A record that cannot be written takes the lines with the next, or at the end; and those that are not kept are counted.
func TestTypedWhileTheDiskIsFull(t *testing.T) {
	w := newTold(t, true)
	w.typeKeys(w.keys("a", "one\r"))
	w.kernel.failing = "Put"
	w.typeKeys(w.keys("a", "two\r"))
	w.typeKeys(w.keys("a", "three\r"))
	w.kernel.failing = ""
	w.wantTexts("a", "one")
	w.typeKeys(w.keys("a", "four\r"))
	w.wantTexts("a", "one", "two", "three", "four")
}

// Text goes with the delivery that it is of.
func TestTextGoesWithItsDelivery(t *testing.T) {
	w := newTold(t, false)
	for i := range 3 * state.DeliveryLimit {
		w.sendLine(fmt.Sprint("line-", i), fmt.Sprint("say ", i, strings.Repeat("x", 1000)))
	}
	r := w.store.record(w.scope)
	if len(r.Written) != state.DeliveryLimit || r.Written[0].Delivery != r.Deliveries[0].ID || r.Deliveries[0].ID != fmt.Sprint("line-", 2*state.DeliveryLimit) {
		t.Errorf("on record are %d deliveries from %s on, and %d texts from %s on", len(r.Deliveries), r.Deliveries[0].ID, len(r.Written), r.Written[0].Delivery)
	}
}
