package keeper_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"reconciler.dev/reconciler/keeper"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// newTerminalWorld is a world whose server talks on a terminal of 24 rows and 80 columns.
func newTerminalWorld(t testing.TB) *world {
	w := newWorld(t, workTalks)
	w.edit = func(l spec.Launch) spec.Launch {
		l.Console = &spec.LaunchConsole{Input: spec.ConsoleStdin, TTY: &spec.LaunchTTY{Rows: 24, Columns: 80}}
		return l
	}
	w.drive(true)
	return w
}

func (w *world) keys(id, keys string) state.KeysOrder {
	return state.KeysOrder{Scope: w.scope, RunID: w.facts().Run.ID, ID: id, By: "me", Keys: []byte(keys)}
}

func (w *world) typeKeys(o state.KeysOrder) int {
	w.t.Helper()
	n, err := w.core.Type(o, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// EN-3: keys are refused, without any change, where nobody takes them.
func TestTypeRefusals(t *testing.T) {
	w := newTerminalWorld(t)
	before := len(w.kernel.names)
	refused := func(o state.KeysOrder, c keeper.Check) {
		t.Helper()
		n, err := w.core.Type(o, nil)
		refusedFor(t, err, c)
		if n != 0 {
			t.Errorf("%d bytes were taken", n)
		}
	}
	drifted := w.keys("a", "x")
	drifted.RunID = "other"
	refused(drifted, keeper.CheckRun)
	refused(w.keys("", "x"), keeper.CheckMessage)
	refused(w.keys("a", strings.Repeat("x", 16<<10+1)), keeper.CheckMessage)
	for _, size := range []spec.LaunchTTY{{}, {Rows: 1001, Columns: 80}, {Rows: 24, Columns: -1}} {
		o := w.keys("a", "")
		o.Size = &size
		refused(o, keeper.CheckMessage)
	}
	errGuard := errors.New("fenced")
	if _, err := w.core.Type(w.keys("a", "x"), func() error { return errGuard }); !errors.Is(err, errGuard) {
		t.Errorf("a fenced asker gets %v", err)
	}
	if slices.Contains(w.kernel.names[before:], "Put") || len(w.main().sizes) > 0 {
		t.Error("what was refused has changed something")
	}
	late := w.keys("a", "x")
	if err := w.stop(spec.ReasonStopRequested); err != nil {
		t.Fatal(err)
	}
	refused(late, keeper.CheckRun)
	w.drive(false)
	refused(late, keeper.CheckRun)

	piped := newWorld(t, workTalks)
	piped.drive(true)
	w = piped
	refused(w.keys("a", "x"), keeper.CheckConsole)
	w.scope = scopeOf("nobody")
	refused(state.KeysOrder{Scope: w.scope, RunID: "x", ID: "a"}, keeper.CheckRun)
}

// What an attachment types is one entry, open from before its first key on; a line goes on beside it.
func TestType(t *testing.T) {
	w := newTerminalWorld(t)
	size := w.keys("a", "")
	size.Size = &spec.LaunchTTY{Rows: 50, Columns: 132}
	w.typeKeys(size)
	if d := w.facts().Deliveries; len(d) > 0 {
		t.Errorf("nobody has typed, and there is %+v", d)
	}
	for _, key := range []string{"s", "e", "cret", "\r"} {
		if n := w.typeKeys(w.keys("a", key)); n != len(key) {
			t.Errorf("%d of %d bytes were taken", n, len(key))
		}
	}
	open := w.facts().Deliveries
	if len(open) != 1 || open[0].Result != "" || open[0].By != "me" || open[0].Keys == nil || open[0].At.IsZero() || open[0].Rail != spec.ConsoleStdin {
		t.Fatalf("on record are %+v", open)
	}
	var got receipts
	if err := w.core.Send(w.sendOrder("line", "hello"), nil, got.told); err != nil {
		t.Errorf("a line beside keys: %v", err)
	}
	w.kernel.tell(w.core)
	w.settle()
	size.Size = &spec.LaunchTTY{Rows: 51, Columns: 132}
	w.typeKeys(size)
	end := w.keys("a", "")
	end.End = true
	w.typeKeys(end)
	w.typeKeys(end)
	d := w.facts().Deliveries[0]
	if d.Result != state.Sent || d.Keys.Bytes != 7 || !d.Keys.Until.After(d.At) {
		t.Errorf("ended as %+v, %+v", d, d.Keys)
	}
	x := w.main()
	if string(x.typed) != "secret\r" {
		t.Errorf("typed %q", x.typed)
	}
	// The first size is told in any case; at the end it is again as declared.
	want := []spec.LaunchTTY{{}, {Rows: 50, Columns: 132}, {Rows: 51, Columns: 132}, {Rows: 24, Columns: 80}}
	if !slices.Equal(x.sizes, want) {
		t.Errorf("sizes %v, want %v", x.sizes, want)
	}
	w.wantTexts("a", "secret")
	w.wantTexts("line", "hello")
	if _, err := w.core.Type(w.keys("a", "late"), nil); err == nil {
		t.Error("an attachment that has ended types")
	}
}

// A terminal without room takes a part, or nothing, and says so.
func TestTypeIntoAFullTerminal(t *testing.T) {
	w := newTerminalWorld(t)
	w.main().room = 5
	for _, want := range []int{4, 1, 0} {
		if n := w.typeKeys(w.keys("a", "four")); n != want {
			t.Errorf("%d bytes were taken, want %d", n, want)
		}
	}
	// Another attachment ends this one.
	w.main().room = 0
	w.typeKeys(w.keys("b", "more"))
	d := w.facts().Deliveries
	if len(d) != 2 || d[0].Result != state.Sent || d[0].Keys.Bytes != 5 || d[1].Result != "" {
		t.Errorf("on record are %+v", d)
	}
	// The run's end ends all.
	w.kernel.end(w.main(), 0)
	w.settle()
	if d := w.facts().Deliveries; d[1].Result != state.Sent || d[1].Keys.Bytes != 4 {
		t.Errorf("after the run on record are %+v, %+v", d, d[1].Keys)
	}
}

// EN-6: the keeper dies at every point of what is typed. No key comes twice, none without a record, and nobody says how much it was whose
// end died with it.
func TestDyingAtATerminal(t *testing.T) {
	for n := 1; ; n++ {
		w := newTerminalWorld(t)
		w.kernel.crashAt = w.kernel.points + n
		err := w.alive(func() error {
			o := w.keys("a", "x")
			o.Size = &spec.LaunchTTY{Rows: 50, Columns: 132}
			if _, err := w.core.Type(o, nil); err != nil {
				return err
			}
			_, err := w.core.Type(state.KeysOrder{Scope: w.scope, RunID: o.RunID, ID: "a", End: true}, nil)
			return err
		})
		done := w.crashes == 0
		_ = w.alive(func() error { w.core.Settle(w.scope); return nil })
		d := w.facts().Deliveries
		typed := len(w.main().typed)
		switch {
		case typed > 1:
			t.Fatalf("dead at point %d: typed %d times", n, typed)
		case typed == 1 && len(d) == 0:
			t.Fatalf("dead at point %d: typed, and not on record", n)
		case len(d) == 1 && d[0].Result == state.Sent && d[0].Keys.Bytes != int64(typed):
			t.Fatalf("dead at point %d: %d bytes on record, %d typed", n, d[0].Keys.Bytes, typed)
		case len(d) == 1 && d[0].Result != state.Sent && d[0].Result != state.Indeterminate:
			t.Fatalf("dead at point %d: it came to %q", n, d[0].Result)
		case done && (err != nil || typed != 1 || d[0].Result != state.Sent):
			t.Fatalf("without a death: %v, %d typed, %+v", err, typed, d)
		case done:
			return
		}
	}
}
