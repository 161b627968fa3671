package spec

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func commandsLaunch(t *testing.T) Launch {
	t.Helper()
	h := HostView{Workspaces: map[string]string{"usr": "/usr", "data": "/srv/data"}}
	l, faults := resolveText(t, string(corpus(t, "good")["commands.yaml"]), h)
	if len(faults) > 0 {
		t.Fatal(faultLines(faults))
	}
	return l
}

func word1(s string) IntOrString { return IntOrString{IsString: true, String: s} }

// What a profile leaves out is that of actions.start, and what a command waits for stays open until it is called.
func TestResolveCommands(t *testing.T) {
	l := commandsLaunch(t)
	if want := (LaunchExec{Workspace: "data", Executable: "bin/save", Args: []string{"town"}}); !reflect.DeepEqual(*l.Stop[0].Exec, want) {
		t.Errorf("step 0 is %+v", l.Stop[0].Exec)
	}
	if want := (LaunchExec{Workspace: "data", Executable: "bin/server"}); !reflect.DeepEqual(*l.Stop[1].Exec, want) {
		t.Errorf("step 1 is %+v", l.Stop[1].Exec)
	}
	backup := l.Command("backup")
	if backup.Requires != RequiresAny || backup.TimeoutSeconds != 86400 || !slices.Equal(backup.Before, []string{"say", "reopen"}) ||
		!slices.Equal(backup.After, []string{"reopen"}) || backup.Parameters[0].Description != "" {
		t.Errorf("backup is %+v", backup)
	}
	if c := l.Command("migrate"); c.TimeoutSeconds != 60 || c.Requires != RequiresStopped {
		t.Errorf("migrate is %+v", c)
	}
	// The record keeps it as JSON.
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var again Launch
	if err := json.Unmarshal(b, &again); err != nil || !reflect.DeepEqual(l, again) {
		t.Errorf("got %+v\nwant %+v (%v)", again, l, err)
	}
	if faults := again.Validate(); len(faults) > 0 {
		t.Error(faultLines(faults))
	}
}

// BP-1: a value goes into one argument, whole, is not split, and nothing in it is looked at again.
func TestFillCommand(t *testing.T) {
	l := commandsLaunch(t)
	for _, target := range []string{"a", "a/b"} {
		a, faults := l.Command("backup").Fill(map[string]IntOrString{"target": word1(target), "how": word1("full")}, l.Console)
		want := []string{"--to", target, "--keep=3", "$(port) is not expanded again", "$(target)", ""}
		if len(faults) > 0 || !slices.Equal(a.Exec.Args, want) {
			t.Errorf("got %q, want %q: %s", a.Exec.Args, want, faultLines(faults))
		}
	}
	for _, text := range []string{"a  b", "$(port)", "`id`; rm -rf / #", "$(text)", `"a" 'b'`} {
		a, faults := l.Command("say").Fill(map[string]IntOrString{"text": word1(text)}, l.Console)
		if len(faults) > 0 || a.Console.Line != "say "+text || a.Console.Expect != "ok" {
			t.Errorf("%q becomes %+v: %s", text, a.Console, faultLines(faults))
		}
	}
	if _, faults := l.Command("reopen").Fill(nil, l.Console); len(faults) > 0 {
		t.Error(faultLines(faults))
	}
	// What was resolved is not changed by a call.
	if got := l.Command("backup").Exec.Args[1]; got != markParameter("target") {
		t.Errorf("the command's own argument is %q", got)
	}
}

