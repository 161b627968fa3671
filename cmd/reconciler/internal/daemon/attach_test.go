package daemon

import (
	"errors"
	"reflect"
	"testing"

	"reconciler.dev/reconciler/cmd/reconciler/internal/api"
	"reconciler.dev/reconciler/observe"
	"reconciler.dev/reconciler/observe/logs"
	"reconciler.dev/reconciler/reconcile"
	"reconciler.dev/reconciler/spec"
	"reconciler.dev/reconciler/state"
)

// The log that is shown is that of the run that lives, and of the one that was shown as long as it does.
func TestShownScope(t *testing.T) {
	scope := func(profile string) spec.Scope {
		return spec.Scope{Namespace: "default", Server: "town", Profile: profile}
	}
	run := func(profile string, phase state.Phase) *observe.Facts {
		return &observe.Facts{Scope: scope(profile), Run: &observe.RunFacts{Phase: phase}}
	}
	for _, c := range []struct {
		name, was, want string
		facts           []*observe.Facts
	}{
		{"no run", "", "new", nil},
		{"no run any more", "old", "new", []*observe.Facts{run("old", state.Exited), {Scope: scope("new")}}},
		{"a run", "", "new", []*observe.Facts{run("old", state.Exited), run("new", state.Started)}},
		{"the old run lives", "", "old", []*observe.Facts{run("old", state.Started), {Scope: scope("new")}}},
		{"both live", "new", "new", []*observe.Facts{run("old", state.Started), run("new", state.Launching)}},
		{"both live, one was shown", "old", "old", []*observe.Facts{run("new", state.Started), run("old", state.Started)}},
	} {
		v := &reconcile.ServerView{Key: spec.Key{Namespace: "default", Name: "town"}, Profile: "new", Facts: c.facts}
		was := spec.Scope{}
		if c.was != "" {
			was = scope(c.was)
		}
		if got := shownScope(v, was); got != scope(c.want) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// Where an attachment was is where the next one goes on, unless that is another scope's.
func TestPlaceToBegin(t *testing.T) {
	scope := spec.Scope{Namespace: "default", Server: "town", Profile: "game"}
	place := logPlace{scope, &logs.Cursor{Run: 3, End: logs.Place{Index: 2, Offset: 77}, From: logs.Place{Index: 1, Offset: 99}}}
	for after, want := range map[string]logPlace{"": {scope: scope}, place.String(): place, "other:3:2:77:1:99": {scope: scope}} {
		if got, err := placeToBegin(api.AttachQuery{After: after}, scope); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", after, got, err)
		}
	}
	for _, bad := range []string{"game", "game:3:2:77:1", "game:3:2:77:1:99:0", "Game:3:2:77:1:99", ":3:2:77:1:99", "game:0:2:77:1:99", "game:3:1:77:2:9", "game:3:1:77:1:78",
		"game:3:2:-7:1:99", "game:3:2:077:1:99", "game:3:2:+7:1:99", "game:3:2:99999999999999999999:1:99", "game:3:2: 7:1:99"} {
		var status *api.Status
		if _, err := placeToBegin(api.AttachQuery{After: bad}, scope); !errors.As(err, &status) || status.Reason != api.ReasonInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzParsePlace(f *testing.F) {
	for _, seed := range []string{"game:3:2:77:1:99", "", ":::::", "game:1:0:0:0:0", "game:9223372036854775807:0:1:0:1", "game:1:0:-1:0:0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		profile, at, err := parsePlace(text)
		if err != nil {
			return
		}
		if got := (logPlace{spec.Scope{Profile: profile}, at}).String(); got != text {
			t.Errorf("%q is read as %q", text, got)
		}
		if at.Run < 1 || at.End.Index < 0 || at.End.Offset < 0 || at.From.Index < 0 || at.From.Offset < 0 {
			t.Errorf("%q is read as %+v", text, *at)
		}
	})
}

// Who has no console takes no lines, and why there is no terminal is said where one is declared.
func TestDeclaredConsoles(t *testing.T) {
	live := func(c *spec.LaunchConsole) []*observe.Facts {
		return []*observe.Facts{{}, {Run: &observe.RunFacts{Phase: state.Started, Console: c}}}
	}
	over := []*observe.Facts{{Run: &observe.RunFacts{Phase: state.Exited, Console: &spec.LaunchConsole{}}}}
	unknown, none := declaredConsole{}, declaredConsole{known: true}
	lines := declaredConsole{known: true, console: &spec.Console{Input: spec.ConsoleStdin}}
	tty := declaredConsole{known: true, console: &spec.Console{Input: spec.ConsoleStdin, TTY: &spec.TTY{}}}
	for name, c := range map[string]struct {
		facts    []*observe.Facts
		declared declaredConsole
		takes    bool
		why      string
	}{
		"never ran, none declared":        {declared: none},
		"never ran, None declared":        {declared: declaredConsole{known: true, console: &spec.Console{Input: spec.ConsoleNone}}},
		"never ran, declared":             {declared: lines, takes: true},
		"never ran, not known":            {declared: unknown, takes: true},
		"over, none declared any more":    {facts: over, declared: none},
		"live with one, none declared":    {facts: live(&spec.LaunchConsole{}), declared: none, takes: true},
		"live without, declared now":      {facts: live(nil), declared: lines, takes: true},
		"live without, none declared":     {facts: live(nil), declared: none},
		"a terminal, at rest":             {facts: over, declared: tty, takes: true, why: "it does not run, and its terminal comes with its run"},
		"a terminal, for the run to come": {facts: live(&spec.LaunchConsole{}), declared: tty, takes: true, why: "its run has no terminal: that comes with the next one"},
	} {
		v := &reconcile.ServerView{Facts: c.facts}
		if takes, why := takesLines(v, c.declared), whyLines(v, c.declared); takes != c.takes || why != c.why {
			t.Errorf("%s: takes lines %v, and %q", name, takes, why)
		}
	}
}