// A call that does not match what is declared says so, by the parameter's name, and never repeats a text.
func TestFillRefuses(t *testing.T) {
	l := commandsLaunch(t)
	good := map[string]IntOrString{"target": word1("a")}
	for _, c := range []struct {
		why   string
		given map[string]IntOrString
		want  string
	}{
		{"nothing given", nil, "parameters[target]: Required value: must be given: command 'backup' has no default for it\n"},
		{"unknown", map[string]IntOrString{"traget": word1("a")}, "parameters[traget]: Not found: command 'backup' has no such parameter: did you mean 'target'?\n"},
		{"a parameter of the profile", map[string]IntOrString{"port": {Int: 1}}, "parameters[port]: Not found: command 'backup' has no such parameter\n"},
		{"a pattern is for the whole", map[string]IntOrString{"target": word1("a b")}, "parameters[target]: Invalid value: must match the pattern '[a-z]+(/[a-z]+)*'\n"},
		{"a line end", map[string]IntOrString{"target": word1("a\nb")}, "parameters[target]: Invalid value: must be one line without control characters (a tab is allowed)\n"},
		{"a mark", map[string]IntOrString{"target": word1(markParameter("keep"))}, "parameters[target]: Invalid value: must be one line without control characters (a tab is allowed)\n"},
		{"a secret's mark", map[string]IntOrString{"target": word1(MarkSecret("a/b"))}, "parameters[target]: Invalid value: must not contain NUL\n"},
		{"too long", map[string]IntOrString{"target": word1(strings.Repeat("a", 65))}, "parameters[target]: Too long: must be at most 64 bytes\n"},
		{"a number for a text", map[string]IntOrString{"target": {Int: 5}}, "parameters[target]: Invalid value: 5: must be a string: quote it\n"},
		{"a text for a number", map[string]IntOrString{"keep": word1("many")}, "parameters[keep]: Invalid value: must be an integer\n"},
		{"out of bounds", map[string]IntOrString{"keep": {Int: 10}}, "parameters[keep]: Invalid value: 10: must be between 1 and 9, inclusive\n"},
		{"not in the list", map[string]IntOrString{"how": word1("slow")}, "parameters[how]: Unsupported value: must be one of 'full', 'quick'\n"},
	} {
		given := maps.Clone(c.given)
		if given != nil && given["target"].IsZero() {
			maps.Copy(given, good)
		}
		_, faults := l.Command("backup").Fill(given, l.Console)
		if got := faultLines(faults); got != c.want {
			t.Errorf("%s:\n%swant:\n%s", c.why, got, c.want)
		}
	}
	// A line grows no longer than one that a profile may hold.
	say := l.Command("say")
	long := int64(4096)
	say.Parameters[0].MaxLength = &long
	_, faults := say.Fill(map[string]IntOrString{"text": word1(strings.Repeat("x", 1024))}, l.Console)
	if got, want := faultLines(faults), "spec.actions.commands[say].console.line: Too long: must be at most 1024 bytes\n"; got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// On a command line everything is text.
func TestTextParameters(t *testing.T) {
	l := commandsLaunch(t)
	got := l.Command("backup").TextParameters(map[string]string{"target": "5", "keep": "5", "spare": "0x5", "other": "5"})
	want := map[string]IntOrString{"target": word1("5"), "keep": {Int: 5}, "spare": word1("0x5"), "other": word1("5")}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

// A record is bounded, so commands are.
func TestCommandsAreBounded(t *testing.T) {
	l := goodLaunch()
	l.Commands[0].Exec.Args = slices.Repeat([]string{strings.Repeat("x", 8192)}, 33)
	want := "spec.actions.commands: Too long: must have at most 262144 bytes of arguments, lines and parameters together; there are 270336\n"
	if got := faultLines(l.Validate()); got != want {
		t.Errorf("got %s", got)
	}
	l.Commands[0].Exec.Args = l.Commands[0].Exec.Args[:31]
	if faults := l.Validate(); len(faults) > 0 {
		t.Error(faultLines(faults))
	}
}

func TestNoSuchCommand(t *testing.T) {
	l := commandsLaunch(t)
	for name, want := range map[string]string{
		"backpu": "profile 'commands' declares no such command: did you mean 'backup'?",
		"zzz":    "profile 'commands' declares no such command; it has 'backup', 'migrate', 'say', 'reopen'",
	} {
		if got := l.NoSuchCommand(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	l.Commands = nil
	if got := l.NoSuchCommand("a"); got != "profile 'commands' declares no commands" {
		t.Error(got)
	}
}

// A value that a caller gives ends in the action as it is, or is refused; nothing else of the action changes (BP-1).
func FuzzFillCommand(f *testing.F) {
	for _, seed := range []string{"", "a", "$(port)", "$$(", "\x01text\x01", "\x00a/b\x00", "a\nb", "é", "\xff", strings.Repeat("x", 2000)} {
		f.Add(seed)
	}
	l := Launch{Console: &LaunchConsole{Input: ConsoleStdin}}
	c := LaunchCommand{
		Name: "c", Parameters: []Parameter{{Name: "text"}}, Requires: RequiresAny, TimeoutSeconds: 1,
		LaunchAction: LaunchAction{Exec: &LaunchExec{Workspace: "usr", Executable: "bin/a", Args: []string{"first", "x" + markParameter("text") + "y", markParameter("text"), "last"}}},
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, faults := c.Fill(map[string]IntOrString{"text": word1(text)}, l.Console)
		if len(faults) > 0 {
			return
		}
		if want := []string{"first", "x" + text + "y", text, "last"}; !slices.Equal(a.Exec.Args, want) {
			t.Errorf("got %q, want %q", a.Exec.Args, want)
		}
		if strings.ContainsAny(text, "\x00\x01\n") || len(text) > 256 {
			t.Errorf("%q was let through", text)
		}
	})
}
